"""Patterns of alignment under noise on the input, and whether a model moves ever further away as a perturbation grows.

Section 4.1 and appendices A.1.4, A.5 and A.6 of Hedström et al. (2025): a stronger perturbation need not distort the model
more, and the explanation need not follow either.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Reads, Request, Subject
from veracity.core.settings import Count, Positive
from veracity.core.walks import Walk
from veracity.perturb import GaussianNoise, ParameterScaling
from veracity.scores.assumptions import Assumption
from veracity.scores.faithfulness.masked import grows
from veracity.scores.gef import Alignment
from veracity.walk import MonteCarlo


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class InputAlignment(Alignment):
    """How well the explanation's change follows the model's, from end to end, while Gaussian noise on the input grows (section 4.1).

    Fast-GEF with x + sigma_z eta, sigma_z = z sigma / Z, in place of the scaled weights: the same two distortions at each of
    Z = 10 levels, and their rank correlation, averaged over M draws of noise, of which each sample has its own. Drowned
    inputs are often all given to a few classes, so that predictions agree with the original ones more often than chance
    however strong the noise: there no sigma can be found, and one has to be given.
    """

    name = "input_alignment"
    steps: Count = 10

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation: noise on its input."""
        if self.segments != 1 or self.first is not None:
            raise SpecError(f"The score '{self.name}' goes straight from the input to each level: it takes neither segments nor first.")
        noise = GaussianNoise(sigma=self.sigma, levels=self.steps, independent=self.independent)
        return tuple(replace(request, space=noise.fit(subject.shape)) for request in super().requests(subject, defaults))


@dataclass(frozen=True, kw_only=True)
class Growth(Assumption, ABC):
    """A score of the model alone: on which share of a sample's paths its distortion grows from level to level.

        D_f^1 <= D_f^2 <= ... <= D_f^Z,   D_f^z = |f(x) - f'(x')| on the explained score

    A path passes if D_f never falls by more than `tolerance` of its largest value below what it has reached before. `steps`
    is Z, and `sigma` the strength of the last level; None finds the smallest at which predictions are kept by chance alone.
    """

    assumes = "a model that moves further away the stronger the perturbation"
    reads = Reads.SCORES
    quantities = ("distortion",)
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=5))
    steps: Count = 10
    sigma: Positive | None = None

    def observe(self, pair: Pair) -> Tensor:
        """D_f (R,)."""
        return (pair.after.score - pair.before.score).abs().double()

    def values(self, measured: Measured) -> Array:
        """1 where D_f grows along the path, else 0: (samples, draws)."""
        return grows(measured["distortion"], self.tolerance)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class InputGrowth(Growth):
    """On which share of draws the model moves ever further away as Gaussian noise on the input grows (appendix A.5, Figure A.5)."""

    name = "input_growth"

    @property
    def around(self) -> GaussianNoise:
        """Noise of growing strength along one direction."""
        return GaussianNoise(sigma=self.sigma, levels=self.steps)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class WeightGrowth(Growth):
    """On which share of draws the model moves ever further away as the scaling of its weights grows (appendix A.1.4, Figure A.1)."""

    name = "weight_growth"

    @property
    def around(self) -> ParameterScaling:
        """Weights of growing scale along one direction."""
        return ParameterScaling(sigma=self.sigma, steps=self.steps)
