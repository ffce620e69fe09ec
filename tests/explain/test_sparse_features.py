"""Sparse features: hand-computed encoders, bad input, controls of the same L0, and a pass that all layers share."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from text_models import text_model, tokenizer
from veracity import Audit
from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import BARE, Explainer
from veracity.core.inputs import TensorInputs
from veracity.core.randomness import Draws
from veracity.engine.memory import forget_outputs
from veracity.explain import Precomputed, TopK
from veracity.explain.sparse import (
    Activations,
    EncoderObject,
    LinearEncoder,
    RawActivations,
    SparseFeatures,
    as_encoder,
    feature_controls,
    pca_encoder,
    random_encoder,
)
from veracity.inputs import TextInputs
from veracity.measure import cosine_distance
from veracity.scores import FastGEF
from veracity.testing.explainers import ExplainerConformance


def normal(rows: int, *shape: int, seed: int = 0) -> Tensor:
    return Draws.of(seed, torch.arange(rows)).normal(*shape, stream="test").float()


class Tokens(nn.Module):
    """A model over tokens (N, T, 4) with layers that give tokens, tuples, dicts, and one row per input."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.pair, self.named, self.head = nn.Linear(4, 6), Pair(), Named(), nn.Linear(6, 3)
        for part, weight in (("body", normal(6, 4)), ("head", normal(3, 6))):
            getattr(self, part).weight.data.copy_(weight)

    def forward(self, x: Tensor) -> Tensor:
        h = self.body(x)
        h = self.pair(h)[0] + self.named(h)["values"]
        found: Tensor = self.head(torch.tanh(h[:, -1]))
        return found


class Pair(nn.Module):
    def forward(self, h: Tensor) -> tuple[Tensor, None]:
        return torch.tanh(h), None


class Named(nn.Module):
    def forward(self, h: Tensor) -> dict[str, Tensor]:
        return {"values": h}


def features(**settings: Any) -> SparseFeatures:
    given = {"encoder": {"W_enc": normal(6, 9, seed=1), "b_enc": -normal(9, seed=2).abs()}, "layer": "body"}
    return SparseFeatures(**{**given, **settings})


def explained(explainer: Explainer, model: nn.Module, x: Tensor) -> Tensor:
    return explainer.explain(model, x, torch.zeros(len(x), dtype=torch.long), BARE)


class TestConformance(ExplainerConformance):
    def explainer(self) -> Explainer:
        layer = next(name for name, part in self.model().named_modules() if isinstance(part, nn.Linear))
        width = self.model().get_submodule(layer).out_features
        return SparseFeatures(encoder={"W_enc": normal(width, 7), "b_dec": normal(width, seed=3)}, layer=layer)


def test_z_by_hand() -> None:
    # W_enc^T (h - b_dec) + b_enc = [1*2 + 0.5, 2*(-1) + 0, -2 + 1*(-1) + 4] = [2.5, -2, 1]
    tensors = {"W_enc": [[1.0, 0.0, -1.0], [0.0, 2.0, 1.0]], "b_enc": [0.5, 0.0, 4.0], "b_dec": [1.0, 1.0]}
    given = {name: torch.tensor(value) for name, value in tensors.items()}
    h = torch.tensor([[3.0, 0.0]])
    assert as_encoder(given).encode(h).tolist() == [[2.5, 0.0, 1.0]]
    assert as_encoder({**given, "k": 1}).encode(h).tolist() == [[2.5, 0.0, 0.0]]
    jump = {**given, "threshold": torch.tensor([3.0, 0.0, 0.5]), "subtract": True}
    assert as_encoder(jump).encode(h).tolist() == [[0.0, 0.0, 1.0]]
    assert as_encoder({**given, "activation": "identity"}).encode(h).tolist() == [[2.5, -2.0, 1.0]]
    assert as_encoder({**given, "subtract": False}).encode(h).tolist() == [[3.5, 0.0, 1.0]]
    decoder = {"W_dec": torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])}
    assert as_encoder({**given, **decoder}).decode(torch.tensor([[2.5, 0.0, 1.0]])).tolist() == [[5.5, 3.0]]


