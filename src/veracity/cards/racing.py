"""Racing: all explainers start with few samples, and only those about which something is open get more.

    looks      at 64, 128, 192, 384 and 768 samples, and one at the end: at most six, at the same places for every card. All looks see
               nested prefixes of the same samples.
    spending   each look before the end has a tenth of alpha = 1 - confidence, and the end has half. What looks that are not reached would
               have spent stays unspent, and a card with a single look spends all at once. All words of a look hold together with 1 - its
               share (Bonferroni), so all words of a card, of whatever look, are right together with the confidence. Comparisons of
               explainers that were stopped go on to count, since who is left depends on the same samples. Who dominates whom is
               told pair by pair, as at the end: each pair with 1 - the share of the look.
    out        an explainer that falls short on question 0 at the level of the look is dropped.
    dominated  so is one that another one, still in, surely dominates: the interval of their difference lies above -margin on every check,
               and above margin on at least one. Of question 0 the word counts, so the better one must hold there, and the word of the
               other one must be told, since to be out is worse than to be dominated.
    settled    one whose words are all told, and of which it is told for every other one whether it dominates or is dominated, gets no more
               samples, either. A is told not to dominate B if the difference lies below -margin on one check, or nowhere above margin.
    unlikely   nor does one of which the samples that are left would hardly tell anything: see `outlook`. Its open words stay open.

What was stopped keeps its words and intervals at the level of its look. Differences are between the shares of the way that two
explainers cover, sample by sample; a ratio of means is linearised. Draws that all samples share, such as copies of the model, are taken as
they are, as they are when samples are resampled at the end. If samples belong to units, such as patients, all intervals of a look are over
units, and a look that sees fewer than 8 of them stops nobody.

A race measures parts of one audit: the plan holds all explainers and samples, and a round runs the cells of some. So calibrations do not
depend on the round, a cell has the same key with and without racing, and an interrupted race finds its cells and decides the same again.
Decisions depend on stored values alone, never on a clock. A look reads no sample beyond its own, even if the folder holds more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veracity.cards.checks import SEARCH, TRAINING
from veracity.cards.collect import Judged, Told, judge, keyed_gains, rivals
from veracity.cards.decide import FEWEST, Word, contradictory, level_for
from veracity.cards.dominate import MARGIN, Gains
from veracity.cards.outlook import HOPE, chance_of_word, memberships
from veracity.cards.questions import QUESTIONS
from veracity.cards.reading import Reading
from veracity.cards.record import DOMINATED, OUT, SETTLED, UNLIKELY, Why
from veracity.engine.executors import Executor
from veracity.engine.loop import JobRunner
from veracity.engine.plan import Job
from veracity.engine.progress import JobProgress
from veracity.statistics.intervals import Array, mean_interval
from veracity.statistics.units import Codes, independent

LOOKS = (64, 128, 192, 384, 768)
"""Samples at which a race looks before its end. A block of an audit has 64 samples, so that earlier looks would save nothing."""
LAST = 0.5
"""The share of alpha that the end may spend; the looks before it divide the rest."""
FIRST = QUESTIONS[0].key
Flags = NDArray[np.bool_]


def looks(samples: int) -> list[int]:
    """The numbers of samples at which a race of so many samples looks, the end included.

    >>> looks(256), looks(64), looks(1024)
    ([64, 128, 192, 256], [64], [64, 128, 192, 384, 768, 1024])
    """
    return [*(one for one in LOOKS if one < samples), samples]


def shares(samples: int) -> list[float]:
    """The share of alpha that each look may spend.

    >>> shares(256), shares(64)
    ([0.1, 0.1, 0.1, 0.5], [1.0])
    """
    early = len(looks(samples)) - 1
    return [*[(1.0 - LAST) / len(LOOKS)] * early, LAST] if early else [1.0]


def confidences(samples: int, confidence: float) -> list[float]:
    """The confidence of all decisions of each look; what they may miss adds up to at most 1 - confidence.

    >>> [round(one, 4) for one in confidences(256, 0.95)], confidences(64, 0.95)
    ([0.995, 0.995, 0.995, 0.975], [0.95])
    """
    return [1.0 - share * (1.0 - confidence) for share in shares(samples)] if len(looks(samples)) > 1 else [confidence]


@dataclass(frozen=True, kw_only=True)
class Round(Executor):
    """Runs the jobs of a round and leaves the others: those of the first `stop` samples, `without` some explainers."""

    name = "round"
    where: Executor
    stop: int
    without: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise at once if jobs could not run."""
        self.where.check()

    def run(self, jobs: Sequence[Job], runner: JobRunner, progress: JobProgress) -> None:
        """Run the jobs of the round; what a block holds beyond it is measured as well, and not looked at."""
        wanted = [job for job in jobs if job.samples[0] < self.stop and job.explainer not in self.without]
        if wanted:
            self.where.run(wanted, runner, progress)


