from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from markupsafe import Markup
from report_pages import EVIL, EVIL_TOO, Page, drawings
from stable_fakes import EXPLAINERS, StableRun, stable_run

from veracity.measure import l2
from veracity.measure.rank import signed_rank_distance
from veracity.report.crosstrained import crosstraining, fold_sentence
from veracity.report.figures.folded import Fold, Folded
from veracity.report.figures.ranking import draw_ranking, ranking_data
from veracity.report.kinds import has_null
from veracity.report.page import render
from veracity.report.reading import read
from veracity.report.stable import in_text, setting, stability_sentences, undefined_pairs
from veracity.report.verdict import Verdict, against_chance
from veracity.report.view import Result, results
from veracity.scores.faithfulness.correlation import MuFidelity
from veracity.scores.stability.mege import MeGe
from veracity.scores.stability.reco import ReCo, ReCoKS


def said(run: StableRun, label: str) -> str:
    """What a score says, as plain text."""
    reading = read(run)
    score = {"mege": MeGe(), "reco": ReCo(), "reco_ks": ReCoKS()}[label]
    sentences = stability_sentences(reading.rows, score, label, reading.models, reading.differences(label))
    return " ".join(Markup(sentence).striptags() for sentence in sentences)


def changed(run: StableRun, label: str, names: dict[str, dict[str, Any]]) -> StableRun:
    """The run with other numbers in some rows of a score."""
    rows = [{**row, **names.get(row["explainer"], {})} if row["score"] == label else row for row in run.rows]
    return replace(run, rows=rows)


def without_differences(run: StableRun, label: str) -> StableRun:
    return replace(run, gaps={**run.gaps, label: [[*row[:-1], False] for row in run.gaps[label]]})


@pytest.fixture(scope="module")
def run() -> StableRun:
    return stable_run(published={"saliency": 0.3, "grad_cam": 0.77, "rise": 0.52, "integrated_gradients": 0.9})


@pytest.fixture(scope="module")
def html(run: StableRun) -> str:
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
        "by which an inverted map is the same map",
        "Accuracy of every fold",
        "Choosing a method",
        "Distances in S= and S",
    ]
    assert [together.index(text) for text in order] == sorted(together.index(text) for text in order)
    assert ("Folds", "4") in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html)
    for title in ("MeGe", "ReCo"):
        own = part_of(html, title)
        assert "Spread over samples" not in own
        assert "Worst samples" not in own
        assert "over draws" not in own.lower()
        assert "both right about a sample" in own


def test_the_table_holds_sizes_null_and_p_value(run: StableRun, html: str) -> None:
    row = next(row for row in run.rows if (row["explainer"], row["score"]) == ("grad_cam", "reco"))
    table = next(table for table in Page(part_of(html, "ReCo")).tables if "p" in table[0])
    assert table[0] == [
        "Explainer", "Value", "95 % interval", "Random control", "|S=|", "|S≠|", "Null mean", "Null 95 %", "p", "Samples", "Undefined",
        "Published", "State",
    ]  # fmt: skip
    cells = next(cells for cells in table if cells[0] == "grad_cam")
    assert cells[4:9] == [str(row["pairs_same"]), str(row["pairs_differ"]), "0.200", "0.550", "0.001"]
    assert {len(cells) for cells in table[2:]} == {len(table[0])}
    mege = next(table for table in Page(part_of(html, "MeGe")).tables if "|S=|" in table[0])
    assert "p" not in mege[0]
    assert "Null mean" not in mege[0]