def test_identity_is_the_raw_activations() -> None:
    model, x = Tokens().eval(), normal(5, 3, 4)
    same = SparseFeatures(encoder=LinearEncoder(torch.eye(6), activation="identity"), layer="body")
    raw = SparseFeatures(encoder=RawActivations(), layer="body")
    assert torch.equal(explained(same, model, x), model.body(x)[:, -1].detach())
    assert torch.equal(explained(raw, model, x), explained(same, model, x))


def test_positions_and_tuples() -> None:
    model, x = Tokens().eval(), normal(5, 3, 4)
    h = model.body(x).detach()
    encode = features().encoder.encode
    torch.testing.assert_close(explained(features(position=0), model, x), encode(h[:, 0]))
    torch.testing.assert_close(explained(features(position="mean"), model, x), encode(h.flatten(0, 1)).reshape(5, 3, 9).mean(1))
    torch.testing.assert_close(explained(features(layer="pair"), model, x), encode(torch.tanh(h[:, -1])))
    assert not any(part._forward_hooks for part in model.modules())
    masked = Activations(h, torch.tensor([[True, True, False]] * 5))
    torch.testing.assert_close(masked.at(-1, "body"), h[:, 1])
    torch.testing.assert_close(masked.mean(h), h[:, :2].mean(1))
    assert masked.tokens().shape == (10, 6)


