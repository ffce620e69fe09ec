"""Racing: hand-made values for single looks, and one race that is interrupted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import veracity
from linear_cards import contributions, edges, labelled, linear_model, noisy
from veracity import Card
from veracity.cards import page
from veracity.cards.collect import Judged, keyed_gains, stand
from veracity.cards.decide import Terms
from veracity.cards.dominate import Gains
from veracity.cards.questions import QUESTIONS
from veracity.cards.racing import LOOKS, Stop, compare, confidences, decide_look, looks
from veracity.cards.runs import Runs
from veracity.statistics.intervals import Array

WEIGHTS, DELETION, INSERTION = QUESTIONS[0].checks[0], *QUESTIONS[1].checks[:2]
LEVEL, SAMPLES = 0.9999, 64


def explainer(name: str, deletion: Array, insertion: Array, lost: float = 0.5) -> Judged:
    """An explainer that loses this much of its agreement and covers these shares of the way on each sample."""
    values = {WEIGHTS: np.full(SAMPLES, lost), DELETION: deletion, INSERTION: insertion}
    found = {check: check.terms(Terms(one[:, None], np.ones((SAMPLES, 1)))) for check, one in values.items()}
    evidence = {"model": {(WEIGHTS, "maps"): found[WEIGHTS]}, "faithful": {(one, "maps"): found[one] for one in (DELETION, INSERTION)}}
    return Judged(name, evidence, {key: stand(part, LEVEL) for key, part in evidence.items()})


def stops(*explainers: Judged) -> dict[str, Stop]:
    gains = [one for _, one in keyed_gains(explainers, SAMPLES)]
    return decide_look(explainers, gains, samples=SAMPLES, level=LEVEL, confidence=0.995)


def around(mean: float, seed: int, spread: float = 0.1) -> Array:
    return mean + spread * np.random.Generator(np.random.PCG64(seed)).standard_normal(SAMPLES)


@pytest.mark.parametrize("samples", [8, 64, 65, 256, 500, 1024])
def test_alpha_is_spent_once(samples: int) -> None:
    spent = [1 - one for one in confidences(samples, 0.95)]
    assert len(spent) == len(looks(samples)) <= 6
    assert sum(spent) == pytest.approx(0.05) if samples > LOOKS[-1] or len(spent) == 1 else sum(spent) < 0.05
    assert looks(samples)[-1] == samples
    assert looks(1024)[:2] == looks(256)[:2]  # a larger budget finds the same first looks


def test_what_is_surely_dominated_is_dropped_at_once() -> None:
    found = stops(explainer("good", around(0.6, 1), around(0.7, 2)), explainer("bad", around(0.2, 3), around(0.3, 4)))
    assert found["bad"] == Stop(why="dominated", samples=SAMPLES, level=LEVEL, by=("good",))
    assert found["good"].why == "settled"  # nothing is open about it any more


@pytest.mark.parametrize("seed", range(20))
def test_a_near_tie_goes_on(seed: int) -> None:
    """Both scatter around the same values, and cover them with intervals of the margin's size: nobody is told to be worse."""
    one, other = (explainer(name, around(0.5, 4 * seed + k, 0.3), around(0.5, 4 * seed + k + 2, 0.3)) for k, name in enumerate("ab"))
    assert stops(one, other) == {}


def test_better_on_one_check_and_worse_on_another_is_settled() -> None:
    found = stops(explainer("a", around(0.6, 1), around(0.3, 2)), explainer("b", around(0.3, 3), around(0.6, 4)))
    assert {name: one.why for name, one in found.items()} == {"a": "settled", "b": "settled"}


def test_what_is_out_dominates_nobody() -> None:
    out = explainer("out", around(0.9, 1), around(0.9, 2), lost=0.0)
    found = stops(out, explainer("good", around(0.6, 3), around(0.6, 4)))
    assert {name: one.why for name, one in found.items()} == {"out": "out", "good": "settled"}


def test_open_words_keep_an_explainer_in() -> None:
    open_ = explainer("open", around(0.6, 1), around(0.1, 2))  # insertion lies on its line
    assert stops(open_, explainer("other", around(0.3, 3), around(0.6, 4))).keys() == {"other"}


def test_a_check_that_one_of_two_lacks_says_nothing_and_few_samples_leave_all_open() -> None:
    first = Gains(np.array([[0.9] * 9, [0.2] * 9]), np.ones((2, 9)))
    lacking = Gains(np.array([[0.1] * 9, [np.nan] * 9]), np.ones((2, 9)))
    proven = np.array([True, True])
    assert compare([first, lacking], proven, 0.99).dominates[0, 1]
    few = Gains(np.where(np.arange(9) < 5, first.gap, np.nan), first.room)
    found = compare([first, few], proven, 0.99)
    assert not found.dominates.any()
    assert not compare([first], np.array([False, True]), 0.99).dominates.any()  # question 0 is open for the better one


def raced(folder: Path) -> Card:
    x, y = labelled(80)
    named = {"exact": contributions, "noisy": noisy, "edges": edges}
    return veracity.card(linear_model(), x, y, explainers=named, samples=80, folder=folder, budget="1s", progress=False)


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_an_interrupted_race_decides_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, calls = Runs.run, list[str]()

    def killed(self: Runs, part: str, *rest: object) -> None:
        calls.append(part)
        if len(calls) == 2:
            raise KeyboardInterrupt
        run(self, part, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Runs, "run", killed)
        patch.setattr("veracity.cards.racing.waits", lambda one: True)  # so that there is a second round
        with pytest.raises(KeyboardInterrupt):
            raced(tmp_path / "run")
        first = raced(tmp_path / "run")
    stopped = {name: one.stopped.why for name, one in first.explainers.items() if one.stopped}
    assert stopped == {"edges": "out", "noisy": "dominated"}
    assert first.undominated == ["exact"]
    assert {name: one.answers[0].checks[0].n for name, one in first.explainers.items()} == {"exact": 80, "noisy": 64, "edges": 64}
    whole = raced(tmp_path / "run")  # of a folder that holds more samples, the first look reads no more than its own
    assert {name: one.answers[0].checks[0].n for name, one in whole.explainers.items()} == dict.fromkeys(first.explainers, 64)
    assert whole.record.race[0].stopped == ["edges", "noisy", "exact"]
    assert "After 64 of 80 samples (3 explainers, each word at" in page.html(first.record)
    assert "noisy is dominated by exact" in str(first)
