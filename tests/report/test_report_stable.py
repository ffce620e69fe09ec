from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from markupsafe import Markup
from report_pages import EVIL, EVIL_TOO, Page, drawings

from report_runs import STABLE, stable_run
from veracity.core.wording import number
from veracity.measure import l2
from veracity.measure.rank import signed_rank_distance
from veracity.report.figures.folds import Fold, ModelFolds, fold_sentence
from veracity.report.figures.ranking import draw_ranking, ranking_data
from veracity.report.page import render
from veracity.report.reading import RunReading, read
from veracity.report.rows import Verdict, against_chance
from veracity.report.section import section
from veracity.report.stability import crosstraining, stability_sentences, undefined_pairs
from veracity.results import Result, Row
from veracity.results.rows import with_adjusted
from veracity.scores.faithfulness.correlation import MuFidelity
from veracity.scores.stability import MeGe, ReCo, ReCoKS

APART = "How far the explanations of two models lie apart"


def said(reading: RunReading, label: str) -> str:
    """What a score says, as plain text."""
    sentences = stability_sentences(reading.rows, reading.score(label), label, reading.models, reading.differences(label))
    return " ".join(Markup(sentence).striptags() for sentence in sentences)


def changed(reading: RunReading, label: str, names: Mapping[str, Mapping[str, Any]]) -> RunReading:
    """The run with other numbers in some rows of a score."""
    rows = [replace(row, **names.get(row.explainer, {})) if row.score == label else row for row in reading.rows]
    return replace(reading, rows=tuple(with_adjusted(rows)))


def differing(reading: RunReading, label: str, *names: str) -> RunReading:
    """The run with paired differences that leave zero out for these explainers alone."""
    table = reading.differences(label)
    apart = table["first"].isin(names) | table["second"].isin(names)
    side = table["difference"].where(apart)
    return replace(reading, paired={**reading.paired, label: table.assign(differs=apart, low=side.fillna(-1.0), high=side.fillna(1.0))})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return stable_run(
        tmp_path_factory.mktemp("stable"), published={"saliency": 0.3, "grad_cam": 0.77, "rise": 0.52, "integrated_gradients": 0.9}
    )


@pytest.fixture(scope="module")
def reading(run: Result) -> RunReading:
    return read(run)


@pytest.fixture(scope="module")
def html(run: Result) -> str:
    return render(run)


def part_of(html: str, title: str) -> str:
    return next(part for part in html.split("<section ") if f"<h2>{title}</h2>" in part)


def test_the_page_is_sound_and_holds_the_section(html: str) -> None:
    page = Page(html)
    assert page.unbalanced == []
    assert {ElementTree.fromstring(text).tag for text in drawings(html)} == {"svg"}
    ids = [value for name, value in page.attributes if name == "id"]
    assert {value[1:] for name, value in page.attributes if name == "href" and value.startswith("#")} <= set(ids)
    assert not [text for text in (page.text, *(value for _, value in page.attributes)) if re.search(r"\b(nan|inf|None)\b", text)]
    together = part_of(html, "Stability")
    order = [
        "necessary, not sufficient",
        "for which an inverted map is the same map",
        "Accuracy of every fold",
        "Choosing a method",
        APART,
    ]
    assert [together.index(text) for text in order] == sorted(together.index(text) for text in order)
    assert ("Folds", "4") in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html)
    for title in ("MeGe", "ReCo"):
        own = part_of(html, title)
        assert "Spread over samples" not in own
        assert "Worst samples" not in own
        assert "over draws" not in own.lower()
        assert "both right about a sample" in own


def test_the_table_holds_sizes_null_and_p_value(run: Result, html: str) -> None:
    row = next(row for row in run.rows if (row.explainer, row.score) == ("grad_cam", "reco"))
    table = next(table for table in Page(part_of(html, "ReCo")).tables if "p" in table[0])
    assert table[0] == [
        "Explainer", "Value", "95 % interval", "Random control", "|S=|", "|S≠|", "Null mean", "Null 95 %", "p", "Samples", "Undefined",
        "State",
    ]  # fmt: skip
    cells = next(cells for cells in table if cells[0] == "grad_cam")
    assert cells[4:9] == [str(row.pairs_same), str(row.pairs_differ), *map(number, (row.null_mean, row.null_high, row.p_value))]
    assert {len(cells) for cells in table[2:]} == {len(table[0])}
    mege = next(table for table in Page(part_of(html, "MeGe")).tables if "|S=|" in table[0])
    assert "p" not in mege[0]
    assert "Null mean" not in mege[0]