class Foreign(nn.Module):
    """As in overcomplete: encode returns what comes before the nonlinearity, too."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 8)
        self.inner.weight.data.copy_(normal(8, width))

    def encode(self, h: Tensor) -> tuple[Tensor, Tensor]:
        return self.inner(h), self.inner(h).relu()


class BatchTopK(Foreign):
    def encode(self, h: Tensor) -> tuple[Tensor, Tensor]:
        pre = self.inner(h)
        border = pre.flatten().topk(2 * len(h)).values[-1]
        return pre, torch.where(pre >= border, pre, 0.0)


def test_objects_with_encode() -> None:
    model, x, sae = Tokens().eval(), normal(5, 3, 4), Foreign().eval()
    one = SparseFeatures(encoder=sae, layer="body")
    torch.testing.assert_close(explained(one, model, x), sae.encode(model.body(x)[:, -1])[1].detach())
    assert isinstance(one.encoder, EncoderObject)
    assert one.spec() == SparseFeatures(encoder=sae, layer="body").spec()
    sae.inner.weight.data += 1
    assert one.spec() != SparseFeatures(encoder=sae, layer="body").spec()


def test_files_and_other_names(tmp_path: Path) -> None:
    W, b, h = normal(6, 9), normal(9, seed=1), normal(4, 6, seed=2)
    plain = as_encoder({"W_enc": W, "b_enc": b})
    save_file({"W_enc": W.contiguous(), "b_enc": b}, tmp_path / "sae.safetensors", {"activation": "topk", "k": "3"})
    np.savez(tmp_path / "sae.npz", W_enc=W.numpy(), b_enc=b.numpy())
    assert int((as_encoder(tmp_path / "sae.safetensors").encode(h) > 0).sum(1).max()) == 3
    assert torch.equal(as_encoder(str(tmp_path / "sae.npz")).encode(h), plain.encode(h))
    torch.testing.assert_close(as_encoder({"encoder.weight": W.T, "encoder.bias": b, "bias": torch.zeros(6)}).encode(h), plain.encode(h))


def test_jumprelu_does_not_subtract_as_in_gemma_scope(tmp_path: Path) -> None:
    """relu(h W_enc + b_enc) where it exceeds the threshold; the state of dictionary_learning's BatchTopK is centred."""
    h, tensors = normal(5, 6), {"W_enc": normal(6, 9), "W_dec": normal(9, 6), "b_enc": normal(9), "b_dec": 3 * normal(6)}
    tensors["threshold"] = normal(9, seed=4).abs()
    pre, centred = h @ tensors["W_enc"] + tensors["b_enc"], (h - tensors["b_dec"]) @ tensors["W_enc"] + tensors["b_enc"]
    expected, other = (torch.where(one > tensors["threshold"], one.relu(), 0.0) for one in (pre, centred))
    np.savez(tmp_path / "params.npz", **{name: one.numpy() for name, one in tensors.items()})
    np.savez(tmp_path / "settings.npz", **{name: one.numpy() for name, one in tensors.items()}, subtract=True, activation="jumprelu")
    torch.testing.assert_close(as_encoder(tmp_path / "params.npz").encode(h), expected)
    torch.testing.assert_close(as_encoder(tmp_path / "settings.npz").encode(h), other)
    for text, found in (("true", other), ("False", expected)):
        save_file({name: one.contiguous() for name, one in tensors.items()}, tmp_path / "one.safetensors", {"subtract": text})
        torch.testing.assert_close(as_encoder(tmp_path / "one.safetensors").encode(h), found)
    names = {"encoder.weight": "W_enc", "decoder.weight": "W_dec"}
    state = {name: tensors[one].T for name, one in names.items()} | {"encoder.bias": tensors["b_enc"]}
    state |= {"b_dec": tensors["b_dec"], "threshold": tensors["threshold"], "k": torch.tensor(2)}
    torch.testing.assert_close(as_encoder({**state, "activation": "jumprelu"}).encode(h), other)
    assert repr(as_encoder({**state, "activation": "topk"})) == "LinearEncoder(6 to 9, topk 2)"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"encoder": {"W_enc": torch.ones(5, 9)}}, "The encoder takes 5 numbers, but the layer 'body' gives 6"),
        ({"encoder": Foreign(5).eval()}, "The encoder Foreign does not take 6 numbers per row"),
        ({"encoder": BatchTopK().eval()}, "encodes a row differently when other rows are in the batch"),
        ({"encoder": Foreign()}, "is in train mode: call its eval"),
        ({"layer": "named"}, "The layer 'named' returns a dict, not a tensor of activations: choose another layer"),
        ({"layer": "bodi"}, "no layer 'bodi'. Did you mean 'body'"),
        ({"layer": ""}, "needs an encoder and a layer"),
        ({"encoder": None}, "needs an encoder and a layer"),
        ({"position": 7}, "has 3 positions, and position=7 is outside of them"),
    ],
)
def test_bad_settings(settings: dict[str, Any], sentence: str) -> None:
    x = normal(4, 3, 4)
    with pytest.raises((InputError, SpecError), match=sentence):
        features(**settings).check(Tokens().eval(), x, torch.zeros(4, dtype=torch.long))


@pytest.mark.parametrize(
    ("encoder", "sentence"),
    [
        (3, "An encoder is an object with encode"),
        ({"weights": torch.ones(2, 2)}, "need the name W_enc"),
        ({"W_enc": torch.ones(3)}, "W_enc of an encoder is a matrix"),
        ({"W_enc": torch.ones(3, 4), "b_enc": torch.ones(3)}, r"b_enc of an encoder with W_enc of shape \(3, 4\) has the shape \(4,\)"),
        ({"W_enc": torch.ones(3, 4), "k": 9}, "needs k from 1 to its 4 features, not 9"),
        ({"W_enc": torch.ones(3, 4), "activation": "gelu"}, "Unknown activation of an encoder 'gelu'"),
        ({"W_enc": torch.ones(3, 4), "activation": "jumprelu"}, "needs a threshold"),
        ({"W_enc": torch.ones(3, 4), "k": "x"}, "k of an encoder is a whole number of features, not 'x'"),
        ({"W_enc": torch.ones(3, 4), "k": 1.5}, "k of an encoder is a whole number of features, not 1.5"),
        ({"W_enc": torch.ones(3, 4), "subtract": "perhaps"}, "'subtract' of an encoder is true or false, not 'perhaps'"),
        ({"W_enc": torch.ones(3, 4), "gate_bias": torch.ones(4), "r_mag": torch.ones(4)}, "there is also gate_bias, r_mag, without which"),
        ({"W_enc": torch.ones(3, 4), "k": 2, "threshold": torch.ones(4)}, "may be either kind: add activation='topk'"),
        ("nowhere.npz", "There is no encoder file 'nowhere.npz'"),
    ],
)
def test_bad_encoders(encoder: Any, sentence: str) -> None:
    with pytest.raises((InputError, SpecError), match=sentence):
        features(encoder=encoder)


