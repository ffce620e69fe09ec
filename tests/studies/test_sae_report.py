"""The quality of encoders and the correlation with sparsity, against slow re-implementations and numbers known beforehand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.nn import functional

from veracity import Audit
from veracity.core.errors import InputError
from veracity.core.explainers import Context
from veracity.core.randomness import Draws
from veracity.explain.sparse import LinearEncoder, RawActivations, SparseFeatures, top_features
from veracity.inputs import TextInputs
from veracity.measure import cosine_distance
from veracity.scores import FastGEF
from veracity.statistics.correlation import spearman_interval
from veracity.studies import sae_report, sparsity_correlation

TOKENS, WIDTH = 7, 5


def normal(*shape: int, seed: int = 0) -> Tensor:
    return Draws.of(seed, torch.arange(shape[0])).normal(*shape[1:], stream="test").float()


class Bigrams(nn.Module):
    """The next token from this one alone: embedding, a layer, and scores of all tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.layer, self.head = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, TOKENS)
        self.embedding.weight.data.copy_(normal(TOKENS, WIDTH))
        self.layer.weight.data.copy_(normal(WIDTH, WIDTH, seed=1))
        self.head.weight.data.copy_(normal(TOKENS, WIDTH, seed=2))

    def forward(self, input_ids: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layer(self.embedding(input_ids)))
        return scores


class Tokenizer:
    mask_token_id, pad_token_id, unk_token_id = None, 0, None
    all_special_ids = (0,)

    def __call__(self, *_given: object) -> None:
        raise AssertionError("it is never asked")

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return "".join("_abcdef"[one] for one in ids)


IDS = torch.tensor([[1, 2, 3, 4], [2, 6, 1, 0], [5, 4, 3, 1], [3, 3, 6, 0], [4, 1, 2, 2], [6, 5, 5, 0]])


def texts() -> TextInputs:
    return TextInputs.of_encoding({"input_ids": IDS, "attention_mask": (IDS != 0).long()}, Tokenizer())


def autoencoder() -> LinearEncoder:
    weights = {"W_enc": normal(WIDTH, 8, seed=3), "b_enc": -normal(8, seed=4).abs()}
    return LinearEncoder(**weights, b_dec=normal(WIDTH, seed=5), W_dec=normal(8, WIDTH, seed=6) / 4)


def test_the_report_is_that_of_a_loop_over_tokens() -> None:
    model, encoder = Bigrams().eval(), autoencoder()
    found = sae_report({"sae": SparseFeatures(encoder=encoder, layer="layer")}, model, texts()).iloc[0]
    lost: dict[str, list[float]] = {"loss": [], "loss_decoded": [], "loss_zero": []}
    rows, back, codes = [], [], []
    with torch.no_grad():
        for text in IDS:
            ids = text[text != 0]
            h = model.layer(model.embedding(ids))
            z = encoder.encode(h)
            changed = {"loss": h, "loss_decoded": encoder.decode(z), "loss_zero": torch.zeros_like(h)}
            for name, stream in changed.items():
                assert stream is not None
                lost[name] += functional.cross_entropy(model.head(stream)[:-1], ids[1:], reduction="none").tolist()
            rows.append(h), back.append(changed["loss_decoded"]), codes.append(z)
    h, g, z = torch.cat(rows), torch.cat([one for one in back if one is not None]), torch.cat(codes)
    means = {name: float(np.mean(values)) for name, values in lost.items()}
    for name, value in means.items():
        assert found[name] == pytest.approx(value, rel=1e-5)
    recovered = (means["loss_zero"] - means["loss_decoded"]) / (means["loss_zero"] - means["loss"])
    assert found["loss_recovered"] == pytest.approx(recovered, rel=1e-4)
    assert found["explained_variance"] == pytest.approx(1 - float((h - g).square().sum() / (h - h.mean(0)).square().sum()), rel=1e-4)
    assert found["l0"] == pytest.approx(float((z > 0).sum(1).float().mean()))
    assert found["dead"] == pytest.approx(float((~(z > 0).any(0)).float().mean()))
    assert found["tokens"] == int((IDS != 0).sum())
    assert found["width"] == 8


