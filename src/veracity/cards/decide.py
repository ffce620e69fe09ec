"""From numbers to words: pure functions that say what an interval supports, and no more.

A check compares an explainer with a reference on every sample: `gap` is how far it gets, `room` how far it could get, and the check holds
if mean gap / mean room lies above a `line`. The decision is made on the mean of gap - line room, which needs no ratio:

    holds             the whole interval lies above 0
    falls short       the whole interval lies below 0
    cannot tell yet   the interval holds 0

All intervals of a card are widened together (Bonferroni), so that all of its words are right at once with the stated confidence.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from veracity.core.errors import InputError
from veracity.core.wording import count
from veracity.inputs.units import UNIT
from veracity.statistics.crossed import crossed_interval
from veracity.statistics.intervals import Array, Interval, check_confidence, mean_interval, unseen_share
from veracity.statistics.units import Codes, independent

MAY_CONTRADICT = "scores may contradict"
"""What an open answer waits for if one of its scores holds and an open one lies below its line."""
FEWEST = 8
"""Samples with a value, and units of such samples, below which a check says nothing."""
LEAST_ROOM = 0.02
"""A check is not asked if the reference leaves less room than this, on average: everybody would be perfect."""
FAR = 100
"""If more than this many times as many samples are needed, the value lies too close to the line to give their number."""


class Word(StrEnum):
    """The four answers, and no others."""

    HOLDS = "holds"
    SHORT = "falls short"
    UNTOLD = "cannot tell yet"
    NOT_ASKED = "does not apply"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a check found: a word, and the numbers behind it in the units of the check.

    The ends are at the confidence that the decision was made with. `more` is about how many more samples would tell, None if the number is
    not known. If samples belong to units, such as those called `unit`, they must be of new ones, `more_units` of them. `why` is the reason
    of a word that rests on no interval. Where all samples are equal the interval has no width, and at most the share `unseen` of the
    population may differ without having been seen. If all samples have `shared` draws, such as copies of the model, the interval need not
    shrink with their number, and nobody knows how many would tell. `size` is how many samples or units are independent. What is `lasting`
    does not depend on the samples.
    """

    word: Word
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    undefined: int = 0
    more: int | None = None
    more_units: int | None = None
    unit: str = ""
    why: str = ""
    unseen: float = math.nan
    shared: bool = False
    size: int = 0
    lasting: bool = False


def level_for(comparisons: int, confidence: float = 0.95) -> float:
    """The confidence of each interval at which `comparisons` intervals hold together with `confidence` (Bonferroni).

    >>> round(level_for(100), 6), level_for(0)
    (0.9995, 0.95)
    """
    return 1.0 - (1.0 - check_confidence(confidence)) / max(1, comparisons)


def decide(low: float, high: float) -> Word:
    """What the interval of a difference supports; without an interval, nothing.

    >>> decide(0.1, 0.3).value, decide(-0.3, -0.1).value, decide(-0.1, 0.3).value, decide(math.nan, math.nan).value
    ('holds', 'falls short', 'cannot tell yet', 'cannot tell yet')
    """
    if low > 0.0:
        return Word.HOLDS
    return Word.SHORT if high < 0.0 else Word.UNTOLD


def more_samples(found: Interval, size: int | None = None) -> int | None:
    """About how many more samples would bring 0 out of an interval, rounded up to two digits; None if it is not known or too many.

    The distance of an end from the mean shrinks with the square root of n, so n (reach / |mean|)^2 samples would do. With the `size` of
    something else that grows along, such as the number of patients, how many more of these.

    >>> more_samples(Interval(value=0.1, low=-0.1, high=0.3, n=50))
    150
    >>> more_samples(Interval(value=0.0, low=-0.1, high=0.1, n=50)) is None
    True
    """
    reach = found.value - found.low if found.value > 0 else found.high - found.value
    if not math.isfinite(reach) or found.value == 0.0 or reach**2 > FAR * found.value**2:
        return None
    n = size or found.n
    more = n * (reach / found.value) ** 2 - n
    if more <= 0:
        return None
    step = int(10 ** max(0, math.floor(math.log10(more)) - 1))
    return max(1, math.ceil(more / step - 1e-9) * step)


