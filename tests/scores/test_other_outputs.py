"""Scores of models that give a number, or a class for every pixel: what theory says of linear ones, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from veracity import Audit, Result, Segmentation, scan
from veracity.core.errors import InputError
from veracity.core.inputs import TensorInputs
from veracity.core.registry import SCORES
from veracity.core.scores import Pair, Reading, Reads
from veracity.core.targets import Outputs
from veracity.engine.admission import admit, take
from veracity.engine.memory import Budget
from veracity.perturb import Crop, CyclicShift, Dihedral, ShiftedBoxes
from veracity.scores import (
    Deletion,
    Equivariance,
    FaithfulnessCorrelation,
    FastGEF,
    Insertion,
    ModelEquivariance,
    ModelInvariance,
    PixelFlipping,
    RandomLogit,
    WorstLoss,
)
from veracity.walk import MonteCarlo

pytestmark = pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")


def seeded(*layers: Any) -> nn.Module:
    """Layers made with the same weights every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(*(make() for make in layers)).eval()


def rows(count: int = 24) -> Tensor:
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(1))


def images(count: int = 4) -> Tensor:
    return torch.rand(count, 1, 6, 6, generator=torch.Generator().manual_seed(2))


def segmenter(padding: str = "circular", linear: bool = False) -> nn.Module:
    if linear:
        return seeded(lambda: nn.Conv2d(1, 3, 3, padding=1, padding_mode=padding, bias=False))
    return seeded(lambda: nn.Conv2d(1, 4, 3, padding=1, padding_mode=padding), nn.Tanh, lambda: nn.Conv2d(4, 3, 1))


def measured(folder: Path, **given: Any) -> Result:
    return Audit(**{"controls": False, "companions": False, "explainers": ["gradient"], **given}).run(folder, progress=False)


def values(result: Result) -> dict[tuple[str, str], float]:
    return {(row["explainer"], row["score"]): row["value"] for row in result.table().to_dict("records")}


def moved(space: Any, element: list[int], before: Tensor, after: Tensor) -> Pair:
    readings = [Reading(torch.zeros(1, dtype=torch.long), {Reads.FIELD: one}) for one in (before, after)]
    return Pair(*readings, element=torch.tensor([element]), move=lambda x: x, undo=lambda x: x, space=space)


def test_an_output_that_moves_along_by_hand() -> None:
    shift = CyclicShift(axes=(-1,)).fit(torch.Size([1, 3]))
    before, after = torch.tensor([[[3.0, 4.0, 0.0]]]), torch.tensor([[[0.0, 4.0, 3.0]]])
    assert ModelEquivariance().observe(moved(shift, [1], before, after)).tolist() == pytest.approx([24 / 25])
    assert ModelEquivariance().observe(moved(shift, [1], before, before.roll(1, -1))).tolist() == pytest.approx([1.0])


def test_boxes_move_against_the_window() -> None:
    window = Crop(window=8, reach=4)
    here, there = torch.tensor([[[3.0, 3.0, 5.0, 6.0]]]), torch.tensor([[[1.0, 4.0, 3.0, 7.0]]])
    score = ModelEquivariance(action=ShiftedBoxes(), measure="l2")
    assert score.observe(moved(window, [2, -1], here, there)).tolist() == [0.0]
    assert score.observe(moved(window, [2, -1], here, here)).tolist() == pytest.approx([(2 * 4 + 2 * 1) ** 0.5])
    assert SCORES.build(score.spec()) == score


def test_only_a_circular_network_moves_with_cyclic_shifts(tmp_path: Path) -> None:
    nets = {"circular": segmenter(), "zeros": segmenter("zeros")}
    scores = [ModelEquivariance(), ModelInvariance(), Equivariance()]
    shift = CyclicShift(axes=(-2, -1))
    result = measured(tmp_path, models=nets, inputs=images(), symmetry=shift, walk=MonteCarlo(draws=6), scores=scores)
    found = result.table().set_index(["model", "score"])["value"]
    assert found["circular"].tolist() == pytest.approx([1.0] * 3, abs=1e-5)
    assert found["zeros", "model_equivariance"] < 0.999
    assert found["zeros", "equivariance"] < 0.999


def test_a_region_that_stays_does_not_move_with_the_image(tmp_path: Path) -> None:
    corner = torch.zeros(6, 6)
    corner[:2, :2] = 1.0
    given = {"models": segmenter(), "inputs": images(), "symmetry": CyclicShift(axes=(-2, -1)), "walk": MonteCarlo(draws=6)}
    fixed = measured(tmp_path, **given, scores=[Equivariance()], target=Segmentation(index=1, region=corner))
    assert values(fixed)["gradient", "equivariance"] < 0.9