@pytest.mark.parametrize("name", ["bad.npz", "bad.safetensors", "words.npz"])
def test_broken_files(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"xx" * 20)
    if name == "words.npz":
        np.savez(tmp_path / name, W_enc=np.array(["a", "b"]))
    with pytest.raises(InputError, match=f"The encoder file {name} cannot be read .*: save its tensors again"):
        as_encoder(tmp_path / name)


def test_the_random_encoder_fires_as_often() -> None:
    h = normal(60, 6)
    sae = as_encoder({"W_enc": normal(6, 20, seed=1), "b_enc": -normal(20, seed=2).abs()})
    z = sae.encode(h)
    random = random_encoder(h, z, sae)
    found = random.encode(h)
    assert found.shape == z.shape
    assert torch.equal((found > 0).sum(0), (z > 0).sum(0))  # so L0 is the same, and dead features stay dead
    assert not torch.equal((found > 0).sum(1), (z > 0).sum(1))
    assert torch.equal(random_encoder(h, z, sae).W_enc, random.W_enc)
    assert not torch.equal(random_encoder(h, z, sae, 1).W_enc, random.W_enc)
    kept = as_encoder({"W_enc": normal(6, 20, seed=1), "k": 3})
    assert int((random_encoder(h, kept.encode(h), kept).encode(h) != 0).sum(1).max()) == 3


def test_principal_components_are_those_of_sklearn() -> None:
    from sklearn.decomposition import PCA

    h = normal(40, 6)
    ours, theirs = pca_encoder(h, 4), PCA(4, svd_solver="full").fit(h.numpy())
    scores = theirs.transform(h.numpy())
    torch.testing.assert_close(ours.encode(h).abs(), torch.from_numpy(np.abs(scores)), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours.decode(ours.encode(h)), torch.from_numpy(theirs.inverse_transform(scores)), atol=1e-4, rtol=1e-4)
    assert pca_encoder(h, 100).width == 6
    with pytest.raises(InputError, match="at least two inputs"):
        pca_encoder(h[:1], 4)


def test_controls_of_an_explainer() -> None:
    model, x = Tokens().eval(), normal(30, 3, 4)
    found = feature_controls(features(), model, x)
    assert list(found) == ["random encoder", "raw activations", "principal components"]
    z, random = (explained(one, model, x) for one in (features(), found["random encoder"]))
    assert float((z > 0).float().mean()) == float((random > 0).float().mean())
    assert found["raw activations"].signed
    assert not features().signed
    assert feature_controls(features(position="mean"), model, TensorInputs(x))["random encoder"].position == "mean"


def test_an_audit_measures_the_controls_beside(tmp_path: Path) -> None:
    model, x = Tokens().eval(), normal(12, 3, 4)
    score = FastGEF(measure=cosine_distance, normalise=False, sigma=0.5, draws=2)
    audit = Audit(
        models={"net": model}, inputs=x, explainers={"a": features(), "b": features(layer="pair")}, scores=[score], companions=False
    )
    result = audit.run(tmp_path / "run", progress=False)
    table = result.table().set_index("explainer")
    suffixes = ("random encoder", "raw activations", "principal components")
    assert set(table.index) == {*"ab", *(f"{label}: {suffix}" for label in "ab" for suffix in suffixes)}
    assert table.loc["a", "random_control"] == table.loc["a: random encoder", "value"]
    assert set(table["frame"]) == {"features"}
    assert not table["control"].any()


