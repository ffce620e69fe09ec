"""Leaderboards of hand-made runs: ties, order, directions, what is unfinished, damaged, copied or hostile."""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup, escape

import veracity
from hostile import SCRIPT
from report_runs import Observed, row, stored
from small import series_inputs, small_net
from stored import edit_manifest
from veracity import Audit, Audits, Result
from veracity.core.errors import InputError, Note, StoreError
from veracity.perturb import CyclicShift
from veracity.report.answer import order_sentence
from veracity.report.board import boards_of, column
from veracity.report.leaderboard import Leaderboard, leaderboard, named, steps, variants
from veracity.report.leaderboard_text import latex, markdown
from veracity.report.reading import read
from veracity.report.rows import ranks
from veracity.report.section import section_answer
from veracity.scores import Insertion, MaxSensitivity, RelativeInputStability, Sparseness
from veracity.walk import MonteCarlo

rng = np.random.default_rng(0)
NOISE = rng.normal(0, 0.01, 40)
LEVEL = NOISE + rng.normal(0, 0.02, 40)
"""As good as NOISE on the mean, and different from it on every sample."""
LEVEL += NOISE.mean() - LEVEL.mean()
TIED, LAST = "1\N{EN DASH}2", "2\N{EN DASH}3"
HIGHER, LOWER = "sparseness", "max_sensitivity"


def two_scores(folder: Path, *, names: tuple[str, str, str] = ("good", "alike", "bad"), model: str = "net", **manifest: object) -> Result:
    """Two explainers that cannot be told apart, one that is behind by insertion and ahead by max-sensitivity, and a random control."""
    good, alike, bad = names
    values = {good: 0.8 + NOISE, alike: 0.8 + LEVEL, bad: 0.5 + NOISE[::-1]}
    observed = [
        Observed(model=model, explainer=name, score=score, values=found) for score in (HIGHER, LOWER) for name, found in values.items()
    ]
    observed += [Observed(model=model, explainer="random_gaussian", score=HIGHER, values=0.6 + NOISE, control=True)]
    return stored(folder, {HIGHER: Sparseness(), LOWER: MaxSensitivity()}, observed, models={model: 0.75}, **manifest)


def entries(board: Leaderboard, score: str) -> dict[str, str]:
    found = next(one for one in board.boards[0].columns if one.score == score)
    return {name: str(entry.rank) for name, entry in found.entries.items()}


def test_explainers_that_cannot_be_told_apart_share_their_ranks(tmp_path: Path) -> None:
    two_scores(tmp_path / "run")
    board = leaderboard(tmp_path)
    assert entries(board, HIGHER) == {"good": TIED, "alike": TIED, "bad": "3", "random_gaussian": "None"}
    assert entries(board, LOWER) == {"good": LAST, "alike": LAST, "bad": "1"}
    table = board.table().set_index(["score", "explainer"])
    assert table.loc[(HIGHER, "good"), "tied"] == "alike"
    assert table.loc[(HIGHER, "good"), "value"] == pytest.approx(0.8 + NOISE.mean())
    assert table.loc[(HIGHER, "bad"), ["rank", "rank_last", "tied", "chance", "n"]].tolist() == [3, 3, "", "worse than chance", 40]
    assert pd.isna(table.loc[(HIGHER, "random_gaussian"), "rank"])
    assert board.boards[0].groups[0].names[0] in ("good", "alike", "bad")
    assert board.boards[0].groups[-1].names == ("random_gaussian",)


def test_ranks_are_those_of_the_reports_paired_differences(tmp_path: Path) -> None:
    run = two_scores(tmp_path / "run")
    table = run.differences(LOWER)
    told = {frozenset(pair): differs for *pair, differs in table[["first", "second", "differs"]].itertuples(index=False)}
    assert told[frozenset(("good", "alike"))] is np.False_ or not told[frozenset(("good", "alike"))]
    means = run.table()[lambda rows: rows["score"] == LOWER].set_index("explainer")["value"]
    for name, entry in boards_of(run, "run")[0].columns[1].entries.items():
        ahead = sum(bool(told[frozenset((name, other))]) and means[other] < means[name] for other in means.index if other != name)
        assert entry.rank is not None
        assert entry.rank.first == 1 + ahead


