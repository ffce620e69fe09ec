from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from orbit_small import WINDOW, Brightest, Gradient, detection, flow, scenes
from veracity import OrbitEvaluation
from veracity.orbits import AsInput, CropOrbit, Detection, GroupOrbit, Regression
from veracity.orbits.tasks.flow import epe_map
from veracity.perturb import CyclicShift

ELEMENTS = 16


def literal_iou(a: list[float], b: list[float]) -> float:
    across, down = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    common = max(across, 0.0) * max(down, 0.0)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def test_detections_are_judged_in_the_moved_window(tmp_path: Path) -> None:
    """The bright pixel is found wherever the window holds it; where it has left, the metric is undefined."""
    result = detection().run(tmp_path, progress=False)
    x, boxes = scenes()
    values, found = result.values("brightest", "iou"), np.zeros((3, ELEMENTS))
    for sample in range(3):
        for element, (dx, dy) in enumerate(result.coordinates):
            row, column = (int(number) for number in (x[sample, 0] > 0).nonzero()[0])
            top, left = 4 + int(dy), 4 + int(dx)
            inside = 0 <= row - top < WINDOW and 0 <= column - left < WINDOW
            box = [column - left, row - top, column - left + 1, row - top + 1]
            true = [float(value) for value in boxes[sample, 0, :4] - torch.tensor([dx, dy, dx, dy])]
            found[sample, element] = literal_iou(box, true) if inside else np.nan
    assert np.array_equal(values, found.astype(np.float32), equal_nan=True)
    assert np.isnan(found).any()
    assert np.nanmin(found) == 1.0
    assert np.allclose(result.values("brightest", "confidence")[~np.isnan(found)], 0.9)


def test_the_consensus_box_leaves_missing_detections_out_and_counts_them(tmp_path: Path) -> None:
    result = detection().run(tmp_path, progress=False)
    _, boxes = scenes()
    for sample in range(3):
        kept = result.outputs("brightest", sample)
        missing = int(np.isnan(result.values("brightest", "iou")[sample]).sum())
        assert kept["missing"] == missing
        assert np.allclose(kept["consensus"], [*boxes[sample, 0, :4].tolist(), 0.9, 1.0], atol=1e-5)
        assert kept["outputs"].shape == (ELEMENTS, 2, 6)
        assert np.isnan(kept["outputs"][:, :, 0].astype(np.float32)).sum() == ELEMENTS + missing


def test_the_key_class_is_what_samples_are_counted_to(tmp_path: Path) -> None:
    result = detection().run(tmp_path, progress=False)
    assert result.labels.tolist() == [1, 1, 1]
    assert result.groups == ("nothing", "spot")
    assert len(result.aggregate("brightest", "iou", subset="spot")) == ELEMENTS


def test_agreement_counts_only_shifts_that_leave_the_key_object_whole(tmp_path: Path) -> None:
    class Shy(Brightest):
        """The box grows with the distance from the middle of the window, so that plots are not constant."""

        def forward(self, x: Tensor) -> Tensor:
            found = super().forward(x)
            away = (found[..., :2] - 4).abs().amax(dim=2, keepdim=True) * 0.1
            return torch.cat((found[..., :2] - away, found[..., 2:4] + away, found[..., 4:]), dim=2)

    boxes = scenes()[1] + torch.tensor([-1.0, -1.0, 1.0, 1.0, 0.0])
    result = detection(models={"shy": Shy()}, targets=boxes).run(tmp_path, progress=False)
    one = result.agreement().set_index("metric").loc["iou"]
    truth, consensus = (result.values("shy", "iou", reference).astype(np.float64) for reference in ("truth", "consensus"))
    expected, left_out = [], 0
    for sample in range(3):
        moved = [(boxes[sample, 0, :4] - torch.tensor([dx, dy, dx, dy])).tolist() for dx, dy in result.coordinates]
        whole = np.array([min(box) >= 0 and max(box) <= WINDOW for box in moved])
        left_out += int((np.isfinite(truth[sample]) & np.isfinite(consensus[sample]) & ~whole).sum())
        expected.append(np.corrcoef(truth[sample][whole], consensus[sample][whole])[0, 1])
    assert left_out > 0
    assert one["correlation"] == pytest.approx(np.mean(expected), abs=1e-6)
    assert one["n"] == 3