def test_raw_activations_lose_nothing_and_no_decoder_says_nothing() -> None:
    encoders = {"raw": RawActivations(), "blind": LinearEncoder(normal(WIDTH, 8, seed=3))}
    found = sae_report({name: SparseFeatures(encoder=one, layer="layer") for name, one in encoders.items()}, Bigrams().eval(), texts())
    raw, blind = (found.set_index("explainer").loc[name] for name in encoders)
    assert raw["explained_variance"] == pytest.approx(1.0)
    assert raw["loss_recovered"] == pytest.approx(1.0)
    assert np.isnan(blind["explained_variance"])
    assert np.isnan(blind["loss_decoded"])
    assert (
        sae_report({"raw": SparseFeatures(encoder=RawActivations(), layer="layer")}, Bigrams().eval(), texts(), skip=2)["tokens"].iloc[0]
        == 9
    )


def test_all_encoders_share_the_pass_that_reads_their_layers() -> None:
    """One pass to read them, one for the loss, one per layer with zeros, and one per decoder; the same numbers as alone."""
    model, calls = Bigrams().eval(), list[int]()
    model.register_forward_hook(lambda _model, args, _output: calls.append(1))
    explainers = {
        f"{layer} {name}": SparseFeatures(encoder=one, layer=layer)
        for layer in ("embedding", "layer")
        for name, one in {"sae": autoencoder(), "raw": RawActivations(), "blind": LinearEncoder(normal(WIDTH, 8, seed=3))}.items()
    }
    together = sae_report(explainers, model, texts(), skip=1)
    shapes = 1  # a pass that shows what the model returns
    assert len(calls) == shapes + 1 + 1 + 2 + 4
    apart = [sae_report({label: one}, model, texts(), skip=1).iloc[0].tolist() for label, one in explainers.items()]
    assert together.fillna(-1.0).to_numpy().tolist() == [[-1.0 if one != one else one for one in row] for row in apart]


def test_labels_instead_of_next_tokens() -> None:
    net, x = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).eval(), normal(9, 4)
    labels = torch.arange(9) % 3
    explainer = {"raw": SparseFeatures(encoder=RawActivations(), layer="0")}
    found = sae_report(explainer, net, x, labels=labels).iloc[0]
    with torch.no_grad():
        assert found["loss"] == pytest.approx(float(functional.cross_entropy(net(x), labels)), rel=1e-5)
    assert np.isnan(sae_report(explainer, net, x).iloc[0]["loss"])


def test_positions_of_a_convolution_are_tokens() -> None:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)).eval()
    for place in (0, 3):
        net[place].weight.data.copy_(normal(*net[place].weight.shape, seed=place))
    x, labels, encoder = normal(9, 1, 6, 6), torch.arange(9) % 3, LinearEncoder(normal(4, 8), W_dec=normal(8, 4, seed=1))
    raw, coded = (SparseFeatures(encoder=one, layer="1") for one in (RawActivations(), encoder))
    found = sae_report({"raw": raw, "coded": coded}, net, x, labels=labels).set_index("explainer")
    with torch.no_grad():
        maps = net[1](net[0](x))
        back = torch.stack([torch.stack([encoder.decode(encoder.encode(row)) for row in one.flatten(1).T[:, None]])[:, 0] for one in maps])
        decoded = functional.cross_entropy(net[3](back.transpose(1, 2).flatten(1)), labels)
    assert found.loc["raw", "loss_decoded"] == pytest.approx(found.loc["raw", "loss"])
    assert found.loc["coded", "loss_decoded"] == pytest.approx(float(decoded), rel=1e-5)
    assert found.loc["coded", "tokens"] == 9 * 16
    with pytest.raises(InputError, match="The encoder takes 5 numbers, but the layer '1' gives 4"):
        sae_report({"one": SparseFeatures(encoder={"W_enc": normal(5, 8)}, layer="1")}, net, x, labels=labels)


def test_the_correlation_with_sparsity(tmp_path: Path) -> None:
    explainers = {name: SparseFeatures(encoder=autoencoder(), layer=layer) for name, layer in (("one", "layer"), ("two", "embedding"))}
    score = FastGEF(measure=cosine_distance, normalise=False, sigma=0.5, draws=3)
    audit = Audit(models={"lm": Bigrams().eval()}, inputs=texts(), explainers=explainers, scores=[score], companions=False, controls=False)
    result = audit.run(tmp_path / "run", progress=False)
    found = sparsity_correlation(result, sparsity="l1").set_index("explainer")
    z = result.explanations("lm", "one")
    values = result.samples("fast_gef").query("explainer == 'one'")["value"].to_numpy()
    kept = np.isfinite(values)
    assert found.loc["one", "correlation"] == pytest.approx(spearmanr(z.abs().sum(1).numpy()[kept], values[kept]).statistic)
    assert list(found.index) == ["one", "two", "all"]
    assert not sparsity_correlation(result, sparsity="l0")["n"].isna().any()
    with pytest.raises(InputError, match="no features of a layer with the score 'gef'"):
        sparsity_correlation(result, "gef")
    # the report shows the texts of the largest features, and the figure by layer
    page = Path(result.save_report(tmp_path / "report.html")).read_text()
    assert "What features stand for" in page
    assert "Layer by layer" in page