@given(apart=st.lists(st.booleans(), min_size=6, max_size=6), values=st.permutations([0.1, 0.2, 0.3, 0.4]))
def test_a_rank_leaves_room_for_exactly_those_that_are_ahead_and_behind(apart: list[bool], values: list[float]) -> None:
    names = "abcd"
    rows = [row(name, value, score="insertion") for name, value in zip(names, values, strict=True)]
    pairs = dict(zip([frozenset(pair) for pair in ("ab", "ac", "ad", "bc", "bd", "cd")], apart, strict=True))
    larger = {pair: max(pair, key=lambda name: values[names.index(name)]) if differs else "" for pair, differs in pairs.items()}
    orders = [order for order in permutations(range(4)) if consistent(order, values, pairs)]
    for place, (name, rank) in enumerate(ranks(rows, larger).items()):
        possible = {order.index(place) + 1 for order in orders}
        assert {rank.first, rank.last} <= set(range(1, 5))
        assert rank.first <= min(possible)
        assert rank.last >= max(possible)
        assert set(rank.tied) == {other for other in names if other != name and not pairs[frozenset((name, other))]}


def consistent(order: tuple[int, ...], values: list[float], pairs: dict[frozenset[str], bool]) -> bool:
    """Whether an order contradicts no pair that can be told apart: the slow way to say which ranks are possible."""
    return all(
        values[first] > values[second] or not pairs[frozenset(("abcd"[first], "abcd"[second]))]
        for place, first in enumerate(order)
        for second in order[place + 1 :]
    )


@pytest.mark.parametrize(("score", "first", "second"), [(HIGHER, "kept", "lost"), (LOWER, "lost", "kept")])
def test_who_is_ahead_is_read_off_the_samples_that_both_have(tmp_path: Path, score: str, first: str, second: str) -> None:
    """`lost` has the larger mean only because the samples on which both would be low are undefined for it."""
    kept, lost = np.concatenate([0.9 + NOISE[:20], NOISE[20:]]), np.concatenate([0.8 + LEVEL[:20], np.full(20, np.nan)])
    assert kept.mean() < np.nanmean(lost)
    assert (kept[:20] > lost[:20]).all()
    observed = [Observed(model="net", explainer=name, score=score, values=values) for name, values in (("kept", kept), ("lost", lost))]
    run = stored(tmp_path / "run", {score: Sparseness() if score == HIGHER else MaxSensitivity()}, observed)
    assert entries(leaderboard(tmp_path), score) == {first: "1", second: "2"}
    reading = read(run)
    assert [one.explainer for one in reading.rows if one.leads] == [first]
    assert f"{first} is ahead of every other explainer" in section_answer(reading, score).sentences[0].striptags()


def test_explainers_that_are_ahead_of_each_other_in_a_circle_all_have_the_middle_rank() -> None:
    rows = [row(name, 0.5, score="insertion") for name in "abc"]
    circle = {frozenset("ab"): "a", frozenset("bc"): "b", frozenset("ac"): "c"}
    assert {name: (str(rank), rank.tied) for name, rank in ranks(rows, circle).items()} == dict.fromkeys("abc", ("2", ()))
    said = order_sentence(rows, "insertion", Markup(""), circle).striptags()
    assert said == (
        "By insertion, none of a, b and c comes first: each is behind another one on the samples that both have. "
        "Of 3 pairs, 3 can be told apart."
    )


def test_nothing_is_ranked_in_the_maps_own_units_or_alone_or_while_an_explainer_is_pending() -> None:
    rows = [row("a", 1.0, score="s"), row("b", 0.5, score="s")]
    differences = pd.DataFrame([{"model": rows[0].model, "first": "a", "second": "b", "low": 0.1, "high": 0.9, "differs": True}])
    assert {name: str(entry.rank) for name, entry in column(rows, differences).entries.items()} == {"a": "1", "b": "2"}
    assert "own units" in column(rows, None).unranked
    assert "nothing to compare" in column(rows[:1], differences.iloc[:0]).unranked
    late = [rows[0], row("b", math.nan, score="s", state="pending", cells=2, cells_measured=1)]
    found = column(late, differences)
    assert "pending" in found.unranked
    assert all(entry.rank is None for entry in found.entries.values())
    assert found.entries["b"].value == "pending"