def test_explainers_around_it_have_its_controls_and_texts() -> None:
    model, x = Tokens().eval(), TensorInputs(normal(40, 3, 4))
    around = TopK(explainer=features(), k=2)
    controls = TopK.own_controls({"cut": around}, model, x, 0, 16)["cut"]
    inner = SparseFeatures.own_controls({"cut": features()}, model, x, 0, 16)["cut"]
    assert {suffix: one.spec() for suffix, one in controls.items()} == {
        suffix: TopK(explainer=one, k=2).spec() for suffix, one in inner.items()
    }
    assert controls
    given = Precomputed(maps=torch.zeros(40, 3), explainer=features())
    assert Precomputed.own_controls({"given": given}, model, x, 0, 16) == {}
    texts = SparseFeatures.meanings({"cut": features()}, model, x, 16)
    assert TopK.meanings({"cut": around}, model, x, 16) == texts


def test_layers_share_a_pass(tmp_path: Path) -> None:
    """The numbers are those of an audit of each layer by itself, and layers cost no further passes."""
    x, calls = normal(6, 3, 4), []
    model = Tokens().eval()
    score = FastGEF(measure=cosine_distance, normalise=False, sigma=0.5, draws=2)

    def run(name: str, layers: list[str]) -> Any:
        explainers = {layer: features(layer=layer) for layer in layers}
        audit = Audit(models={"net": model}, inputs=x, explainers=explainers, scores=[score], controls=False, companions=False)
        before = len(calls)
        found = audit.run(tmp_path / name, progress=False).table().set_index("explainer")["value"]
        return found, len(calls) - before

    class Counted(nn.Linear):
        def forward(self, h: Tensor) -> Tensor:
            calls.append(len(h))
            return super().forward(h)

    model.head.__class__ = Counted
    both, passes = run("both", ["body", "pair"])
    for layer in ("body", "pair"):
        alone, one = run(layer, [layer])
        assert both[layer] == alone[layer]
        assert passes - one <= 2  # the trial of the second explainer


def test_the_pass_that_reads_a_layer_shows_the_outputs_too(tmp_path: Path) -> None:
    """One pass for the model and one for each of its copies; the numbers are those with a pass of its own for the outputs."""
    x, calls, model = normal(6, 3, 4), [], Tokens().eval()
    score = FastGEF(measure=cosine_distance, normalise=False, sigma=0.5, draws=2)

    def run(name: str, explainer: SparseFeatures) -> Any:
        audit = Audit(models={"net": model}, inputs=x, explainers={"e": explainer}, scores=[score], controls=False, companions=False)
        forget_outputs()
        handle = model.register_forward_pre_hook(lambda *_given: calls.append(1))
        before = len(calls)
        audit.prepare()
        prepared = len(calls) - before
        found = audit.run(tmp_path / name, progress=False)
        handle.remove()
        return found.series[0].per_sample, len(calls) - before - 2 * prepared

    together, passes = run("together", features())
    apart, more = run("apart", Apart(encoder=features().encoder, layer=features().layer))
    assert passes == 1 + 2 * score.steps
    assert more == 2 * passes - 1  # the first pass showed the outputs of the model itself
    np.testing.assert_array_equal(together, apart)


@dataclass(frozen=True, kw_only=True)
class Apart(SparseFeatures):
    """The same features by an explainer that shares its pass with nothing."""

    place = None


