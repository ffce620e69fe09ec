"""The six questions: what is measured, what it is compared with, where the line is, and how the answer is said.

A check compares one score of an explainer with a reference, sample by sample, in one unit for all checks: the share of the way from the
reference to the ideal that the explainer covers. The decision about a line is made in `decide`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from veracity.cards.decide import Standing, Terms, Word, decide
from veracity.cards.reading import BOUNDED, Reading
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
HALF = 0.5
"""A score is not asked if the model does what it assumes on fewer samples than this share."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a check has to say about one explainer before the confidence is known.

    `judge` gives the standing at a confidence. `gap` and `room` (samples,) are what explainers are compared by; `raw`, `control` and `own`
    are the score, that of the reference, and the agreement of the explainer with itself, for the page.
    """

    judge: Callable[[float], Standing]
    gap: Array | None = None
    room: Array | None = None
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

    def parts(self, reading: Reading) -> list[str]:
        """The parts in which the score is measured."""
        return [self.part] if self.part in reading.results else []

    def absent(self, reading: Reading, explainer: str, part: str) -> Standing:
        """Why a score has no value: it failed for all, for this explainer, or was never run."""
        error = reading.failure(part, explainer, self.score)
        same = any(reading.failure(part, label, self.score) == error for label in reading.controls)
        if error:
            return Standing(word=Word.NOT_ASKED if same else Word.UNTOLD, why=f"it could not be measured ({shorten(error)})")
        if (part, explainer, self.score) in reading.known:
            return Standing(word=Word.NOT_ASKED, undefined=reading.samples, why="it is undefined on every sample")
        return reading.missing.get(self.score, Standing(word=Word.NOT_ASKED, why="it cannot be measured here"))

    def terms(self, terms: Terms, **about: Any) -> Evidence:
        """The evidence of a mean over samples."""
        gap, room = terms.per_sample
        return Evidence(judge=lambda confidence: terms.standing(self.line, confidence), gap=gap, room=room, **about)


@dataclass(frozen=True, kw_only=True)
class LosesAgreement(Check):
    """How much of its agreement with itself an explainer loses when the model, or the class, is replaced: own agreement - similarity.

    An edge filter keeps its map, and a random map never agreed with itself: both lose nothing. An undefined similarity, as of constant
    maps, counts as nothing lost. How far the agreement falls beyond the line says nothing more, so explainers are not compared by it.
    With `signed_only`, unsigned maps of a model with two outputs are not asked: evidence for one class is evidence against the other, so
    both may rightly have the same map of magnitudes.
    """

    compares: bool = False
    signed_only: bool = False

    def evidence(self, reading: Reading, explainer: str, part: str) -> Evidence | Standing:
        """The loss on every sample, of 1 that could be lost."""
        one = reading.known.get((part, explainer, self.score))
        if one is None or not len(one.samples):
            return self.absent(reading, explainer, part)
        assumed = reading.assumed(part, self.score)
        if assumed < HALF:
            return Standing(word=Word.NOT_ASKED, why=f"the model's own output changes on {100 * assumed:.0f} % of the samples only")
        if self.signed_only and not one.signed and reading.classes <= 2:
            return Standing(word=Word.NOT_ASKED, why="unsigned maps of two classes may be the same")
        own = reading.known.get((part, explainer, RANKS))
        if own is None or not len(own.samples):
            return self.absent(reading, explainer, part)
        kept = reading.table(part, one)
        lost = np.nan_to_num(reading.table(part, own).mean(axis=1, keepdims=True) - kept)
        gap = np.where(np.isin(np.arange(reading.samples), one.samples)[:, None], lost, np.nan)  # what failed is no finding
        about: dict[str, Any] = {
            "raw": mean(one.per_sample),
            "control": mean(own.per_sample),
            "against": "its own agreement",
            "assumed": assumed,
        }
        return self.terms(Terms(gap, np.ones_like(gap), reading.crossed(one)), **about)


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

    def evidence(self, reading: Reading, explainer: str, part: str) -> Evidence | Standing:
        """The gap to the control, and the room that the control leaves."""
        one, control = reading.series(part, explainer, self.score), reading.control(part, explainer, self.score, self.edges)
        if self.probability and reading.about["outputs"] not in BOUNDED:
            return Standing(word=Word.NOT_ASKED, why="the outputs are no probabilities, so that its ideal value is not known")
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
        return self.terms(Terms(gap, room, reading.crossed(one)), **about)


@dataclass(frozen=True, kw_only=True)
class KeepsSymmetry(Check):
    """How well a map follows a symmetry that the model keeps, as a share of the explainer's agreement with itself.

    The identity, at which every map agrees with itself, is left out.
    """

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
        terms = Terms(values, reading.table(part, own), reading.crossed(one))
        return self.terms(terms, raw=mean(values), control=mean(own.per_sample), against="its own agreement")


@dataclass(frozen=True, kw_only=True)
class NotMisled(Check):
    """Whether a search finds a point with the same label and another map: it falls short if one is found.

    Without an example, it holds if the probability of one is small: the upper end of the median of `rare` lies at or below `rarity`.
    """

    rare: str
    rarity: float

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
            bound = median_estimate(rare.per_sample, None, rare.bounds, censored=censored(rare), confidence=confidence)
            if bound.high <= self.rarity:
                chance = f"a random point misleads with a probability below e^{bound.high:.1f} (median)"
                return Standing(word=Word.HOLDS, **told, why=f"{none}, and {chance}")
        return Standing(word=Word.UNTOLD, **told, why=f"{none}, which does not bound how likely one is")


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
            return Standing(word=Word.UNTOLD, why="no two models disagree" if self.permuted else "it has no chance level here")

        def judge(confidence: float) -> Standing:
            wide = pooled_estimate(pooled, one.measured, one.bounds, confidence).estimate
            low, high = ((end - chance) / (1.0 - chance) for end in (wide.low, wide.high))
            why = "" if math.isfinite(low) else "there are too few samples for an interval"
            return Standing(word=decide(low - self.line, high - self.line), value=value, low=low, high=high, n=wide.n, why=why)

        size = reading.samples
        gap = np.full(size, value)
        return Evidence(judge=judge, gap=gap, room=np.ones(size), raw=found.estimate.value, control=chance, against="chance")


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question of the card: its checks, and the rule of its word.

    The checks of most questions are requirements of their own. Those that are `witnesses` measure the same thing in different ways.
    """

    number: int
    key: str
    title: str
    about: str
    rule: str
    checks: tuple[Check, ...]
    witnesses: bool = False