def test_without_intervals_nobody_is_ranked(tmp_path: Path) -> None:
    observed = [Observed(model="net", explainer=name, score=HIGHER, values=[value]) for name, value in (("a", 0.9), ("b", 0.1))]
    stored(tmp_path / "run", {HIGHER: Sparseness()}, observed)
    board = leaderboard(tmp_path)
    assert entries(board, HIGHER) == {"a": "None", "b": "None"}
    assert board.boards[0].columns[0].unranked == "not ranked: paired differences have no intervals"
    assert board.tallies == ()
    assert "0.900 (no interval), n 1" in board.to_markdown()
    assert "0.900" in page(board, tmp_path)


def test_an_explainer_that_was_not_compared_has_no_rank(tmp_path: Path) -> None:
    rows = [row(name, 1.0, score="s") for name in ("a", "b", "partly failed")]
    differences = pd.DataFrame([{"model": rows[0].model, "first": "a", "second": "b", "low": -0.1, "high": 0.9, "differs": False}])
    ranked = {name: str(entry.rank) for name, entry in column(rows, differences).entries.items()}
    assert ranked == {"a": TIED, "b": TIED, "partly failed": "None"}


def test_undefined_samples_are_counted(tmp_path: Path) -> None:
    values = 0.8 + NOISE
    values[:3] = np.nan
    observed = [Observed(model="net", explainer=name, score=HIGHER, values=found) for name, found in (("a", values), ("b", 0.2 + LEVEL))]
    stored(tmp_path / "run", {HIGHER: Sparseness()}, observed)
    board = leaderboard(tmp_path / "run")
    assert board.boards[0].columns[0].entries["a"].counts == "n 37, 3 undefined"
    assert "n 37, 3 undefined" in board.to_markdown()
    assert "<small>n 37, 3 undefined</small>" in page(board, tmp_path)


def page(board: Leaderboard, folder: Path) -> str:
    return board.save_page(folder / "board.html").read_text(encoding="utf-8")


def test_kinds_of_explanations_are_ranked_apart(tmp_path: Path) -> None:
    kinds = {"map": "input", "other map": "input", "example": "training set", "other example": "training set"}
    levels = {"map": 0.9, "other map": 0.7, "example": 0.5, "other example": 0.3}
    shift = dict(zip(kinds, (NOISE, LEVEL, NOISE[::-1], LEVEL[::-1]), strict=True))
    observed = [
        Observed(model="net", explainer=name, score=HIGHER, values=levels[name] + shift[name], frame=frame) for name, frame in kinds.items()
    ]
    stored(tmp_path / "run", {HIGHER: Sparseness()}, observed)
    board = leaderboard(tmp_path)
    assert entries(board, HIGHER) == {"map": "1", "other map": "2", "example": "1", "other example": "2"}
    assert "Examples" in board.to_markdown()


def test_an_unfinished_run_is_shown_and_counted(tmp_path: Path) -> None:
    values = {"a": 0.8 + NOISE, "b": 0.5 + LEVEL}
    observed = [Observed(model="net", explainer=name, score=HIGHER, values=found, pending=name == "b") for name, found in values.items()]
    stored(tmp_path / "late", {HIGHER: Sparseness()}, observed)
    two_scores(tmp_path / "whole", model="other")
    board = leaderboard(tmp_path)
    assert f"1 run is unfinished and not ranked where an explainer is pending: {tmp_path / 'late'}." in board.notes
    late = next(one for one in board.boards if one.model == "net")
    assert "1 of 2 cells" in late.standing
    assert late.columns[0].entries["b"].value == "pending"
    assert late.columns[0].entries["a"].rank is None
    assert "Unfinished: 1 of 2 cells" in page(board, tmp_path)
    assert board.table().groupby("model")["state"].agg(set).to_dict() == {"net": {"done", "pending"}, "other": {"done"}}


def test_a_damaged_run_is_named_and_left_out(tmp_path: Path) -> None:
    two_scores(tmp_path / "good")
    two_scores(tmp_path / "bad", model="other")
    cell = next((tmp_path / "bad" / "cells").iterdir())
    cell.write_bytes(cell.read_bytes()[:-8] + b"\0" * 8)
    with pytest.warns(Note, match="Left out, since it cannot be read"):
        board = leaderboard(tmp_path)
    assert board.models == ("net",)
    assert any(str(tmp_path / "bad") in note for note in board.notes)
    with pytest.raises(StoreError, match=r"No run in .* can be read"):
        leaderboard(tmp_path / "bad")


