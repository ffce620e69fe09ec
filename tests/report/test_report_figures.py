from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import report_runs
from report_runs import digits_run
from veracity.report.figures.boxes import POINTS, box_of, boxes_data, draw_boxes
from veracity.report.figures.chart import colour_class, key, scale_for, shape_of
from veracity.report.figures.ranking import draw_ranking, ranking_data
from veracity.report.figures.tables import matrix_data
from veracity.report.html import draw
from veracity.report.rows import COLUMNS
from veracity.results import Row


def row(model: str, explainer: str, value: float, **changes: Any) -> Row:
    return report_runs.row(explainer, value, 0.05, **{"model": model, "draws_low": value, "draws_high": value, **changes})


finite = st.floats(-1e6, 1e6, allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(st.lists(finite | st.just(math.nan), max_size=6))
def test_an_axis_holds_its_values_on_even_round_ticks(values: list[float]) -> None:
    scale = scale_for(values)
    known = [value for value in values if math.isfinite(value)]
    span = scale.high - scale.low
    assert all(scale.low - 1e-6 * span <= value <= scale.high + 1e-6 * span for value in known)
    steps = np.diff(scale.ticks)
    assert np.allclose(steps, steps[0])
    assert 2 <= len(scale.ticks) <= 11
    assert float(f"{steps[0]:.1e}") == pytest.approx(steps[0])
    assert (scale.ticks[0], scale.ticks[-1]) == (scale.low, scale.high)


def test_places_are_linear_and_kept_on_the_axis() -> None:
    scale = scale_for([-1.0, 1.0])
    assert [scale.percent(value) for value in (-1.0, 0.0, 0.5, 1.0, 7.0)] == [0.0, 50.0, 75.0, 100.0, 100.0]


def test_models_differ_in_shape_as_well_as_colour() -> None:
    looks = [(colour_class(model), shape_of(model)) for model in range(18)]
    assert len(set(looks)) == 18
    assert len({shape for _, shape in looks[:6]}) == 6
    ElementTree.fromstring(str(key(3)))


def test_the_ranking_is_sorted_by_the_mean_over_models() -> None:
    rows = [row("m", "a", 0.2), row("n", "a", 0.9), row("m", "b", 0.7), row("n", "b", 0.6), row("m", "c", 1.0, control=True)]
    data = ranking_data(rows, "equivariance", ["m", "n"])
    assert [item.explainer for item in data.explainers] == ["b", "a"]
    assert [item.explainer for item in data.controls] == ["c"]
    assert data.controls[0].results[1] is None


def test_a_missing_cell_neither_helps_nor_harms() -> None:
    rows = [row("easy", name, value) for name, value in (("a", 0.9), ("b", 0.8), ("c", 1.0))]
    rows += [row("hard", name, value) for name, value in (("a", 0.2), ("b", 0.1))]
    rows += [row("hard", "c", math.nan, failed="no memory", state="failed"), row("easy", "d", math.nan), row("hard", "d", math.nan)]
    assert [item.explainer for item in ranking_data(rows, "equivariance", ["easy", "hard"]).explainers] == ["c", "a", "b", "d"]
    dropped = [item for item in rows if (item.model, item.explainer) != ("hard", "b")]
    assert [item.explainer for item in ranking_data(dropped, "equivariance", ["easy", "hard"]).explainers][-2:] == ["b", "d"]


def test_for_a_distance_the_smallest_comes_first() -> None:
    rows = [row("m", name, value, direction="lower") for name, value in (("a", 4.0), ("b", 2.0))]
    assert [item.explainer for item in ranking_data(rows, "equivariance", ["m"]).explainers] == ["b", "a"]


def test_marks_stand_where_the_numbers_say() -> None:
    rows = [
        row(
            "m", "a", 0.5, low=0.4, high=0.65, draws_low=0.45, draws_high=0.55, random_control=0.1, self_agreement=0.9
        )
    ]  # fmt: skip
    drawn = str(draw_ranking(ranking_data(rows, "equivariance", ["m"])))
    lane = re.search(r'<g class="m1">.*?</g>', drawn)
    assert lane is not None
    tree = ElementTree.fromstring(lane.group())
    lines = {item.get("class"): (item.get("x1"), item.get("x2")) for item in tree.iter("line")}
    assert lines == {"room": ("10.0%", "90.0%"), "population": ("40.0%", "65.0%"), "draws": ("45.0%", "55.0%")}
    marks = [(item.get("x"), item[0].get("class")) for item in tree.iter("svg")]
    assert marks == [("10.0%", "null"), ("90.0%", "null"), ("50.0%", "dot")]
    assert "<b>0.500</b><i>0.400 to 0.650</i>" in drawn


def test_what_is_undefined_gets_a_word_and_no_mark() -> None:
    rows = [row("m", "a", math.nan, low=math.nan, high=math.nan), row("m", "b", 0.5, failed="no memory", state="failed")]
    drawn = str(draw_ranking(ranking_data(rows, "equivariance", ["m", "n"])))
    assert 'class="dot"' not in drawn
    assert [drawn.count(word) for word in ("undefined", "failed", "not run")] == [1, 1, 2]


def test_small_numbers_get_more_decimals() -> None:
    rows = [row("m", "a", 0.00021, low=0.0002, high=0.00022, direction="lower")]
    assert "<b>0.000210</b>" in str(draw_ranking(ranking_data(rows, "equivariance", ["m"])))


def slow_box(values: list[float]) -> tuple[float, ...]:
    """A box the slow way: quartiles by linear interpolation of ranks, whiskers by looking at every value."""
    known = sorted(value for value in values if not math.isnan(value))

    def quantile(share: float) -> float:
        place = share * (len(known) - 1)
        below = math.floor(place)
        above = min(below + 1, len(known) - 1)
        return known[below] + (place - below) * (known[above] - known[below])

    first, median, third = quantile(0.25), quantile(0.5), quantile(0.75)
    low, high = first, third
    for value in known:
        if first - 1.5 * (third - first) <= value < low:
            low = value
        if third + 1.5 * (third - first) >= value > high:
            high = value
    return low, first, median, third, high


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-40, 40).map(lambda value: value / 8) | st.just(math.nan), min_size=1, max_size=30))
def test_boxes_agree_with_the_slow_way(values: list[float]) -> None:
    box = box_of(np.array(values))
    if all(math.isnan(value) for value in values):
        assert box is None
    else:
        assert box is not None
        assert (box.low, box.first, box.median, box.third, box.high) == pytest.approx(slow_box(values))
        assert box.points == tuple(sorted(value for value in values if not math.isnan(value)))