LINES = {
    "lost": 0.1,
    "faithful": 0.1,
    "calm": 0.9,
    "symmetric": 0.99,
    "misled": 0.4,
    "rarity": math.log(1e-4),
    "trained": 0.5,
    "folds": 0.0,
}
"""Where the lines are. They are choices, stated on every page."""

QUESTIONS = (
    Question(
        number=0,
        key="model",
        title="Does it depend on the model?",
        about="An explanation of the model changes if the model's weights are replaced by random ones, and if another class is explained.",
        rule="Its agreement with itself (rank correlation) must fall by at least 0.1 in both cases. That of an edge filter and of a "
        "random map does not fall: they are the controls, and the page shows that they fall short.",
        checks=(
            LosesAgreement(
                key="weights",
                title="random weights",
                score="mprt",
                line=LINES["lost"],
                phrase="with random weights its agreement with itself falls by {value}{ends}",
            ),
            LosesAgreement(
                key="class",
                title="another class",
                score="random_logit",
                line=LINES["lost"],
                phrase="for another class its agreement falls by {value}{ends}",
                signed_only=True,
            ),
        ),
    ),
    Question(
        number=1,
        key="faithful",
        title="Is it faithful?",
        about="What the map calls important drives the output: without it the prediction falls (deletion), with it alone the prediction "
        "comes back (insertion), and the map changes as far as the model does when its weights change (Fast-GEF).",
        rule="By each score, it must cover at least a tenth of the way from the better of its random control and the edge filter to the "
        "ideal value (from the random control alone for Fast-GEF). It holds if all three scores say so, and falls short if one does "
        "and none holds. If they contradict each other, nobody can tell.",
        witnesses=True,
        checks=(
            BeatsControls(
                key="deletion",
                title="deletion",
                score="deletion",
                line=LINES["faithful"],
                phrase="by deletion it covers {value} of the way from the controls to the ideal{ends}",
                ideal=0.0,
                edges=True,
                probability=True,
            ),
            BeatsControls(
                key="insertion",
                title="insertion",
                score="insertion",
                line=LINES["faithful"],
                phrase="by insertion it covers {value} of the way{ends}",
                ideal=1.0,
                edges=True,
                probability=True,
            ),
            BeatsControls(
                key="gef",
                title="Fast-GEF",
                score="fast_gef",
                line=LINES["faithful"],
                phrase="by Fast-GEF it covers {value} of the way{ends}",
                ideal=1.0,
            ),
        ),
    ),
    Question(
        number=2,
        key="calm",
        title="Is it calm?",
        about="The map is the same if it is made again, and nearly the same if the input changes by noise that leaves the prediction "
        "alone.",
        rule="By each score, it must cover at least nine tenths of the way from its random control to the ideal value: two runs agree, "
        "and noise of a hundredth of the data's standard deviation changes at most a tenth of what it changes in a random map.",
        checks=(
            BeatsControls(
                key="repeat",
                title="made again",
                score=OWN,
                line=LINES["calm"],
                phrase="made again, it covers {value} of the way from a random map to full agreement{ends}",
                ideal=1.0,
            ),
            BeatsControls(
                key="noise",
                title="small noise",
                score="avg_sensitivity",
                line=LINES["calm"],
                phrase="under small noise it covers {value} of the way from a random map to no change{ends}",
                ideal=0.0,
                noise=True,
            ),
            BeatsControls(
                key="stability",
                title="relative stability",
                score="relative_input_stability",
                line=LINES["calm"],
                phrase="by relative input stability it covers {value} of the way{ends}",
                ideal=0.0,
                noise=True,
            ),
        ),
    ),
    Question(
        number=3,
        key="symmetric",
        title="Does it respect what the model respects?",
        about="Where the model ignores a transform of the input, its explanation should move along with the input. Only symmetries that "
        "the model keeps on every scanned sample are asked for.",
        rule="Its map must follow each such symmetry to at least 0.99 of its agreement with itself (cosine, without the identity). A "
        "constant map does so too: this question says nothing without question 0.",
        checks=(
            KeepsSymmetry(
                key="symmetry",
                title="symmetry",
                score="symmetry",
                line=LINES["symmetric"],
                phrase="it follows {what} to {value}{ends}",
                part=SYMMETRY,
            ),
        ),
    ),
    Question(
        number=4,
        key="robust",
        title="Does it resist being misled?",
        about="Near an input there may be a point that the model sees as the same class, but whose map is another one. A search looks for "
        "it in a ball whose radius is a tenth of the data's standard deviation.",
        rule="It falls short if a point with the same label and an agreement below 0.4 is found. It holds if none is found and the upper "
        "end of the median of ln P lies at or below ln 0.0001. Otherwise the page says how many evaluations found none.",
        checks=(
            NotMisled(
                key="search",
                title="search",
                score="sol_f_hat",
                line=LINES["misled"],
                phrase="{why}; the worst map agrees with the original to {value} on average",
                part=SEARCH,
                rare="ln_p_f_hat",
                rarity=LINES["rarity"],
            ),
        ),
    ),
    Question(
        number=5,
        key="training",
        title="Does it survive another training?",
        about="Models that were trained without a part of the data should explain alike where both are right (MeGe), and less alike where "
        "they contradict each other (ReCo).",
        rule="MeGe must cover at least half of the way from the random control to 1, and ReCo KS must exceed the 95 % quantile of its "
        "permutation null. Without a trainer or models of folds, the question is open.",
        checks=(
            SurvivesTraining(
                key="mege",
                title="MeGe",
                score="mege",
                line=LINES["trained"],
                phrase="by MeGe it covers {value} of the way from a random map to the same reasons{ends}",
                part=TRAINING,
            ),
            SurvivesTraining(
                key="reco",
                title="ReCo KS",
                score="reco_ks",
                line=LINES["folds"],
                phrase="by ReCo KS it covers {value} of the way from chance to 1{ends}",
                part=TRAINING,
                permuted=True,
            ),
        ),
    ),
)
"""The questions in their order."""