@dataclass(frozen=True)
class Terms:
    """How far an explainer gets and how far it could get, per sample and draw (samples, draws); NaN where undefined.

    Draws that are `crossed` are shared by all samples, such as randomised copies of a model, so more samples do not average them out.
    `units` (samples,) say which samples belong together, such as those of one patient, and `unit` is what one of them is called.

    >>> found = Terms(np.full((9, 1), 0.5), np.ones((9, 1))).standing(0.1, 0.95)
    >>> found.word.value, found.value, found.n
    ('holds', 0.5, 9)
    """

    gap: Array
    room: Array
    crossed: bool = False
    units: Codes | None = None
    unit: str = UNIT

    def __post_init__(self) -> None:
        if self.gap.ndim != 2 or self.gap.shape != self.room.shape:
            raise InputError(f"A check needs a gap and a room of one shape (samples, draws), not {self.gap.shape} and {self.room.shape}.")

    @property
    def per_sample(self) -> tuple[Array, Array]:
        """The means over draws of the gap and of the room, each (samples,), NaN where either is undefined."""
        known = np.isfinite(self.gap) & np.isfinite(self.room)
        seen = known.sum(axis=1)
        gap, room = (np.where(known, part, 0.0).sum(axis=1) for part in (self.gap, self.room))
        return np.where(seen > 0, gap / np.maximum(seen, 1), np.nan), np.where(seen > 0, room / np.maximum(seen, 1), np.nan)

    def standing(self, line: float, confidence: float) -> Standing:
        """Where the explainer stands relative to the line."""
        gap, room = self.per_sample
        kept = np.isfinite(gap)
        n, lost = int(kept.sum()), int((~kept).sum())
        counts: dict[str, Any] = {"n": n, "undefined": lost}
        if n == 0:
            return Standing(word=Word.NOT_ASKED, **counts, why="it is undefined on every sample")
        width, size = float(room[kept].mean()), independent(kept, self.units)
        if width < LEAST_ROOM:
            return Standing(word=Word.NOT_ASKED, **counts, why="the reference leaves no room to be better")
        value = float(gap[kept].mean()) / width
        if n < FEWEST or lost > n:
            few = f"only {n} of {n + lost} samples have a value" if lost else f"{n} samples are fewer than the {FEWEST} that a word needs"
            return Standing(word=Word.UNTOLD, value=value, **counts, why=few)
        if size < FEWEST:
            few = f"the {n} samples are of only {count(size, self.unit)}, and a word needs {FEWEST}"
            return Standing(word=Word.UNTOLD, value=value, **counts, why=few)
        found = self.difference(line, confidence)
        word = decide(found.low, found.high)
        waits = word is Word.UNTOLD and not self.crossed
        return Standing(
            word=word,
            value=value,
            low=line + found.low / width,
            high=line + found.high / width,
            **counts,
            more=more_samples(found) if waits else None,
            more_units=more_samples(found, size) if waits and self.units is not None else None,
            unit="" if self.units is None else self.unit,
            shared=self.crossed,
            size=size,
            why="" if math.isfinite(found.low) else "a single shared draw has no interval",
            unseen=unseen_share(size, confidence) if found.low == found.high else math.nan,
        )

    def difference(self, line: float, confidence: float) -> Interval:
        """The mean of gap - line room with its interval."""
        if self.crossed:
            return crossed_interval(self.gap - line * self.room, confidence, scale=1.0, units=self.units)
        gap, room = self.per_sample
        return mean_interval(gap - line * room, confidence, scale=1.0, units=self.units)


def combine(words: Collection[Word], witnesses: bool = False) -> Word:
    """One word for a question from those of its checks.

    It holds if all checks that apply hold, and does not apply if none does. Of checks that are requirements of their own, one that falls
    short is enough. Checks that are `witnesses` of the same thing may contradict each other: they fall short if one does and none holds.

    >>> combine([Word.HOLDS, Word.NOT_ASKED]).value, combine([Word.HOLDS, Word.UNTOLD]).value, combine([]).value
    ('holds', 'cannot tell yet', 'does not apply')
    >>> combine([Word.HOLDS, Word.SHORT]).value, combine([Word.HOLDS, Word.SHORT], witnesses=True).value
    ('falls short', 'cannot tell yet')
    """
    asked = {word for word in words if word is not Word.NOT_ASKED}
    if Word.SHORT in asked and not (witnesses and Word.HOLDS in asked):
        return Word.SHORT
    if not asked:
        return Word.NOT_ASKED
    return Word.HOLDS if asked == {Word.HOLDS} else Word.UNTOLD


def contradictory(words: Iterable[str]) -> bool:
    """Whether one check of a question holds and another falls short."""
    return set(words) >= {Word.HOLDS, Word.SHORT}


def most_needed(needs: Iterable[int | None]) -> int | None:
    """How many more samples would settle every open check of a question, from what each needs.

    None if that is not known of one of them, or if none is open.
    """
    every = list(needs)
    known = [more for more in every if more is not None]
    return max(known) if known and len(known) == len(every) else None


def what_would_tell(standings: Iterable[Standing]) -> str:
    """What would settle every open check of a question, in a few words: samples, or units where samples belong to them; "" if not known.

    >>> what_would_tell([Standing(word=Word.UNTOLD, more=90)])
    '90 more samples'
    >>> what_would_tell([Standing(word=Word.UNTOLD, more=90, more_units=30, unit="patient")])
    '30 more patients'
    """
    waiting = [one for one in standings if one.word is Word.UNTOLD]
    samples, units = most_needed(one.more for one in waiting), [one.more_units for one in waiting if one.more_units is not None]
    if samples is None:
        return ""
    return count(max(units), f"more {waiting[0].unit}") if len(units) == len(waiting) else count(samples, "more sample")