def test_a_folder_is_only_read(tmp_path: Path) -> None:
    two_scores(tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    page(leaderboard(tmp_path / "run"), tmp_path)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before


def test_a_copy_is_shown_once_and_a_run_that_is_given_twice_is_no_copy(tmp_path: Path) -> None:
    two_scores(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    board = leaderboard([tmp_path, tmp_path / "a"])
    assert len(board.boards) == 1
    assert board.notes == (f"net in {tmp_path / 'b'} has the same measurements as in {tmp_path / 'a'}, and is shown once.",)


def small_audit(draws: int = 4, steps: int = 4) -> Audit:
    return Audit(
        models={"net": small_net()}, inputs=series_inputs(5),
        explainers={"ig": veracity.explain.IntegratedGradients(steps=steps), "gradient": "gradient"},
        scores={"insertion": Insertion(steps=draws)}, controls=False, companions=False,
    )  # fmt: skip


def test_runs_with_other_settings_are_kept_apart_and_it_is_said_how(tmp_path: Path) -> None:
    Audits(audits={"a": small_audit(), "b": small_audit(draws=3, steps=5)}).run(tmp_path / "both", progress=False)
    board = leaderboard(tmp_path)
    assert [one.run for one in board.boards] == [str(tmp_path / "both" / name) for name in "ab"]
    assert board.notes == (
        f"net is in several runs, which are kept apart: {tmp_path}/both/a, {tmp_path}/both/b. They differ in the settings of ig, the "
        "settings of insertion.",
    )
    assert {one.explainer for one in board.tallies} == {"ig (steps=4)", "ig (steps=5)", "gradient"}
    assert board.tallied == ("insertion (steps=4)", "insertion (steps=3)")
    shutil.rmtree(tmp_path / "both" / "b")
    assert f"1 run is unfinished and not ranked where an explainer is pending: {tmp_path}/both/b." in leaderboard(tmp_path).notes


def test_names_of_settings_differ_even_where_they_are_long() -> None:
    long = [{"name": "x", "w": "a" * 99}, {"name": "x", "w": "b" * 99}]
    assert list(named("x", long)) == ["x (settings 1)", "x (settings 2)"]
    assert variants([{"x": long[0]}, {"x": long[0]}]) == [{"x": "x"}, {"x": "x"}]


def test_the_count_over_models_leaves_out_who_is_no_better_than_chance(tmp_path: Path) -> None:
    two_scores(tmp_path / "a", model="one")
    two_scores(tmp_path / "b", model="two")
    tallies = {one.explainer: dict(one.by_score) for one in leaderboard(tmp_path).tallies}
    assert tallies["good"] == {HIGHER: (2, 2), LOWER: (0, 2)}
    assert tallies["bad"] == {HIGHER: (0, 2), LOWER: (2, 2)}
    observed = [Observed(model="net", explainer=name, score=HIGHER, values=0.5 + found) for name, found in (("a", NOISE), ("b", LEVEL))]
    observed += [Observed(model="net", explainer="random_gaussian", score=HIGHER, values=0.7 + NOISE, control=True)]
    stored(tmp_path / "c", {HIGHER: Sparseness()}, observed)
    low = leaderboard(tmp_path / "c")
    assert entries(low, HIGHER)["a"] == TIED
    assert {one.total for one in low.tallies} == {(0, 1)}


@pytest.mark.parametrize(
    "name", [SCRIPT, "a|b`c`", "x\ny", '" onmouseover="alert(1)', "{{ 7 * 7 }}", "\\input{/etc/passwd}", "100 % & $x_1^2$ ~#{}"]
)
def test_hostile_names_are_only_text(tmp_path: Path, name: str) -> None:
    two_scores(tmp_path / "run", names=(name, "alike", "bad"), model=name + "!")
    board = leaderboard(tmp_path)
    html, text, tex = page(board, tmp_path), board.to_markdown(), board.to_latex()
    assert html.count("<script>") == 1
    assert "<img" not in html
    assert ' onmouseover="' not in html
    assert f"<h2>{escape(name)}!</h2>" in html
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in tables}) == 1
    assert "<" not in text
    assert "\\input" not in tex
    rows = [line for line in tex.splitlines() if line.endswith(r" \\")]
    assert len(rows) == 6
    assert {len(re.findall(r"(?<!\\)&", line)) for line in rows} == {2}
    found = list(csv.DictReader(io.StringIO(board.table().to_csv(index=False))))
    assert {one["explainer"] for one in found} >= {name, "alike"}