def test_a_single_number_does_not_move(tmp_path: Path) -> None:
    net = seeded(nn.Flatten, lambda: nn.Linear(36, 1))
    given = {"models": net, "inputs": images(), "outputs": "raw", "symmetry": Dihedral()}
    sentences = {
        ModelEquivariance: "An output of shape (1,) does not move by 'as_input' under 'd4': use 'model_invariance'",
        ModelInvariance: "The cosine of single numbers does not compare them: give 'model_invariance' a distance",
    }
    for kind, sentence in sentences.items():
        (error,) = measured(tmp_path / kind.name, **given, scores=[kind()]).failures()["error"]
        assert sentence in error
    fine = measured(tmp_path / "l2", **given, scores=[ModelInvariance(measure="l2")])
    assert values(fine)["", "model_invariance"] > 0
    with pytest.raises(InputError, match="compares outputs by their direction"):
        scan(net_of_values(), images(), progress=False)


def net_of_values() -> nn.Module:
    net = seeded(nn.Flatten, lambda: nn.Linear(36, 1))
    net.outputs = Outputs.RAW
    return net


def test_a_linear_regression_is_perfectly_faithful(tmp_path: Path) -> None:
    x = rows()
    scores = [FastGEF(draws=2), FaithfulnessCorrelation(subset_size=2, nr_runs=10, perturb_baseline=0.0), PixelFlipping(softmax=False)]
    given = {"models": seeded(lambda: nn.Linear(6, 1)), "inputs": x, "targets": x.sum(1), "explainers": ["gradient", "input_x_gradient"]}
    result = measured(tmp_path, **given, scores=scores)
    found = values(result)
    assert result.failures().empty
    assert result.manifest["models"]["model"]["outputs"] == "raw"
    assert found["gradient", "fast_gef"] == pytest.approx(1.0)
    assert found["input_x_gradient", "faithfulness_correlation"] == pytest.approx(1.0, abs=1e-6)
    (record,) = result.manifest["calibrations"]
    assert (record["classes"], record["chance"]) == (2, 0.5)


def test_the_distance_of_predictions_is_that_of_the_explained_value_by_hand() -> None:
    maps = torch.tensor([[1.0, 0.0]])
    before, after = (Reading(torch.tensor([0]), {Reads.EXPLANATION: maps, Reads.SCORES: torch.tensor([[y]])}) for y in (151.0, 148.5))
    pair = Pair(before, after, element=torch.zeros(1, 1), move=lambda x: x, undo=lambda x: x)
    assert FastGEF().observe(pair).tolist() == [[2.5, 0.0]]


def test_a_linear_segmentation_is_perfectly_faithful(tmp_path: Path) -> None:
    scores = [FastGEF(sigma=0.5, draws=2), FaithfulnessCorrelation(subset_size=9, nr_runs=10, perturb_baseline=0.0)]
    given = {"models": segmenter("zeros", linear=True), "inputs": images(), "target": 1, "explainers": ["gradient", "input_x_gradient"]}
    found = values(measured(tmp_path, **given, scores=scores))
    assert found["gradient", "fast_gef"] == pytest.approx(1.0)
    assert found["input_x_gradient", "faithfulness_correlation"] == pytest.approx(1.0, abs=1e-5)


def test_the_strength_of_a_segmentation_is_where_pixels_are_down_to_chance(tmp_path: Path) -> None:
    result = measured(tmp_path, models=segmenter(), inputs=images(), scores=[FastGEF(draws=1, steps=3)])
    (record,) = result.manifest["calibrations"]
    assert record["classes"] == 3
    assert record["curve"][0][1] > record["agreement"]
    assert values(result)["gradient", "fast_gef"] <= 1.0


def test_the_probabilities_of_a_segmentation_are_the_shares_of_its_classes() -> None:
    net, x = segmenter(), images()
    model, _ = admit("net", net, TensorInputs(x), None, trial_target(), None, Budget(2))
    expected = net(x).softmax(1).mean((2, 3))
    assert torch.allclose(model.read(TensorInputs(x).take(torch.arange(4))), expected, atol=1e-6)
    assert torch.allclose(expected.sum(1), torch.ones(4))


def trial_target() -> Segmentation:
    return Segmentation(index=2)