@dataclass(frozen=True)
class Pairs:
    """What intervals tell about all pairs: whether i surely `dominates` j, and whether it surely does `not` (explainers, explainers)."""

    dominates: Flags
    never: Flags

    def among(self, places: Sequence[int]) -> Pairs:
        """The pairs of some explainers."""
        return Pairs(self.dominates[np.ix_(places, places)], self.never[np.ix_(places, places)])

    @property
    def told(self) -> Flags:
        """Of which explainers everything is told."""
        known = self.dominates | self.never
        np.fill_diagonal(known, val=True)
        return np.asarray(known.all(axis=0) & known.all(axis=1))


def differences(gains: Gains, confidence: float, units: Codes | None = None) -> tuple[Array, Array, Flags]:
    """The ends of the intervals of value i - value j on one check, and which pairs it says something about, each (explainers, explainers).

    On the samples that both have, value = mean gap / mean room has the linearised terms (gap - value room) / mean room. With too few
    samples, or `units` (samples,) that they belong to, the ends are infinite.

    >>> low, high, asked = differences(Gains(np.array([[0.9] * 9, [0.2] * 9]), np.ones((2, 9))), 0.99)
    >>> low.round(3).tolist(), bool(asked.all())
    ([[0.0, 0.7], [-0.7, 0.0]], True)
    """
    count = len(gains.gap)
    known: Flags = np.isfinite(gains.gap) & np.isfinite(gains.room)
    has: Flags = np.asarray(known.any(axis=1))
    low, high = np.full((count, count), -np.inf), np.full((count, count), np.inf)
    for i in range(count):
        low[i, i] = high[i, i] = 0.0
        for j in range(i):
            both = known[i] & known[j]
            if independent(both, units) < FEWEST:
                continue
            gap, room = gains.gap[[i, j]][:, both], gains.room[[i, j]][:, both]
            size = room.mean(axis=1, keepdims=True)
            if (size <= 0.0).any():
                continue
            value = gap.mean(axis=1, keepdims=True) / size
            terms = value + (gap - value * room) / size
            found = mean_interval(terms[0] - terms[1], confidence, scale=1.0, units=None if units is None else units[both])
            low[i, j], high[i, j] = found.low, found.high
            low[j, i], high[j, i] = -found.high, -found.low
    return low, high, has[:, None] & has[None, :]