@pytest.mark.parametrize("name", ["[5cm]", "*", "* [1pt]", " [x"])
def test_no_row_of_latex_begins_as_an_argument_of_the_line_break_before(tmp_path: Path, name: str) -> None:
    two_scores(tmp_path / "run", names=("first", name, "bad"))
    tex = leaderboard(tmp_path).to_latex()
    assert f"\n{latex(name)} & " in tex
    assert not re.search(r"\\\\\s*[\[*]", tex)


def test_names_are_escaped() -> None:
    assert latex("a_b & 50 % {x} $y$ #1 ~ ^ \\ <>") == (
        r"a\_b \& 50 \% \{x\} \$y\$ \#1 \textasciitilde{} \textasciicircum{} \textbackslash{} \textless{}\textgreater{}"
    )
    assert markdown("plain_name") == "`plain_name`"
    assert markdown("[x](http://a)\n*b*") == r"\[x\]\(http\://a\) \*b\*"


def test_only_the_pages_own_script_may_run(tmp_path: Path) -> None:
    two_scores(tmp_path / "run")
    html = page(leaderboard(tmp_path), tmp_path)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)
    assert policy is not None
    assert re.search(r"default-src 'none'; script-src 'sha256-[\w+/=]{44}'; style-src", policy[1].replace("&#39;", "'"))
    assert "unsafe-eval" not in policy[1]
    assert not re.search(r"\beval\(|new Function|https?://|innerHTML", html)


def test_links_are_not_followed(tmp_path: Path) -> None:
    two_scores(tmp_path / "elsewhere" / "run")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="There is no audit in"):
        leaderboard(tmp_path / "here")


def test_what_is_no_audit_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a folder"):
        leaderboard([])
    with pytest.raises(StoreError, match="is not a folder"):
        leaderboard(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"There is no audit in .*: give a run folder"):
        leaderboard(tmp_path)
    stored(tmp_path / "models", {HIGHER: Sparseness()}, [Observed(model="net", explainer="", score=HIGHER, values=NOISE)])
    with pytest.raises(StoreError, match="has scores of explanations"):
        leaderboard(tmp_path)


def test_no_code_of_a_folder_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_scores(tmp_path / "run")
    (tmp_path / "trip.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))

    def change(manifest: dict[str, object]) -> None:
        spec = manifest["spec"]
        assert isinstance(spec, dict)
        spec["explainers"] = {"good": {"name": "trip", "import": "trip:x"}, "alike": ["trip:x"], "bad": 3}

    edit_manifest(tmp_path / "run", change)
    assert leaderboard(tmp_path / "run").models == ("net",)
    assert "trip" not in sys.modules


def test_scores_in_the_maps_own_units_are_shown_without_ranks(tmp_path: Path) -> None:
    score = MaxSensitivity(relative=False, walk=MonteCarlo(draws=1))
    assert score.in_map_units
    observed = [
        Observed(model="net", explainer=name, score="plain", values=found) for name, found in (("a", 0.1 + NOISE), ("b", 5 + NOISE))
    ]
    stored(tmp_path / "run", {"plain": score}, observed)
    board = leaderboard(tmp_path)
    assert entries(board, "plain") == {"a": "None", "b": "None"}
    assert "own units" in board.to_markdown()
    assert board.table()["rank"].isna().all()


def test_a_real_audit_has_its_controls_apart(tmp_path: Path) -> None:
    Audit(
        models={"net": small_net()}, inputs=series_inputs(6), explainers=["gradient", "saliency"],
        scores=["equivariance", RelativeInputStability()],
        symmetry=CyclicShift(axes=(-1,)), companions=False,
    ).run(tmp_path / "run", progress=False)  # fmt: skip
    board = leaderboard(str(tmp_path))
    table = board.table()
    assert set(table.loc[table["control"], "explainer"]) >= {"random_uniform", "constant_map"}
    assert table.loc[table["control"], "rank"].isna().all()
    assert set(table.loc[~table["control"], "explainer"]) == {"gradient", "saliency"}
    assert board._repr_html_().startswith("<iframe")
    assert str(board) == board.to_markdown()


def test_the_bar_moves_forward_to_its_end(tmp_path: Path) -> None:
    moved: list[int] = []
    boards_of(two_scores(tmp_path / "run"), "run", steps(lambda number, text="": moved.append(number), 100))
    assert len(moved) == 9  # seven rows and two scores
    assert min(moved) >= 0
    assert sum(moved) == 100
