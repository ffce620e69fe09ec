from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from orbit_small import detection, digits_like, flow, images
from veracity.core.errors import InputError
from veracity.orbits import DiskOrbit, FlowOrbit, Live, RotationOrbit
from veracity.orbits.grids import Orbit
from veracity.orbits.live import FoundWorst
from veracity.orbits.search import WorstPlace, worst_place


def search(orbit: Orbit, losses: torch.Tensor, loss_at: Callable[[torch.Tensor], torch.Tensor]) -> WorstPlace:
    """A search to its end."""
    steps = worst_place(orbit, losses)
    try:
        places = next(steps)
        while True:
            places = steps.send(loss_at(places))
    except StopIteration as ended:
        found: WorstPlace = ended.value
    return found


@given(peak=st.floats(0.0, 359.9))
def test_a_peak_between_measured_angles_is_found(peak: float) -> None:
    orbit = RotationOrbit(step=30.0)

    def loss(at: torch.Tensor) -> torch.Tensor:
        far = (at[:, 0] - peak).abs()
        return -torch.minimum(far, 360.0 - far)

    found = search(orbit, loss(orbit.coordinates()), loss)
    assert found.loss >= -0.2, "30 degrees halved eight times"
    assert found.loss >= float(loss(orbit.coordinates()).max())


def test_a_disk_is_searched_along_both_axes() -> None:
    orbit, peak = DiskOrbit(step=45.0), torch.tensor([100.0, 70.0])

    def loss(at: torch.Tensor) -> torch.Tensor:
        return -((at - peak).abs()).sum(dim=1)

    assert search(orbit, loss(orbit.coordinates()), loss).at.tolist() == pytest.approx(peak.tolist(), abs=0.5)


def test_a_group_with_nothing_in_between_is_not_asked_again() -> None:
    orbit = FlowOrbit()
    losses = torch.arange(16.0)
    losses[3] = float("nan")
    found = search(orbit, losses, lambda at: pytest.fail("every element is measured"))  # type: ignore[arg-type, return-value]
    assert (found.at.tolist(), found.loss, found.evaluations) == (orbit.coordinates()[15].tolist(), 15.0, 0)


@pytest.mark.parametrize("reference", ["truth", "consensus"])
def test_a_search_finds_no_better_place_than_the_run_and_its_value_is_the_models(tmp_path: Path, reference: str) -> None:
    evaluation = digits_like(orbit=RotationOrbit(step=45.0))
    result = evaluation.run(tmp_path, progress=False)
    live = Live(evaluation, tmp_path)
    for name, found in live.worst(2, "confidence", reference).items():
        assert found.measured == pytest.approx(float(result.values(name, "confidence", reference)[2].min()))
        assert found.value <= found.measured + 1e-6
        assert found.evaluations > 0
        there = live.answer(2, list(found.at))
        assert there.label == found.label
        assert there.metrics[name]["confidence"][reference] == pytest.approx(found.value, abs=1e-5)
    assert len(images()) > 2


def test_others_can_ask_between_the_steps_of_a_search(tmp_path: Path) -> None:
    evaluation = digits_like(orbit=RotationOrbit(step=45.0))
    evaluation.run(tmp_path, progress=False)
    live = Live(evaluation, tmp_path)

    def interrupted() -> Iterator[dict[str, FoundWorst] | None]:
        found = yield from live.search(2, "confidence")
        yield found

    steps = interrupted()
    between = 0
    while (found := next(steps)) is None:
        live.answer(0, [float(between)])
        between += 1
    assert found == live.worst(2, "confidence")
    assert between > 3


def test_lower_is_better_is_searched_upwards_and_shifts_by_whole_pixels(tmp_path: Path) -> None:
    fields, boxes = flow(), detection()
    result = fields.run(tmp_path / "flow", progress=False)
    found = Live(fields, tmp_path / "flow").worst(1, "rmse")["still"]
    assert (found.value, found.evaluations) == (pytest.approx(float(result.values("still", "rmse")[1].max())), 0)
    boxes.run(tmp_path / "boxes", progress=False)
    worst = Live(boxes, tmp_path / "boxes").worst(0, "iou")["brightest"]
    assert worst.value <= worst.measured


def test_what_cannot_be_searched_is_one_sentence(tmp_path: Path) -> None:
    evaluation = digits_like(explainers=["gradient"])
    evaluation.run(tmp_path, progress=False)
    live = Live(evaluation, tmp_path)
    with pytest.raises(InputError, match="No search measures 'equivariance: gradient' by the truth"):
        live.worst(0, "equivariance: gradient")
    with pytest.raises(InputError, match="A sample is known by its number"):
        live.worst(99, "confidence")
    with pytest.raises(InputError, match="run the evaluation first"):
        Live(evaluation, tmp_path / "nothing").worst(0, "confidence")
