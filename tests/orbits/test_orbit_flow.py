import math

import numpy as np
import pytest
import torch
from scipy.ndimage import map_coordinates

from veracity.core.errors import InputError
from veracity.orbits import FlowOrbit
from veracity.orbits.tasks.flow import Flow, epe, epe_map, mae, mse, reversal_floor, rmse
from veracity.orbits.tasks.regression import Regression
from veracity.orbits.tasks.regression import rmse as plain_rmse


def fields(count, side=6, seed=0):
    return torch.randn(count, 2, side, side, generator=torch.Generator().manual_seed(seed))


def test_errors_by_hand():
    """Error vectors (3, 4) and (0, 0)."""
    output, truth = torch.tensor([[[[4.0, 1.0]], [[5.0, 1.0]]]]), torch.ones(1, 2, 1, 2)
    assert epe_map(output, truth)[0].tolist() == [[5.0, 0.0]]
    assert epe(output, truth).item() == 2.5
    assert mse(output, truth).item() == 12.5
    assert rmse(output, truth).item() == pytest.approx(math.sqrt(12.5))
    assert mae(output, truth).item() == 3.5


def test_errors_the_slow_way():
    a, b = fields(4), fields(4, seed=1)
    for row in range(4):
        lengths, ones = [], []
        for y in range(6):
            for x in range(6):
                du, dv = (float(a[row, part, y, x] - b[row, part, y, x]) for part in (0, 1))
                lengths.append(math.hypot(du, dv))
                ones.append(abs(du) + abs(dv))
        assert epe(a, b)[row].item() == pytest.approx(np.mean(lengths), rel=1e-5)
        assert mse(a, b)[row].item() == pytest.approx(np.mean(np.square(lengths)), rel=1e-5)
        assert mae(a, b)[row].item() == pytest.approx(np.mean(ones), rel=1e-5)


def test_pixels_without_truth_are_left_out():
    truth = torch.zeros(1, 2, 1, 2)
    truth[0, 0, 0, 1] = float("nan")
    output = torch.tensor([[[[3.0, 9.0]], [[4.0, 9.0]]]])
    assert [metric(output, truth).item() for metric in (epe, mse, rmse, mae)] == [5.0, 25.0, 5.0, 7.0]


def test_metrics_do_not_depend_on_the_element():
    """phi~ is an isometry: moving both fields changes no metric."""
    task, orbit = Flow(), FlowOrbit()
    a, b = fields(1).expand(16, 2, 6, 6), fields(1, seed=1).expand(16, 2, 6, 6)
    for metric in task.metrics:
        found = metric.measure(task.truth(orbit.space, orbit.elements, a), task.truth(orbit.space, orbit.elements, b))
        assert torch.allclose(found, found[0].expand(16), atol=1e-5)


def test_the_consensus_is_the_mean_after_turning_back():
    task, orbit = Flow(), FlowOrbit()
    outputs = fields(16)
    undone = task.undo(orbit.space, orbit.elements, outputs)
    consensus, missing = task.consensus(orbit.space, orbit.elements, outputs[None])
    assert torch.allclose(consensus[0], undone.mean(dim=0), atol=1e-6)
    assert missing.tolist() == [0]
    assert not torch.allclose(consensus[0], outputs.mean(dim=0), atol=1e-2)
    assert task.as_truth(consensus) is consensus


def test_the_floor_of_reversal_the_slow_way():
    """|v(x) - v(x + v)| with scipy's linear interpolation, pixel by pixel, without those that leave the frame."""
    line = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    y, x = np.meshgrid(line, line, indexing="ij")
    field = np.stack((1.2 * np.sin(y) + 0.4, 0.8 * np.cos(x)))
    rows, columns = np.meshgrid(np.arange(12.0), np.arange(12.0), indexing="ij")
    at = np.stack((rows + field[1], columns + field[0]))
    there = np.stack([map_coordinates(part, at, order=1) for part in field])
    kept = ((at >= 0) & (at <= 11)).all(axis=0)
    expected = np.sqrt(np.square(field - there).sum(axis=0)[kept].mean())
    found = reversal_floor(torch.from_numpy(field)[None])
    assert 0 < kept.sum() < 144
    assert found.item() == pytest.approx(expected, rel=1e-4)
    assert expected > 0.1


def test_a_flow_that_leaves_the_frame_has_no_floor_and_a_uniform_one_has_zero():
    assert reversal_floor(torch.full((1, 2, 4, 4), 9.0)).isnan().all()
    assert reversal_floor(torch.full((2, 2, 9, 9), 0.7)).max() <= 1e-6


def test_numbers_by_hand():
    assert plain_rmse(torch.tensor([[0.0, 2.0]]), torch.tensor([[0.0, 0.0]])).item() == pytest.approx(math.sqrt(2))
    task = Regression()
    assert task.read(torch.tensor([1.0, 2.0])).shape == task.check(torch.tensor([1, 2]), 2).shape == (2, 1)
    assert [metric.measure(torch.tensor([[3.0]]), torch.tensor([[1.0]])).item() for metric in task.metrics] == [2.0, 4.0, 2.0]
    with pytest.raises(InputError, match="one shape"):
        plain_rmse(torch.rand(2, 3), torch.rand(2))


def test_other_shapes_are_refused():
    with pytest.raises(InputError, match="u to the right and v down, not"):
        Flow().read(torch.rand(1, 3, 4, 4))
    with pytest.raises(InputError, match="must have one shape"):
        epe(fields(1), fields(2))
    with pytest.raises(InputError, match=r"of shape \(3, 2, height, width\)"):
        Flow().check(fields(2), 3)
    assert Flow().check(fields(2).double(), 2).dtype == torch.float32
