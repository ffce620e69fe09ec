"""Where a path ends: found to its precision, from both sides, measured at the end, and refused where there is none."""

from __future__ import annotations

import math

import pytest

from veracity.core.errors import InputError, SpecError
from veracity.perturb.path import calibrate


class Curve:
    """An agreement that falls from 1 to a floor at a rate, and counts how often it is asked."""

    def __init__(self, classes: int, rate: float, floor: float | None = None) -> None:
        self.floor, self.rate, self.asked = 1 / classes if floor is None else floor, rate, []

    def __call__(self, sigma: float) -> float:
        self.asked.append(sigma)
        return self.floor + (1 - self.floor) * math.exp(-self.rate * sigma)

    def falls_to(self, level: float) -> float:
        return -math.log((level - self.floor) / (1 - self.floor)) / self.rate


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
@pytest.mark.parametrize("rate", [0.1, 1.0, 300.0])
@pytest.mark.parametrize("precision", [0.02, 1e-4])
def test_it_finds_where_agreement_falls_to_chance(classes: int, rate: float, precision: float) -> None:
    curve = Curve(classes, rate)
    level = 1 / classes + max(0.1 / classes, 0.01)
    found = calibrate(curve, classes, precision=precision)
    assert (1 - precision) * found.sigma <= curve.falls_to(level) <= found.sigma
    assert found.agreement <= found.chance + found.tolerance == pytest.approx(level)
    assert found.agreement == dict(found.curve)[found.sigma]
    assert len(curve.asked) == len(set(curve.asked)) == len(found.curve) < 40
    assert [sigma for sigma, _ in found.curve] == sorted(curve.asked)


def test_tolerances_by_hand() -> None:
    assert [calibrate(Curve(c, 1.0), c).tolerance for c in (2, 5, 10, 50)] == pytest.approx([0.05, 0.02, 0.01, 0.01])


def test_the_search_by_hand() -> None:
    """Chance from 3 on: .5, 1, 2, 4 on the way up, then halves of the bracket from 2 to 4."""
    asked = []

    def step(sigma: float) -> float:
        asked.append(sigma)
        return 1.0 if sigma < 3.0 else 0.4

    found = calibrate(step, 2, precision=0.1)
    assert asked == [0.5, 1.0, 2.0, 4.0, 3.0, 2.5, 2.75]
    assert (found.sigma, found.agreement) == (3.0, 0.4)
    assert found.curve == ((0.5, 1.0), (1.0, 1.0), (2.0, 1.0), (2.5, 1.0), (2.75, 1.0), (3.0, 0.4), (4.0, 0.4))


def test_a_strong_start_goes_down_to_the_same_place() -> None:
    curve = Curve(10, 1.0)
    up, down = calibrate(curve, 10, precision=1e-3), calibrate(curve, 10, start=50.0, precision=1e-3)
    assert down.sigma == pytest.approx(up.sigma, rel=2e-3)
    assert calibrate(curve, 10, start=50.0).curve[-1][0] == 50.0


def test_below_chance_has_reached_it() -> None:
    """One class takes all, and it is a rare one."""
    found = calibrate(Curve(10, 1.0, floor=0.02), 10)
    assert found.agreement == pytest.approx(0.11, abs=0.002)


def test_the_last_step_up_stops_at_the_most() -> None:
    curve = Curve(2, 0.5)
    found = calibrate(curve, 2, start=1.0, most=5.0)
    assert max(curve.asked) == 5.0
    assert found.sigma == pytest.approx(curve.falls_to(0.55), rel=0.02)


def test_chance_never_reached_is_said_with_the_curve() -> None:
    with pytest.raises(InputError, match=r"do not fall to chance up to sigma = 4: .* at most 0\.11, and it was 0\.8.* at 0\.5, .* at 4\.$"):
        calibrate(Curve(10, 1.0, floor=0.6), 10, most=4.0)
    with pytest.raises(InputError, match=r"already at chance at sigma = .*, so there is no path to chance"):
        calibrate(lambda sigma: 0.1, 10)


@pytest.mark.parametrize("classes", [0, 1])
def test_a_path_needs_two_classes(classes: int) -> None:
    with pytest.raises(InputError, match=f"at least two classes, not {classes}"):
        calibrate(Curve(2, 1.0), classes)


@pytest.mark.parametrize("share", [math.nan, -0.1, 1.5])
def test_an_agreement_is_a_share(share: float) -> None:
    with pytest.raises(InputError, match=r"between 0 and 1, but at sigma = 0\.5 it is"):
        calibrate(lambda sigma: share, 10)


@pytest.mark.parametrize("settings", [{"start": 0.0}, {"start": 9.0, "most": 8.0}, {"most": math.inf}, {"precision": 0.0}])
def test_settings_must_make_sense(settings: dict[str, float]) -> None:
    with pytest.raises(SpecError, match="0 < start <= most and a precision between 0 and 1"):
        calibrate(Curve(2, 1.0), 2, **settings)
