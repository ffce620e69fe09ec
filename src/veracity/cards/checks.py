"""Checks: one score of an explainer beside its reference, sample by sample.

All checks have one unit: the share of the way from the reference to the ideal that the explainer covers. The decision about a line is made
in `decide`, and the lines are declared in `questions`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veracity.cards.decide import Standing, Terms, Word, decide
from veracity.cards.reading import BOUNDED, EDGES, Reading
from veracity.core.measures import Direction
from veracity.core.wording import count
from veracity.results import Series
from veracity.results.series import censored, evaluations, mean, null_of
from veracity.statistics.intervals import Array
from veracity.statistics.medians import median_estimate
from veracity.statistics.pooled import pooled_estimate

MAPS, SCAN, SYMMETRY, SEARCH, TRAINING = "maps", "scan", "symmetry", "search", "training"
"""The parts of a card's run folder; there is one part for each symmetry that is asked for."""
OWN, RANKS = "self_agreement", "rank_agreement"
"""How well an explainer agrees with itself: by cosine, and by the ranks of its values."""
FEW_DISAGREE = "the models contradict each other on too few samples to ask for it"
HALF = 0.5
"""A score is not asked if the model does what it assumes on fewer samples than this share."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a check has to say about one explainer before the confidence is known.

    `judge` gives the standing at a confidence. `gap` and `room` (samples,) are what explainers are compared by, and `terms` the same with
    every draw where the value is a mean over samples. For the page, `raw` is the score, `control` what it is compared with, which is called
    `against`, and `assumed` the share of samples on which the model does what the score assumes.
    """

    judge: Callable[[float], Standing]
    gap: Array | None = None
    room: Array | None = None
    terms: Terms | None = None
    raw: float = math.nan
    control: float = math.nan
    against: str = ""
    assumed: float = math.nan


@dataclass(frozen=True, kw_only=True)
class Check(ABC):
    """One score with its reference and its line.

    `phrase` says what was found, with {value} and {ends}. With `compares`, explainers are compared by it.
    """

    key: str
    title: str
    score: str
    line: float
    phrase: str
    part: str = MAPS
    compares: bool = True

    @abstractmethod
    def evidence(self, reading: Reading, explainer: str, part: str) -> Evidence | Standing:
        """What was measured; a standing if nothing was, with the reason."""

    @property
    def scores(self) -> tuple[str, ...]:
        """The scores that it reads."""
        return (self.score,)

    def compared_with(self, one: Series) -> tuple[str, ...]:
        """The controls that an explainer is compared with."""
        return ()

    def parts(self, reading: Reading) -> list[str]:
        """The parts in which the score is measured."""
        return [self.part] if self.part in reading.results else []

    def absent(self, reading: Reading, explainer: str, part: str) -> Standing:
        """Why a score has no value: it failed for all, for this explainer, or was never run."""
        error = reading.failure(part, explainer, self.score)
        same = any(reading.failure(part, label, self.score) == error for label in reading.controls)
        if error:
            return Standing(word=Word.NOT_ASKED if same else Word.UNTOLD, why=f"it could not be measured ({shorten(error)})")
        if (one := reading.known.get((part, explainer, self.score))) is not None and reading.rows is not None and not len(one.samples):
            return Standing(word=Word.UNTOLD, why="no sample of this group was measured for it")
        if one is not None:
            return Standing(word=Word.NOT_ASKED, undefined=reading.samples, why="it is undefined on every sample")
        return replace(reading.missing.get(self.score, Standing(word=Word.NOT_ASKED, why="it cannot be measured here")), lasting=True)

    def terms(self, terms: Terms, **about: Any) -> Evidence:
        """The evidence of a mean over samples."""
        gap, room = terms.per_sample
        return Evidence(judge=lambda confidence: terms.standing(self.line, confidence), gap=gap, room=room, terms=terms, **about)


