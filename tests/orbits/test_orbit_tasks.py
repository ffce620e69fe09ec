"""What all tasks share: exactly equivariant models are their own consensus, have no gap, and are judged alike along the orbit."""

import math
from functools import partial

import pytest
import torch

from veracity.core.errors import InputError
from veracity.core.measures import Direction
from veracity.orbits import AsInput, CropOrbit, FlowOrbit, GroupOrbit, RotationOrbit
from veracity.orbits.statistics import equivariance_gap
from veracity.orbits.tasks.base import Metric, orbit_mean
from veracity.orbits.tasks.classification import Classification, accuracy, confidence
from veracity.orbits.tasks.detection import Detection
from veracity.orbits.tasks.flow import Flow
from veracity.orbits.tasks.regression import Regression
from veracity.perturb import CyclicShift, Permutations


def along(task, orbit, model, x):
    """Undone outputs (B, K, ...) of a model, and the moved inputs' outputs as rows, the slow way."""
    raw = [task.read(model(orbit.space.act(element.expand(len(x), -1), x))) for element in orbit.elements]
    undone = [task.undo(orbit.space, element.expand(len(x), -1), one) for element, one in zip(orbit.elements, raw, strict=True)]
    return torch.stack(undone, dim=1), torch.stack(raw, dim=1)


def gradient_flow(pairs):
    """A field that turns with the frames and changes its sign with their order: the centred gradient of their difference."""
    change = pairs[:, 1] - pairs[:, 0]
    padded = torch.nn.functional.pad(change[:, None], [1] * 4, mode="replicate")[:, 0]
    return torch.stack((padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2], padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]), dim=1)


def bright_box(windows):
    """The box of all bright pixels, class 3: a detector that knows nothing of the window's frame."""
    bright = windows[:, 0] > 0.5
    places = torch.arange(windows.shape[-1], dtype=torch.float32)

    def ends(lit):
        inside = torch.where(lit, places, math.inf).amin(dim=1), torch.where(lit, places, -math.inf).amax(dim=1) + 1
        return inside

    (x0, x1), (y0, y1) = ends(bright.any(dim=1)), ends(bright.any(dim=2))
    score, number = torch.full_like(x0, 0.9), torch.full_like(x0, 3.0)
    return torch.stack((x0, y0, x1, y1, score, number), dim=1)[:, None]


def scene():
    x = torch.zeros(2, 1, 24, 24)
    x[0, 0, 11:14, 10:14] = 1.0
    x[1, 0, 12:13, 9:15] = 1.0
    return x


def random(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(5))


CASES = {
    "classes": (
        Classification(),
        GroupOrbit(space=CyclicShift(axes=(-1,))),
        lambda x: torch.stack((x.mean(-1), x.std(-1)), 1),
        random(3, 7),
    ),
    "points": (
        Regression(action=AsInput()),
        GroupOrbit(space=Permutations(axis=-2)),
        lambda x: x - x.mean(dim=1, keepdim=True) + x.amax(dim=1, keepdim=True),
        random(3, 4, 2),
    ),
    "numbers": (Regression(), GroupOrbit(space=Permutations(axis=-2)), lambda x: x.amax(dim=(1, 2)), random(3, 4, 2)),
    "flow": (Flow(), FlowOrbit(), gradient_flow, random(3, 2, 6, 6)),
    "boxes": (Detection(window=12, top=2), CropOrbit(window=12, reach=2, step=1), bright_box, scene()),
}


@pytest.mark.parametrize("name", CASES)
def test_an_equivariant_model_is_its_own_consensus_and_has_no_gap(name):
    task, orbit, model, x = CASES[name]
    orbit = orbit.fit(x.shape[1:])
    task = task.fit(model(orbit.space.act(orbit.elements[[orbit.identity]].expand(len(x), -1), x)))
    undone, raw = along(task, orbit, model, x)
    base = undone[:, orbit.identity]
    consensus, missing = task.consensus(orbit.space, orbit.elements, raw)
    own = base[:, 0] if task.kind == "detection" else base
    assert torch.allclose(consensus, own, atol=1e-5)
    assert missing.tolist() == [0] * len(x)
    moves, still = orbit.elements.repeat(len(x), 1), base.repeat_interleave(undone.shape[1], dim=0)
    distances = task.distance(orbit.space, moves, raw.flatten(0, 1), still).reshape(undone.shape[:2])
    assert equivariance_gap(distances, orbit.identity).value <= 1e-5
    y = task.as_truth(consensus).repeat_interleave(undone.shape[1], dim=0)
    elements = orbit.elements.repeat(len(x), 1)
    for metric in task.metrics:
        plots = metric.measure(raw.flatten(0, 1), task.truth(orbit.space, elements, y)).reshape(undone.shape[:2])
        assert (plots.amax(dim=1) - plots.amin(dim=1)).max() <= 1e-5
        if metric.name != "confidence":
            best = 1.0 if metric.direction is Direction.HIGHER else 0.0
            assert torch.allclose(plots, torch.full_like(plots, best * (0.9 if metric.name == "iou_confidence" else 1.0)), atol=1e-5)