@pytest.mark.parametrize(
    ("score", "sentence"),
    [
        (WorstLoss(radius=0.1), "needs a model with one output for each of at least two classes, unlike 'model'"),
        (RandomLogit(), "Another class than the target needs at least 2 outputs, but the model has 1"),
        (
            PixelFlipping(softmax=True),
            "needs probabilities, but the model's outputs are not probabilities .*: pass PixelFlipping\\(softmax=False\\)",
        ),
    ],
)
def test_scores_of_classes_refuse_a_regression(tmp_path: Path, score: Any, sentence: str) -> None:
    try:
        result = measured(tmp_path, models=seeded(lambda: nn.Linear(6, 1)), inputs=rows(4), targets=rows(4).sum(1), scores=[score])
        said = result.failures()["error"].iloc[0]
    except InputError as error:
        said = str(error)
    assert re.search(sentence, said)


def test_curves_read_the_score_of_models_without_probabilities(tmp_path: Path) -> None:
    given: dict[str, Any] = {"models": seeded(lambda: nn.Linear(6, 1)), "inputs": rows(4), "targets": rows(4).sum(1)}
    chosen, told = (measured(tmp_path / str(n), **given, scores=[one]) for n, one in enumerate(("deletion", Deletion(softmax=False))))
    assert chosen.failures().empty
    assert chosen.manifest["score_specs"] == told.manifest["score_specs"]
    assert values(chosen) == values(told)
    said = "deletion reads the explained score itself (softmax=False), because the model gives no probability of it."
    assert said in [note["text"] for note in chosen.manifest["notes"]]
    assert said not in [note["text"] for note in told.manifest["notes"]]


@pytest.mark.parametrize(
    ("net", "data", "target", "softmax"),
    [
        (segmenter, images, "predicted", False),
        (lambda: seeded(nn.Flatten, lambda: nn.Linear(36, 3)), images, "predicted", True),
        (lambda: seeded(nn.Flatten, lambda: nn.Linear(36, 1)), images, "predicted", True),
        (lambda: seeded(nn.Flatten, lambda: nn.Linear(36, 3)), images, lambda output: output[:, 0] - output[:, 1], False),
        (net_of_values, images, "predicted", False),
    ],
)
def test_a_probability_is_read_only_of_a_class(net: Any, data: Any, target: Any, softmax: bool) -> None:
    given: dict[str, Any] = {"models": net(), "inputs": data(), "target": target, "explainers": ["gradient"], "controls": False}
    plan = Audit(**given, scores=["insertion"]).prepare()
    assert plan.problem.scores["insertion"] == Insertion(softmax=softmax)
    assert plan.problem.scores["model_faithfulness"].spec()["softmax"] is softmax


@pytest.mark.parametrize(
    ("net", "target", "sentence"),
    [
        (lambda: nn.Linear(6, 1), "label", "chooses among classes, but the model has a single output"),
        (lambda: nn.Linear(6, 3), Segmentation(), "needs a score for every class and pixel.*shape \\(3,\\): pass another target"),
        (lambda: nn.Linear(6, 3), 3, "The target class must lie between 0 and 2, because the model has 3 outputs; found 3"),
    ],
)
def test_wrong_targets_of_an_audit_are_one_sentence(tmp_path: Path, net: Any, target: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        measured(tmp_path, models=seeded(net), inputs=rows(4), targets=torch.ones(4).long(), target=target, scores=["sparseness"])


def test_labels_that_do_not_fit_are_one_sentence(tmp_path: Path) -> None:
    labels = torch.tensor([[1, 0, 1], [0, 0, 1]]).repeat(2, 1)
    net = seeded(lambda: nn.Linear(6, 3))
    with pytest.raises(InputError, match="needs one class per sample, but the targets have 3 entries per sample: pass target='predicted'"):
        measured(tmp_path, models=net, inputs=rows(4), targets=labels, target="label", scores=["sparseness"])
    result = measured(tmp_path, models=net, inputs=rows(4), targets=labels, scores=["sparseness"])
    assert result.manifest["models"]["model"]["outputs"] == "multilabel"


def test_inputs_go_to_the_device_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veracity.engine.admission.device_of", lambda module: torch.device("meta"))
    assert take(TensorInputs(rows(4)), slice(0, 2), nn.Linear(6, 1)).values.is_meta


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_models_and_inputs_may_be_on_different_devices(tmp_path: Path) -> None:
    plain = measured(tmp_path / "cpu", models=segmenter(), inputs=images(), scores=["max_sensitivity"])
    mixed = measured(tmp_path / "gpu", models=segmenter().cuda(), inputs=images(), scores=["max_sensitivity"])
    other = measured(tmp_path / "other", models=segmenter(), inputs=images().cuda(), scores=["max_sensitivity"])
    expected = values(plain)["gradient", "max_sensitivity"]
    for result in (mixed, other):
        assert values(result)["gradient", "max_sensitivity"] == pytest.approx(expected, rel=1e-3)
