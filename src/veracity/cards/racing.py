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
    paused     of those that go on, checks of which more samples would hardly tell anything pause: see `pausing`. If all do, it is said of
               the explainer that more is unlikely to tell anything.

What was stopped or paused keeps its words and intervals at the level of its look. Differences are between the shares of the way that two
explainers cover, sample by sample; a ratio of means is linearised. Draws that all samples share, such as copies of the model, are taken as
they are, as they are when samples are resampled at the end. If samples belong to units, such as patients, all intervals of a look are over
units, and a look that sees fewer than 8 of them stops nobody.

A race measures parts of one audit: the plan holds all explainers and samples, and a round runs the cells of some. So calibrations do not
depend on the round, a cell has the same key with and without racing, and an interrupted race finds its cells and decides the same again.
Decisions depend on stored values alone, never on a clock. A look reads no sample beyond its own, even if the folder holds more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veracity.cards.collect import Judged, Key, Pause, Told, judge, keyed_gains, rivals
from veracity.cards.decide import FEWEST, Word, level_for
from veracity.cards.dominate import MARGIN, Gains
from veracity.cards.pausing import Horizon, to_pause
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
SAID_OF_CONTROLS = frozenset(score for check in QUESTIONS[0].checks for score in check.scores)
"""Scores of controls that the page shows."""
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
    """Runs the jobs of a round and leaves the others: of the first `stop` samples, the scores that are `wanted` (explainer, score)."""

    name = "round"
    where: Executor
    stop: int
    wanted: Callable[[str, str], bool]

    def check(self) -> None:
        """Raise at once if jobs could not run."""
        self.where.check()

    def run(self, jobs: Sequence[Job], runner: JobRunner, progress: JobProgress) -> None:
        """Run the jobs of the round; what a block holds beyond it is measured as well, and not looked at."""
        asked = [job for job in jobs if job.samples[0] < self.stop]
        cells = [tuple(cell for cell in job.cells if self.wanted(job.explainer, cell.name)) for job in asked]
        left = [replace(job, cells=some) for job, some in zip(asked, cells, strict=True) if some]
        if left:
            self.where.run(left, runner, progress)


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
    paused: Mapping[str, Sequence[Key]] = field(default_factory=dict)


@dataclass
class Race:
    """A race of `explainers` over at most so many samples: its looks so far, and what was told of those that are out or dominated.

    Without `early` looks all explainers get all samples. `shares` says which share of all passes each score of an explainer takes.
    `paused` are the checks that got no more samples, of explainers that others are still compared with. After a look, `measured` holds the
    scores that go on, as (part, explainer, score).
    """

    explainers: Sequence[str]
    samples: int
    confidence: float = 0.95
    early: bool = True
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    told: dict[str, Told] = field(default_factory=dict)
    paused: dict[str, dict[Key, Pause]] = field(default_factory=dict)
    measured: set[tuple[str, str, str]] = field(default_factory=set)

    @property
    def stopped(self) -> dict[str, Stop]:
        """Every explainer that gets no more samples, with the reason."""
        return {name: one for look in self.looks for name, one in look.stopped.items()}

    @property
    def inside(self) -> list[str]:
        """The explainers that get more samples."""
        stopped = self.stopped
        return [name for name in self.explainers if name not in stopped]

    def wants(self, part: str, explainer: str, score: str) -> bool:
        """Whether a score is still measured. What the page says of controls takes no passes, and goes on."""
        control = explainer not in self.explainers and score in SAID_OF_CONTROLS
        return not self.looks or control or (part, explainer, score) in self.measured

    @property
    def sizes(self) -> list[int]:
        """The samples of each round."""
        return looks(self.samples) if self.early else [self.samples]

    @property
    def confidences(self) -> list[float]:
        """The confidence of all decisions of each look, of which the last one is the end."""
        return confidences(self.samples, self.confidence) if self.early else [self.confidence]

    def look(self, reading: Reading, *, compared: bool = True) -> Look:
        """Decide who gets no more samples, and which checks pause; unless they are `compared`, only who is out."""
        inside, confidence = self.inside, self.confidences[len(self.looks)]
        names, early = [name for name in self.explainers if name not in self.told], [one.judged for one in self.told.values()]
        judged, comparisons, level = judge(reading, names, confidence, early, self.paused)
        few = reading.units is not None and len(np.unique(reading.units)) < FEWEST
        gains = [one for _, one in keyed_gains(judged, reading.samples)] if compared else None
        about: dict[str, Any] = {"samples": reading.samples, "level": level}
        stopped = {} if few else decide_look(judged, inside, gains, **about, confidence=confidence, units=reading.units)
        gone = {name for name, one in stopped.items() if one.why in (OUT, DOMINATED)}
        order = rivals([*judged, *early], reading) if gone else None
        self.told |= {one.name: Told(one, reading, order) for one in judged if one.name in gone}
        left = [one for one in judged if one.name not in gone]
        pauses = [(one.name, key) for one in left if one.name in stopped for key, _ in one.going()]
        if compared and not few:
            horizon = Horizon(level, level_for(comparisons, self.confidences[-1]), reading.samples / self.samples, reading.units)
            rows = [one for one in (*left, *(one.judged for one in self.told.values())) if one.words[FIRST] is not Word.SHORT]
            pauses += to_pause(rows, [name for name in inside if name not in stopped], reading.samples, horizon, self.shares)
        for one in left:
            self.pause(one, [key for name, key in pauses if name == one.name], reading.samples, level)
            if one.name in inside and one.name not in stopped and not self.goes_on(one):
                stopped[one.name] = Stop(why=UNLIKELY, **about)
        self.measured = {which for one in left for key in self.goes_on(one) for which in scores_for(one, key, reading)}
        named = {name: [key for which, key in pauses if which == name] for name, _ in pauses if name not in stopped}
        self.looks.append(
            Look(**about, confidence=confidence, comparisons=comparisons, inside=tuple(inside), stopped=stopped, paused=named)
        )
        return self.looks[-1]

    def pause(self, one: Judged, keys: Sequence[Key], samples: int, level: float) -> None:
        """Keep what checks of an explainer found that pause."""
        known = self.paused.setdefault(one.name, {})
        for question, standings in one.standings.items():
            for key in keys:
                if key in standings:
                    known[key] = Pause(samples, level, one.evidence[question][key], standings[key])

    def goes_on(self, one: Judged) -> list[Key]:
        """The checks of an explainer that get more samples."""
        return [key for key, _ in one.going() if key not in self.paused.get(one.name, ())]


