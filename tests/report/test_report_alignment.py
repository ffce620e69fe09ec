from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_pages import EVIL, EVIL_TOO

from report_runs import Observed, stored
from veracity.report.figures.alignment import alignment_data, alignment_sentences, distortions, draw_alignment, draw_scatter, scatter_data
from veracity.report.figures.chart import axis_for, log_axis
from veracity.report.figures.plane import contours, level_lines
from veracity.report.reading import read
from veracity.scores.gef import GEF, FastGEF, PublicGEF

# two samples, one draw, three levels; the second sample has no model distortion at the last level
CAUSED = np.array([[[1.0, 10.0, 100.0]], [[3.0, 30.0, math.nan]]])
FOLLOWED = np.array([[[0.2, 0.4, 0.6]], [[0.4, 0.6, 5.0]]])
FOUND = {("net", "a"): (CAUSED, FOLLOWED), ("net", "still"): (CAUSED, 0.0 * CAUSED), ("net", "random"): (CAUSED, np.full_like(CAUSED, 0.5))}


def text(markup: object) -> str:
    return re.sub(r"<[^>]*>", "", str(markup))


# --- axes


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(1e-8, 1e8), min_size=1, max_size=5))
def test_an_axis_holds_positive_values_and_is_logarithmic_where_they_span_a_wide_range(values: list[float]) -> None:
    axis = axis_for(values)
    assert axis.log is (max(values) > 20 * min(values))
    assert all(axis.scale.low - 1e-6 <= axis.at(value) <= axis.scale.high + 1e-6 * axis.scale.high for value in values)
    assert len(axis.labels) == len(axis.scale.ticks) >= 2


def test_places_on_a_logarithmic_axis() -> None:
    axis = log_axis(1.0, 100.0)
    assert [axis.scale.percent(axis.at(value)) for value in (1.0, 10.0, 100.0, 0.0, -5.0)] == [0.0, 50.0, 100.0, 0.0, 0.0]
    assert math.isnan(axis.at(math.nan))
    assert not axis_for([0.0, 1000.0]).log
    assert axis_for([]).labels[0] == "0"


# --- what was measured


def test_distortions_are_those_of_the_score_and_of_no_other(tmp_path: Path) -> None:
    caused, moved = np.arange(6.0).reshape(1, 1, 6), np.array([[[1.0, 1.0, 2.0, 3.0, 4.0, 6.0]]])
    tables = {"model": caused, "explanation": moved}
    own = dict.fromkeys(PublicGEF.quantities, np.ones((1, 1, 6))) | {"model": caused}
    scores = {"gef": GEF(steps=3, segments=2), "fast": FastGEF(steps=6), "public": PublicGEF(steps=3, segments=1)}
    run = stored(
        tmp_path,
        scores,
        [
            Observed(model="net", explainer="a", score="gef", values=tables),
            Observed(model="net", explainer="b", score="gef", values=tables, failed="No memory."),
            Observed(model="net", explainer="a", score="fast", values=tables),
            Observed(model="net", explainer="a", score="public", values=own),
        ],
    )
    reading = read(run)
    assert list(distortions(reading, "gef")) == [("net", "a")]
    assert [found.tolist() for found in distortions(reading, "gef")["net", "a"]] == [[[[1.0, 3.0, 5.0]]], [[[2.0, 5.0, 10.0]]]]
    assert [found.tolist() for found in distortions(reading, "public")["net", "a"]] == [[[[1.0, 3.0, 5.0]]], [[[0.0, 0.0, 0.0]]]]
    assert distortions(reading, "fast")["net", "a"][1].tolist() == moved.tolist()


# --- Figure 8


def test_traces_are_means_over_samples_and_draws_that_have_both() -> None:
    data = alignment_data(FOUND, ["net"], {"a": "input", "still": "input", "absent": "input"}, ["random"])
    assert [label for label, _, _ in data.explainers] == ["a", "still"]
    (trace,) = data.explainers[0][2]
    assert trace.caused == (2.0, 20.0, 100.0)
    assert trace.followed == pytest.approx((0.3, 0.5, 0.6))
    assert not trace.still
    assert data.explainers[1][2][0].still
    assert data.random[0].followed == (0.5, 0.5, 0.5)
    assert data.across.log


def test_the_drawing_has_a_point_a_level_where_the_numbers_say() -> None:
    data = alignment_data({("net", "a"): (CAUSED, FOLLOWED)}, ["net"], {"a": "input"})
    tree = ElementTree.fromstring(f"<div>{draw_alignment(data)}</div>")
    spots = [item.find("svg") for item in tree.iter("g") if item.find("title") is not None]
    assert len(spots) == 3
    low, high = data.across.scale.low, data.across.scale.high
    wanted = [100 * (math.log10(value) - low) / (high - low) for value in (2.0, 20.0, 100.0)]
    assert [float(item.get("x").rstrip("%")) for item in spots] == pytest.approx(wanted, abs=0.01)
    heights = [150 * (1 - value / data.up.high) for value in (0.3, 0.5, 0.6)]
    assert [float(item.get("y")) for item in spots] == pytest.approx(heights, abs=0.06)