def test_ranks_are_stated_only_where_differences_leave_zero_out(reading: RunReading) -> None:
    rows = {row.explainer: row.value for row in reading.of("mege") if not row.control}
    first, *others = sorted(rows, key=lambda name: -rows[name])
    some = differing(reading, "mege", "saliency")
    text = said(some, "mege")
    level = [name for name in rows if name not in (first, "saliency")]
    assert f"By MeGe, {first} comes first with {rows[first]:.3f}" in text
    assert f"and is ahead of saliency, but cannot be told apart from {len(level)} explainers." in text
    assert "best" not in text
    assert f"Of 21 pairs, {len(others)} can be told apart." in text
    nobody = said(differing(reading, "mege"), "mege")
    assert "By MeGe, 7 explainers cannot be told apart: none of their paired differences excludes zero." in nobody
    assert f"{first} is ahead of every other explainer: {rows[first]:.3f}" in said(differing(reading, "mege", first), "mege")


def test_a_value_without_an_interval_is_said_to_be_one(tmp_path: Path) -> None:
    alone = read(stable_run(tmp_path, names={"rise": STABLE["rise"]}))
    alone = changed(alone, "mege", {"rise": {"value": 0.75, "low": math.nan, "high": math.nan}})
    assert "By MeGe, rise scores 0.750 (no interval)." in said(alone, "mege")


def test_bold_in_the_overview_needs_differences_too(tmp_path: Path) -> None:
    one = {name: STABLE[name] for name in ("integrated_gradients", "saliency", "edge_filter")}
    leading = [row.explainer for row in read(stable_run(tmp_path / "far", names=one)).rows if row.leads and row.score == "mege"]
    assert leading == ["integrated_gradients"]
    near = dict.fromkeys(("integrated_gradients", "saliency"), STABLE["saliency"])
    assert not any(row.leads for row in read(stable_run(tmp_path / "near", names=near)).rows if row.score == "mege")


def test_no_signal_is_said_to_be_none(reading: RunReading, tmp_path: Path) -> None:
    names = [name for name, about in STABLE.items() if not about[3]]
    some = changed(reading, "reco", {name: {"p_value": 0.3 if name in ("rise", "saliency") else 0.001} for name in names})
    text = said(some, "reco")
    assert "By ReCo, saliency and rise are indistinguishable from no signal: permuted labels score as high" in text
    assert "(p at least 0.600, after Holm's correction for 7 explainers)" in text  # the two largest of seven: twice 0.3, then the same
    nobody = said(changed(reading, "reco", {name: {"p_value": 0.02} for name in names}), "reco")
    assert "By ReCo, every explainer is indistinguishable from no signal" in nobody
    assert "p at least 0.140" in nobody  # seven times 0.02: without the correction each would pass
    everyone = said(changed(reading, "reco", {name: {"p_value": 0.001} for name in names}), "reco")
    assert "Every explainer's ReCo is above the score of permuted labels (p at most 0.007, after Holm's correction" in everyone
    alone = changed(read(stable_run(tmp_path, names={"rise": STABLE["rise"]})), "reco", {"rise": {"p_value": 0.4}})
    assert "By ReCo, rise is indistinguishable from no signal: permuted labels score as high (p at least 0.400)." in said(alone, "reco")


def test_p_values_decide_against_chance(reading: RunReading) -> None:
    rows = changed(reading, "reco", {"rise": {"p_value": 0.4, "low": 0.9}, "grad_cam": {"p_value": 0.001, "low": -0.5}}).rows
    kinds = {row.explainer: against_chance(row) for row in rows if row.score == "reco"}
    assert (kinds["rise"], kinds["grad_cam"]) == (Verdict.LEVEL, Verdict.AHEAD)
    assert {against_chance(row) for row in rows if row.score == "mege" and not row.control} == {Verdict.AHEAD}


def test_the_edge_filter_is_stable_by_construction(reading: RunReading) -> None:
    told = "edge_filter scores 1 by construction, since it never looks at a model: a stable explanation may still be wrong."
    assert told in said(reading, "mege")
    assert "by construction" not in said(reading, "reco")
    assert "by construction" not in said(changed(reading, "mege", {"edge_filter": {"value": 0.97}}), "mege")


