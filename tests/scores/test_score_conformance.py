"""The conformance tests of scores, on one score of each family; and that they can fail."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from veracity.core.measures import Direction
from veracity.core.scores import Pair, Request, Score
from veracity.perturb import CyclicShift, UniformNoise
from veracity.scores import Equivariance, MaxSensitivity, PixelFlipping
from veracity.testing import ScoreConformance
from veracity.walk import MonteCarlo


class TestEquivariance(ScoreConformance):
    settings = {"symmetry": CyclicShift(axes=(-1,))}  # noqa: RUF012

    def score(self) -> Score:
        return Equivariance()


class TestMaxSensitivity(ScoreConformance):
    def score(self) -> Score:
        return MaxSensitivity(walk=MonteCarlo(draws=3))


class TestPixelFlipping(ScoreConformance):
    def score(self) -> Score:
        return PixelFlipping(features_in_step=16)


@dataclass(frozen=True, kw_only=True)
class BatchMean(Score):
    """A score that is wrong in every way: it mixes rows, leaves its bounds, and scales with the map."""

    name = "batch_mean"
    direction, bounds = Direction.LOWER, (0.0, 1e-6)

    def requests(self, subject, defaults):  # type: ignore[no-untyped-def]
        return () if subject.explainer is None else (Request(UniformNoise(radius=0.1).fit(subject.shape), MonteCarlo(draws=2)),)

    def observe(self, pair: Pair) -> Tensor:
        moved = (pair.after.explanation - pair.before.explanation).flatten(1).norm(dim=1)
        return moved.mean().expand(len(moved)) / torch.where(pair.before.explanation.flatten(1).abs().sum(1) > 0, 1.0, 0.0)


class Wrong(ScoreConformance):
    __test__ = False

    def score(self) -> Score:
        return BatchMean()


@pytest.mark.parametrize("rule", ["test_values_lie_in_the_bounds", "test_batch_size_does_not_matter", "test_map_units_are_declared"])
def test_a_wrong_score_breaks_the_rule(rule: str) -> None:
    with pytest.raises(AssertionError):
        getattr(Wrong(), rule)()
