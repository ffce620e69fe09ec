"""What the samples left to a race could tell: against simulated futures, and where the answer is plain."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_racing import DELETION, LEVEL, around, explainer

from veracity.cards.collect import judge, keyed_gains
from veracity.cards.decide import Standing, Terms, Word
from veracity.cards.dominate import Dominance, Gains
from veracity.cards.outlook import Memberships, chance_of_word, memberships
from veracity.cards.racing import Pairs, Race, Stop, hopeless
from veracity.statistics.intervals import Array

NOW, END, LINE = 64, 256, 0.1


def standing(values: Array, level: float) -> Standing:
    return Terms(values[:, None], np.ones((len(values), 1))).standing(LINE, level)


@pytest.mark.parametrize("distance", [0.0, 0.02, 0.04, 0.06])
def test_the_chance_of_a_word_is_how_often_futures_tell_it(distance: float) -> None:
    """The oracle draws 400 futures: 192 more samples around the mean that was seen, which itself is uncertain."""
    generator = np.random.Generator(np.random.PCG64(7))
    seen = generator.standard_normal(NOW)
    seen = LINE + distance + 0.2 * (seen - seen.mean()) / seen.std()
    one = standing(seen, LEVEL)
    assert one.word is Word.UNTOLD
    told = 0
    for _ in range(400):
        mean = seen.mean() + seen.std() / math.sqrt(NOW) * generator.standard_normal()
        more = mean + seen.std() * generator.standard_normal(END - NOW)
        told += standing(np.concatenate([seen, more]), LEVEL).word is not Word.UNTOLD
    found = chance_of_word(one, LINE, level=LEVEL, later=LEVEL, seen=NOW / END)
    assert found == pytest.approx(told / 400, abs=0.08)


def test_words_without_an_interval_are_waited_for_and_told_ones_are_not() -> None:
    few = Standing(word=Word.UNTOLD, value=0.2, n=5)
    assert chance_of_word(few, LINE, level=LEVEL, later=LEVEL, seen=0.25) == 1.0
    assert chance_of_word(Standing(word=Word.HOLDS, value=0.2, low=0.15, high=0.25, n=64), LINE, level=LEVEL, later=LEVEL, seen=0.25) == 0.0


def test_units_count_once_in_the_chance_of_a_word() -> None:
    """Eight patients of eight samples: t of 7 degrees of freedom now and of 31 later, not of 63 and 255."""
    few, all_ = (Standing(word=Word.UNTOLD, value=0.2, low=0.0, high=0.4, n=64, size=size) for size in (8, 64))
    chances = [chance_of_word(one, LINE, level=LEVEL, later=LEVEL, seen=0.25) for one in (few, all_)]
    assert chances[0] > chances[1]


@pytest.mark.parametrize("seed", range(5))
def test_memberships_change_as_often_as_in_simulated_futures(seed: int) -> None:
    """The oracle draws more samples from what was seen and asks the rule of the end again."""
    generator = np.random.Generator(np.random.PCG64(seed))
    gap = np.stack([0.5 + 0.1 * generator.standard_normal(NOW), 0.40 + 0.1 * generator.standard_normal(NOW)])
    found = memberships([Gains(gap, np.ones_like(gap))], NOW / END)
    changed = 0
    for _ in range(60):
        shift = gap[:, generator.integers(0, NOW, NOW)].mean(axis=1, keepdims=True) - gap.mean(axis=1, keepdims=True)
        more = gap[:, generator.integers(0, NOW, END - NOW)] + shift
        whole = np.concatenate([gap, more], axis=1)
        order = Dominance.of(["a", "b"], [Gains(whole, np.ones_like(whole))])
        changed += ("b" in order.undominated()) != bool(found.free[1])
    assert found.change[1] == pytest.approx(changed / 60, abs=0.2)
    assert found.change[0] == 0.0  # nothing is near it


def stops(*around_these: tuple[float, float], seen: float) -> dict[str, Stop]:
    """Which of explainers with these means and spreads get no more samples, because more would hardly tell."""
    named = [
        explainer(name, around(mean, 2 * place, spread), around(mean, 2 * place + 1, spread))
        for place, (name, (mean, spread)) in enumerate(zip("ab", around_these, strict=True))
    ]
    gains = [one for _, one in keyed_gains(named, NOW)]
    return hopeless(named, gains, {}, samples=NOW, level=LEVEL, confidence=0.995, later=LEVEL, seen=seen)


def test_what_nothing_more_can_tell_stops_and_what_something_can_goes_on() -> None:
    tie = ((0.50, 0.01), (0.50, 0.01))  # far within the margin: no future tells one from the other, and all words are told
    assert {name: one.why for name, one in stops(*tie, seen=0.25).items()} == {"a": "unlikely", "b": "unlikely"}
    near = ((0.50, 0.4), (0.40, 0.4))  # a difference of twice the margin, hidden in noise
    assert stops(*near, seen=0.25) == {}


def test_at_the_end_nothing_can_change() -> None:
    assert memberships([Gains(np.stack([around(0.5, 1), around(0.45, 2)]), np.ones((2, NOW)))], 1.0).change.max() <= 0.05


def shapes(count: int) -> list[tuple[tuple[int, ...], bool]]:
    """Everybody is undominated, and nothing changes that: what `Memberships` holds."""
    return [((count,), True), ((count,), False), ((count, count), False), ((count, count), False)]


def test_stopping_for_want_of_hope_leaves_all_words_right_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty explainers exactly on their line: no word about them is right, and at most 5 % of races may say one.

    With comparisons of those alone that are left, 18 % did.
    """
    named = [f"e{place}" for place in range(20)]
    nobody, wrong = np.zeros((20, 20), dtype=np.bool_), 0
    monkeypatch.setattr("veracity.cards.racing.rivals", lambda *_: None)
    monkeypatch.setattr(
        "veracity.cards.racing.compare", lambda checks, proven, *_, **__: Pairs(*[nobody[: len(proven), : len(proven)]] * 2)
    )
    monkeypatch.setattr(
        "veracity.cards.racing.memberships",
        lambda checks, *_: Memberships(*(np.full(shape, free) for shape, free in shapes(len(checks[0].gap)))),  # type: ignore[arg-type]
    )
    for seed in range(60):
        values = LINE + 0.3 * np.random.Generator(np.random.PCG64(seed)).standard_normal((len(named), 4 * NOW))

        def evidence(reading: Any, name: str, question: Any, values: Array = values) -> Any:
            if question.key != "faithful":
                return {}
            row = values[named.index(name), : reading.samples, None]
            return {(DELETION, "maps"): DELETION.terms(Terms(row, np.ones_like(row)))}

        monkeypatch.setattr("veracity.cards.collect.evidence_for", evidence)
        race, said = Race(named, 4 * NOW), set[Word]()
        for size in race.sizes[:-1]:
            race.look(SimpleNamespace(samples=size, units=None))  # type: ignore[arg-type]
        told = [one.judged for one in race.told.values()]
        left, _, _ = judge(SimpleNamespace(samples=4 * NOW), race.inside, race.confidences[-1], told)  # type: ignore[arg-type]
        said |= {one.words["faithful"] for one in [*told, *left]}
        wrong += bool(said & {Word.HOLDS, Word.SHORT})
    assert wrong <= 6  # 5 % of 60 are 3; more than 6 have a probability of 3 % then