def compare(checks: Sequence[Gains], proven: Flags, confidence: float, margin: float = MARGIN, units: Codes | None = None) -> Pairs:
    """Who surely dominates whom, and who surely does not, from the checks of all explainers and whether question 0 is `proven` to hold.

    Each pair is told with the confidence. What must be true on every check is read off intervals with this confidence, since a single
    check can refuse it. What may be true on any of K checks needs intervals of 1 - (1 - confidence) / K.
    """
    count, strict = len(proven), level_for(len(checks), confidence)
    worse, better, not_worse, not_better = (np.zeros((count, count), dtype=np.bool_) for _ in range(4))
    not_worse |= proven[:, None]  # the other one may still be told to hold
    not_better |= proven[None, :]
    for gains in checks:
        low, high, asked = differences(gains, confidence, units)
        not_worse &= ~asked | (low >= -margin)
        not_better &= ~asked | (high <= margin)
        low, high, asked = differences(gains, strict, units)
        worse |= asked & (high < -margin)
        better |= asked & (low > margin)
    np.fill_diagonal(not_better, val=True)
    return Pairs(better & not_worse, worse | not_better)


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Why an explainer gets no more samples than these, and the confidence of each of its intervals; `by` names who dominates it."""

    why: Why
    samples: int
    level: float
    by: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Look:
    """One look: the explainers that were in, those that get no more samples, and the confidence of all of its comparisons."""

    samples: int
    confidence: float
    comparisons: int
    level: float
    inside: tuple[str, ...]
    stopped: Mapping[str, Stop]


@dataclass
class Race:
    """A race of `explainers` over at most so many samples: its looks so far, and what was told of those that get no more samples.

    Without `early` looks all explainers get all samples.
    """

    explainers: Sequence[str]
    samples: int
    confidence: float = 0.95
    early: bool = True
    looks: list[Look] = field(default_factory=list)
    told: dict[str, Told] = field(default_factory=dict)

    @property
    def stopped(self) -> dict[str, Stop]:
        """Every explainer that gets no more samples, with the reason."""
        return {name: one for look in self.looks for name, one in look.stopped.items()}

    @property
    def inside(self) -> list[str]:
        """The explainers that get more samples."""
        return [name for name in self.explainers if name not in self.told]

    @property
    def done(self) -> list[str]:
        """The explainers that get no more samples."""
        return list(self.told)

    @property
    def sizes(self) -> list[int]:
        """The samples of each round."""
        return looks(self.samples) if self.early else [self.samples]

    @property
    def confidences(self) -> list[float]:
        """The confidence of all decisions of each look, of which the last one is the end."""
        return confidences(self.samples, self.confidence) if self.early else [self.confidence]

    def look(self, reading: Reading, *, compared: bool = True) -> Look:
        """Decide who gets no more samples; unless they are `compared`, only those that are out."""
        inside, confidence = self.inside, self.confidences[len(self.looks)]
        judged, comparisons, level = judge(reading, inside, confidence, [one.judged for one in self.told.values()])
        gains = [one for _, one in keyed_gains(judged, reading.samples)] if compared else None
        about: dict[str, Any] = {"samples": reading.samples, "confidence": confidence, "level": level}
        few = reading.units is not None and len(np.unique(reading.units)) < FEWEST
        stopped = {} if few else decide_look(judged, gains, **about, units=reading.units)
        if not few and gains is not None:
            later = level_for(comparisons, self.confidences[-1])
            stopped |= hopeless(judged, gains, stopped, later=later, seen=reading.samples / self.samples, units=reading.units, **about)
        order = rivals([one for one in judged if one.words[FIRST] is not Word.SHORT], reading) if stopped else None
        self.told |= {one.name: Told(one, reading, order) for one in judged if one.name in stopped}
        self.looks.append(Look(**about, comparisons=comparisons, inside=tuple(inside), stopped=stopped))
        return self.looks[-1]


def decide_look(
    judged: Sequence[Judged],
    gains: Sequence[Gains] | None,
    *,
    samples: int,
    level: float,
    confidence: float,
    units: Codes | None = None,
) -> dict[str, Stop]:
    """Which explainers get no more samples, given their words at a level and the checks by which pairs are compared with a confidence.

    Without such checks, only those that are out.
    """
    stop = partial(Stop, samples=samples, level=level)
    stopped = {one.name: stop(why=OUT) for one in judged if one.words[FIRST] is Word.SHORT}
    if gains is None:
        return stopped
    places = [place for place, one in enumerate(judged) if one.name not in stopped]
    left = [judged[place] for place in places]
    proven = np.array([one.words[FIRST] is Word.HOLDS for one in left], dtype=np.bool_)
    pairs = compare([Gains(one.gap[places], one.room[places]) for one in gains], proven, confidence, units=units)
    inside = list(range(len(left)))
    for place in sorted(inside, key=lambda one: -int(pairs.dominates[:, one].sum())):
        above = [other for other in inside if pairs.dominates[other, place]]
        if above and left[place].words[FIRST] is not Word.UNTOLD:
            inside.remove(place)
            stopped[left[place].name] = stop(why=DOMINATED, by=tuple(left[other].name for other in above))
    for place, told in zip(inside, pairs.among(inside).told, strict=True):
        if told and not waits(left[place]):
            stopped[left[place].name] = stop(why=SETTLED)
    return stopped


def hopeless(
    judged: Sequence[Judged],
    gains: Sequence[Gains],
    stopped: Mapping[str, Stop],
    *,
    samples: int,
    level: float,
    confidence: float,
    later: float,
    seen: float,
    units: Codes | None = None,
) -> dict[str, Stop]:
    """Of which of those that are not `stopped` the samples left would hardly tell more; `later` is the confidence of words at the end.

    Of one that is dominated now, and stays so in nearly all futures, only the word on question 0 is waited for.
    """
    places = [place for place, one in enumerate(judged) if one.name not in stopped]
    left = [judged[place] for place in places]
    if not left:
        return {}
    proven = np.array([float(one.words[FIRST] is Word.HOLDS) for one in left])
    found = memberships([Gains.fixed(proven, samples), *(Gains(one.gap[places], one.room[places]) for one in gains)], seen, units)
    open_ = [{key for key, chance in hopes(one, level, later, seen) if chance > HOPE} for one in left]
    own = np.array([bool(keys) if free else FIRST in keys for keys, free in zip(open_, found.free, strict=True)], dtype=np.bool_)
    waiting = found.waiting(own)
    return {one.name: Stop(why=UNLIKELY, samples=samples, level=level) for one, goes in zip(left, waiting, strict=True) if not goes}


def hopes(one: Judged, level: float, later: float, seen: float) -> Iterator[tuple[str, float]]:
    """The chance of every open check of an open question to be told at the end, with the key of the question.

    Scores that contradict each other leave their question open whatever else is told.
    """
    for question, word in one.words.items():
        standings = one.standings[question]
        if word is Word.UNTOLD and not contradictory(one.word for one in standings.values()):
            for (check, _), standing in standings.items():
                if check.part not in (SEARCH, TRAINING) and standing.n > 0:
                    yield question, chance_of_word(standing, check.line, level=level, later=later, seen=seen)


def waits(one: Judged) -> bool:
    """Whether a check is open that more samples could tell: questions 4 and 5 are asked once."""
    asked = ((check, standing) for found in one.standings.values() for (check, _), standing in found.items())
    return any(standing.n > 0 and standing.word is Word.UNTOLD for check, standing in asked if check.part not in (SEARCH, TRAINING))