def test_very_many_samples_are_thinned_but_keep_their_ends() -> None:
    box = box_of(np.arange(5000.0))
    assert box is not None
    assert (len(box.points), box.points[0], box.points[-1], box.count) == (POINTS, 0.0, 4999.0, 5000)


def test_boxes_follow_the_ranking(tmp_path: Path) -> None:
    run = digits_run(tmp_path, samples=10)
    ranking = ranking_data(run.rows, "equivariance", ["all-cnn", "augmented-cnn", "standard-cnn"])
    data = boxes_data([one for one in run.series if one.score == "equivariance"], ranking)
    assert [name for name, _ in data.rows] == list(ranking.order)
    missing = [(name, place) for name, boxes in data.rows for place, box in enumerate(boxes) if box is None]
    assert missing == [("deep_lift", 2)]
    assert str(draw_boxes(data)).count('class="box"') == 3 * 18 - 1


def differences(*rows: tuple[object, ...]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=COLUMNS)


def test_the_matrix_is_row_minus_column() -> None:
    frame = differences(
        ("m", "a", "b", 0.25, 0.1, 0.4, 9, True), ("m", "c", "a", 0.1, -0.1, 0.3, 8, False), ("n", "a", "b", 0.9, 0.8, 1.0, 9, True)
    )
    data = matrix_data(frame, "m", ["b", "a"])
    assert data.names == ("b", "a", "c")
    assert (data.pairs, data.apart, data.largest) == (2, 1, 0.25)
    below, above = data.cells[0][1], data.cells[1][0]
    assert below is not None
    assert above is not None
    assert (above.value, above.low, above.high) == (0.25, 0.1, 0.4)
    assert (below.value, below.low, below.high) == (-0.25, -0.4, -0.1)
    assert data.cells[0][0] is None
    assert data.cells[0][2] is None


def test_the_matrix_marks_what_differs() -> None:
    frame = differences(
        ("m", "a", "b", 0.25, 0.1, 0.4, 9, True),
        ("m", "a", "c", 0.1, -0.1, 0.3, 8, False),
        ("m", "b", "c", math.nan, math.nan, math.nan, 0, False),
    )
    drawn = str(draw("matrix", matrix_data(frame, "m", ["a", "b", "c"])))
    cells = re.findall(r'<td class="(\w+)"[^>]*>(.*?)</td>', drawn)
    assert cells == [
        ("none", ""), ("up", ".25"), ("same", ".10"),
        ("down", "\N{MINUS SIGN}.25"), ("none", ""), ("same", "?"),
        ("same", "\N{MINUS SIGN}.10"), ("same", "?"), ("none", ""),
    ]  # fmt: skip
    assert 'title="a minus b: 0.250, 0.100 to 0.400, 9 samples"' in drawn
    ElementTree.fromstring(drawn)


def test_a_matrix_of_nothing_has_no_pairs() -> None:
    assert matrix_data(differences(), "m", ["a"]).pairs == 0
