"""The rules that every measure must follow, as tests for pytest.

class TestMyMeasure(MeasureConformance):
    def measure(self):
        return my_measure
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from veracity.core.measures import Direction, Measure
from veracity.core.randomness import Draws


class MeasureConformance(ABC):
    """The rules for a measure, one test each. A subclass names the measure, and may say for which explanations it is defined."""

    symmetric = True
    """Whether the measure is the same for both orders of the two explanations."""

    best_on_equals = True
    """Whether equal explanations have the best value."""

    shapes: tuple[tuple[int, ...], ...] = ((1, 12, 12), (3, 16, 11), (2, 40))
    """Shapes of single explanations for which the measure is defined."""

    tolerance = 1e-12
    """The largest difference between two computations of the same number, as a share of it."""

    @abstractmethod
    def measure(self) -> Measure:
        """The measure under test."""

    def explanations(self, shape: tuple[int, ...], count: int, purpose: str) -> Tensor:
        """`count` explanations of this shape for which the measure is defined, always the same for the same purpose."""
        return Draws.of(0, torch.arange(count)).normal(*shape, stream=purpose).float()

    def pairs(self, count: int = 6) -> list[tuple[Tensor, Tensor]]:
        """Two batches that are somewhat similar, in every shape."""
        batches = [(self.explanations(shape, count, "first"), self.explanations(shape, count, "second")) for shape in self.shapes]
        return [(a, torch.where(a > a.median(), a, b)) for a, b in batches]

    def test_one_number_per_sample(self) -> None:
        """From (N, ...) and (N, ...) to N defined numbers, for N of 6, 1 and 0."""
        for count in (6, 1, 0):
            for a, b in self.pairs(count) if count else [(a[:0], b[:0]) for a, b in self.pairs()]:
                values = self.measure()(a, b)
                assert values.shape == (count,), f"{count} pairs gave values of shape {tuple(values.shape)}"
                assert values.is_floating_point(), f"values are {values.dtype}, not floating-point numbers"
                assert not values.isnan().any(), "NaN for explanations for which the measure is defined"

    def test_rows_are_independent(self) -> None:
        """A pair's number is the same on its own, in another order and next to an undefined pair."""
        for a, b in self.pairs():
            values = self.measure()(a, b)
            one_by_one = torch.cat([self.measure()(a[[row]], b[[row]]) for row in range(len(a))])
            self.assert_same(values, one_by_one)
            self.assert_same(values.flip(0), self.measure()(a.flip(0), b.flip(0)))
            spoilt = a.clone()
            spoilt[0] = float("nan")
            self.assert_same(values[1:], self.measure()(spoilt, b)[1:])

    def test_values_lie_in_the_range(self) -> None:
        """Values lie in the declared range, also for equal and for opposite explanations."""
        low, high = self.measure().range
        assert low < high, f"the range {self.measure().range} is empty"
        for a, b in self.pairs():
            for other in (a, b, -a):
                values = self.measure()(a, other)
                inside = values.isnan() | ((values >= low) & (values <= high))
                assert inside.all(), f"values {values.tolist()} leave the range {self.measure().range}"

    def test_equal_explanations_have_the_best_value(self) -> None:
        """An explanation and itself reach the best end of the range."""
        if not self.best_on_equals:
            return
        low, high = self.measure().range
        best = high if self.measure().direction is Direction.HIGHER else low
        assert math.isfinite(best), "the best value must be finite"
        for a, _ in self.pairs():
            values = self.measure()(a, a.clone())
            torch.testing.assert_close(values, torch.full_like(values, best), rtol=self.tolerance, atol=self.tolerance)

    def test_direction_is_right(self) -> None:
        """Different pairs are no better than equal ones, and some are worse."""
        sign = 1.0 if self.measure().direction is Direction.HIGHER else -1.0
        for a, b in self.pairs():
            equal, different = sign * self.measure()(a, a), sign * self.measure()(a, b)
            assert (different <= equal + self.tolerance).all(), "two different explanations are better than two equal ones"
            assert (different < equal - 1e-6).any(), "no pair of different explanations is worse than two equal ones"

    def test_is_symmetric(self) -> None:
        """s(a, b) = s(b, a), if `symmetric` is on."""
        for a, b in self.pairs() if self.symmetric else []:
            self.assert_same(self.measure()(a, b), self.measure()(b, a))

    def test_nan_in_nan_out(self) -> None:
        """One NaN entry makes its own pair NaN, on either side, and no other pair."""
        for a, b in self.pairs():
            spoilt = a.clone()
            spoilt.flatten(1)[2, 3] = float("nan")
            for values in (self.measure()(spoilt, b), self.measure()(b, spoilt)):
                assert values.isnan().nonzero().flatten().tolist() == [2], f"NaN in row 2 gave {values.tolist()}"

    def test_changes_nothing(self) -> None:
        """The arguments and the global random state stay as they were."""
        state = torch.get_rng_state()
        for a, b in self.pairs():
            copies = a.clone(), b.clone()
            self.measure()(a, b)
            assert torch.equal(a, copies[0]), "the measure changed its first argument"
            assert torch.equal(b, copies[1]), "the measure changed its second argument"
        assert torch.equal(torch.get_rng_state(), state), "the measure draws from the global random state"

    def test_float32_agrees_with_float64(self) -> None:
        """float32 explanations give the same number as their float64 copies."""
        for a, b in self.pairs():
            torch.testing.assert_close(self.measure()(a, b).double(), self.measure()(a.double(), b.double()).double(), rtol=1e-5, atol=1e-6)

    def test_settings_are_plain_data(self) -> None:
        """`spec` is JSON with the measure's name, and the docstring starts with a sentence."""
        spec = json.loads(json.dumps(self.measure().spec()))
        assert spec["name"] == self.measure().name, f"the spec {spec} does not hold the name {self.measure().name!r}"
        assert self.measure().summary().endswith("."), "the first line of the docstring must be a sentence"

    def assert_same(self, one: Tensor, other: Tensor) -> None:
        """Equal up to rounding."""
        torch.testing.assert_close(one, other, rtol=self.tolerance, atol=self.tolerance)