def test_fitted_controls_do_not_count_among_all(tmp_path: Path) -> None:
    """Nor are they compared with a random encoder of their own, while the explainers are compared with theirs."""
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).eval()
    for place in (0, 2):
        net[place].weight.data.copy_(normal(*net[place].weight.shape, seed=place))
    explainers = {f"layer {layer}": SparseFeatures(encoder={"W_enc": normal(6, 8, seed=layer)}, layer=str(layer)) for layer in (0, 1)}
    score = FastGEF(measure=cosine_distance, normalise=False, sigma=0.5, draws=2)
    audit = Audit(models={"net": net}, inputs=normal(10, 4), explainers=explainers, scores=[score], companions=False)
    result = audit.run(tmp_path, progress=False)
    found = sparsity_correlation(result).set_index("explainer")
    assert len(found) == 9
    named = sparsity_correlation(result, explainers=list(explainers)).set_index("explainer")
    assert found.loc["all", "correlation"] == named.loc["all", "correlation"]
    every = sparsity_correlation(result, explainers=[label for label in found.index if label != "all"]).set_index("explainer")
    assert every.loc["all", "correlation"] != found.loc["all", "correlation"]
    table = result.over_random("fast_gef")
    assert dict(zip(table["explainer"], table["random"], strict=True)) == {label: f"{label}: random encoder" for label in explainers}


def test_the_interval_of_spearman_covers() -> None:
    """Of 100 pairs of unrelated samples with three values each, about 95 % of the intervals hold zero."""
    drawn = np.random.default_rng(0)
    shared = drawn.normal(size=(100, 2, 30, 1)) + 0.5 * drawn.normal(size=(100, 2, 30, 3))
    several = [spearman_interval(a, b) for a, b in shared]
    single = [spearman_interval(a[:, 0], b[:, 0]) for a, b in shared]
    for found in (several, single):
        assert 0.88 <= np.mean([one.low <= 0 <= one.high for one in found]) <= 0.99
    assert np.isnan(spearman_interval(np.ones(9), np.arange(9.0)).value)
    with pytest.raises(InputError, match="two arrays of one shape"):
        spearman_interval(np.ones(3), np.ones(4))


def test_the_texts_of_a_feature() -> None:
    """A feature that is one at the token d, and 2 at f: texts with f come first, and the peak is that letter."""
    model = Bigrams().eval()
    model.embedding.weight.data.copy_(torch.eye(TOKENS)[:, 2:])
    weight = torch.zeros(WIDTH, 2)
    weight[4 - 2, 0], weight[6 - 2, 0] = 1.0, 2.0
    one = SparseFeatures(encoder=LinearEncoder(weight), layer="embedding")
    inputs = texts()
    (found,) = top_features({"one": one}, inputs.adapt(model), inputs)["one"]
    assert found["feature"] == 0
    assert found["mean"] == pytest.approx((1 + 2) / 6)  # at the last tokens d, a, a, f, b, e
    assert found["fires"] == pytest.approx(6 / 21)
    assert [line["sample"] for line in found["lines"]] == [1, 3, 5]
    assert [line["words"][line["peak"]] for line in found["lines"]] == ["f", "f", "f"]
    assert max(found["lines"][0]["values"]) == 2.0
    assert top_features({"one": one}, model, torch.zeros(2, 3)) == {}  # type: ignore[arg-type]


def test_the_mean_of_a_feature_is_that_of_its_explanations() -> None:
    """Also for the mean over tokens, of texts with different numbers of them."""
    inputs, model = texts(), Bigrams().eval()
    x = inputs.take(torch.arange(len(IDS)))
    for position in (-1, "mean"):
        one = SparseFeatures(encoder={"W_enc": normal(WIDTH, 8, seed=3)}, layer="layer", position=position)  # type: ignore[arg-type]
        context = Context(Draws.of(0, torch.arange(len(IDS))), 8, x.structure)
        z = one.explain(inputs.adapt(model), x.values, torch.zeros(len(IDS)).long(), context)
        for record in top_features({"one": one}, inputs.adapt(model), inputs)["one"]:
            assert record["mean"] == pytest.approx(float(z[:, record["feature"]].mean()), rel=1e-5)