def test_cosine_distance() -> None:
    from scipy.spatial.distance import cosine

    a, b = normal(20, 7).double(), normal(20, 7, seed=1).double()
    expected = [cosine(u, v) for u, v in zip(a.numpy(), b.numpy(), strict=True)]
    np.testing.assert_allclose(cosine_distance(a, b).numpy(), expected, atol=1e-12)
    zero, one = torch.zeros(1, 3), torch.ones(1, 3)
    assert cosine_distance(zero, zero).isnan().all()
    assert cosine_distance(zero, one).item() == cosine_distance(one, zero).item() == 1.0
    assert cosine_distance(3e-30 * one, one).item() == 0.0
    assert cosine_distance(one, -one).item() == pytest.approx(2.0)


def test_features_are_not_cut_as_texts_are(tmp_path: Path) -> None:
    """As many features as a text has words give the numbers of one more, which never fires; both alone and cut to their largest."""
    inputs = TextInputs(["a fine film", "a dull film with no heart at all", "film"], tokenizer())
    W, layer = normal(16, inputs.shape[0]), "distilbert.transformer.layer.0"
    wider = torch.cat((W, torch.zeros(16, 1)), 1)
    both = {"equal": W, "wider": wider}
    explainers: dict[str, Explainer] = {name: SparseFeatures(encoder={"W_enc": one}, layer=layer) for name, one in both.items()}
    explainers |= {f"top {name}": TopK(explainer=one, k=2) for name, one in explainers.items()}
    score = FastGEF(measure=cosine_distance, normalise=False, sigma=0.5, draws=4)
    audit = Audit(models=text_model(), inputs=inputs, explainers=explainers, scores=[score], controls=False, companions=False)
    found = {one.explainer: one.measured["explanation"] for one in audit.run(tmp_path, progress=False).series}
    for name in ("", "top "):
        assert np.isfinite(found[f"{name}equal"]).all()
        np.testing.assert_allclose(found[f"{name}equal"], found[f"{name}wider"], atol=1e-6)


def test_two_encoders_share_a_null(tmp_path: Path) -> None:
    """The random encoder of a top-k one depends on layer, width and k alone, so it is measured once, and is the null of both."""
    explainers = {name: features(encoder={"W_enc": normal(6, 9, seed=seed), "k": 3}) for name, seed in (("a", 1), ("b", 2))}
    score = FastGEF(measure=cosine_distance, normalise=False, sigma=0.5, draws=2)
    audit = Audit(models={"net": Tokens().eval()}, inputs=normal(8, 3, 4), explainers=explainers, scores=[score], companions=False)
    result = audit.run(tmp_path, progress=False)
    table = result.table().set_index("explainer")
    assert "b: random encoder" not in table.index
    assert table.loc["b", "random_control"] == table.loc["a: random encoder", "value"]
    assert list(result.over_random("fast_gef")["random"]) == ["a: random encoder"] * 2


def test_controls_are_fitted_in_smaller_batches_if_memory_runs_out() -> None:
    """While the controls are fitted, the model runs out of memory unless at most 3 rows go through it at once."""

    class Small(Tokens):
        def forward(self, x: Tensor) -> Tensor:
            if len(x) > 3 and not tight.isdisjoint({frame.function for frame in inspect.stack()}):
                raise torch.OutOfMemoryError("CUDA out of memory")
            return super().forward(x)

    tight = {"layer_activations"}
    x, model, explainer = normal(12, 3, 4), Small().eval(), features()
    score = FastGEF(measure=cosine_distance, normalise=False, sigma=0.5, draws=2)
    audit = Audit(models={"net": model}, inputs=x, explainers={"a": explainer}, scores=[score], companions=False)
    plan = audit.prepare()
    assert plan.budgets["net"].rows <= 3
    tight.clear()
    expected = feature_controls(explainer, model, x)["random encoder"]
    torch.testing.assert_close(plan.problem.explainers["a: random encoder"].encoder.b_enc, expected.encoder.b_enc)
