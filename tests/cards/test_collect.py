"""Sentences from standings, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from veracity.cards.checks import RANKS, Evidence
from veracity.cards.collect import hint, leans_apart, sentence
from veracity.cards.decide import Standing, Terms, Word
from veracity.cards.questions import QUESTIONS
from veracity.explain import InputXSaliency, TopK

MODEL, FAITHFUL, *_ = QUESTIONS
DELETION, INSERTION, GEF = FAITHFUL.checks
GOOD = Standing(word=Word.HOLDS, value=0.62, low=0.17, high=0.91, n=32)
BAD = Standing(word=Word.SHORT, value=-0.5, low=-0.7, high=-0.2, n=32)
OPEN = Standing(word=Word.UNTOLD, value=0.15, low=0.05, high=0.25, n=32, more=40)
FAR_OFF = Standing(word=Word.UNTOLD, value=0.1, low=-0.9, high=1.1, n=32)
EQUAL = Standing(word=Word.SHORT, value=0.0, low=0.0, high=0.0, n=32, unseen=0.22)
MISSING = Standing(word=Word.UNTOLD, why="nobody gave a trainer")


@pytest.mark.parametrize(
    ("word", "standings", "said"),
    [
        (Word.HOLDS, [(DELETION, GOOD)], "By deletion it covers 0.62 of the way from the controls to the ideal (0.17 to 0.91)."),
        (
            Word.SHORT,
            [(DELETION, OPEN), (INSERTION, BAD)],
            "By insertion it falls behind its control, covering \N{MINUS SIGN}0.50 of the way (\N{MINUS SIGN}0.70 to \N{MINUS SIGN}0.20).",
        ),
        (
            Word.UNTOLD,
            [(DELETION, GOOD), (GEF, OPEN)],
            "By Fast-GEF it covers 0.15 of the way (0.05 to 0.25). About 40 more samples would tell.",
        ),
        (Word.UNTOLD, [(GEF, FAR_OFF)], "It would take more than 100 times as many samples to tell."),
        (
            Word.UNTOLD,
            [(DELETION, GOOD), (INSERTION, BAD)],
            "The scores contradict each other, which more samples will not settle: by deletion",
        ),
        (Word.UNTOLD, [(DELETION, MISSING), (GEF, MISSING)], "Nobody gave a trainer."),
        (Word.SHORT, [(MODEL.checks[1], EQUAL)], "falls by 0.00 on every sample (up to 22 % of other samples may differ)."),
    ],
)
def test_a_sentence_says_what_decides(word: Word, standings: list[tuple], said: str) -> None:
    assert said in sentence(word, [(check, "", one) for check, one in standings])


def test_a_map_that_becomes_constant_has_lost_its_agreement() -> None:
    """Grad-CAM of another class is often zero everywhere: that is a change. A map that was constant before has nothing to lose."""
    own, other = (SimpleNamespace(samples=np.arange(20), directed=True, per_sample=np.ones(20)) for _ in range(2))
    agreed, kept = np.ones((20, 1)), np.full((20, 1), np.nan)
    agreed[:5] = np.nan
    tables = {id(own): agreed, id(other): kept}
    reading: Any = SimpleNamespace(
        known={("maps", "e", RANKS): own, ("maps", "e", "random_logit"): other},
        samples=20, classes=10, assumed=lambda part, score: 1.0, table=lambda part, one: tables[id(one)], crossed=lambda one: False,
        places=lambda one: (one.samples, np.ones(20, dtype=bool)), units=None, unit="unit", rows=None,
    )  # fmt: skip
    found = MODEL.checks[1].evidence(reading, "e", "maps")
    assert isinstance(found, Evidence)
    assert found.gap is not None
    assert found.gap.tolist() == [0.0] * 5 + [1.0] * 15


def test_maps_with_the_sign_of_the_input_are_not_asked_about_the_other_of_two_classes() -> None:
    """x times |gradient| is the same for both logits of f and -f, and so is the magnitude."""
    assert not InputXSaliency().directed
    assert not TopK(explainer=InputXSaliency(), k=2).directed
    own = SimpleNamespace(samples=np.arange(20), directed=False)
    reading: Any = SimpleNamespace(known={("maps", "e", "random_logit"): own}, classes=2, assumed=lambda part, score: 1.0)
    found = MODEL.checks[1].evidence(reading, "e", "maps")
    assert isinstance(found, Standing)
    assert (found.word, found.why) == (Word.NOT_ASKED, "maps of magnitudes may be the same for two classes")


def test_copies_that_all_samples_share_give_no_number_of_samples() -> None:
    spread = np.repeat(np.linspace(-1.0, 1.4, 8)[None], 60, axis=0) + np.linspace(0.0, 1e-3, 60)[:, None]
    found = Terms(spread, np.ones_like(spread), crossed=True).standing(0.1, 0.95)
    assert (found.word, found.more, found.shared) == (Word.UNTOLD, None, True)
    assert hint([found]) == "copies of the model differ"
    assert sentence(Word.UNTOLD, [(MODEL.checks[0], "", found)]).endswith(
        "depends on the randomised copies of the model, which all samples share."
    )


def test_an_open_score_below_its_line_may_come_to_contradict_those_that_hold() -> None:
    low = Standing(word=Word.UNTOLD, value=-0.2, low=-0.6, high=0.2, n=32, more=240)
    standings = [(DELETION, "", GOOD), (INSERTION, "", low)]
    assert leans_apart(standings)
    assert not leans_apart([(DELETION, "", GOOD), (GEF, "", OPEN)])
    assert hint([GOOD, low], leaning=True) == "scores may contradict"
    said = sentence(Word.UNTOLD, standings, witnesses=True)
    assert said.startswith("It holds by deletion. By insertion ")
    assert said.endswith("About 240 more samples would settle this score, but the other holds: they may then contradict each other.")


@pytest.mark.parametrize(
    ("standings", "said"),
    [
        ([GOOD, OPEN], "40 more samples"),
        ([GOOD, BAD], "scores contradict"),
        ([FAR_OFF], "over 100 times the samples"),
        ([MISSING], "not measured"),
        ([Standing(word=Word.UNTOLD, value=0.3, why="3 samples are fewer than 8")], "too little data"),
    ],
)
def test_a_hint_says_what_is_waited_for(standings: list[Standing], said: str) -> None:
    assert hint(standings) == said
