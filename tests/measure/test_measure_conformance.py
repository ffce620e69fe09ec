from __future__ import annotations

import doctest

import pytest
import torch
from torch import Tensor

from veracity import measure as measures
from veracity.core.errors import InputError, SpecError
from veracity.core.measures import Measure
from veracity.core.registry import MEASURES
from veracity.testing.measures import MeasureConformance


class TestCosine(MeasureConformance):
    def measure(self) -> Measure:
        return measures.cosine


class TestPearson(MeasureConformance):
    def measure(self) -> Measure:
        return measures.pearson


class TestSpearman(MeasureConformance):
    def measure(self) -> Measure:
        return measures.spearman


class TestRankDistance(MeasureConformance):
    def measure(self) -> Measure:
        return measures.rank_distance


class TestSignedRankDistance(MeasureConformance):
    def measure(self) -> Measure:
        return measures.signed_rank_distance


class TestRootRankDistance(MeasureConformance):
    def measure(self) -> Measure:
        return measures.root_rank_distance


class TestSlicedWasserstein(MeasureConformance):
    def measure(self) -> Measure:
        return measures.sliced_wasserstein


class TestCategoricalAgreement(MeasureConformance):
    def measure(self) -> Measure:
        return measures.categorical_agreement

    def explanations(self, shape: tuple[int, ...], count: int, purpose: str) -> Tensor:
        return (super().explanations(shape, count, purpose) > 0).float()


class TestSorensenDice(MeasureConformance):
    def measure(self) -> Measure:
        return measures.sorensen_dice.using(fraction=0.6)


class TestSsim(MeasureConformance):
    def measure(self) -> Measure:
        return measures.ssim


class TestUniformSsim(MeasureConformance):
    shapes = ((1, 7, 9), (2, 12))

    def measure(self) -> Measure:
        return measures.ssim.using(window="uniform", size=7, data_range=2.0)


class TestL1(MeasureConformance):
    def measure(self) -> Measure:
        return measures.l1


class TestAngle(MeasureConformance):
    def measure(self) -> Measure:
        return measures.angle


class TestCosineDistance(MeasureConformance):
    def measure(self) -> Measure:
        return measures.cosine_distance


class TestL2(MeasureConformance):
    def measure(self) -> Measure:
        return measures.l2


class TestMse(MeasureConformance):
    def measure(self) -> Measure:
        return measures.mse


class TestWasserstein(MeasureConformance):
    def measure(self) -> Measure:
        return measures.wasserstein


def test_every_registered_measure_passes_the_battery() -> None:
    tested = {kind().measure().name for kind in MeasureConformance.__subclasses__() if kind.__name__.startswith("Test")}
    assert tested == set(MEASURES)


@pytest.mark.parametrize("name", sorted(MEASURES))
def test_docstrings_are_true(name: str) -> None:
    function = MEASURES[name].function
    (example,) = doctest.DocTestFinder(recurse=False).find(function, name, globs=dict(function.__globals__))
    assert len(example.examples) >= 1
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example).failed == 0


@pytest.mark.parametrize("name", sorted(MEASURES))
def test_shapes_must_match(name: str) -> None:
    with pytest.raises(InputError, match=r"one shape, not \(2, 1, 12\) and \(2, 1, 13\)"):
        MEASURES[name](torch.zeros(2, 1, 12), torch.zeros(2, 1, 13))
    with pytest.raises(InputError, match="at least one entry"):
        MEASURES[name](torch.zeros(2, 0), torch.zeros(2, 0))


def test_unknown_setting_gets_a_suggestion() -> None:
    with pytest.raises(SpecError, match="Did you mean 'fraction'"):
        MEASURES.build({"name": "sorensen_dice", "fractoin": 0.2})


class Wrong(MeasureConformance):
    """Measures that are wrong in one way each; the battery must notice."""

    def __init__(self, wrong: Measure) -> None:
        self.wrong = wrong

    def measure(self) -> Measure:
        return self.wrong


def shifted(a: Tensor, b: Tensor) -> Tensor:
    return measures.cosine((a - a.mean()).flatten(1), (b - b.mean()).flatten(1))


def in_place(a: Tensor, b: Tensor) -> Tensor:
    return measures.cosine(a.div_(2.0), b)


@pytest.mark.parametrize(
    ("function", "direction", "test"),
    [
        (shifted, "HIGHER", "test_rows_are_independent"),
        (in_place, "HIGHER", "test_changes_nothing"),
        (measures.cosine.function, "LOWER", "test_equal_explanations_have_the_best_value"),
        (measures.cosine.function, "LOWER", "test_direction_is_right"),
        (measures.l1.function, "HIGHER", "test_values_lie_in_the_range"),
        (lambda a, b: measures.l1(a, 2 * b), "LOWER", "test_is_symmetric"),
        (lambda a, b: measures.cosine(a.nan_to_num(), b.nan_to_num()), "HIGHER", "test_nan_in_nan_out"),
        (lambda a, b: measures.cosine(a, b)[:, None], "HIGHER", "test_one_number_per_sample"),
    ],
)
def test_the_battery_finds_what_is_wrong(function: object, direction: str, test: str) -> None:
    kind = type(measures.cosine.direction)[direction]
    wrong = Measure(name="wrong", function=function, direction=kind, range=(-1.0, 1.0))
    with pytest.raises(AssertionError):
        getattr(Wrong(wrong), test)()
