from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

import report_runs
from veracity.report.answer import answer, no_better_than_random, noise_limited
from veracity.report.rows import COLUMNS, Verdict, verdict
from veracity.results import Row


def row(explainer: str = "saliency", value: float = 1.0, half: float = 0.0, **changes: Any) -> Row:
    shared = {"n": 10, "draws_low": value, "draws_high": value, "self_agreement": 1.0, "random_control": 0.0}
    return report_runs.row(explainer, value, half, **{**shared, **changes})


def own(model: str, value: float, half: float = 0.0) -> Row:
    return row("", value, half, model=model, score="model_invariance", self_agreement=math.nan, random_control=math.nan)


def said(*rows: Row, models: tuple[str, ...] = ("net",), differ: tuple[str, ...] = ()) -> str:
    found = answer(rows, "equivariance", models, differences=differences(rows, differ))
    return " ".join(sentence.striptags() for sentence in found.sentences)


def differences(rows: Sequence[Row], differ: tuple[str, ...]) -> pd.DataFrame:
    """Every pair of explainers; those differ that hold one of the names."""
    pairs = [(a, b) for place, a in enumerate(rows) for b in rows[place + 1 :] if a.explainer and b.explainer and a.model == b.model]
    made = []
    for a, b in pairs:
        gap = a.value - b.value
        apart = gap != 0 and bool({a.explainer, b.explainer} & set(differ))
        made.append([a.model, a.explainer, b.explainer, gap, *((gap / 2, 2 * gap) if apart else (-1.0, 1.0)), 10, apart])
    return pd.DataFrame(made, columns=COLUMNS)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.99, 1.0, Verdict.KEEPS),
        (0.9899, 1.0, Verdict.OPEN),
        (0.5, 0.99, Verdict.OPEN),
        (0.5, 0.9899, Verdict.BREAKS),
        (math.nan, math.nan, Verdict.UNKNOWN),
    ],
)
def test_the_verdict_is_the_intervals(low: float, high: float, expected: Verdict) -> None:
    assert verdict(row(low=low, high=high)) is expected
    assert verdict(row(low=low, high=high, failed="no memory", state="failed")) is Verdict.FAILED
    assert verdict(row(low=low, high=high, state="pending")) is Verdict.PENDING
    assert verdict(row(low=math.nan, high=high)) is Verdict.UNKNOWN


def test_one_model_in_sentences() -> None:
    rows = (own("net", 1.0), row("a"), row("b", 0.5, 0.1), row("c", 0.4, 0.2), row("control", 0.0, control=True))
    told = (
        "Under the transforms, net keeps its output. 1 of 3 explainers respects the symmetry. An explainer respects it if its 95 % "
        "interval of equivariance lies at or above 0.99."
    )
    assert said(*rows) == told
    assert said(*rows, differ=("c",)) == f"{told} By equivariance, c is behind every other explainer: 0.400 (0.200 to 0.600)."


def test_several_models_in_sentences() -> None:
    rows = [
        own("m", 1.0), own("n", 0.5, 0.1), own("o", 0.98, 0.02), row("a", model="m"), row("b", model="m"), row("a", 0.9, 0.01, model="n"),
        row("b", -0.25, 0.25, model="n"), row("a", 0.98, 0.02, model="o"), row("b", 0.98, 0.02, model="o"),
    ]  # fmt: skip
    assert said(*rows, models=("m", "n", "o")) == (
        "Under the transforms, m keeps its output; n does not; these samples are too few to decide for o. Of the explainers, 2 of 2 on m "
        "and none of 2 on n or o respect the symmetry. An explainer respects it if its 95 % interval of equivariance lies at or above 0.99."
    )
    assert said(*rows, models=("m", "n", "o"), differ=("b",)).endswith(
        "By equivariance on n, b is behind every other explainer: \N{MINUS SIGN}0.250 (\N{MINUS SIGN}0.500 to 0.000)."
    )


def test_models_that_all_change() -> None:
    rows = [own("m", 0.5), own("n", 0.5), row(model="m"), row(model="n")]
    assert said(*rows, models=("m", "n")).startswith("Under the transforms, m and n change their output. ")


def test_a_distance_gets_no_verdict_but_its_ends() -> None:
    rows = [row("a", 0.1, 0.05, direction="lower"), row("b", 3.0, 1.0, direction="lower")]
    found = answer(rows, "equivariance", ("net",))
    assert found.models[0].findings == ()
    assert not found.judged
    assert said(*rows) == "By equivariance, a and b cannot be told apart: none of their paired differences excludes zero."
    assert said(*rows, differ=("a",)) == "By equivariance, a is ahead of every other explainer: 0.100 (0.050 to 0.150)."


def test_an_unknown_score_gets_no_verdict() -> None:
    found = answer([row("a", score="faithfulness")], "faithfulness", ("net",))
    assert found.models[0].findings == ()


def test_nothing_is_known() -> None:
    assert said(row(value=math.nan, low=math.nan, high=math.nan)) == "No explainer has a value of equivariance."


def test_findings_hold_every_explainer_once_best_first() -> None:
    rows = [row("c", 0.3), row("a"), row("b", 0.5), row("d", math.nan), row("x", control=True)]
    findings = {item.verdict: item for item in answer(rows, "equivariance", ("net",)).models[0].findings}
    assert {kind: item.names for kind, item in findings.items()} == {
        Verdict.KEEPS: ("a",),
        Verdict.BREAKS: ("b", "c"),
        Verdict.UNKNOWN: ("d",),
    }
    assert (findings[Verdict.KEEPS].phrase, findings[Verdict.BREAKS].phrase) == ("respects the symmetry", "do not respect it")


def test_noise_is_told_from_asymmetry() -> None:
    assert noise_limited(row(value=0.5, half=0.02, self_agreement=0.53))
    assert not noise_limited(row(value=0.5, half=0.02, self_agreement=0.54))
    assert not noise_limited(row(value=0.5, half=0.02, self_agreement=1.0))
    assert not noise_limited(row(value=0.5, half=0.02, self_agreement=math.nan))
    assert not noise_limited(row(value=1.0, self_agreement=0.98))


def test_random_is_the_null() -> None:
    assert no_better_than_random(row(value=0.5, half=0.1, random_control=0.4))
    assert not no_better_than_random(row(value=0.5, half=0.05, random_control=0.4))
    assert no_better_than_random(row(value=0.5, half=0.2, random_control=0.6, direction="lower"))
    assert not no_better_than_random(row(value=0.5, half=0.05, random_control=0.6, direction="lower"))
    assert not no_better_than_random(row(value=0.5, random_control=math.nan))


def test_remarks_qualify_the_verdicts() -> None:
    rows = [own("net", 0.6, 0.1), row("shap", 0.5, 0.02, self_agreement=0.5), row("lost", 0.0, 0.1)]
    remarks = [item.striptags() for item in answer(rows, "equivariance", ("net",)).models[0].remarks]
    assert remarks[0].startswith("The model itself reacts to the transforms")
    near = "The interval comes within 0.01 of the explainer's agreement with itself, which points to noise, not asymmetry"
    assert remarks[1] == f"{near}: shap (0.500, itself 0.500)."
    assert remarks[2] == "Not clearly better than the random control: lost."


def test_a_models_behaviour_is_told_as_far_as_known() -> None:
    def told(*rows: Row) -> str:
        return answer([row(), *rows], "equivariance", ("net",)).models[0].behaviour

    assert told() == "Model invariance was not measured."
    assert told(own("net", math.nan)) == "Model invariance is undefined."
    assert told(own("net", 0.5, 0.25)) == "Model invariance 0.500 (0.250 to 0.750)"
