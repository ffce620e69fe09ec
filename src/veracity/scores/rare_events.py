"""The probability that a random point near an input is misleading or misclassified, however small that probability is."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from veracity.core.errors import SpecError
from veracity.core.explainers import Explainer
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Measured
from veracity.core.spaces import Space
from veracity.core.walks import Search, Walk
from veracity.scores.robustness import Misclassification, Misinterpretation, SearchScore
from veracity.walk import Exhaustive, SimpleMonteCarlo, SubsetSimulation
from veracity.walk.probability import NO_HIT

REACHED, STUCK, SUNK = 1.0, 2.0, 3.0
"""How subset simulation ended: the event was reached, no further point was found, ln P reached the floor."""

STIFF = 0.05
"""With kernel steps narrower than this, chains hardly move and intervals no longer cover (docs/robustness.md)."""


@dataclass(frozen=True)
class LogProbability:
    """ln P (samples,), its standard error (the coefficient of variation of P), and which samples are censored, failed, or stiff.

    If an event is a narrow corner in few dimensions, chains move in tiny steps and stay near their start, so neither ln P nor its error
    can be trusted: such samples are `stiff` and have no error.
    """

    value: Array
    error: Array
    censored: NDArray[np.bool_]
    failed: NDArray[np.bool_]
    stiff: NDArray[np.bool_]


def by_levels(measured: Measured, floor: float = -math.inf) -> LogProbability:
    """From conditional probabilities p_i: ln P = sum ln p_i (eq. 21), delta^2 = sum (1 - p_i) / (p_i N) (1 + lambda_i) (eq. 28).

    The error is known only if the event was reached, and ln P only if at least one p_i is. A search that reached the walk's `floor` is
    censored there.
    """
    share, variance, state = (measured[name][:, 0] for name in ("probability", "variance", "state"))
    last = np.nanmax(state, axis=1, initial=-1.0)
    known = np.isfinite(share).any(axis=1)
    total = np.nansum(np.log(share), axis=1)
    value = np.where(known, np.where(last == SUNK, np.maximum(total, floor), total), np.nan)
    narrowest = np.nanmin(measured["width"][:, 0], axis=1, initial=1.0) if "width" in measured.quantities else np.ones(len(value))
    stiff = (last == REACHED) & (narrowest < STIFF)
    error = np.where((last == REACHED) & ~stiff, np.sqrt(np.nansum(variance, axis=1)), np.nan)
    return LogProbability(value, error, last == SUNK, last == STUCK, stiff)


def by_counting(inside: NDArray[np.bool_], defined: NDArray[np.bool_], drawn: NDArray[np.bool_]) -> LogProbability:
    """From independent draws (samples, draws): ln of the share inside, delta^2 = (1 - p) / (p N) (eq. 25 with lambda = 0).

    Undefined draws count as outside. If no draw is inside, ln P is censored at ln(3 / N), which P exceeds with a probability of at most
    5 %.
    """
    count, hits = drawn.sum(axis=1).astype(float), inside.sum(axis=1).astype(float)
    tried = (count > 0) & defined.any(axis=1)
    share = np.where(tried, np.minimum(np.where(hits > 0, hits, NO_HIT) / np.maximum(count, 1.0), 1.0), np.nan)
    error = np.where(hits > 0, np.sqrt((1.0 - share) / (share * np.maximum(count, 1.0))), np.nan)
    nowhere = np.zeros(len(share), dtype=np.bool_)
    return LogProbability(np.log(share), error, tried & (hits == 0), nowhere, nowhere)


@dataclass(frozen=True, kw_only=True)
class RareEvent(SearchScore, ABC):
    """ln P_F: the logarithm of the probability of an event F under the uniform distribution on the space; lower is better.

    Each sample has a standard error, the coefficient of variation of P. Samples whose ln P reached the walk's floor are censored there:
    they are counted, and the score is the median over samples, so no censored value is averaged. Samples for which the walk got stuck
    before the event have failed, and count as censored where they stopped.
    """

    figures: ClassVar[tuple[str, ...]] = ("dots", "rarity", "profile")
    direction = Direction.LOWER
    bounds = (-math.inf, 0.0)
    centre = "median"

    def endings(self, counts: Mapping[str, int]) -> list[str]:
        """How many samples are censored.

        >>> LnPHat().outcome({"n": 10, "undefined": 1, "censored": 2, "stuck": 1})
        '2 of 10 censored, 1 stuck, 1 undefined'
        """
        n, censored = counts.get("n", 0), counts.get("censored", 0)
        return [f"{censored} of {n} censored" if censored else "none censored"] if n else []

    def walk_on(self, space: Space, explainer: Explainer | None) -> Walk:
        """The walk; raises unless it estimates a probability of an event in the measure's units."""
        if isinstance(self.walk, Search) and not isinstance(self.walk, (SubsetSimulation, SimpleMonteCarlo)):
            raise SpecError(
                f"The walk '{self.walk.name}' looks for the worst point, but '{self.name}' needs a probability: "
                "give it the walk 'subset_simulation', 'simple_monte_carlo' or 'monte_carlo'."
            )
        usual = next((item.default for item in fields(self) if item.name == "threshold"), None)
        if usual is not None and self.compare.range != (-1.0, 1.0) and getattr(self, "threshold", None) == usual:
            raise SpecError(f"The threshold {usual} of '{self.name}' is one of a correlation: give one in units of '{self.compare.name}'.")
        return self.walk

    def estimate(self, measured: Measured) -> LogProbability:
        """ln P of every sample, from the levels of subset simulation or from independent draws."""
        if "probability" in measured.quantities:
            return by_levels(measured, float(getattr(self.walk, "floor", -math.inf)))
        seen = np.stack([measured[name][:, :, 0] for name in self.quantities], axis=-1)
        merit = self.merit(torch.from_numpy(seen.reshape(-1, seen.shape[-1]))).numpy().reshape(seen.shape[:2])
        drawn = np.isfinite(measured["loss"][:, :, 0])
        found = by_counting((merit >= self.event) & drawn, np.isfinite(merit), drawn)
        whole = isinstance(self.walk, Exhaustive)
        return replace(found, error=np.where(np.isfinite(found.error), 0.0, found.error)) if whole else found

    def values(self, measured: Measured) -> Array:
        """ln P of each sample, (samples, 1); censored ones at the floor."""
        return self.estimate(measured).value[:, None]

    def errors(self, measured: Measured) -> Array | None:
        """The standard error of ln P."""
        return self.estimate(measured).error

    def remarks(self, measured: Measured) -> Mapping[str, NDArray[np.bool_]]:
        """Censored, failed and stiff samples."""
        found = self.estimate(measured)
        censored = found.censored | (found.failed & np.isfinite(found.value))
        return {"censored": censored, "stuck": found.failed, "stiff": found.stiff}


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class LnPHat(Misinterpretation, RareEvent):
    """Log probability that a random nearby point has the same label but a different explanation (ln P of F-hat); lower is better.

    Different means an agreement below `threshold`.
    """

    name = "ln_p_f_hat"
    title = "ln P of F-hat"
    figures = (*RareEvent.figures, "adversaries")
    definition = (
        "The natural logarithm of the probability that a random point near the input has the same label but a different explanation "
        "(F-hat). The value is the median over samples, since some are only known to lie below a floor."
    )
    same_label: ClassVar[bool] = True
    threshold: float = 0.4
    walk: Walk = field(default_factory=SubsetSimulation)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class LnPTilde(Misinterpretation, RareEvent):
    """Log probability that a random nearby point has another label but a similar explanation (ln P of F-tilde); lower is better.

    Similar means an agreement above `threshold`.
    """

    name = "ln_p_f_tilde"
    title = "ln P of F-tilde"
    figures = (*RareEvent.figures, "adversaries")
    definition = (
        "The natural logarithm of the probability that a random point near the input has another label but a similar explanation "
        "(F-tilde). The value is the median over samples, since some are only known to lie below a floor."
    )
    same_label: ClassVar[bool] = False
    threshold: float = 0.6
    walk: Walk = field(default_factory=SubsetSimulation)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class LnPMisclassified(Misclassification, RareEvent):
    """Log probability that a random nearby point has another label, J(x') >= 0; lower is better."""

    name = "ln_p_misclassified"
    title = "ln P of misclassification"
    definition = "The natural logarithm of the probability that a random point near the input has another label; the median over samples."
    walk: Walk = field(default_factory=SubsetSimulation)