def test_ranks_are_stated_only_where_differences_leave_zero_out(run: StableRun) -> None:
    rows = {row["explainer"]: row["value"] for row in run.rows if row["score"] == "mege" and not row["control"]}
    first = max(rows, key=rows.__getitem__)
    level = sorted((name for name in rows if name != first and rows[first] - rows[name] <= 0.05), key=lambda name: -rows[name])
    text = said(run, "mege")
    assert f"By MeGe, {first} comes first with {rows[first]:.3f}" in text
    assert f"but cannot be told apart from {' and '.join(level)}." in text
    assert "best" not in text
    told = sum(abs(a - b) > 0.05 for place, a in enumerate(rows.values()) for b in list(rows.values())[place + 1 :])
    assert f"Of 21 pairs, {told} can be told apart." in text
    assert "By MeGe, 7 explainers cannot be told apart: none of their paired differences excludes zero." in said(
        without_differences(run, "mege"), "mege"
    )
    ahead = changed(run, "mege", {first: {"value": 0.99}})
    sure = replace(ahead, gaps={"mege": [[*row[:-1], row[-1] or first in row] for row in run.gaps["mege"]], "reco": run.gaps["reco"]})
    assert f"{first} is ahead of every other explainer: 0.990" in said(sure, "mege")


def test_a_value_without_an_interval_is_said_to_be_one() -> None:
    alone = changed(stable_run(names={"rise": EXPLAINERS["rise"]}), "mege", {"rise": {"value": 0.75, "low": math.nan, "high": math.nan}})
    assert "By MeGe, rise scores 0.750 (no interval)." in said(alone, "mege")


def test_bold_in_the_overview_needs_differences_too(run: StableRun) -> None:
    assert not any(row.leads for row in read(run).rows if row.score == "mege")
    one = {name: EXPLAINERS[name] for name in ("integrated_gradients", "saliency", "edge_filter")}
    leading = [row.explainer for row in read(stable_run(names=one)).rows if row.leads and row.score == "mege"]
    assert leading == ["integrated_gradients"]
    assert not any(row.leads for row in read(without_differences(stable_run(names=one), "mege")).rows if row.score == "mege")


def test_no_signal_is_said_to_be_none(run: StableRun) -> None:
    names = [name for name, about in EXPLAINERS.items() if not about[3]]
    some = changed(run, "reco", {name: {"p_value": 0.3 if name in ("rise", "saliency") else 0.001} for name in names})
    text = said(some, "reco")
    assert "By ReCo, saliency and rise are indistinguishable from no signal: permuted labels score as high" in text
    assert "(p at least 0.600, after Holm's correction for 7 explainers)" in text  # the two largest of seven: twice 0.3, then the same
    nobody = said(changed(run, "reco", {name: {"p_value": 0.02} for name in names}), "reco")
    assert "By ReCo, every explainer is indistinguishable from no signal" in nobody
    assert "p at least 0.140" in nobody  # seven times 0.02: without the correction each would pass
    everyone = said(changed(run, "reco", {name: {"p_value": 0.001} for name in names}), "reco")
    assert "Every explainer's ReCo is above the score of permuted labels (p at most 0.007, after Holm's correction" in everyone
    alone = said(changed(stable_run(names={"rise": EXPLAINERS["rise"]}), "reco", {"rise": {"p_value": 0.4}}), "reco")
    assert "By ReCo, rise is indistinguishable from no signal: permuted labels score as high (p at least 0.400)." in alone


def test_p_values_decide_against_chance(run: StableRun) -> None:
    rows = results(changed(run, "reco", {"rise": {"p_value": 0.4, "low": 0.9}, "grad_cam": {"p_value": 0.001, "low": -0.5}}))
    kinds = {row.explainer: against_chance(row) for row in rows if row.score == "reco"}
    assert (kinds["rise"], kinds["grad_cam"]) == (Verdict.LEVEL, Verdict.AHEAD)
    assert {against_chance(row) for row in rows if row.score == "mege" and not row.control} == {Verdict.AHEAD}


def test_the_edge_filter_is_stable_by_construction(run: StableRun) -> None:
    assert "edge_filter scores 1 by construction, since it never looks at a model: a stable explanation may still be wrong." in said(
        run, "mege"
    )
    assert "by construction" not in said(run, "reco")
    assert "by construction" not in said(changed(run, "mege", {"edge_filter": {"value": 0.97}}), "mege")


