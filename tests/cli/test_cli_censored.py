from __future__ import annotations

import csv
import io
import json
import math
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import code

from search_audits import audit_of, images, tanh_net
from veracity.cli.gate import judge
from veracity.core.errors import Note
from veracity.core.wording import MINUS
from veracity.results import Result, compared
from veracity.scores.rare_events import LnPHat
from veracity.walk import SubsetSimulation

BALL = {"radius": 0.3, "range": (0.0, 1.0)}


def run(folder: Path, seed: int, threshold: float, count: int = 12) -> Result:
    score = LnPHat(**BALL, threshold=threshold, walk=SubsetSimulation(population=40, steps=3, floor=-7.0))
    audit = audit_of(tanh_net(), images(count), [score], explainers=["input_x_gradient", "gradient"], controls=True, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        return audit.run(folder, progress=False)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Result]:
    folder = tmp_path_factory.mktemp("runs")
    return run(folder / "mild", 0, 0.93), run(folder / "hard", 1, 0.8)


def rows_of(result: Result) -> pd.DataFrame:
    return result.table().set_index("explainer")


def test_the_table_tells_bounds_and_open_ends(pair: tuple[Result, Result]) -> None:
    for result in pair:
        table = result.table()
        opened = table[np.isinf(table["low"])]
        assert len(opened)
        assert (opened["censored"] >= 3).all()
        samples = result.samples("ln_p_f_hat").groupby("explainer")
        for row in table[table["n"] == 12].to_dict("records"):
            own = samples.get_group(row["explainer"])
            lower = np.sort(np.where(own["censored"], -np.inf, own["value"]))
            assert row["low"] == lower[2]  # the third of twelve
            assert row["bound"] == ((lower[5] + lower[6]) / 2 != np.median(own["value"]))
            assert row["value"] == np.median(own["value"])
    assert pair[1].table()["bound"].any()
    assert not pair[0].table()["bound"].all()


def test_the_random_control_is_a_median_too(pair: tuple[Result, Result]) -> None:
    table = rows_of(pair[0])
    control = table.loc[["random_uniform", "random_gaussian"]]
    assert not control["bound"].any()
    assert table.loc["gradient", "random_control"] in set(control["value"])


def test_no_format_has_infinite_ends(pair: tuple[Result, Result], capsys: pytest.CaptureFixture[str]) -> None:
    path = pair[1].path
    bad = re.compile(r"(?<!L-)\b(nan|inf|infinity)\b", re.IGNORECASE)
    assert code("show", path) == 0
    shown = capsys.readouterr().out
    assert re.search(r"gradient +≤ -7.00 +≤ -\d", shown)
    assert code("show", path, "--format", "csv") == 0
    table = capsys.readouterr().out
    assert code("show", path, "--format", "json") == 0
    lines = capsys.readouterr().out
    rows = {row["explainer"]: row for row in map(json.loads, lines.splitlines())}
    assert rows["gradient"]["low"] is None
    assert rows["gradient"]["bound"] is True
    assert rows["gradient"]["high"] < 0
    page = pair[1].save_report(Path(path) / "report.html").read_text(encoding="utf-8")
    body = re.sub(r"<(style|script).*?</\1>|[A-Za-z0-9+/=]{200,}", "", page, flags=re.DOTALL)
    assert [text for text in (shown, table, lines, str(pair[1]), body) if bad.search(text)] == []
    assert "≤ -7.00" in body.replace(MINUS, "-")
    assert "at most this" in body
    ranking = body[body.index('aria-label="Ranking by ln P of F-hat"') :]
    assert ranking[: ranking.index("All numbers")].count('class="arrow"') == int(pair[1].table()["bound"].sum())
    listed = {row["explainer"]: row for row in csv.DictReader(io.StringIO(table))}
    assert (listed["gradient"]["bound"], listed["gradient"]["low"], listed["gradient"]["state"]) == ("True", "", "done")
    line = next(text for text in str(pair[1]).splitlines() if " gradient " in text)
    assert re.search(r"↓ +≤ -7\.000 +≤ -\d\.\d{3} +12 ", line)


def test_the_gate_does_not_hold_an_end_that_is_not_known(pair: tuple[Result, Result], capsys: pytest.CaptureFixture[str]) -> None:
    table = rows_of(pair[1])
    assert math.isinf(table.loc["gradient", "low"])
    assert code("gate", pair[1].path, "--require", "ln_p_f_hat>=-1000", "--explainer", "gradient") == 1
    assert "low end not known, since samples are censored" in capsys.readouterr().err
    high = table.loc["gradient", "high"]
    assert code("gate", pair[1].path, "--require", f"ln_p_f_hat<={high + 0.01:.4f}", "--explainer", "gradient") == 0
    few = pair[1].table().assign(low=np.nan, high=np.nan, n=5)
    assert "5 samples are too few for it, or share a single draw" in judge(few.to_dict("records"), ["ln_p_f_hat<=0"]).failures[0]
    equal = pair[1].table().assign(low=-5.0, high=-5.0, n=5, unseen=0.45, state="done", failed="", unit="patient")
    assert "59 equal patients are needed" in judge(equal.to_dict("records"), ["ln_p_f_hat<=0"], max_unseen=0.05).failures[0]


def test_runs_are_compared_by_medians(pair: tuple[Result, Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(Note, match="differ in scores, seed"):
        table = compared(*pair).set_index("explainer")
    row, before, after = table.loc["gradient"], rows_of(pair[0]).loc["gradient"], rows_of(pair[1]).loc["gradient"]
    assert (row["before"], row["after"]) == (before["value"], after["value"])
    assert (row["before_bound"], row["after_bound"]) == (before["bound"], after["bound"])
    assert row["after_bound"]
    each = [result.samples("ln_p_f_hat").query("explainer == 'gradient'") for result in pair]
    lower, upper = np.sort(
        [
            np.where(each[1]["censored"], -np.inf, each[1]["value"] - each[0]["value"].to_numpy()),
            np.where(each[0]["censored"].to_numpy(), np.inf, each[1]["value"] - each[0]["value"].to_numpy()),
        ]
    )
    assert (row["low"], row["high"]) == (lower[2], upper[-3])
    assert code("diff", pair[0].path, pair[1].path) == 0
    out = capsys.readouterr().out
    assert re.search(r" gradient +≤ -7\.000 +≤ -7\.000 +not known", out)
    assert not re.search(r"\b(nan|inf)\b", out)
    other = run(tmp_path / "fewer", 0, 0.93, count=11)
    apart = compared(pair[0], other).set_index("explainer").loc["random_uniform"]
    assert not apart["paired"]
    assert apart["difference"] == rows_of(other).loc["random_uniform", "value"] - apart["before"]
    assert apart["low"] <= apart["difference"] <= apart["high"]


def test_differences_tell_what_is_only_a_bound(pair: tuple[Result, Result]) -> None:
    table = pair[1].differences("ln_p_f_hat").set_index(["first", "second"])
    row = table.loc[("gradient", "random_uniform")]
    assert row["bound"] == "at most"
    assert row["low"] == -math.inf
    assert row["n"] == 12
    assert row["differs"] == (row["high"] < 0)
    assert set(table["bound"]) <= {"", "at least", "at most"}
