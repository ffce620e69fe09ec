"""What every measure must hold: a battery for pytest.

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
    """The battery for a measure; a subclass says which, and may say on what kind of explanations it is defined."""

    symmetric = True
    """Whether the order of the two explanations does not matter."""

    best_on_equals = True
    """Whether equal explanations are as alike as can be."""

    shapes: tuple[tuple[int, ...], ...] = ((1, 12, 12), (3, 16, 11), (2, 40))
    """Shapes of one explanation on which the measure is defined."""

    tolerance = 1e-12
    """How far two ways to the same number may lie apart, as a share of it."""

    @abstractmethod
    def measure(self) -> Measure:
        """The measure under test."""

    def explanations(self, shape: tuple[int, ...], count: int, purpose: str) -> Tensor:
        """`count` explanations of this shape on which the measure is defined, always the same for the same purpose."""
        return Draws.of(0, torch.arange(count)).normal(*shape, stream=purpose).float()

    def pairs(self, count: int = 6) -> list[tuple[Tensor, Tensor]]:
        """Two batches that are somewhat alike, in every shape."""
        made = [(self.explanations(shape, count, "first"), self.explanations(shape, count, "second")) for shape in self.shapes]
        return [(a, torch.where(a > a.median(), a, b)) for a, b in made]

    def test_one_number_a_sample(self) -> None:
        """From (N, ...) and (N, ...) to N defined numbers, for N of 6, 1 and 0."""
        for count in (6, 1, 0):
            for a, b in self.pairs(count) if count else [(a[:0], b[:0]) for a, b in self.pairs()]:
                values = self.measure()(a, b)
                assert values.shape == (count,), f"{count} pairs gave values of shape {tuple(values.shape)}"
                assert values.is_floating_point()
                assert not values.isnan().any()

    def test_rows_do_not_see_each_other(self) -> None:
        """A pair's number is the same alone, in another order and beside an undefined pair."""
        for a, b in self.pairs():
            values = self.measure()(a, b)
            alone = torch.cat([self.measure()(a[[row]], b[[row]]) for row in range(len(a))])
            self.assert_same(values, alone)
            self.assert_same(values.flip(0), self.measure()(a.flip(0), b.flip(0)))
            spoilt = a.clone()
            spoilt[0] = float("nan")
            self.assert_same(values[1:], self.measure()(spoilt, b)[1:])

    def test_values_lie_in_the_range(self) -> None:
        """What it says it can be, it is, also for equal and for opposite explanations."""
        low, high = self.measure().range
        assert low < high, f"the range {self.measure().range} is empty"
        for a, b in self.pairs():
            for other in (a, b, -a):
                values = self.measure()(a, other)
                inside = values.isnan() | ((values >= low) & (values <= high))
                assert inside.all(), f"values {values.tolist()} leave the range {self.measure().range}"

    def test_equals_are_most_alike(self) -> None:
        """An explanation and itself reach the best end of the range, and no other pair does better."""
        if not self.best_on_equals:
            return
        low, high = self.measure().range
        best = high if self.measure().direction is Direction.HIGHER else low
        assert math.isfinite(best), "the best value must be finite"
        for a, _ in self.pairs():
            values = self.measure()(a, a.clone())
            torch.testing.assert_close(values, torch.full_like(values, best), rtol=self.tolerance, atol=self.tolerance)

    def test_less_alike_is_worse(self) -> None:
        """The direction is the right way round: unlike pairs are no better than equal ones, and some are worse."""
        sign = 1.0 if self.measure().direction is Direction.HIGHER else -1.0
        for a, b in self.pairs():
            equal, unlike = sign * self.measure()(a, a), sign * self.measure()(a, b)
            assert (unlike <= equal + self.tolerance).all()
            assert (unlike < equal - 1e-6).any()

    def test_order_of_the_two_does_not_matter(self) -> None:
        """s[a, b] = s[b, a], where the measure says so."""
        for a, b in self.pairs() if self.symmetric else []:
            self.assert_same(self.measure()(a, b), self.measure()(b, a))

    def test_undefined_in_undefined_out(self) -> None:
        """One NaN entry makes its pair NaN, on either side."""
        for a, b in self.pairs():
            spoilt = a.clone()
            spoilt.flatten(1)[2, 3] = float("nan")
            for values in (self.measure()(spoilt, b), self.measure()(b, spoilt)):
                assert values.isnan().tolist() == [False, False, True, False, False, False]

    def test_arguments_stay_as_they_were(self) -> None:
        """Nothing is changed in place, and the global random state is left alone."""
        state = torch.get_rng_state()
        for a, b in self.pairs():
            kept = a.clone(), b.clone()
            self.measure()(a, b)
            assert torch.equal(a, kept[0]), "the measure changed its first argument"
            assert torch.equal(b, kept[1]), "the measure changed its second argument"
        assert torch.equal(torch.get_rng_state(), state), "the measure draws from the global random state"

    def test_precision_of_the_input_hardly_matters(self) -> None:
        """float32 explanations give the number of their float64 copies."""
        for a, b in self.pairs():
            torch.testing.assert_close(self.measure()(a, b).double(), self.measure()(a.double(), b.double()).double(), rtol=1e-5, atol=1e-6)

    def test_settings_are_plain_data(self) -> None:
        """The measure can be written down, and has a sentence that says what it is."""
        assert json.loads(json.dumps(self.measure().spec()))["name"] == self.measure().name
        assert self.measure().summary().endswith(".")

    def assert_same(self, one: Tensor, other: Tensor) -> None:
        """Equal up to rounding."""
        torch.testing.assert_close(one, other, rtol=self.tolerance, atol=self.tolerance)