def test_empty_sets_are_explained(reading: RunReading, tmp_path: Path) -> None:
    right = stable_run(tmp_path / "right", wrong=0.0)
    text = said(read(right), "reco")
    assert "No two models contradict each other about a sample, so ReCo is undefined (S≠ is empty)." in text
    assert "empty" not in said(read(right), "mege")
    assert "S≠ is empty" in render(right)
    none = said(read(stable_run(tmp_path / "wrong", wrong=1.0)), "mege")
    assert "No pair of models that is right about a sample has a distance, so MeGe is undefined (S= is empty)." in none
    flat = {name: {"value": math.nan, "state": "undefined"} for name in STABLE}
    assert "ReCo is undefined for 7 explainers: all distances are equal, so there is no threshold." in said(
        changed(reading, "reco", flat), "reco"
    )


def test_few_pairs_are_said(reading: RunReading) -> None:
    few, many = (changed(reading, "reco", {name: {"pairs_differ": pairs} for name in STABLE}) for pairs in (7, 70))
    assert "S≠ holds at most 7 pairs, so ReCo is based on few distances." in said(few, "reco")
    assert "rests on little" not in said(many, "reco")


def test_orders_not_values_are_compared_with_published_figures(reading: RunReading) -> None:
    text = said(reading, "mege")
    assert "The order of these 4 explainers and the published order have a rank correlation of 1.00." in text
    assert "MeGe cannot be below 0.5, but some published values are: compare orders, not values." in text
    above = changed(reading, "mege", {"saliency": {"published": 0.6}})
    assert "cannot be below" not in said(above, "mege")


def test_constant_maps_are_counted(reading: RunReading) -> None:
    lost = changed(reading, "mege", {"rise": {"undefined_draws": 1234}})
    (sentence,) = undefined_pairs(lost.of("mege"))
    assert "a constant map has no ranks: rise (1,234)." in Markup(sentence).striptags()
    assert "rise</span> (1,234)" in str(section(lost, "mege").answer.models[0].remarks)


def test_the_setting_says_which_distance_and_pairs() -> None:
    plain = MeGe().setting()
    assert "1 minus |Spearman's rank correlation|, the paper's distance" in plain
    assert "both right about a sample" in plain
    other = ReCo(measure=signed_rank_distance, pairs="same_prediction").setting()
    assert "an inverted map is the most different one" in other
    assert "not as in the paper" in other
    assert "the measure l2" in ReCo(measure=l2).setting()


def test_distances_in_the_explanations_units_have_no_random_null() -> None:
    assert not MeGe().in_map_units
    assert not ReCo(measure=l2).in_map_units
    assert MeGe(measure=l2).in_map_units


def folded(*accuracies: float, samples: int = 100) -> ModelFolds:
    folds = [Fold(fold=place, samples=samples, accuracy=value, seconds=1.0) for place, value in enumerate(accuracies)]
    return ModelFolds(model="net", place=0, folds=tuple(folds))


def test_folds_more_than_three_points_apart_are_warned_of(html: str, tmp_path: Path) -> None:
    assert fold_sentence(folded(0.9, 0.93)) == "net: its 2 folds have comparable accuracies, 0.900 to 0.930, 3.0 points apart."
    apart = fold_sentence(folded(0.9, 0.931))
    assert "not comparable: 0.900 to 0.931, 3.1 points apart, but the method allows at most 3" in apart
    noise = 1.96 * math.sqrt(0.9155 * 0.0845 / 100)
    assert f"With only 100 samples per fold, chance alone changes an accuracy by up to {100 * noise:.1f} points." in apart
    assert "unknown" in fold_sentence(folded(math.nan, math.nan))
    assert "not comparable" not in html
    top = render(stable_run(tmp_path, accuracies=(0.8, 0.9, 0.9, 0.9))).split('class="keyfacts"')[0]
    assert "resnet: the accuracies of its 4 folds are not comparable: 0.800 to 0.900, 10.0 points apart" in top


def test_a_cross_trained_model_without_stability_still_shows_its_folds(tmp_path: Path) -> None:
    page = render(stable_run(tmp_path / "folds", {"mu_fidelity": MuFidelity()}))
    assert "Accuracy of every fold" in part_of(page, "Cross-training")
    assert "necessary, not sufficient" not in page
    assert 'id="stability"' not in render(stable_run(tmp_path / "bare", {"mu_fidelity": MuFidelity()}, folds=4, accuracies=()))


