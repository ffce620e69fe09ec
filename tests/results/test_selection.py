"""Selections of samples: their texts, and whom they select, against a slow reading of the definitions."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report_runs import MODELS, digits_run
from stored import edit_manifest
from veracity.core.errors import InputError, SpecError
from veracity.results import Fits, Lasso, Listed, Result, Within, select
from veracity.results.selection import choices, inside, plane, read_part

SUBJECT = {"model": "all-cnn", "explainer": "grad_cam"}
SIZE = 30
NUMBER = st.floats(-5, 5, allow_nan=False).map(lambda value: round(value, 4))
NAME = st.text(max_size=12)
CORNER = st.tuples(NUMBER, NUMBER)
END = st.none() | NUMBER
PARTS = st.one_of(
    st.builds(Lasso, model=NAME, explainer=NAME, x=NAME, y=NAME, corners=st.lists(CORNER, min_size=3, max_size=9).map(tuple)),
    st.builds(Within, model=NAME, explainer=NAME, bounds=st.dictionaries(NAME, st.tuples(END, END), min_size=1, max_size=3)),
    st.builds(Fits, model=NAME, explainer=NAME, score=NAME, only=NAME),
    st.builds(Listed, ranges=st.lists(st.integers(0, 99).map(lambda low: (low, low + low % 3)), min_size=1).map(tuple)),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return digits_run(tmp_path_factory.mktemp("digits") / "run", samples=SIZE)


def values(run: Result, score: str) -> dict[int, float]:
    table = run.samples(score, "grad_cam")
    return dict(table[table["model"] == "all-cnn"].set_index("sample")["value"])


@given(PARTS)
def test_a_text_is_read_back(part: Lasso | Within | Fits | Listed) -> None:
    assert read_part(part.text) == part


@pytest.mark.parametrize(
    "text",
    ["", "samples", "samples*", "samples*4-2", "samples*-1", "samples*x", "range*a*b", "range*a*b*c*1", "range*a*b*c*0*1*c*0.5*",
     "range*a*b*c*nan*",
     "lasso*a*b*c*d*0_0_1_1", "lasso*a*b*c*d*0_0_1_1_inf_0", "lasso*a*b*c*d*0_0_1_1_1", "fits*a*b*c", "fits*a*b*c*d*e", "other*a"],
)  # fmt: skip
def test_what_is_no_selection_is_one_sentence(text: str) -> None:
    with pytest.raises(InputError, match="A selection is a text such as 'samples"):
        read_part(text)


@given(st.lists(CORNER, min_size=3, max_size=8), st.lists(CORNER, min_size=1, max_size=20))
def test_inside_counts_the_crossings_of_a_ray(corners: list[tuple[float, float]], points: list[tuple[float, float]]) -> None:
    x, y = np.array(points).T
    slow = []
    for px, py in points:
        crossings = 0
        for (x0, y0), (x1, y1) in pairwise([*corners, corners[0]]):
            if (y0 > py) != (y1 > py) and px < x0 + (py - y0) * (x1 - x0) / (y1 - y0):
                crossings += 1
        slow.append(crossings % 2 == 1)
    assert inside(x, y, corners).tolist() == slow


def test_ranges_include_their_ends_and_no_undefined_value(run: Result) -> None:
    x = values(run, "equivariance")
    defined = sorted(value for value in x.values() if math.isfinite(value))
    low, high = defined[3], defined[-4]
    expected = sorted(sample for sample, value in x.items() if low <= value <= high)
    assert Within(**SUBJECT, bounds={"equivariance": (low, high)}).samples(run).tolist() == expected
    assert len(Within(**SUBJECT, bounds={"equivariance": (None, None)}).samples(run)) == len(defined) < SIZE


def test_a_lasso_selects_in_the_plane_of_two_scores(run: Result) -> None:
    one = next(s for s in run.series if s.model == "all-cnn" and s.explainer in ("grad_cam", "") and s.score != "equivariance")
    other = one.score
    x, y = values(run, "equivariance"), dict(zip(one.samples.tolist(), one.per_sample.tolist(), strict=True))
    samples, across, up = plane(run, **SUBJECT, x="equivariance", y=other)
    assert samples.tolist() == [one for one in range(SIZE) if math.isfinite(x[one]) and math.isfinite(y[one])]
    assert (across.tolist(), up.tolist()) == ([x[one] for one in samples], [y[one] for one in samples])
    middle = float(np.median(across))
    corners = ((-9.0, -9.0), (middle, -9.0), (middle, 9.0), (-9.0, 9.0))
    part = Lasso(**SUBJECT, x="equivariance", y=other, corners=corners)
    assert part.samples(run).tolist() == [one for one in samples if x[one] < middle]
    both = select(run, part, Listed(ranges=((0, 9), (12, 12), (90, 99))))
    assert both.tolist() == [one for one in samples if x[one] < middle and (one < 10 or one == 12)]
    assert select(run).tolist() == list(range(SIZE))


def test_models_disagree_where_their_predictions_differ(run: Result, tmp_path: Path) -> None:
    assert "disagree" not in choices(run, "all-cnn")
    folder = tmp_path / "run"
    digits_run(folder, samples=SIZE)

    def predict(about: dict[str, object]) -> None:
        for place, model in enumerate(MODELS):
            predicted = [str(number % (2 + place)) for number in range(20)]
            about["models"][model]["classes"] = {"predicted": predicted, "label": ["0"] * 20}  # type: ignore[index]

    edit_manifest(folder, predict)
    known = Result(folder)
    assert {"wrong", "disagree"} <= set(choices(known, "all-cnn"))
    expected = [number for number in range(20) if len({number % (2 + place) for place in range(len(MODELS))}) > 1]
    assert Fits(**SUBJECT, score="equivariance", only="disagree").samples(known).tolist() == expected
    with pytest.raises(SpecError, match="Unknown choice of samples 'odd'"):
        Fits(**SUBJECT, score="equivariance", only="odd").samples(known)
