"""Which checks of the explainers that go on in a race get no more samples.

A check pauses after a look if more samples would hardly tell its word or change that of its question, and if it is not needed to tell who
is undominated: in every future the same explainers are undominated with and without more samples of it (see `outlook`). The checks that
take the most passes are tried first, each together with those that paused before it, so that what is given up buys as many passes as
possible. Of the checks by which explainers are compared, those that take hardly any passes go on.

A check that paused keeps its word, its interval and its samples. Two explainers are compared on the samples that both have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from veracity.cards.checks import SEARCH, TRAINING, Evidence
from veracity.cards.collect import Judged, Key, keyed_gains
from veracity.cards.decide import Word, contradictory
from veracity.cards.dominate import Gains
from veracity.cards.outlook import Futures, chance_of_word
from veracity.cards.questions import QUESTIONS
from veracity.statistics.units import Codes

HOPE = 0.05
"""More samples are worth their passes if they tell an open check with more than this chance."""
WORTH = 0.03
"""A check by which explainers are compared goes on if it takes less than this share of the passes of an average explainer."""
TOGETHER = {"relative_input_stability": "avg_sensitivity"}
"""Scores that share their perturbed inputs with another one pause with it, since one of them alone saves nothing."""
FIRST = QUESTIONS[0].key
WITNESSES = {one.key for one in QUESTIONS if one.witnesses}
"""Questions whose checks measure the same thing, so that one that holds may yet contradict one that falls short."""


@dataclass(frozen=True)
class Horizon:
    """What a look knows about the end: `level` is the confidence of each word now and `later` at the end, `seen` the share of samples."""

    level: float
    later: float
    seen: float
    units: Codes | None = None


def to_pause(
    judged: Sequence[Judged], inside: Collection[str], samples: int, horizon: Horizon, shares: Mapping[str, Mapping[str, float]]
) -> list[tuple[str, Key]]:
    """The checks (explainer, check) that pause, of the explainers `inside` among all that are not out.

    `shares` says which share of all passes a score of an explainer takes; without them, all checks are worth pausing.
    """
    open_ = {(one.name, key) for one in judged for key in worth_waiting(one, horizon)}
    groups = [(one.name, keys) for one in judged if one.name in inside for keys in groups_of(one)]
    least = WORTH / max(1, len(shares))
    costs = [sum(shares[name].get(score, 0.0) for score in {score_of(key) for key in keys}) if shares else least for name, keys in groups]
    worth = [cost >= least or not any(key[0].compares for key in keys) for cost, (_, keys) in zip(costs, groups, strict=True)]
    order = [groups[place] for place in np.argsort([-cost for cost in costs], kind="stable").tolist() if worth[place]]
    tried = [(name, keys) for name, keys in order if not any((name, key) in open_ for key in keys)]
    if not tried:
        return []
    gains = keyed_gains(judged, samples)
    compared, rows = {key: place for place, (key, _) in enumerate(gains)}, {one.name: place for place, one in enumerate(judged)}
    unsure = {one.name for one in judged if any((one.name, key) in open_ for key in one.standings[FIRST])}
    futures = scenarios(judged, gains, unsure, samples, horizon)
    found = list[tuple[str, Key]]()
    for name, keys in tried:
        asked = [key for key in keys if key[0].compares]
        if any(key not in compared for key in asked):  # it has no interval yet
            continue
        trials = [one.trial([compared[key] for key in asked], rows[name]) for one in futures] if asked else []
        if all(trial.change == 0.0 for trial in trials):
            found += [(name, key) for key in keys]
            for one, trial in zip(futures, trials, strict=False):
                one.end(trial)
    return found


def groups_of(one: Judged) -> list[list[Key]]:
    """The checks of an explainer that go on and have something to keep, those together that can only pause together."""
    found: dict[tuple[str, str], list[Key]] = {}
    known = {key for parts in one.evidence.values() for key, evidence in parts.items() if isinstance(evidence, Evidence)}
    for key, _ in one.going():
        found.setdefault((key[1], score_of(key)), []).append(key)
    return [keys for keys in found.values() if known.issuperset(keys)]


def score_of(key: Key) -> str:
    """The score of a check, or the one that it shares its perturbed inputs with."""
    return TOGETHER.get(key[0].score, key[0].score)


def scenarios(
    judged: Sequence[Judged], gains: Sequence[tuple[Key, Gains]], unsure: Collection[str], samples: int, horizon: Horizon
) -> list[Futures]:
    """The futures, with the words of question 0 as they are now, and once more if those that are `unsure` come to hold."""
    now = np.array([float(one.words[FIRST] is Word.HOLDS) for one in judged])
    then = np.array([float(one.words[FIRST] is Word.HOLDS or one.name in unsure) for one in judged])
    once = [key[0].part in (SEARCH, TRAINING) for key, _ in gains]
    checks = [one for _, one in gains]
    return [
        Futures([*checks, Gains.fixed(proven, samples)], horizon.seen, horizon.units, [*once, True])
        for proven in ([now] if (now == then).all() else [now, then])
    ]


def worth_waiting(one: Judged, horizon: Horizon) -> Iterator[Key]:
    """The open checks that the samples left may well tell, where that can change the word of their question.

    Scores that contradict each other leave their question open whatever else is told, and one that falls short decides it, unless another
    one may come to hold and contradict it.
    """
    words, going = one.words, {key for key, _ in one.going()}
    for question, found in one.standings.items():
        waits = words[question] is Word.UNTOLD or (words[question] is Word.SHORT and question in WITNESSES)
        if not waits or contradictory(standing.word for standing in found.values()):
            continue
        for key, standing in found.items():
            chance = chance_of_word(standing, key[0].line, level=horizon.level, later=horizon.later, seen=horizon.seen)
            if key in going and standing.n > 0 and chance > HOPE:
                yield key
