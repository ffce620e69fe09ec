from __future__ import annotations

import dataclasses
import math
import re
import warnings
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from report_pages import EVIL, Page, drawings
from torch import nn

from veracity.audit import Audit
from veracity.core.errors import Note
from veracity.core.scores import Measured
from veracity.core.wording import MINUS
from veracity.measure import mse
from veracity.report.answer import answer
from veracity.report.figure import shared_figure
from veracity.report.figures.adversaries import NONE, NOT_KEPT, EventPairs, Point, adversaries_data, draw_adversaries, event_pairs
from veracity.report.figures.panels import SEEDS, some_seeds
from veracity.report.figures.ranking import draw_ranking, ranking_data
from veracity.report.figures.robustness import dots_data, draw_profiles, profile_data
from veracity.report.figures.search import course, descent, middle, search_data, titles
from veracity.report.figures.tables import matrix_data
from veracity.report.html import draw
from veracity.report.reading import read
from veracity.report.rows import COLUMNS
from veracity.report.section import section
from veracity.results import Result, Row
from veracity.results.words import cost
from veracity.scores.rare_events import LnPHat, LnPMisclassified, LnPTilde
from veracity.scores.robustness import SolHat, SolTilde, WorstLoss
from veracity.walk import Genetic, GradientSearch, Strongest, SubsetSimulation