def test_scores_with_other_sets_get_histograms_of_their_own(tmp_path: Path) -> None:
    scores = {"mege": MeGe(), "reco": ReCo(), "reco_ks": ReCoKS(), "signed": ReCo(measure=signed_rank_distance)}
    made = crosstraining(read(stable_run(tmp_path, scores)))
    assert [plot.title for plot in made.histograms] == [f"{APART} (MeGe, ReCo, ReCo (KS))", f"{APART} (signed)"]
    assert len(made.settings) == 2
    assert made.selection is None


def test_many_scores_are_summed_up_in_their_own_words(tmp_path: Path) -> None:
    scores = {"mege": MeGe(), "reco": ReCo(), "reco_ks": ReCoKS(), "mu_fidelity": MuFidelity()}
    top = Page(render(stable_run(tmp_path, scores)).split('class="keyfacts"')[0]).text
    assert "By MeGe, " in top
    assert "By ReCo, " in top
    assert "ReCo (KS)" not in top
    assert "best" not in top


def test_several_models_and_evil_names(tmp_path: Path) -> None:
    names = {EVIL: STABLE["rise"], EVIL_TOO: STABLE["saliency"], "edge_filter": STABLE["edge_filter"]}
    html = render(stable_run(tmp_path, models=("<b>net</b>", "1-lipschitz"), names=names))
    page = Page(html)
    assert page.unbalanced == []
    assert not {"script", "b>net", "img"} & {tag for tag, _ in page.tags}
    assert "onerror" not in {name for name, _ in page.attributes}
    assert "By MeGe on <b>net</b> , " in page.text


def test_the_ranking_marks_what_permuted_labels_score(reading: RunReading) -> None:
    known = changed(reading, "reco", {name: {"null_mean": 0.2, "null_high": 0.55, "p_value": 0.001} for name in STABLE})
    drawn = draw_ranking(ranking_data(known.rows, "reco", ["resnet"]))
    assert drawn.count('class="permuted"') == len(STABLE)
    assert 'class="permuted" x1="20.0%" x2="55.0%"' in drawn
    assert "permuted labels 0.200, 95 % below 0.550, p 0.001" in drawn
    assert 'class="permuted"' not in draw_ranking(ranking_data(known.rows, "mege", ["resnet"]))


def test_the_text_of_a_table_shows_sizes_and_p_values(run: Result) -> None:
    row = next(row for row in run.rows if (row.explainer, row.score) == ("grad_cam", "reco"))
    line = next(line for line in str(run).splitlines() if "grad_cam " in line and "reco " in line)
    numbers = [f"{value:.3f}" for value in (row.null_mean, row.null_high, row.p_value)]
    assert line.split()[-5:] == [str(row.pairs_same), str(row.pairs_differ), *numbers]
    assert "S!=" in str(run)


def test_other_scores_have_no_sets(tmp_path: Path) -> None:
    run = stable_run(tmp_path, {"mu_fidelity": MuFidelity()})
    assert "S!=" not in str(run)
    row = run.rows[0]
    assert (row.pairs_same, row.pairs_differ, row.pooled, row.leads) == (None, None, False, False)
    assert all(math.isnan(value) for value in (row.null_mean, row.null_high, row.p_value, row.p_adjusted))


def test_explanations_of_two_kinds_are_ranked_apart(reading: RunReading) -> None:
    base = next(row for row in reading.of("mege") if not row.control)

    def row(name: str, frame: str, value: float) -> Row:
        return replace(base, explainer=name, frame=frame, value=value, low=value, high=value, unseen=math.nan, published=math.nan)

    rows = [row("a", "input", 0.9), row("b", "input", 0.6), row("c", "concepts", 0.99)]
    gaps = pd.DataFrame([["resnet", "a", "b", 0.1, 0.5, True]], columns=["model", "first", "second", "low", "high", "differs"])
    text = " ".join(Markup(item).striptags() for item in stability_sentences(rows, MeGe(), "mege", ["resnet"], gaps))
    assert "By MeGe, of feature maps, a is ahead of every other explainer: 0.900" in text
    assert "By MeGe, of concepts, c scores 0.990" in text


def test_a_score_without_values_says_why_and_draws_no_empty_plot(tmp_path: Path) -> None:
    html = stable_run(tmp_path / "run", samples=6, wrong=0.0).save_report(tmp_path / "report.html").read_text(encoding="utf-8")
    part = next(text for text in html.split("<section ") if "<h2>ReCo</h2>" in text)
    assert "no ranking is drawn" in part
    assert "No two models contradict each other about a sample" in part
    assert 'class="strip"' not in part
    assert "<p>Whose explanations stay the same when the model is trained again on other samples? By MeGe, " in html