def test_empty_sets_are_explained() -> None:
    right = stable_run(wrong=0.0)
    text = said(right, "reco")
    assert "S≠ is empty, so ReCo is undefined: in no pair of models is exactly one right, as when all predictions are right." in text
    assert "empty" not in said(right, "mege")
    assert "S≠ is empty" in render(right)
    none = said(stable_run(wrong=1.0), "mege")
    assert "S= is empty, so MeGe is undefined: no pair of models that is right about a sample has a distance." in none
    flat = {name: {"value": math.nan} for name in EXPLAINERS}
    assert "ReCo is undefined for 7 explainers: all distances are equal, so there is no threshold." in said(
        changed(stable_run(), "reco", flat), "reco"
    )


def test_few_pairs_are_said(run: StableRun) -> None:
    few = changed(run, "reco", {name: {"pairs_differ": 7} for name in EXPLAINERS})
    assert "S≠ holds at most 7 pairs, so ReCo is based on few distances." in said(few, "reco")
    assert "rests on little" not in said(run, "reco")


def test_orders_not_values_are_compared_with_published_figures(run: StableRun) -> None:
    text = said(run, "mege")
    assert "The order of these 4 explainers and the published order have a rank correlation of 1.00." in text
    assert "MeGe cannot be below 0.5, but some published values are: compare orders, not values." in text
    above = changed(run, "mege", {"saliency": {"published": 0.6}})
    assert "cannot be below" not in said(above, "mege")


def test_constant_maps_are_counted() -> None:
    run = changed(stable_run(), "mege", {"rise": {"undefined_draws": 1234}})
    (sentence,) = undefined_pairs([row for row in results(run) if row.score == "mege"])
    assert "because a constant map has no ranks: rise (1,234)." in Markup(sentence).striptags()
    assert "rise</span> (1,234)" in part_of(render(run), "MeGe")


def test_the_setting_says_which_distance_and_pairs() -> None:
    plain = setting(MeGe())
    assert "1 minus |Spearman's rank correlation|, the paper's distance" in plain
    assert "both right about a sample" in plain
    other = setting(ReCo(measure=signed_rank_distance, pairs="same_prediction"))
    assert "an inverted map is the most different one" in other
    assert "not the paper's" in other
    assert "the measure l2" in setting(ReCo(measure=l2))


def test_distances_in_the_explanations_units_have_no_random_null() -> None:
    assert has_null(MeGe())
    assert has_null(ReCo(measure=l2))
    assert not has_null(MeGe(measure=l2))


def folded(*accuracies: float, samples: int = 100) -> Folded:
    folds = [Fold(fold=place, samples=samples, accuracy=value, seconds=1.0) for place, value in enumerate(accuracies)]
    return Folded(model="net", place=0, folds=tuple(folds))


def test_folds_more_than_three_points_apart_are_warned_of(html: str) -> None:
    assert fold_sentence(folded(0.9, 0.93)) == "net: its 2 folds have comparable accuracies, 0.900 to 0.930, 3.0 points apart."
    apart = fold_sentence(folded(0.9, 0.931))
    assert "not comparable: 0.900 to 0.931, 3.1 points apart, but the method allows at most 3" in apart
    noise = 1.96 * math.sqrt(0.9155 * 0.0845 / 100)
    assert f"With only 100 samples per fold, chance alone changes an accuracy by up to {100 * noise:.1f} points." in apart
    assert "unknown" in fold_sentence(folded(math.nan, math.nan))
    assert "not comparable" not in html
    top = render(stable_run(accuracies=(0.8, 0.9, 0.9, 0.9))).split('class="keyfacts"')[0]
    assert "resnet: the accuracies of its 4 folds are not comparable: 0.800 to 0.900, 10.0 points apart" in top


def test_a_cross_trained_model_without_stability_still_shows_its_folds() -> None:
    page = render(stable_run({"mu_fidelity": MuFidelity()}))
    assert "Accuracy of every fold" in part_of(page, "Cross-training")
    assert "necessary, not sufficient" not in page
    bare = replace(stable_run({"mu_fidelity": MuFidelity()}), fold_rows=[])
    assert 'id="stability"' not in render(bare)


