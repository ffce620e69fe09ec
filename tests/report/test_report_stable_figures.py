from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_pages import EVIL

from report_runs import stable_run
from veracity.report.figures.folds import draw_folds, folds_data
from veracity.report.figures.histograms import best_cut, captions, draw_histograms, histograms_data
from veracity.report.figures.selection import BROAD, NARROW, Box, Label, draw_selection, place_labels, selection_data
from veracity.report.reading import read
from veracity.scores.distance_sets import relative_consistency

SAME, DIFFER = np.array([0.05, 0.15, 0.15, 0.35]), np.array([0.35, 0.95, np.nan])


def literal_cut(same: list[float], differ: list[float]) -> tuple[float, float]:
    """Equation 6, threshold by threshold."""
    best = (math.nan, math.nan)
    for gamma in sorted({*same, *differ}):
        below, above = [d <= gamma for d in same], [d > gamma for d in differ]
        under = sum(below) + sum(d <= gamma for d in differ)
        over = sum(above) + sum(d > gamma for d in same)
        if not over or not same or not differ:
            continue
        value = sum(below) / under + sum(above) / over - 1
        if not value <= best[1]:
            best = (gamma, value)
    return best


numbers = st.lists(st.integers(0, 8).map(lambda value: value / 8), max_size=12)


@settings(max_examples=150, deadline=None)
@given(same=numbers, differ=numbers)
def test_the_cut_is_that_of_the_literal_search(same: list[float], differ: list[float]) -> None:
    found = best_cut(np.array(same), np.array(differ))
    np.testing.assert_allclose(found, literal_cut(same, differ), atol=1e-12)


def test_the_cut_gives_the_score_itself() -> None:
    random = np.random.default_rng(3)
    same, differ = random.random(200), 0.2 + random.random(40)
    distance, member = np.concatenate([same, differ])[:, None], np.repeat([0, 1], [200, 40])[:, None].astype(np.int8)
    assert best_cut(same, differ)[1] == pytest.approx(float(relative_consistency(distance, member)[0]), abs=1e-12)


def test_histograms_share_their_bins_and_are_normalised() -> None:
    data = histograms_data(
        {("net", "a"): (SAME, DIFFER), ("net", "b"): (1.6 * SAME, DIFFER)}, ["net"], {"a": "input", "b": "input"}, bins=10
    )
    assert data.edges == tuple(np.linspace(0.0, 1.0, 11))
    first, second = data.panels
    assert first.same == pytest.approx([0.25, 0.5, 0, 0.25, 0, 0, 0, 0, 0, 0])
    assert first.differ == pytest.approx([0, 0, 0, 0.5, 0, 0, 0, 0, 0, 0.5])  # the undefined distance counts nowhere
    assert first.sizes == (4, 2)
    assert first.means == pytest.approx((0.175, 0.65))
    assert [sum(panel.same) for panel in data.panels] == pytest.approx([1.0, 1.0])
    assert (first.cut, first.consistency) == pytest.approx(literal_cut([0.05, 0.15, 0.15, 0.35], [0.35, 0.95]))
    assert captions(first) == ["S=: 4 pairs, mean 0.175", "S≠: 2 pairs, mean 0.650", "ReCo 0.800 at \N{GREEK SMALL LETTER GAMMA}* = 0.350"]
    assert second.same == pytest.approx([0.25, 0, 0.5, 0, 0, 0.25, 0, 0, 0, 0])


def test_the_drawing_has_the_heights_of_the_data() -> None:
    data = histograms_data({("net", "a"): (SAME, DIFFER)}, ["net"], {"a": "input"}, bins=10)
    drawing = draw_histograms(data)
    (area,) = re.findall(r'class="area" d="([^"]*)"', drawing)
    (line,) = re.findall(r'class="curve" d="([^"]*)"', drawing)
    height = 150.0  # of the plane, whose axis ends at 0.6
    assert area.startswith(
        f"M0 {height:g}L0 {height * (1 - 0.25 / 0.6):g}L100 {height * (1 - 0.25 / 0.6):g}L100 {height * (1 - 0.5 / 0.6):g}"
    )
    assert f"L900 {height * (1 - 0.5 / 0.6):g}L1000 {height * (1 - 0.5 / 0.6):g}" in line
    assert re.search(r'class="reference" d="M350 150L350 0"', drawing)


def test_empty_sets_are_drawn_as_such() -> None:
    nothing = np.zeros(0)
    data = histograms_data({("net", "a"): (SAME, nothing), ("net", "b"): (nothing, nothing)}, ["net"], {"a": "", "b": ""})
    assert [panel.explainer for panel in data.panels] == ["a"]
    drawing = draw_histograms(data)
    assert "S≠ is empty" in drawing
    assert "ReCo is undefined" in drawing
    assert 'class="curve"' not in drawing
    assert 'd=""' in drawing
    assert histograms_data({}, ["net"], {"a": ""}).panels == ()


