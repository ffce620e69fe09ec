"""The lines are where the page and the documentation say."""

from __future__ import annotations

from pathlib import Path

import pytest

from veracity.cards import decide, dominate, plan
from veracity.cards.questions import LINES, QUESTIONS
from veracity.core.registry import SCORES

PAGE = (Path(__file__).parents[2] / "docs" / "card.md").read_text(encoding="utf-8")
RULES = {one.key: one.rule for one in QUESTIONS}


@pytest.mark.parametrize(
    ("number", "value", "question", "rule", "page"),
    [
        (LINES["lost"], 0.1, "model", "by at least 0.1", "falls by at least .1"),
        (LINES["faithful"], 0.1, "faithful", "at least a tenth", ".1 of the way"),
        (LINES["calm"], 0.9, "calm", "at least nine tenths", ".9 of the way"),
        (LINES["symmetric"], 0.99, "symmetric", "at least 0.99", "at least .99"),
        (LINES["misled"], 0.4, "robust", "below 0.4", "below .4"),
        (round(2.718281828459045 ** LINES["rarity"], 6), 0.0001, "robust", "ln 0.0001", "ln .0001"),
        (LINES["trained"], 0.5, "training", "at least half", ".5 of the way"),
        (plan.NOISE, 0.01, "calm", "a hundredth of the data's standard deviation", "a hundredth of that of the inputs"),
        (dominate.MARGIN, 0.05, "", "", "margin of .05"),
        (dominate.SURE, 0.95, "", "", "true in 95 %"),
        (decide.FEWEST, 8, "", "", "fewer than 8 samples"),
        (decide.LEAST_ROOM, 0.02, "", "", "less than .02 of room"),
        (plan.SEARCHED, 16, "", "", "around 16 samples"),
        (plan.WANTED, 32, "", "", "If 32 samples"),
        (plan.STEPS, 20, "", "", "`deletion`, 20 steps"),
        (plan.COPIES, 8, "", "", "8 copies"),
        (plan.RADIUS, 0.1, "", "", "a tenth of the standard deviation"),
    ],
)
def test_what_is_written_is_what_is_done(number: float, value: float, question: str, rule: str, page: str) -> None:
    assert number == value
    assert rule in RULES.get(question, "")
    assert page in PAGE.replace("\n", " ")


def test_questions_name_scores_that_exist_and_are_numbered() -> None:
    assert [one.number for one in QUESTIONS] == list(range(6))
    scores = {check.score for one in QUESTIONS for check in one.checks}
    assert scores <= set(SCORES)
    assert all(f"`{score}`" in PAGE for score in scores)
