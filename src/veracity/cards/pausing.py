"""Which checks of the explainers that go on in a race get no more samples.

A check pauses after a look if its own word is told, or will hardly be told by the samples that are left, and if it is not needed to tell
who is undominated: in nearly all futures the same explainers are undominated with and without more samples of it (see `outlook`). The
dearest checks are tried first, each together with those that paused before it, so that the little risk there is buys as many passes as
possible. Checks that take hardly any passes go on.

A check that paused keeps its word, its interval and its samples. Two explainers are compared on the samples that both have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from veracity.cards.collect import Judged, Key, going, keyed_gains
from veracity.cards.decide import Word, contradictory
from veracity.cards.dominate import Gains
from veracity.cards.outlook import Futures, chance_of_word
from veracity.cards.questions import QUESTIONS
from veracity.statistics.units import Codes

HOPE = 0.05
"""More samples are worth their passes if they tell an open check with more than this chance."""
RISK = 0.0
"""All checks that pause after a look change who is undominated in at most this share of the futures."""
WORTH = 0.002
"""A check that takes less than this share of all passes goes on."""
FIRST = QUESTIONS[0].key


@dataclass(frozen=True)
class Horizon:
    """What a look knows about the end: `level` is the confidence of each word now and `later` at the end, `seen` the share of samples."""

    level: float
    later: float
    seen: float
    units: Codes | None = None


def to_pause(judged: Sequence[Judged], samples: int, horizon: Horizon, shares: Mapping[str, Mapping[str, float]]) -> list[tuple[str, Key]]:
    """The checks (explainer, check) that pause, of explainers that go on; `shares` says which share of all passes a score takes."""
    costs = {(one.name, key): shares[one.name].get(key[0].score, 0.0) if shares else WORTH for one in judged for key, _ in going(one)}
    open_ = {(one.name, key) for one in judged for key in worth_waiting(one, horizon)}
    tried = [which for which, cost in costs.items() if cost >= WORTH and which not in open_]
    if not tried:
        return []
    gains = keyed_gains(judged, samples)
    proven = np.array([float(one.words[FIRST] is Word.HOLDS) for one in judged])
    place, row = {key: number for number, (key, _) in enumerate(gains)}, {one.name: number for number, one in enumerate(judged)}
    futures = Futures([*(one for _, one in gains), Gains.fixed(proven, samples)], horizon.seen, horizon.units)
    dearest_first = sorted(tried, key=lambda which: -costs[which])
    return [(name, key) for name, key in dearest_first if key not in place or futures.end(place[key], row[name], RISK)]


def worth_waiting(one: Judged, horizon: Horizon) -> Iterator[Key]:
    """The open checks that the samples left may well tell.

    Scores that contradict each other leave their question open whatever else is told.
    """
    words = one.words
    for question, found in one.standings.items():
        if words[question] is Word.UNTOLD and not contradictory(standing.word for standing in found.values()):
            for key, standing in going(one):
                chance = chance_of_word(standing, key[0].line, level=horizon.level, later=horizon.later, seen=horizon.seen)
                if key in found and standing.n > 0 and chance > HOPE:
                    yield key