@dataclass(frozen=True, kw_only=True)
class LosesAgreement(Check):
    """How much of its agreement with itself an explainer loses when the model, or the class, is replaced: own agreement - similarity.

    An edge filter keeps its map, and a random map never agreed with itself: both lose nothing. An undefined similarity, as of constant
    maps, counts as nothing lost. How far the agreement falls beyond the line says nothing more, so explainers are not compared by it.
    With `directed_only`, maps without evidence for and against are not asked of a model with two outputs: evidence for one class is
    evidence against the other, so both may rightly have the same map of magnitudes.
    """

    compares: bool = False
    directed_only: bool = False

    @property
    def scores(self) -> tuple[str, ...]:
        """The similarity, and the agreement that it is held against."""
        return (self.score, RANKS)

    def evidence(self, reading: Reading, explainer: str, part: str) -> Evidence | Standing:
        """The loss on every sample, of 1 that could be lost."""
        one = reading.known.get((part, explainer, self.score))
        if one is None or not len(one.samples):
            return self.absent(reading, explainer, part)
        assumed = reading.assumed(part, self.score)
        if assumed < HALF:
            return Standing(word=Word.NOT_ASKED, why=f"the model's own output changes on {100 * assumed:.0f} % of the samples only")
        if self.directed_only and not one.directed and reading.classes <= 2:
            return Standing(word=Word.NOT_ASKED, why="maps of magnitudes may be the same for two classes", lasting=True)
        own = reading.known.get((part, explainer, RANKS))
        if own is None or not len(own.samples):
            return self.absent(reading, explainer, part)
        kept, agreed = reading.table(part, one), reading.table(part, own).mean(axis=1, keepdims=True)
        kept = np.where(np.isnan(kept) & np.isfinite(agreed), 0.0, kept)  # a map that became constant keeps nothing
        lost = np.nan_to_num(agreed - kept)
        gap = np.full_like(lost, np.nan)  # what failed is no finding
        place, _ = reading.places(one)
        gap[place] = lost[place]
        about: dict[str, Any] = {
            "raw": mean(one.per_sample),
            "control": mean(own.per_sample),
            "against": "its own agreement",
            "assumed": assumed,
        }
        return self.terms(Terms(gap, np.ones_like(gap), reading.crossed(one), reading.units, reading.unit), **about)


@dataclass(frozen=True, kw_only=True)
class BeatsControls(Check):
    """How much of the way from a control to the `ideal` value an explainer covers.

    The control is the random map that is fair to the explainer, or the edge filter if that scores better and `edges` is set. With
    `probability`, the ideal is that of a probability, so models with other outputs are not asked. With `noise`, the score is a ratio with a
    long tail: the share is taken on each sample, and a model that is not stable itself on half of the samples is not asked.
    """

    ideal: float
    edges: bool = False
    probability: bool = False
    noise: bool = False

    def compared_with(self, one: Series) -> tuple[str, ...]:
        """The random control that is fair to the explainer, and the edge filter."""
        return (null_of(one), *([EDGES] if self.edges else []))

    def evidence(self, reading: Reading, explainer: str, part: str) -> Evidence | Standing:
        """The gap to the control, and the room that the control leaves."""
        one, control = reading.series(part, explainer, self.score), reading.control(part, explainer, self.score, self.edges)
        if self.probability and reading.about["outputs"] not in BOUNDED:
            return Standing(word=Word.NOT_ASKED, why="the outputs are no probabilities, so that its ideal value is not known", lasting=True)
        if one is None:
            return self.absent(reading, explainer, part)
        if control is None:
            return Standing(word=Word.NOT_ASKED, why="no control has a value to compare it with")
        assumed = reading.assumed(part, self.score)
        if self.noise and assumed < HALF:
            return Standing(word=Word.NOT_ASKED, why=f"the model itself is stable on {100 * assumed:.0f} % of the samples only")
        mine, theirs = reading.table(part, one), reading.table(part, control)
        sign = 1.0 if one.direction is Direction.HIGHER else -1.0
        known = np.isfinite(mine) & np.isfinite(theirs)
        gap, room = (np.where(known, sign * (to - theirs), np.nan) for to in (mine, np.full_like(theirs, self.ideal)))
        if self.noise:
            gap, room = gap / np.where(room > 0, room, np.nan), np.where(known & (room > 0), 1.0, np.nan)
        about: dict[str, Any] = {
            "raw": mean(one.per_sample),
            "control": mean(control.per_sample),
            "against": control.explainer,
            "assumed": assumed,
        }
        return self.terms(Terms(gap, room, reading.crossed(one), reading.units, reading.unit), **about)


@dataclass(frozen=True, kw_only=True)
class KeepsSymmetry(Check):
    """How well a map follows a symmetry that the model keeps, as a share of the explainer's agreement with itself.

    The identity, at which every map agrees with itself, is left out.
    """

    @property
    def scores(self) -> tuple[str, ...]:
        """The agreement along the symmetry, and that with itself."""
        return (self.score, OWN)

    def parts(self, reading: Reading) -> list[str]:
        """One part for each symmetry."""
        return list(reading.symmetries)

    def evidence(self, reading: Reading, explainer: str, part: str) -> Evidence | Standing:
        """The agreement along the symmetry, of the agreement that is possible."""
        one, own = reading.series(part, explainer, self.score), reading.series(part, explainer, OWN)
        if one is None or own is None:
            return self.absent(reading, explainer, part)
        values, elements = reading.table(part, one), reading.symmetries[part][1]
        if one.sampling.exhaustive and elements is not None and elements > 1:
            values = values - (1.0 - values) / (elements - 1)
        terms = Terms(values, reading.table(part, own), reading.crossed(one), reading.units, reading.unit)
        return self.terms(terms, raw=mean(values), control=mean(own.per_sample), against="its own agreement")