TRUTH = {
    "images": {"deletion": (0.76, 0.62, 0.82), "insertion": (0.72, 0.52, 0.89), "fast_gef": (0.20, -0.11, 0.49)},
    "tables": {"deletion": (0.48, 0.23, 0.69), "insertion": (0.48, 0.25, 0.73), "fast_gef": (0.22, -0.05, 0.58)},
    "series": {"deletion": (0.80, 0.50, 1.00), "insertion": (0.35, -0.03, 0.62), "fast_gef": (0.25, 0.07, 0.70)},
    "texts": {"deletion": (1.00, 0.70, 1.00), "insertion": (0.86, 0.59, 1.00), "fast_gef": (0.47, 0.43, 0.48)},
    "graphs": {"deletion": (1.00, 0.75, 1.00), "insertion": (1.00, 0.75, 1.00), "fast_gef": (0.36, 0.18, 0.51)},
}
"""How a score of question 1 orders explainers where the right order is planted: Spearman's rho and its 95 % interval (docs/examine.md)."""


def evidence_for(reading: Reading, explainer: str, question: Question) -> Mapping[tuple[Check, str], Evidence | Standing]:
    """The evidence of every check of a question, by check and part."""
    found: dict[tuple[Check, str], Evidence | Standing] = {}
    for check in question.checks:
        parts = check.parts(reading)
        if not parts:
            found[check, check.part] = reading.missing.get(check.part, Standing(word=Word.NOT_ASKED, why="it was not measured"))
        for part in parts:
            found[check, part] = check.evidence(reading, explainer, part)
    return found


def shorten(text: str, most: int = 160) -> str:
    """An error as part of a sentence.

    >>> shorten("It broke: try again.")
    'It broke: try again'
    """
    flat = " ".join(text.split()).rstrip(".")
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"