def test_a_detector_that_finds_nothing_has_no_consensus(tmp_path: Path) -> None:
    result = detection(models={"blind": Brightest(least=2.0)}).run(tmp_path, progress=False)
    assert result.outputs("blind", 0)["missing"] == ELEMENTS
    assert np.isnan(result.values("blind", "iou", "consensus")).all()
    shown = result.values("blind", "iou")
    assert set(np.unique(shown[np.isfinite(shown)])) == {0.0}
    gap = result.gap().iloc[0]
    assert np.isnan(gap["value"])
    assert (gap["n"], gap["undefined"]) == (0, 3 * (ELEMENTS - 1))


class Oracle(nn.Module):
    """The box of all bright pixels of a window, as far as it shows them."""

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[-1]).float()
        found = []
        for lit in (x[:, 0].amax(dim=1) > 0.5, x[:, 0].amax(dim=2) > 0.5):
            ends = torch.where(lit, places, torch.inf).amin(dim=1), torch.where(lit, places, -torch.inf).amax(dim=1) + 1
            found.append(torch.stack(ends, dim=1))
        boxes = torch.stack((*found[0].T[:1], *found[1].T[:1], *found[0].T[1:], *found[1].T[1:]), dim=1)
        rows = torch.cat((boxes, torch.full_like(boxes[:, :1], 0.9), torch.ones_like(boxes[:, :1])), dim=1)
        return rows.masked_fill(~rows.isfinite().all(dim=1, keepdim=True), torch.nan)[:, None]


@pytest.mark.parametrize("known", [True, False])
def test_a_perfect_detector_has_no_gap_and_is_its_own_consensus_though_objects_are_cut_off(tmp_path: Path, known: bool) -> None:
    """An object of 40 pixels leaves a window of 128 that moves by up to 64: a mean of cut boxes would have an IoU of .84 with it."""
    x = torch.zeros(1, 1, 256, 256)
    x[0, 0, 108:148, 108:148] = 1.0
    box = torch.tensor([[[44.0, 44.0, 84.0, 84.0, 1.0]]])
    orbit, task = CropOrbit(window=128, reach=64, step=8), Detection(classes=("nothing", "square"), window=128, top=1)
    evaluation = detection(models={"oracle": Oracle()}, inputs=x, targets=box if known else None, orbit=orbit, task=task)
    result = evaluation.run(tmp_path, progress=False)
    assert (result.gap()["value"][0], result.gap()["undefined"][0]) == (0.0, 0)
    assert result.outputs("oracle", 0)["consensus"].tolist() == pytest.approx([44.0, 44.0, 84.0, 84.0, 0.9, 1.0], abs=1e-4)
    assert np.allclose(result.values("oracle", "iou", "consensus"), 1.0, atol=1e-5)


def test_boxes_are_kept_as_they_are(tmp_path: Path) -> None:
    """Half precision would round 65.03 to 65.0, and numbers above 65504 to infinity."""
    result = flow(models={"large": lambda x: x.sum(dim=(1, 2, 3)) + 1e5}, targets=None, task=Regression()).run(
        tmp_path / "n", progress=False
    )
    assert np.isfinite(result.outputs("large", 0)["outputs"]).all()
    away = torch.tensor([65.03] * 4 + [0.0] * 2)
    result = detection(models={"odd": lambda x: Brightest()(x) + away}, targets=None).run(tmp_path / "b", progress=False)
    kept = result.outputs("odd", 0)["outputs"]
    assert np.allclose(kept[result.identity, 0, 0] % 1.0, 0.03, atol=1e-4)