def test_scores_with_other_sets_get_histograms_of_their_own() -> None:
    scores = {"mege": MeGe(), "reco": ReCo(), "reco_ks": ReCoKS(), "signed": ReCo(measure=signed_rank_distance)}
    made = crosstraining(read(stable_run(scores)))
    assert [plot.title for plot in made.histograms] == ["Distances in S= and S≠ (MeGe, ReCo, ReCo (KS))", "Distances in S= and S≠ (signed)"]
    assert len(made.settings) == 2
    assert made.selection is None


def test_many_scores_are_summed_up_in_their_own_words() -> None:
    scores = {"mege": MeGe(), "reco": ReCo(), "reco_ks": ReCoKS(), "mu_fidelity": MuFidelity()}
    top = Page(render(stable_run(scores)).split('class="keyfacts"')[0]).text
    assert "By MeGe, integrated_gradients comes first" in top
    assert "By ReCo, " in top
    assert "ReCo (KS)" not in top
    assert "best" not in top


def test_several_models_and_evil_names() -> None:
    names = {EVIL: EXPLAINERS["rise"], EVIL_TOO: EXPLAINERS["saliency"], "edge_filter": EXPLAINERS["edge_filter"]}
    html = render(stable_run(models=("<b>net</b>", "1-lipschitz"), names=names))
    page = Page(html)
    assert page.unbalanced == []
    assert not {"script", "b>net", "img"} & {tag for tag, _ in page.tags}
    assert "onerror" not in {name for name, _ in page.attributes}
    assert "By MeGe on <b>net</b> , " in page.text


def test_the_ranking_marks_what_permuted_labels_score(run: StableRun) -> None:
    drawn = draw_ranking(ranking_data(read(run).rows, "reco", ["resnet"]))
    assert drawn.count('class="permuted"') == len(EXPLAINERS)
    assert 'class="permuted" x1="20.0%" x2="55.0%"' in drawn
    assert "permuted labels 0.200, 95 % below 0.550, p 0.001" in drawn
    assert 'class="permuted"' not in draw_ranking(ranking_data(read(run).rows, "mege", ["resnet"]))


def test_the_text_of_a_table_shows_sizes_and_p_values(run: StableRun) -> None:
    table = run.table()
    text = in_text(table[["explainer", "score", "value"]], table, run.manifest)
    row = text[(text["explainer"] == "grad_cam") & (text["score"] == "reco")].iloc[0]
    sizes = table[(table["explainer"] == "grad_cam") & (table["score"] == "reco")].iloc[0]
    assert [row["S="], row["S!="], row["null"], row["null 95 %"], row["p"]] == [
        str(int(sizes["pairs_same"])), str(int(sizes["pairs_differ"])), "0.200", "0.550", "0.001",
    ]  # fmt: skip
    assert set(text.loc[text["score"] == "mu_fidelity", "S="]) == {""}
    assert set(text.loc[text["score"] == "mege", "p"]) == {""}
    other = stable_run({"mu_fidelity": MuFidelity()})
    plain = other.table()[["explainer", "value"]]
    assert in_text(plain, other.table(), other.manifest) is plain


def test_rows_of_older_runs_have_no_sets() -> None:
    row = results(stable_run({"mu_fidelity": MuFidelity()}))[0]
    assert isinstance(row, Result)
    assert (row.pairs_same, row.pairs_differ, row.pooled, row.leads) == (0, 0, False, False)
    assert all(math.isnan(value) for value in (row.null_mean, row.null_high, row.p_value, row.p_adjusted))


def test_explanations_of_two_kinds_are_ranked_apart() -> None:
    def row(name: str, frame: str, value: float) -> Result:
        base = next(row for row in results(stable_run()) if row.score == "mege")
        return replace(base, explainer=name, frame=frame, value=value, low=value, high=value, random_control=math.nan, control=False)

    rows = [row("a", "input", 0.9), row("b", "input", 0.6), row("c", "concepts", 0.99)]
    gaps = pd.DataFrame([["resnet", "a", "b", True]], columns=["model", "first", "second", "differs"])
    text = " ".join(Markup(item).striptags() for item in stability_sentences(rows, MeGe(), "mege", ["resnet"], gaps))
    assert "By MeGe, of feature maps, a is ahead of every other explainer: 0.900" in text
    assert "By MeGe, of concepts, c scores 0.990" in text