SEARCH = Strongest(searches=(Genetic(population=8, generations=4, elites=2), GradientSearch(population=2, steps=4)))
RARE = SubsetSimulation(population=20, steps=2, rho=0.2, floor=-5.0)
EXPLAINERS = ["gradient", "input_x_gradient"]
SCORES = {
    "sol_f_hat": SolHat(radius=0.2, walk=SEARCH),
    "sol_f_hat wide": SolHat(radius=0.6, walk=SEARCH),
    "sol_f_tilde": SolTilde(radius=0.6, walk=SEARCH),
    "ln_p_f_hat": LnPHat(radius=0.2, walk=RARE, threshold=0.9),
    "ln_p_f_hat wide": LnPHat(radius=0.6, walk=RARE, threshold=0.9),
    "ln_p_f_tilde": LnPTilde(radius=0.6, walk=RARE),
    "worst_loss": WorstLoss(radius=0.6, walk=SEARCH),
    "ln_p_misclassified": LnPMisclassified(radius=0.6, walk=RARE),
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Softplus(), nn.Flatten(), nn.Linear(36, 3)).eval()
    x = torch.rand(6, 1, 5, 5, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        labels = net(x).argmax(1)
    labels[5] = (labels[5] + 1) % 3
    audit = Audit(models={"net": net}, inputs=x, targets=labels, explainers=EXPLAINERS, scores=SCORES, controls=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        return audit.run(tmp_path_factory.mktemp("runs") / "robust")


@pytest.fixture(scope="module")
def html(result: Result) -> str:
    path = result.save_report(Path(result.path) / "report.html")
    return path.read_text(encoding="utf-8")


def measured(**quantities: Any) -> Measured:
    return Measured({name: np.array(values, dtype=np.float64) for name, values in quantities.items()})


def named(model: str, explainer: str, values: Measured) -> Any:
    return SimpleNamespace(model=model, explainer=explainer, score="sol_f_hat", measured=values)


def part_of(html: str, title: str) -> str:
    return next(part for part in html.split("<section ") if f"<h2>{title}</h2>" in part)


def test_the_page_is_sound_and_holds_every_figure(html: str) -> None:
    page = Page(html)
    assert page.unbalanced == []
    assert {ElementTree.fromstring(text).tag for text in drawings(html)} == {"svg"}
    assert "https://" not in html
    ids = [value for name, value in page.attributes if name == "id"]
    assert {value[1:] for name, value in page.attributes if name == "href" and value.startswith("#")} <= set(ids)
    written = [page.text, *(value for _, value in page.attributes)]
    assert not [text for text in written if re.search(r"\b(nan|inf|None)\b", text)]
    for title in ("Sol F-hat", "Sol F-hat wide", "Sol F-tilde", "The models"):
        assert "How the search went" in part_of(html, title)
    for title in ("ln P of F-hat", "ln P of F-tilde", "The models"):
        assert "Sample by sample" in part_of(html, title)
        assert "Probability against rarity" in part_of(html, title)
    assert "Spread over samples" not in part_of(html, "ln P of F-hat")
    together = part_of(html, "Robustness")
    assert "immune to F-hat and helpless against F-tilde" in together
    assert together.count('class="exhibit pairs"') == 2 * len(EXPLAINERS)
    assert together.index("How it grows with the radius") < together.index("Adversarial explanations")
    assert not re.search(r"better than chance|worse than chance", page.text)


def test_evaluations_are_exact_and_said(result: Result, html: str) -> None:
    table = result.table().set_index(["explainer", "score"])
    made = 5 * (8 + 6 * 4 + 2 * 4)  # five seeds; the elites of the genetic search are not evaluated again
    assert made == table.loc[("gradient", "sol_f_hat"), "evaluations"]
    assert f"{made:,} evaluations for each of 2 explainers, {2 * made:,} in all." in part_of(html, "Sol F-hat")
    total = result.table()["evaluations"].sum()
    assert ("Evaluations", f"{total:,}") in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html)


def test_the_text_of_a_result_says_bounds_outcomes_and_evaluations(result: Result) -> None:
    lines = {tuple(line.split()[1:3]): line for line in str(result).splitlines()[1:] if line.startswith("  net") or "net" in line[:8]}
    first = next(line for key, line in lines.items() if key[:2] == ("gradient", "sol_f_hat"))
    assert re.search(r"5 of 5 feasible, 1 undefined +\d[\d,]*$", first)
    censored = result.table().query("censored > 0")
    assert len(censored)
    for row in censored.to_dict("records"):
        if 2 * row["censored"] > row["n"]:
            line = next(text for text in str(result).splitlines() if row["explainer"] in text and f" {row['score']} ↓" in text)
            assert "≤ -5.000" in line
            assert f"{row['censored']} of {row['n']} censored" in line


def test_a_search_gets_worse_and_ends_at_the_score(result: Result) -> None:
    reading = read(result)
    for label, score in SCORES.items():
        if not isinstance(score, SolHat | SolTilde):
            continue
        values = result.samples(label).set_index(["explainer", "sample"])["value"]
        for one in (one for one in result.series if one.score == label):
            lines = [course(score, one.measured, search) for search in range(2)]
            assert all(line is not None and (np.diff(line.evaluations) > 0).all() for line in lines)
            ends = np.array([line.seeds[:, -1] for line in lines if line is not None])
            worst = np.fmin(*ends) if score.same_label else np.fmax(*ends)
            np.testing.assert_allclose(worst, [values[one.explainer, sample] for sample in range(5)], atol=1e-12)
            for line in lines:
                assert line is not None
                steps = np.diff(line.seeds, axis=1)
                assert np.nanmax(steps * (1 if score.same_label else -1), initial=0.0) <= 1e-12
    data = search_data(SCORES["sol_f_hat"], [one for one in result.series if one.score == "sol_f_hat"], reading.models, EXPLAINERS)
    assert [panel.title for panel in data.panels] == ["Genetic", "Gradient"]
    assert [fan.label for fan in data.panels[0].fans] == EXPLAINERS


def test_seeds_without_a_feasible_point_count_as_harmless() -> None:
    found = measured(
        evaluations=[[[10, 20, 30]], [[10, 20, np.nan]], [[10, 20, 30]], [[np.nan] * 3]],
        merit=[[[0.2, 0.4, 0.6]], [[-0.5, 0.8, np.nan]], [[-0.5, -0.4, -0.3]], [[np.nan] * 3]],
    )
    line = course(SolHat(), found, 0)
    assert line is not None
    np.testing.assert_array_equal(line.evaluations, [10, 20, 30])
    np.testing.assert_allclose(line.seeds, [[0.8, 0.6, 0.4], [np.nan, 0.2, 0.2], [np.nan] * 3])
    np.testing.assert_allclose(line.middle, [np.nan, 0.6, 0.4])  # a third of the seeds is not half
    assert line.feasible == 2
    assert course(SolHat(), measured(evaluations=[[[np.nan]]], merit=[[[np.nan]]]), 0) is None


@pytest.mark.parametrize("score", [SolHat(), SolTilde(), SolHat(measure=mse), SolTilde(measure=mse)])
def test_merit_and_agreement_are_each_others_inverse(score: SolHat | SolTilde) -> None:
    agreement = torch.tensor([0.05, 0.4, 0.9], dtype=torch.float64)
    merit = score.merit(torch.stack((agreement, torch.full((3,), -1.0 if score.same_label else 1.0, dtype=torch.float64)), dim=1))
    np.testing.assert_allclose(score.objective_at(merit.numpy()), agreement.numpy())
    assert np.isnan(score.objective_at(np.array([-0.1, np.nan]))).all()


def test_searches_without_slopes_are_named_as_such() -> None:
    both = SolHat(walk=Strongest(searches=(GradientSearch(), Genetic())))
    assert titles(both, 2) == ["gradient", "genetic"]
    assert titles(both, 1) == ["genetic"]
    assert titles(SolHat(walk=Genetic()), 1) == ["genetic"]


def test_rarity_adds_up_levels_and_ends_at_ln_p(result: Result) -> None:
    for label in ("ln_p_f_hat", "ln_p_f_tilde", "ln_p_misclassified"):
        score = SCORES[label]
        for one in (one for one in result.series if one.score == label):
            found = descent(score, one.measured)
            assert (np.diff(found.ln_p, axis=1)[np.isfinite(np.diff(found.ln_p, axis=1))] <= 0).all()
            state = np.nanmax(one.measured["state"][:5, 0], axis=1)
            for row in np.flatnonzero(state == 1):
                last = found.ln_p[row][np.isfinite(found.ln_p[row])][-1]
                assert last == pytest.approx(one.per_sample[row])
    found = descent(
        LnPHat(threshold=0.4),
        measured(
            probability=[[[0.1, 0.1, 0.5]], [[0.1, np.nan, np.nan]]],
            threshold=[[[0.1, 0.3, 0.6]], [[-0.2, -0.2, np.nan]]],
            state=[[[0, 0, 1]], [[0, 2, np.nan]]],
        ),
    )
    np.testing.assert_allclose(found.ln_p[0], [math.log(0.1), math.log(0.01), math.log(0.005)])
    assert np.isnan(found.merit[1]).all()  # the label never changed back: no agreement to show
    alone = dataclasses.replace(found, merit=found.merit[:1], ln_p=found.ln_p[:1])
    places, heights = middle(alone, 0.6)
    assert np.interp(0.2, places, heights) == pytest.approx((math.log(0.1) + math.log(0.01)) / 2, abs=0.02)
    assert heights[-1] == pytest.approx(math.log(0.005))
    assert np.isnan(middle(found, 0.6)[1]).all()  # half of the seeds ended before


def test_dots_have_intervals_and_arrows() -> None:
    rows = pd.DataFrame(
        {
            "model": "net", "explainer": "ig", "sample": [3, 4, 5, 6], "value": [-10.0, -0.1, -100.0, math.nan],
            "error": [0.5, 0.5, math.nan, math.nan], "censored": [False, False, True, False], "stuck": False,
        }
    )  # fmt: skip
    data = dots_data(rows, ["net"], {"ig": "input"})
    ((title, _, _, found),) = data.subjects
    assert title == "ig"
    assert [one.sample for one in found] == [3, 4, 5]
    assert (found[0].low, found[0].high) == (pytest.approx(-10.98, abs=0.01), pytest.approx(-9.02, abs=0.01))
    assert found[1].high == 0.0
    assert found[2].state == "censored"
    assert math.isnan(found[2].low)
    assert data.up.low <= -100


def test_the_radius_profile_takes_scores_that_differ_by_it_alone(result: Result) -> None:
    reading = read(result)
    data = profile_data(SCORES, reading.rows, reading.models, EXPLAINERS)
    assert [item.title for item in data] == ["sol F-hat", "ln P of F-hat"]
    assert [item.middle for item in data] == ["mean", "median"]
    table = result.table().set_index(["explainer", "score"])["value"]
    assert [(radius, row.value) for radius, row in data[0].lines[0].results] == [
        (0.2, table["gradient", "sol_f_hat"]),
        (0.6, table["gradient", "sol_f_hat wide"]),
    ]
    html = draw_profiles(data)
    assert "by radius: gradient" in html
    assert html.count("<figure") == 2
    bounded = [row for line in data[1].lines for _, row in line.results if row.bound]
    assert html.count('class="arrow"') == len(bounded)


def test_the_gallery_shows_seed_f_hat_and_f_tilde(result: Result, html: str) -> None:
    reading = read(result)
    kept = event_pairs(reading, "sol_f_tilde")
    assert kept.pairs
    frame = result.samples("sol_f_tilde").set_index(["explainer", "sample"])
    for (model, label, sample), pair in kept.pairs.items():
        before, after = kept.labels[model, label, sample]
        assert before != after
        assert pair.value == pytest.approx(frame["value"][label, sample], abs=1e-6)
    hat = event_pairs(reading, "sol_f_hat wide")
    assert all(before == after for before, after in hat.labels.values())
    found = shared_figure(reading, "adversaries")
    assert found is not None
    assert "within 0.6 of the seed" in found.note  # the radius at which both events were asked for
    assert "absolute value" in found.note
    assert not found.signed
    ((model, drawn),) = found.models
    assert model == "net"
    assert str(drawn) in html
    assert re.search(r"F-hat: agreement \d\.\d{3}, class (\d) → \1", drawn)
    assert 'alt="moved input, F-hat"' in drawn


def test_a_missing_event_says_so_and_names_are_escaped(result: Result) -> None:
    pair = next(iter(event_pairs(read(result), "sol_f_hat wide").pairs.values()))
    subject, other = ("net", EVIL, 3), ("net", "ig", 3)
    hat = EventPairs(pairs={subject: pair, other: pair}, labels={subject: (3, 3)}, none=frozenset())
    tilde = EventPairs(pairs={}, labels={}, none=frozenset({subject}))
    data = adversaries_data({"F-hat": hat, "F-tilde": tilde}, ["net"], [EVIL, "ig"], signed=False, share=False)
    ((_, items),) = data.models
    assert [dict(item.events)["F-tilde"] for item in items] == [NONE, NOT_KEPT]
    assert isinstance(dict(items[0].events)["F-hat"], Point)
    drawn = draw_adversaries(items, data)
    assert "none found" in drawn
    assert "class 3 → 3" in drawn
    assert EVIL not in drawn


def test_sections_say_where_they_looked(result: Result) -> None:
    made = section(read(result), "ln_p_f_hat")
    assert made.first.middle == "median"
    assert made.searched
    assert made.gallery == ()
    walked, event = made.notes[0].split("; ")
    assert walked == "Here the walk subset simulation searched within 0.2 of the input (L-infinity), comparing absolute maps"
    assert event == "F-hat is an agreement below 0.9."
    assert SolTilde(measure=mse).setting().endswith("F-tilde is an agreement below 0.6.")
    rows = [Row(model=model, explainer="", score="worst_loss", value=0.5, evaluations=5) for model in "ab"]
    assert cost(rows) == "5 evaluations for each of 2 models, 10 in all."


def test_of_many_seeds_some_are_drawn() -> None:
    paths = [((0.0, float(seed)),) for seed in range(100)]
    kept = some_seeds(paths)
    assert len(kept) == SEEDS
    assert (kept[0], kept[-1]) == (paths[0], paths[-1])


def row_of(explainer: str, value: float, bound: bool, low: float = -math.inf) -> Row:
    return Row(
        model="net", explainer=explainer, frame="input", score="ln_p_f_hat", value=value, low=low, high=-5.0, draws_low=low,
        draws_high=-5.0, n=9, draws=1.0, direction="lower", middle="median", outcome="", bound=bound,
    )  # fmt: skip


def test_the_best_of_bounds_is_not_claimed() -> None:
    low, high, known = row_of("a", -12.0, True), row_of("b", -9.0, True), row_of("c", -9.0, False, -11.0)
    told = [str(text).replace(MINUS, "-") for text in answer([low, high], "ln_p_f_hat", ["net"]).sentences]
    assert "cannot be told apart: they have no paired differences" in told[0]
    pair = pd.DataFrame([["net", "a", "c", -3.0, -math.inf, -1.0, 9, True]], columns=COLUMNS)
    told = [str(text).replace(MINUS, "-") for text in answer([low, known], "ln_p_f_hat", ["net"], differences=pair).sentences]
    assert "is ahead of every other explainer: ≤ -12.00 (≤ -5.00)" in told[0]
    same = [row_of(name, -12.0, True) for name in "ab"]
    told = [str(text).replace(MINUS, "-") for text in answer(same, "ln_p_f_hat", ["net"]).sentences]
    assert "cannot be told apart: every median is ≤ -12.00." in told[0]


def test_open_intervals_are_drawn_to_the_edge() -> None:
    data = ranking_data([row_of("a", -12.0, True), row_of("c", -9.0, False, -11.0)], "ln_p_f_hat", ["net"])
    drawn = draw_ranking(data).replace(MINUS, "-")
    assert math.isfinite(data.scale.low)
    assert re.search(r'class="population" x1="0\.0%"', drawn)
    assert "interval ≤ -5.00; over draws ≤ -5.00" in drawn
    assert not re.search(r"\b(nan|inf)\b", drawn)


def test_a_matrix_of_differences_shows_bounds_on_both_sides() -> None:
    pair = {"model": "net", "n": 9, "differs": True, "bound": ""}
    rows = pd.DataFrame(
        [
            {**pair, "first": "a", "second": "b", "difference": 10.5, "low": 2.0, "high": math.inf, "bound": "at least"},
            {**pair, "first": "a", "second": "c", "difference": 0.25, "low": 0.125, "high": 0.5},
            {
                **pair,
                "first": "b",
                "second": "c",
                "difference": math.nan,
                "low": -math.inf,
                "high": math.inf,
                "bound": "",
                "differs": False,
            },
        ]
    )
    drawn = draw("matrix", matrix_data(rows, "net", ["a", "b", "c"])).replace(MINUS, "-")
    assert ">≥ 10.50<" in drawn
    assert ">≤ -10.50<" in drawn
    assert "a minus b: ≥ 10.500, ≥ 2.000, 9 samples" in drawn
    assert "b minus a: ≤ -10.500, ≤ -2.000, 9 samples" in drawn
    assert ">.25<" in drawn
    assert "b minus c: not known" in drawn
