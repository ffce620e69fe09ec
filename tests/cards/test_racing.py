"""Racing: hand-made values for single looks, and one race that is stopped between its rounds."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from linear_cards import known_card
from veracity import Card
from veracity.cards import page
from veracity.cards.changes import changes
from veracity.cards.collect import Judged, keyed_gains, rivals, stand
from veracity.cards.decide import Terms
from veracity.cards.dominate import Gains
from veracity.cards.questions import QUESTIONS
from veracity.cards.racing import LOOKS, Race, Stop, compare, confidences, decide_look, differences, looks
from veracity.cards.runs import Runs
from veracity.cli.baseline import not_worse
from veracity.core.errors import InputError
from veracity.results import Result
from veracity.statistics.intervals import Array

pytestmark = pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
WEIGHTS, DELETION, INSERTION = QUESTIONS[0].checks[0], *QUESTIONS[1].checks[:2]
LEVEL, SAMPLES = 0.9999, 64


def explainer(name: str, deletion: Array, insertion: Array, lost: float | Array = 0.5) -> Judged:
    """An explainer that loses this much of its agreement and covers these shares of the way on each sample."""
    values = {WEIGHTS: np.broadcast_to(lost, SAMPLES), DELETION: deletion, INSERTION: insertion}
    found = {check: check.terms(Terms(one[:, None], np.ones((SAMPLES, 1)))) for check, one in values.items()}
    evidence = {"model": {(WEIGHTS, "maps"): found[WEIGHTS]}, "faithful": {(one, "maps"): found[one] for one in (DELETION, INSERTION)}}
    return Judged(name, evidence, {key: stand(part, LEVEL) for key, part in evidence.items()})


def stops(*explainers: Judged) -> dict[str, Stop]:
    gains = [one for _, one in keyed_gains(explainers, SAMPLES)]
    inside = [one.name for one in explainers]
    return decide_look(explainers, inside, gains, samples=SAMPLES, level=LEVEL, confidence=0.995)


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


def test_one_that_is_settled_is_still_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """`good` is settled, but `unsure` waits for its question 0: nobody may forget that `good` dominates it."""
    unsure = explainer("unsure", around(0.2, 3), around(0.3, 4), lost=around(0.11, 9, 0.05))
    named = [explainer("good", around(0.6, 1), around(0.7, 2)), unsure]
    monkeypatch.setattr("veracity.cards.racing.judge", lambda *_: (named, 6, LEVEL))
    race = Race(["good", "unsure"], 2 * SAMPLES)
    reading: Any = SimpleNamespace(samples=SAMPLES, units=None, known={}, results={})
    assert {name: one.why for name, one in race.look(reading).stopped.items()} == {"good": "settled"}
    assert set(race.paused["good"]) == {(one, "maps") for one in (WEIGHTS, DELETION, INSERTION)}
    assert race.inside == ["unsure"]
    order = rivals(named, reading)
    assert order is not None
    assert list(order.undominated()) == ["good"]


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


def test_units_count_once_and_few_of_them_stop_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two equal samples of each unit say what one of them says."""
    gap, room = np.stack([around(0.9, 1), around(0.2, 2)]), np.stack([around(1.0, 3), around(1.0, 4)])
    single, twice = Gains(gap, room), Gains(gap.repeat(2, axis=1), room.repeat(2, axis=1))
    pairs = np.arange(2 * SAMPLES) // 2
    for mine, own in zip(differences(twice, 0.99, pairs), differences(single, 0.99), strict=True):
        assert mine == pytest.approx(own)
    assert np.isneginf(differences(twice, 0.99, pairs // 10)[0][0, 1])  # 7 units
    named = [explainer("good", around(0.6, 1), around(0.7, 2)), explainer("bad", around(0.2, 3), around(0.3, 4))]
    monkeypatch.setattr("veracity.cards.racing.judge", lambda *_: (named, 6, LEVEL))
    for units, stopped in ((np.arange(SAMPLES), {"good", "bad"}), (np.arange(SAMPLES) // 10, set())):
        reading: Any = SimpleNamespace(samples=SAMPLES, units=units, known={}, results={})
        assert Race(["good", "bad"], 2 * SAMPLES).look(reading).stopped.keys() == stopped


def pause_insertion(left: list[Judged], *_: Any) -> list[tuple[str, Any]]:
    """What pauses in this race: insertion."""
    return [(one.name, key) for one in left for key in one.evidence["faithful"] if key[0] is INSERTION]


@pytest.fixture(scope="module")
def raced(known: Card, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Card:
    """The race of the known card, stopped between its rounds, in which `exact` then goes on."""
    root = tmp_path_factory.mktemp("race") / "run"
    shutil.copytree(folder, root)
    first = {path: path.stat().st_mtime_ns for path in (root / "maps").rglob("*.parquet")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runs, "kept_symmetries", lambda self: [])  # there are none, and looking for them takes time
        patch.setattr("veracity.cards.racing.waits", lambda one: True)
        patch.setattr("veracity.cards.racing.to_pause", pause_insertion)
        found = known_card(root)
    assert {path: path.stat().st_mtime_ns for path in first} == first  # no cell of the first round was measured again
    return found


def test_a_race_goes_on_and_decides_the_same(raced: Card, known: Card) -> None:
    stopped = {name: one.stopped.why for name, one in raced.explainers.items() if one.stopped}
    assert stopped == {"summed": "out", "random": "out", "edges": "out", "noisy": "dominated"}
    assert raced.undominated == known.undominated == ["exact"]
    sizes = {name: one.answers[0].checks[0].n for name, one in raced.explainers.items()}
    assert sizes == {**dict.fromkeys(known.explainers, 64), "exact": 80}
    checks = {check.check: check for said in raced.explainers["exact"].answers for check in said.checks if check.n}
    own, (look,) = checks.pop("insertion"), raced.record.race
    assert (own.n, own.samples, own.level) == (64, 64, look.level)
    assert {one.samples for one in checks.values()} == {None}
    assert look.paused == {"exact": ["insertion"]}
    assert "Checks that got no more samples: insertion of exact." in str(raced)
    assert "4 explainers and 1 check of others stopped after fewer samples" in page.html(raced.record)
    for one in (one for one in raced.record.explainers if one.control):
        checks = one.answers[0].checks
        assert {(check.n, check.undefined) for check in checks} == {(80, 0)}  # what the page says of controls goes on
        assert one.out


def test_a_check_that_paused_is_not_measured_again(raced: Card) -> None:
    sizes = {(one.explainer, one.score): len(one.samples) for one in Result(f"{raced.path}/maps").series}
    assert sizes["exact", "insertion"] == 64
    assert sizes["exact", "deletion"] == 80
    assert {name: sizes[name, "deletion"] for name in ("random_gaussian", "random_uniform", "edge_filter")} == {
        "random_gaussian": 80,  # what a signed map is compared with
        "random_uniform": 64,
        "edge_filter": 64,  # no control for columns of a table
    }
    assert sizes["random_gaussian", "insertion"] == 64
    assert sizes["edge_filter", "mprt"] == 80  # the page says what controls get
    assert "After 64 of 80 samples (5 explainers, each word at" in page.html(raced.record)
    assert "noisy is dominated by exact" in str(raced)


def test_a_look_reads_no_more_than_its_own_samples(raced: Card, known: Card, tmp_path: Path) -> None:
    shutil.copytree(raced.path, tmp_path / "run")
    assert known_card(tmp_path / "run").record == known.record


def test_a_case_after_the_last_sample_of_an_explainer(raced: Card, known: Card) -> None:
    assert raced.cases is not None
    sample = raced.cases.samples[70]
    case = raced.case(sample)
    assert case.said["noisy"] == "not measured for this case, because it stopped after 64 samples."
    assert case.said["exact"].startswith("can be trusted ")
    assert case.said["edges"].startswith("not to be trusted for any case")
    assert set(case.table()["explainer"]) == {"exact"}
    assert "insertion" not in set(case.table()["check"])
    assert "Not measured for this case, since these checks stopped early: insertion." in case.said["exact"]
    assert raced.case(raced.cases.samples[5]).said["noisy"].startswith("can be trusted ")
    with pytest.raises(InputError, match="is not one of the 64 samples"):
        known.case(sample)


def test_cards_that_raced_are_compared_on_common_samples(raced: Card, known: Card) -> None:
    found = changes(known, raced, together=False)
    assert found.compared
    assert all(one.paired and one.first == one.n == 64 and one.difference == 0 for one in found.compared)
    assert [one.level for one in found.compared] == pytest.approx([1 - 0.1 * 0.05] * len(found.compared))
    assert "80 samples, the same in both" in str(found)
    assert "both cards have of them: exact, summed, noisy, random and edges on the first 64." in str(found)
    gated = not_worse(raced.path, known.path, 0.02, ["exact"])
    notes = [one.note for one in gated if not one.asked.startswith("model")]
    assert notes
    assert all("now, on the first 64 samples, after which racing stopped it" in note for note in notes)
    assert not any(one.failure for one in gated)