@dataclass(frozen=True, kw_only=True)
class NotMisled(Check):
    """Whether a search finds a point with the same label and another map: it falls short if one is found.

    Without an example, it holds if the probability of one is small: the upper end of the median of `rare` lies at or below `rarity`.
    """

    rare: str
    rarity: float

    @property
    def scores(self) -> tuple[str, ...]:
        """What the search finds, and how rare it is."""
        return (self.score, self.rare)

    def evidence(self, reading: Reading, explainer: str, part: str) -> Evidence | Standing:
        """The worst agreement that was found around every sample."""
        one, rare = reading.series(part, explainer, self.score), reading.series(part, explainer, self.rare)
        if one is None:
            return self.absent(reading, explainer, part)
        worst = reading.table(part, one)[:, 0]
        return Evidence(
            judge=lambda confidence: self.misled(one, rare, confidence),
            gap=worst,
            room=np.where(np.isfinite(worst), 1.0, np.nan),
            raw=mean(one.per_sample),
        )

    def misled(self, one: Series, rare: Series | None, confidence: float) -> Standing:
        """An example, a bound on its probability, or neither."""
        values = one.per_sample[np.isfinite(one.per_sample)]
        found, n = int((values < self.line).sum()), len(values)
        tried = evaluations(one) + (0 if rare is None else evaluations(rare))
        told: dict[str, Any] = {"value": float(values.mean()), "n": n, "undefined": len(one.per_sample) - n}
        if found:
            return Standing(word=Word.SHORT, **told, why=f"an example was found near {found} of {count(n, 'sample')}")
        none = f"no example was found in {tried:,} evaluations"
        if rare is not None:
            about: dict[str, Any] = {"censored": censored(rare), "confidence": confidence, "units": rare.units}
            bound = median_estimate(rare.per_sample, None, rare.bounds, **about)
            if bound.high <= self.rarity:
                chance = f"for half of the samples at most 1 random point in {float(f'{math.exp(-bound.high):.2g}'):,.0f} is one"
                return Standing(word=Word.HOLDS, **told, why=f"{none}, and {chance}")
        return Standing(word=Word.UNTOLD, **told, why=f"{none}, which does not show that such points are rare")


@dataclass(frozen=True, kw_only=True)
class SurvivesTraining(Check):
    """A score of stability, one number for all samples: the share of the way from its chance level to 1.

    The chance level is the random control's value, or the 95 % quantile of its permutation null with `permuted`.
    """

    permuted: bool = False

    def evidence(self, reading: Reading, explainer: str, part: str) -> Evidence | Standing:
        """The value relative to chance."""
        one = reading.known.get((part, explainer, self.score))
        if one is None or not len(one.samples):
            return self.absent(reading, explainer, part)
        pooled = reading.results[part].pooled_score(self.score)
        null = reading.known.get((part, null_of(one), self.score))
        found = pooled_estimate(pooled, one.measured, one.bounds)
        chance = math.nan
        if self.permuted and found.null is not None:
            chance = found.null.high
        elif not self.permuted and null is not None and len(null.samples):
            chance = pooled_estimate(pooled, null.measured, null.bounds).estimate.value
        value = (found.estimate.value - chance) / (1.0 - chance)
        if not math.isfinite(value):
            return Standing(word=Word.NOT_ASKED, why=FEW_DISAGREE if self.permuted else "it has no chance level here")

        def judge(confidence: float) -> Standing:
            wide = pooled_estimate(pooled, one.measured, one.bounds, confidence, units=one.units).estimate
            low, high = ((end - chance) / (1.0 - chance) for end in (wide.low, wide.high))
            if self.permuted and not math.isfinite(low):
                return Standing(word=Word.NOT_ASKED, value=value, n=wide.n, why=FEW_DISAGREE)
            why = "" if math.isfinite(low) else "there are too few samples for an interval"
            return Standing(word=decide(low - self.line, high - self.line), value=value, low=low, high=high, n=wide.n, why=why)

        size = reading.samples
        gap = np.full(size, value)
        return Evidence(judge=judge, gap=gap, room=np.ones(size), raw=found.estimate.value, control=chance, against="chance")


def shorten(text: str, most: int = 160) -> str:
    """An error as part of a sentence.

    >>> shorten("It broke: try again.")
    'It broke: try again'
    """
    flat = " ".join(text.split()).rstrip(".")
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"
