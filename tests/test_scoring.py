"""One call for maps that exist already, what an audit chooses by itself, and classes in the place of instances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Size, Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import veracity
from small import series_inputs, small_net
from veracity import Audit, Predicted, Segmentation
from veracity.core.errors import InputError, Note, SpecError
from veracity.core.inputs import TokenInputs
from veracity.core.targets import Target
from veracity.engine.defaults import Operations, choose, look
from veracity.engine.resolve.models import as_models
from veracity.inputs import as_inputs
from veracity.models.base import as_model
from veracity.scores import MaxSensitivity, Sparseness
from veracity.scores.assumptions import ModelRobustness, sentence
from veracity.scores.presets import listed_scores
from veracity.scoring import as_maps
from veracity.walk import Exhaustive

NOTHING: dict[str, Any] = {"explainers": None, "scores": None, "symmetry": False, "seed": 0}


def image_net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 25, 3)).eval()


def images(count: int = 4) -> torch.Tensor:
    return torch.randn(count, 3, 5, 5, generator=torch.Generator().manual_seed(2))


def test_values_of_a_regression_beside_maps_choose_no_class() -> None:
    net, x, y = nn.Linear(5, 1).eval(), torch.randn(4, 5), torch.tensor([0.5, -1.0, 2.0, 7.0])
    given: dict[str, Any] = {"scores": ["deletion"], "controls": False, "companions": False}
    with_values = veracity.score(net, x, torch.ones(4, 5), y, **given)
    assert with_values.failures().empty
    assert with_values.manifest["models"]["model"]["outputs"] == "raw"
    assert with_values.manifest["spec"]["target"] == "predicted"


def test_labels_of_maps_are_called_y() -> None:
    with pytest.raises(InputError, match=r"score\(\) takes no targets=...: pass them as y, as in score\(model, x, maps, y\)"):
        veracity.score(small_net(), series_inputs(2), series_inputs(2), targets=[0, 1])


def test_maps_without_channels_score_as_maps_repeated_over_the_channels() -> None:
    net, x = image_net(), images()
    flat = np.random.default_rng(0).normal(size=(4, 5, 5)).astype(np.float32)
    full = torch.tensor(flat)[:, None].expand(4, 3, 5, 5)
    found = veracity.score(net, x, {"flat": flat, "one": full[:, :1], "full": full}, scores=["sparseness", "deletion"], controls=False)
    table = found.table().pivot(index="explainer", columns="score", values="value")
    assert np.allclose(table.loc["flat"], table.loc["full"])
    assert np.allclose(table.loc["one"], table.loc["full"])


def test_the_score_of_a_map_by_hand() -> None:
    net, x = nn.Linear(4, 2).eval(), torch.randn(3, 4)
    maps = torch.tensor([[0.0, 0.0, 0.0, 1.0]]).expand(3, 4)
    found = veracity.score(net, x, maps, scores=Sparseness)  # the Gini index of one feature in four is 3/4
    table = found.table().set_index("explainer")
    assert table.loc["maps", "value"] == pytest.approx(0.75)
    assert {"random_uniform", "constant_map"} <= set(table.index)


def test_y_says_which_class_the_maps_explain() -> None:
    net = nn.Linear(4, 2, bias=False).eval()
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    y = 1 - net(x).argmax(1)
    exact = (net.weight[y] * x).detach()  # on a linear model with baseline 0, these are the drops themselves
    score = veracity.scores.FaithfulnessCorrelation(nr_runs=20, subset_size=2, perturb_baseline=0.0)
    assert veracity.score(net, x, exact, y, [score], controls=False).table()["value"].item() == pytest.approx(1.0, abs=1e-4)
    assert veracity.score(net, x, exact, None, [score], controls=False).table()["value"].item() < 0.9


def test_scores_that_explain_anew_need_the_explainer(tmp_path: Path) -> None:
    net, x = small_net(), series_inputs(4)
    maps = torch.randn(4, 1, 12)
    with pytest.raises(InputError, match="explains perturbed inputs or models anew"):
        veracity.score(net, x, maps, scores="max_sensitivity")
    found = veracity.score(net, x, maps, scores=MaxSensitivity, explainer="saliency", folder=tmp_path / "run", controls=False)
    assert (tmp_path / "run" / "manifest.json").exists()
    assert set(found.table()["score"]) == {"max_sensitivity"}


def test_a_temporary_folder_goes_with_the_result() -> None:
    found = veracity.score(small_net(), series_inputs(3), torch.randn(3, 1, 12), scores="sparseness", controls=False)
    folder = Path(found.path)
    assert folder.exists()
    del found
    assert not folder.exists()


@pytest.mark.parametrize(
    ("maps", "sentence"),
    [
        (np.zeros((3, 5, 5)), "'maps' has 3 maps for 4 inputs"),
        (np.zeros((4, 5, 4)), r"have shape \(4, 5, 4\), and the inputs \(4, 3, 5, 5\): give maps of shape"),
        (np.zeros((4, 2, 5, 5)), r"have shape \(4, 2, 5, 5\)"),
        ([["a"]] * 4, "There is text in the maps 'maps'"),
        ({}, "There are no maps"),
    ],
)
def test_maps_that_do_not_fit(maps: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        veracity.score(image_net(), images(), maps)


def test_maps_of_a_vector_are_not_given_channels() -> None:
    with pytest.raises(InputError, match=r"give maps of shape \(2, 4\)"):
        as_maps(np.zeros((2, 3)), Size((4,)), 2)


def test_models_and_inputs_alone_are_enough(tmp_path: Path) -> None:
    x, net = series_inputs(70), small_net()
    before, state = x.clone(), torch.random.get_rng_state()
    audit = Audit(models=net, inputs=x, targets=torch.arange(70) % 3)
    with pytest.warns(
        Note, match="The audit chose the explainers saliency, input_x_gradient, integrated_gradients, grad_cam, the scores"
    ) as told:
        chosen = audit.complete
    sentence = str(told[0].message)
    assert "64 samples of 70" in sentence
    assert (len(as_inputs(chosen.inputs).take(torch.arange(64)).values), len(torch.as_tensor(chosen.targets))) == (64, 64)
    assert chosen.spec()["chosen"] == sentence
    assert audit.complete is chosen
    assert torch.equal(x, before)
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_default_audit_runs_and_says_what_it_chose(tmp_path: Path) -> None:
    with pytest.warns(Note, match="The audit chose"):
        found = Audit(models=nn.Sequential(nn.Linear(3, 2)).eval(), inputs=torch.randn(6, 3)).run(tmp_path / "run", progress=False)
    assert not len(found.failures())
    assert set(found.manifest["scores"]) >= {"insertion", "max_sensitivity", "efficient_mprt", "sparseness"}


def test_the_samples_are_the_same_every_time() -> None:
    x, net = as_inputs(series_inputs(100)), small_net()
    first, second = (choose({"m": net}, x, **NOTHING).rows for _ in range(2))
    assert first is not None
    assert second is not None
    assert torch.equal(first, second)
    assert not torch.equal(first, torch.arange(64))


def test_a_model_without_gradients_or_weights() -> None:
    found = choose({"f": as_model("f", lambda values: np.tanh(np.asarray(values))[:, :2].copy())}, as_inputs(torch.randn(8, 4)), **NOTHING)
    assert found.explainers == ["kernel_shap", "feature_ablation", "lime"]
    assert [one if isinstance(one, str) else one["name"] for one in found.scores] == ["insertion", "sparseness"]
    assert "explainers by gradients, because the model has none" in found.sentence


@pytest.mark.parametrize("target", [Predicted(), Segmentation(index=1)])
def test_a_segmentation_model_has_gradients(target: Target) -> None:
    net = nn.Conv2d(3, 2, 3, padding=1).eval()
    found = choose({"net": net}, as_inputs(images()), **NOTHING, target=target)
    assert list(found.explainers)[:3] == ["saliency", "input_x_gradient", "integrated_gradients"]
    assert "by gradients" not in found.sentence


def test_a_large_model_gets_fewer_samples_and_cheap_scores() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64 * 64, 4096), nn.ReLU(), *[nn.Linear(4096, 4096)] * 60, nn.Linear(4096, 2)).eval()
    found = choose({"m": net}, as_inputs(torch.randn(20, 1, 64, 64)), **NOTHING)
    assert found.rows is not None
    assert len(found.rows) < 20
    assert "steps=10" in found.sentence


def test_a_symmetry_keeps_its_own_scores_without_a_word(recwarn: pytest.WarningsRecorder) -> None:
    audit = Audit(models=small_net(), inputs=series_inputs(3), explainers=["saliency"], symmetry="cyclic_shift")
    assert tuple(audit.complete.scores) == ("equivariance", "model_invariance")
    assert not [one for one in recwarn if issubclass(one.category, Note)]


def test_a_lazy_model_is_left_as_it_is() -> None:
    net = nn.Sequential(nn.Flatten(), nn.LazyLinear(3))
    assert look(as_inputs(series_inputs(2)), "net", net, Predicted()) is None
    assert isinstance(net[1].weight, nn.parameter.UninitializedParameter)


def test_classes_stand_for_instances(tmp_path: Path) -> None:
    audit = Audit(
        models=small_net(),
        inputs=series_inputs(2),
        explainers=["saliency"],
        scores=[veracity.scores.Equivariance],
        symmetry=veracity.groups.CyclicShift,
        walk=Exhaustive,
        target=Predicted,
    )
    assert audit.spec()["walk"] == {"name": "exhaustive"}
    assert audit.spec()["symmetry"]["name"] == "cyclic_shift"
    assert isinstance(audit.resolve().walk, Exhaustive)
    given: Any = veracity.walk.MonteCarlo
    assert MaxSensitivity(walk=given).walk == veracity.walk.MonteCarlo()
    with pytest.raises(SpecError, match="needs the setting 'layer'"):
        Audit(models=small_net(), inputs=series_inputs(2), scores=["sparseness"], explainers=["saliency"], target=veracity.Neuron).resolve()


def test_a_long_vocabulary_makes_a_short_message() -> None:
    with pytest.raises(InputError) as caught:
        TokenInputs(torch.zeros(1, 1, dtype=torch.long), vocabulary=["word"] * 3000)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 200


def test_mistakes_have_one_sentence_that_says_what_to_do() -> None:
    net, x = torch.nn.Linear(4, 2).eval(), torch.rand(3, 1, 2, 2)
    with pytest.raises(InputError, match=r"maps of shape \(3, 1, 2, 2\) or \(3, 2, 2\)\."):
        as_maps(torch.rand(3, 5), x.shape[1:], 3)
    with pytest.raises(InputError, match="nothing but NaN"):
        as_maps(torch.full((3, 1, 2, 2), torch.nan), x.shape[1:], 3)
    with pytest.raises(InputError, match="a list of 2 without names: pass models="):
        as_models([net, net])
    with pytest.raises(InputError, match=r"'net\.pt' is a file of weights: build the network"):
        as_models("net.pt")
    with pytest.raises(SpecError, match=r"Unknown preset 'faithfullness'\. Did you mean 'faithfulness'"):
        listed_scores("faithfullness")
    with pytest.raises(
        SpecError, match=r"Unknown score 'faithfullness'\. Did you mean the preset 'faithfulness'\? .* scores='faithfulness'"
    ):
        listed_scores(["insertion", "faithfullness"])
    assert list(listed_scores(["Symmetry"])) == ["Symmetry"]  # a score as well, which its own error names


HELD = [
    (8, 8, "all 8 samples it is."),
    (0, 8, "all 8 samples it is not: compare explainers with each other and with random ones, not with the best possible value."),
    (0, 1, "the only sample it is not."),
]


@pytest.mark.parametrize(("holds", "n", "end"), HELD)
def test_assumptions_count_samples_in_plain_words(holds: int, n: int, end: str) -> None:
    assert sentence(ModelRobustness(), ModelRobustness(), holds=holds, n=n).endswith(f"on {end}")


def test_texts_and_labels_inside_x_are_taken_as_by_an_audit() -> None:
    pytest.importorskip("transformers")
    from transformers import TextClassificationPipeline

    from text_models import text_model, tokenizer

    pipeline = TextClassificationPipeline(model=text_model(), tokenizer=tokenizer())
    given: dict[str, Any] = {"scores": ["sparseness"], "controls": False, "companions": False}
    found = veracity.score(pipeline, ["a fine film", "a dull film"], np.eye(2, 3), **given)
    assert found.failures().empty
    net, x = nn.Linear(3, 2).eval(), torch.eye(3)
    with pytest.warns(Note, match="was taken for the labels"):
        pairs = veracity.score(net, [(row, number % 2) for number, row in enumerate(x)], x, **given)
    plain = veracity.score(net, x, x, **given)
    assert pairs.manifest["spec"]["target"] == "predicted"
    assert "accuracy" in str(pairs.manifest["models"])
    assert pairs.table()["value"].tolist() == plain.table()["value"].tolist()


class Attending(nn.Module):
    """Attention and a product, beside a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        found = self.first(x)
        return (nn.functional.scaled_dot_product_attention(found, found, found) @ found.transpose(-1, -2)).flatten(1)[:, :3]


def test_operations_are_those_that_torch_counts() -> None:
    x, net = torch.rand(2, 1, 9, 9), Attending().eval()
    with torch.no_grad(), Operations() as ours:
        out = net(x)
    with torch.no_grad(), FlopCounterMode(display=False) as torchs:
        assert torch.equal(net(x), out)
    assert ours.total == torchs.get_total_flops() > 0