def test_a_covariant_flow_is_flat_and_another_one_is_not(tmp_path: Path) -> None:
    result = flow().run(tmp_path, progress=False)
    gap = result.gap().set_index("model")
    assert gap.loc["gradient", "value"] <= 1e-6
    assert gap.loc["still", "low"] > 0.05
    assert np.allclose(result.values("gradient", "rmse", "consensus"), 0.0, atol=1e-6)


def test_errors_of_a_flow_are_against_the_truth_that_turns_along(tmp_path: Path) -> None:
    evaluation = flow()
    result = evaluation.run(tmp_path, progress=False)
    values = result.values("gradient", "rmse")
    offset = 0.1 * 2**0.5
    assert np.allclose(values, offset, atol=1e-6)
    kept = result.outputs("gradient", 1)
    assert kept["errors"].shape == (16, 64, 64)
    assert np.allclose(kept["errors"].astype(np.float32), offset, atol=1e-3)
    assert np.allclose(kept["consensus_errors"].astype(np.float32), 0.0, atol=1e-3)
    field = Gradient()(evaluation.inputs)
    assert np.allclose(kept["field"].astype(np.float32), field[1].numpy(), atol=1e-3)
    assert kept["quiver"].shape == (16, 2, 16, 16)
    truth = result.picture(1)["truth"].astype(np.float32)
    assert truth.shape == (16, 2, 16, 16)
    small = torch.nn.functional.adaptive_avg_pool2d(evaluation.targets[1], 16).numpy()
    assert np.allclose(truth[0], small, atol=1e-3)
    assert np.allclose(truth[8], -small, atol=1e-3)
    assert float(epe_map(field[:1], evaluation.targets[:1]).mean()) == pytest.approx(offset, abs=1e-5)


def test_without_truth_the_errors_of_a_flow_are_against_the_consensus(tmp_path: Path) -> None:
    kept = flow(targets=None).run(tmp_path, progress=False).outputs("still", 0)
    assert np.array_equal(kept["errors"], kept["consensus_errors"])
    assert kept["errors"].max() > 0.1


def test_names_of_groups_choose_samples(tmp_path: Path) -> None:
    result = flow().run(tmp_path, progress=False)
    assert result.groups == ("shear", "vortex")
    assert result.chosen("shear").tolist() == [0, 2]
    mean = result.aggregate("still", "rmse", subset="shear")["value"].to_numpy()
    assert np.allclose(mean, result.values("still", "rmse")[[0, 2]].mean(axis=0), atol=1e-6)


def test_a_scalar_that_should_stay(tmp_path: Path) -> None:
    evaluation = flow(models={"mean": lambda x: x.mean(dim=(1, 2, 3))}, targets=torch.ones(3), task=Regression(), labels=None)
    result = evaluation.run(tmp_path, progress=False)
    expected = (evaluation.inputs.mean(dim=(1, 2, 3)) - 1.0).abs().numpy()
    assert np.allclose(result.values("mean", "mae"), expected[:, None].repeat(16, axis=1), atol=1e-6)
    assert result.outputs("mean", 0)["outputs"].shape == (16, 1)
    assert result.labels is None


def test_the_truth_of_numbers_is_kept_along_the_orbit(tmp_path: Path) -> None:
    x = torch.rand(3, 5, generator=torch.Generator().manual_seed(0))
    shifts = GroupOrbit(space=CyclicShift(axes=(-1,)))
    sizes = {"models": {"a": lambda x: x}, "inputs": x, "targets": x, "orbit": shifts, "task": Regression(action=AsInput())}
    truth = OrbitEvaluation(**sizes).run(tmp_path, progress=False).picture(1)["truth"]
    assert np.allclose(truth, np.stack([np.roll(x[1].numpy(), shift) for shift in range(5)]))
