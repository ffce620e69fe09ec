"""How likely a random point close to an input is to deceive, however small that probability is."""

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
from veracity.scores.robustness.base import Misinterpretation, SearchScore
from veracity.scores.robustness.worst import Misclassification
from veracity.walk import Exhaustive, SimpleMonteCarlo, SubsetSimulation
from veracity.walk.probability import NO_HIT

REACHED, STUCK, SUNK = 1.0, 2.0, 3.0
"""How subset simulation ended: the event reached, no further point found, ln P at the floor."""

STIFF = 0.05
"""The width of a kernel's steps below which its chains hardly move, so that intervals no longer cover (docs/robustness.md)."""


@dataclass(frozen=True)
class LogProbability:
    """ln P (samples,), its standard error (the c.o.v. of P), and which samples are censored, failed, or stiff.

    Where an event is a narrow corner of few dimensions, chains move in steps so small that they stay close to where they
    began, and neither ln P nor its error can be trusted: such samples are `stiff`, and have no error.
    """

    value: Array
    error: Array
    censored: NDArray[np.bool_]
    failed: NDArray[np.bool_]
    stiff: NDArray[np.bool_]


def by_levels(measured: Measured, floor: float = -math.inf) -> LogProbability:
    """From conditional probabilities p_i: ln P = sum ln p_i (eq. 21), delta^2 = sum (1 - p_i) / (p_i N) (1 + lambda_i) (eq. 28).

    There is an error only where the event was reached, and no ln P where not a single p_i is known. A search that
    the walk's `floor` ended is censored there.
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

    Undefined draws are not inside. Where none is, ln P is censored at ln(3 / N), which P exceeds with a chance of 5 % at most.
    """
    count, hits = drawn.sum(axis=1).astype(float), inside.sum(axis=1).astype(float)
    tried = (count > 0) & defined.any(axis=1)
    share = np.where(tried, np.minimum(np.where(hits > 0, hits, NO_HIT) / np.maximum(count, 1.0), 1.0), np.nan)
    error = np.where(hits > 0, np.sqrt((1.0 - share) / (share * np.maximum(count, 1.0))), np.nan)
    nowhere = np.zeros(len(share), dtype=np.bool_)
    return LogProbability(np.log(share), error, tried & (hits == 0), nowhere, nowhere)


@dataclass(frozen=True, kw_only=True)
class Rare(SearchScore, ABC):
    """ln P_F: the logarithm of the probability of an event F under the uniform distribution on the space.

    Lower is better. Each sample has the standard error of its ln P, which is the coefficient of variation of P. Samples whose
    ln P fell to the walk's floor are censored there: they are counted, and samples are summed up by their median, so that
    no censored value is averaged. Samples for which the walk got stuck before the event have failed, and count as censored
    where they stopped.
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

    def walked(self, explainer: Explainer | None, space: Space) -> Walk:
        """As it is given, if it tells a probability."""
        if isinstance(self.walk, Search) and not isinstance(self.walk, (SubsetSimulation, SimpleMonteCarlo)):
            raise SpecError(
                f"The walk '{self.walk.name}' looks for the worst point and tells no probability, which '{self.name}' needs: "
                "give it the walk 'subset_simulation', 'simple_monte_carlo' or 'monte_carlo'."
            )
        self.check_units()
        return self.walk

    def check_units(self) -> None:
        """Raise if the threshold is the usual one, of a correlation, and the measure is none."""
        usual = next((item.default for item in fields(self) if item.name == "threshold"), None)
        if usual is None or self.compare.range == (-1.0, 1.0) or getattr(self, "threshold", None) != usual:
            return
        raise SpecError(f"The threshold {usual} of '{self.name}' is one of a correlation: give one in units of '{self.compare.name}'.")

    def estimate(self, measured: Measured) -> LogProbability:
        """ln P of every sample, from levels or from independent draws."""
        if "probability" in measured.quantities:
            return by_levels(measured, float(getattr(self.walk, "floor", -math.inf)))
        seen = np.stack([measured[name][:, :, 0] for name in self.quantities], axis=-1)
        merit = self.merit(torch.from_numpy(seen.reshape(-1, seen.shape[-1]))).numpy().reshape(seen.shape[:2])
        drawn = np.isfinite(measured["loss"][:, :, 0])
        found = by_counting((merit >= self.event) & drawn, np.isfinite(merit), drawn)
        whole = isinstance(self.walk, Exhaustive)
        return replace(found, error=np.where(np.isfinite(found.error), 0.0, found.error)) if whole else found

    def values(self, measured: Measured) -> Array:
        """ln P of each sample, (samples, 1); censored ones at their floor."""
        return self.estimate(measured).value[:, None]

    def errors(self, measured: Measured) -> Array | None:
        """The c.o.v. of P, which is the standard error of ln P."""
        return self.estimate(measured).error

    def remarks(self, measured: Measured) -> Mapping[str, NDArray[np.bool_]]:
        """Censored, failed and stiff samples."""
        found = self.estimate(measured)
        censored = found.censored | (found.failed & np.isfinite(found.value))
        return {"censored": censored, "stuck": found.failed, "stiff": found.stiff}


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class LnPHat(Misinterpretation, Rare):
    """ln P_F-hat: how likely a random point close by keeps the label and is explained otherwise (agreement below `threshold`)."""

    name = "ln_p_f_hat"
    title = "ln P of F-hat"
    figures = (*Rare.figures, "adversaries")
    definition = (
        "How likely it is that a random point close to the input keeps its label and is explained otherwise (F-hat), as the natural "
        "logarithm of that probability. Samples are summed up by their median, since some are only known to lie below a floor."
    )
    kept: ClassVar[bool] = True
    threshold: float = 0.4
    walk: Walk = field(default_factory=SubsetSimulation)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class LnPTilde(Misinterpretation, Rare):
    """ln P_F-tilde: how likely a random point close by changes the label and is explained alike (agreement above `threshold`)."""

    name = "ln_p_f_tilde"
    title = "ln P of F-tilde"
    figures = (*Rare.figures, "adversaries")
    definition = (
        "How likely it is that a random point close to the input changes its label and is explained alike (F-tilde), as the natural "
        "logarithm of that probability. Samples are summed up by their median, since some are only known to lie below a floor."
    )
    kept: ClassVar[bool] = False
    threshold: float = 0.6
    walk: Walk = field(default_factory=SubsetSimulation)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class LnPMisclassified(Misclassification, Rare):
    """ln P of misclassification: how likely a random point close by has another label, J(x') >= 0."""

    name = "ln_p_misclassified"
    title = "ln P of misclassification"
    definition = (
        "How likely it is that a random point close to the input changes its label, as the natural logarithm of that probability; the "
        "median over samples."
    )
    walk: Walk = field(default_factory=SubsetSimulation)