def test_models_stand_side_by_side_and_names_are_escaped() -> None:
    sets = {(model, EVIL): (SAME, DIFFER) for model in ("net", "1-lipschitz")}
    drawing = draw_histograms(histograms_data(sets, ["net", "1-lipschitz"], {EVIL: "input"}))
    assert drawing.count("<figcaption>") == 2
    assert "<script" not in drawing
    assert drawing.index("on net</figcaption>") < drawing.index("on 1-lipschitz</figcaption>")


def test_folds_are_dots_over_their_spread() -> None:
    rows = [
        {"model": "net", "fold": fold, "samples": 40, "accuracy": value, "seconds": 2.0} for fold, value in enumerate([0.9, 0.95, 0.92])
    ]
    data = folds_data(pd.DataFrame(rows), ["other", "net"])
    (item,) = data.models
    assert item.place == 1
    assert item.spread == pytest.approx(0.05)
    assert not item.comparable
    drawing = draw_folds(data)
    assert drawing.count('class="dot"') == 3
    left, right = (data.scale.percent(value) for value in (0.9, 0.95))
    assert f'class="population" x1="{left}%" x2="{right}%"' in drawing
    assert "fold 1: 0.950 of 40 samples" in drawing
    assert "0.900 to 0.950" in drawing
    assert not folds_data(pd.DataFrame(rows).assign(accuracy=math.nan), ["net"]).known
    assert folds_data(pd.DataFrame(columns=["model", "fold"]), ["net"]).models == ()


def meets(one: Box, other: Box, widths: Any) -> bool:
    """Whether they meet at a width, or at any of several."""
    (a, b), (c, d) = one.reach(widths), other.reach(widths)
    return bool(np.any((a < d) & (c < b))) and one.top < other.bottom and other.top < one.bottom


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["rise", "saliency", "grad_cam_plus_plus"]), st.floats(0, 100), st.floats(0, 260)), max_size=8))
def test_labels_that_claim_to_be_clear_never_meet_at_any_width(points: list[tuple[str, float, float]]) -> None:
    labels = place_labels(points, 260.0)
    assert [label.text for label in labels] == [name for name, _, _ in points]
    for place, one in enumerate(labels):
        for other in labels[:place]:
            if one.box.clear_of(other.box):
                assert not meets(one.box, other.box, np.linspace(NARROW, BROAD, 23))


def test_crowded_labels_do_not_collide() -> None:
    points = [
        (name, 50.0 + place, 100.0 + 3 * place) for place, name in enumerate(["saliency", "gradient", "rise", "grad_cam", "smooth_grad"])
    ]
    labels = place_labels(points, 260.0)
    boxes = [label.box for label in labels]
    assert all(one.clear_of(other) for place, one in enumerate(boxes) for other in boxes[:place])
    assert any(label.far for label in labels)
    assert all(box.reach(NARROW)[0] >= 0 and box.reach(NARROW)[1] <= NARROW for box in boxes)


def test_clear_looks_at_all_widths_between() -> None:
    right = Label(text="abcdef", x=52.0, y=50.0, dx=-7.0, dy=-5.0, anchor="end", far=False).box
    left = Label(text="abcdef", x=48.0, y=50.0, dx=7.0, dy=-5.0, anchor="start", far=False).box
    assert not meets(left, right, 100.0)
    assert meets(left, right, 600.0)
    assert not left.clear_of(right)


def test_the_plane_has_both_intervals_and_controls_as_rings(tmp_path: Path) -> None:
    run = stable_run(tmp_path)
    rows = read(run).rows
    data = selection_data(rows, "mu_fidelity", ["mege", "reco"], ["resnet"])
    assert [panel.score for panel in data.panels] == ["mege", "reco"]
    assert len(data.panels[0].points) == 9
    drawing = draw_selection(data)
    first = drawing.split("<figure")[1]
    fidelity, mege = next(pair for pair in data.panels[0].points if pair[0].explainer == "grad_cam")
    x, left, right = (data.across.percent(value) for value in (fidelity.value, fidelity.low, fidelity.high))
    assert f'<line class="ends" x1="{left}%" x2="{right}%"' in first
    assert f'<line class="ends" x1="{x}%" x2="{x}%"' in first
    assert first.count('class="ring"') == 2
    assert first.count('class="point"') == 9
    assert f"MeGe {mege.value:.3f}" in first
    assert "edge_filter (control)" in first


def test_points_without_both_numbers_are_left_out(tmp_path: Path) -> None:
    run = stable_run(tmp_path)
    rows = [row for row in read(run).rows if not (row.score == "mu_fidelity" and row.explainer == "rise")]
    assert "rise" not in [row.explainer for row, _ in selection_data(rows, "mu_fidelity", ["mege"], ["resnet"]).panels[0].points]
    assert selection_data(rows, "", ["mege"], ["resnet"]).panels == ()