def test_a_model_that_is_not_equivariant_has_a_gap_and_a_plot_that_is_not_flat():
    task, orbit = Classification(), RotationOrbit(step=90.0)
    x = torch.tensor([[[[4.0, 0.0], [0.0, 0.0]]]])

    def model(images):  # the brightness of the top left against the rest
        return torch.stack((images[:, 0, 0, 0], images.flatten(1).sum(dim=1) - images[:, 0, 0, 0]), dim=1)

    _, raw = along(task, orbit, model, x)
    gap = equivariance_gap(task.distance(orbit.space, orbit.elements, raw[0], raw[0, :1].expand(4, 2))[None])
    seen, rest = (1 / (1 + math.exp(4.0 * sign)) for sign in (-1, 1))
    assert gap.value == pytest.approx(seen - rest, abs=1e-5)
    consensus, _ = task.consensus(orbit.space, orbit.elements, raw)
    assert consensus[0].tolist() == pytest.approx([(seen + 3 * rest) / 4, (rest + 3 * seen) / 4], abs=1e-5)
    assert task.as_truth(consensus).tolist() == [1]


def share(output, truth, at):
    return output[:, at]


def test_metrics_of_ones_own():
    def margin(output, truth):
        return output.amax(dim=1) - output.amin(dim=1)

    mine = Metric(name="top_margin", function=margin, bounds=(0.0, 1.0))
    task = Classification(metrics=(mine,))
    assert mine.title == "top margin"
    assert mine.measure(torch.tensor([[0.2, 0.5]], dtype=torch.float64), torch.tensor([0])).dtype == torch.float32
    spec = task.spec()["metrics"][0]
    assert spec["name"] == "top_margin"
    assert "code" in spec["function"]
    other = Classification(metrics=(Metric(name="top_margin", function=lambda output, truth: output[:, 0], bounds=(0.0, 1.0)),))
    assert other.spec() != task.spec()
    place = "veracity.orbits.tasks.classification:"
    assert Classification().spec()["metrics"] == [
        {"name": "accuracy", "direction": "higher", "function": {"import": f"{place}accuracy"}},
        {"name": "confidence", "direction": "higher", "function": {"import": f"{place}confidence"}},
    ]
    one, two = (Metric(name="mine", function=function).spec() for function in (accuracy, confidence))
    assert one != two
    first, second = (Metric(name="mine", function=partial(share, at=at)).spec() for at in (0, 1))
    assert first != second
    with pytest.raises(InputError, match=r"'top_margin' must give one number per row, of shape \(2,\), not \(2, 1\)"):
        Metric(name="top_margin", function=lambda output, truth: output[:, :1]).measure(torch.rand(2, 3), torch.tensor([0, 1]))
    with pytest.raises(InputError, match="not float"):
        Metric(name="top_margin", function=lambda output, truth: 1.0).measure(torch.rand(2, 3), torch.tensor([0, 1]))


def test_means_leave_out_what_is_missing():
    nan = float("nan")
    outputs = torch.tensor([[[1.0, 2.0], [3.0, nan], [5.0, 8.0]], [[nan, nan], [nan, 1.0], [nan, nan]]])
    mean, missing = orbit_mean(outputs)
    assert mean[0].tolist() == [3.0, 5.0]
    assert mean[1].isnan().all()
    assert missing.tolist() == [1, 3]
    assert outputs[0, 1].isnan().tolist() == [False, True]
    assert orbit_mean(torch.tensor([[1.0, 2.0, nan]]))[0].tolist() == [1.5]


@pytest.mark.parametrize("task", [Classification(), Regression(), Flow()])
def test_what_is_no_tensor_is_refused(task):
    with pytest.raises(InputError, match="must give"):
        task.read([1.0, 2.0])
    with pytest.raises(InputError, match="must give"):
        task.read(torch.tensor(1.0))
    with pytest.raises(InputError, match="targets of a"):
        task.check([1, 2], 2)


def test_outputs_come_off_the_graph():
    weights = torch.ones(2, requires_grad=True)
    assert not Classification().read(torch.rand(3, 2) * weights).requires_grad
    assert not Regression().read(torch.rand(3, 2) * weights).requires_grad