def test_the_sentences_name_whose_explanations_move_furthest() -> None:
    found = {**FOUND, ("n", "a"): (CAUSED, FOLLOWED), ("n", "b"): (CAUSED, 10 * FOLLOWED)}
    said = " ".join(
        text(item) for item in alignment_sentences(alignment_data(found, ["net", "n"], {"a": "input", "b": "input"}, ["random"]))
    )
    assert said == (
        "From the first level to the last, the explanations of b on n move furthest: from 3.000 to 6.000. "
        "Random explanations go from 0.500 to 0.500."
    )
    assert alignment_sentences(alignment_data({}, ["net"], {"a": "input"})) == []


def test_what_does_not_respond_says_so() -> None:
    drawn = draw_alignment(alignment_data(FOUND, ["net"], {"a": "input", "still": "input"}))
    assert text(drawn).count("no response") == 1


# --- Figure 3


def test_clouds_hold_the_samples_with_both_distortions_at_three_levels() -> None:
    caused = np.exp(np.random.default_rng(0).normal(size=(30, 2, 9)))
    caused[0, :, 8] = math.nan
    followed = np.random.default_rng(1).uniform(size=(30, 2, 9))
    data = scatter_data({("net", "a"): (caused, followed), ("net", "b"): (caused[:0], followed[:0])}, ["net"], {"a": "input", "b": "input"})
    assert data.levels == (1, 5, 9)
    assert [label for label, _, _ in data.explainers] == ["a"]
    clouds = data.explainers[0][2][0].clouds
    assert [len(cloud) for cloud in clouds] == [30, 30, 29]
    assert clouds[1][3] == pytest.approx([caused[3, :, 4].mean(), followed[3, :, 4].mean()])
    drawn = f"<div>{draw_scatter(data)}</div>"
    tree = ElementTree.fromstring(drawn)
    assert [len(re.findall("M", item.get("d"))) for item in tree.iter("path") if item.get("class") == "points"] == [30, 30, 29]
    assert sum(item.get("class") == "contour" for item in tree.iter("path")) == 2 * 3
    assert {item.get("class") for item in tree.iter("g")} >= {"l1", "l2", "l3"}


def test_names_in_the_figures_are_escaped() -> None:
    found = {(EVIL, EVIL_TOO): (CAUSED, FOLLOWED), ("n", EVIL_TOO): (CAUSED, FOLLOWED)}
    for drawn in (
        draw_alignment(alignment_data(found, [EVIL, "n"], {EVIL_TOO: EVIL})),
        draw_scatter(scatter_data(found, [EVIL, "n"], {EVIL_TOO: EVIL})),
        "".join(alignment_sentences(alignment_data(found, [EVIL, "n"], {EVIL_TOO: EVIL}))),
    ):
        assert "<script" not in drawn
        assert "<img" not in drawn
        ElementTree.fromstring(f"<div>{drawn}</div>")


# --- contours


def inside(points: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """Whether points lie within closed lines: a ray to the right crosses them an odd number of times."""
    (x, y), (a, b) = points.T, (segments[:, 0], segments[:, 1])
    spans = (a[:, 1] > y[:, None]) != (b[:, 1] > y[:, None])
    with np.errstate(divide="ignore", invalid="ignore"):
        at = a[:, 0] + (y[:, None] - a[:, 1]) / (b[:, 1] - a[:, 1]) * (b[:, 0] - a[:, 0])
    return (spans & (at > x[:, None])).sum(axis=1) % 2 == 1


def test_level_lines_of_a_cone_are_a_circle() -> None:
    ticks = np.linspace(-2.0, 2.0, 41)
    cone = np.hypot(ticks[:, None], ticks[None, :])
    segments = level_lines(cone, 1.3, ticks, ticks)
    radius = np.linalg.norm(segments.reshape(-1, 2), axis=1)
    assert np.abs(radius - 1.3).max() < 0.01
    assert np.linalg.norm(segments[:, 0] - segments[:, 1], axis=1).sum() == pytest.approx(2 * math.pi * 1.3, rel=0.01)
    assert level_lines(cone, 9.0, ticks, ticks).shape == (0, 2, 2)


def test_each_contour_encloses_its_share_of_the_points() -> None:
    random = np.random.default_rng(4)
    points = np.concatenate([random.normal(size=(150, 2)), random.normal(3.0, 0.4, size=(150, 2))]) * [100.0, 0.01]
    for share, segments in zip((0.5, 0.9), contours(points, (0.5, 0.9), grid=60), strict=True):
        assert inside(points, segments).mean() == pytest.approx(share, abs=0.03)


def test_points_without_a_spread_have_no_contour() -> None:
    assert contours(np.ones((50, 2))) == []
    assert contours(np.stack([np.arange(50.0), np.ones(50)], axis=1)) == []
    assert contours(np.random.default_rng(0).normal(size=(5, 2))) == []
    assert contours(np.zeros((0, 2))) == []