def scores_for(one: Judged, key: Key, reading: Reading) -> Iterator[tuple[str, str, str]]:
    """What a check of an explainer needs, as (part, explainer, score): its scores, those of its controls, and what they assume."""
    check, part = key
    for score in check.scores:
        yield part, one.name, score
        found = reading.known.get((part, one.name, score))
        for control in () if found is None else check.compared_with(found):
            if control in reading.controls:
                yield part, control, score
        assumed = reading.results[part].manifest.get("assumptions", {}).get(score) if part in reading.results else None
        if assumed is not None:
            yield part, "", assumed


def decide_look(
    judged: Sequence[Judged],
    inside: Collection[str],
    gains: Sequence[Gains] | None,
    *,
    samples: int,
    level: float,
    confidence: float,
    units: Codes | None = None,
) -> dict[str, Stop]:
    """Which explainers `inside` get no more samples, given their words at a level and the checks by which pairs are compared.

    All that are `judged` are compared, each pair with the confidence. Without checks to compare, only those stop that are out.
    """
    stop = partial(Stop, samples=samples, level=level)
    stopped = {one.name: stop(why=OUT) for one in judged if one.words[FIRST] is Word.SHORT}
    if gains is None:
        return stopped
    places = [place for place, one in enumerate(judged) if one.name not in stopped]
    left = [judged[place] for place in places]
    proven = np.array([one.words[FIRST] is Word.HOLDS for one in left], dtype=np.bool_)
    pairs = compare([Gains(one.gap[places], one.room[places]) for one in gains], proven, confidence, units=units)
    there = list(range(len(left)))
    for place in sorted(there, key=lambda one: -int(pairs.dominates[:, one].sum())):
        above = [other for other in there if pairs.dominates[other, place]]
        if above and left[place].name in inside and left[place].words[FIRST] is not Word.UNTOLD:
            there.remove(place)
            stopped[left[place].name] = stop(why=DOMINATED, by=tuple(left[other].name for other in above))
    for place, told in zip(there, pairs.among(there).told, strict=True):
        if told and left[place].name in inside and not waits(left[place]):
            stopped[left[place].name] = stop(why=SETTLED)
    return stopped


def waits(one: Judged) -> bool:
    """Whether a check is open that more samples could tell."""
    return any(standing.n > 0 and standing.word is Word.UNTOLD for _, standing in one.going())
