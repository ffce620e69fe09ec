"""CSV tables hold no formulas, and their numbers stay numbers."""

from __future__ import annotations

import csv
import io
import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veracity.core.spreadsheets import FORMULA, as_csv


def test_whole_numbers_with_gaps_stay_whole() -> None:
    table = pd.DataFrame({"rank": pd.array([1, None], dtype="Int64"), "seen": pd.Series([2, None], dtype=object), "name": ["@a", None]})
    assert as_csv(table).splitlines() == ["rank,seen,name", "1,2,'@a", ",,"]


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-"])
def test_texts_that_begin_as_formulas_get_an_apostrophe(name: str) -> None:
    found = pd.read_csv(io.StringIO(as_csv(pd.DataFrame({"explainer": [name, "lime"], "value": [-1.5, 2.0]}))), lineterminator="\n")
    assert found["explainer"].tolist() == [f"'{name}".replace("\r", "\n"), "lime"]
    assert found["value"].tolist() == [-1.5, 2.0]


def test_numbers_and_gaps_stay_as_they_are() -> None:
    ranks = pd.array([1, pd.NA, -3], dtype="Int64")
    table = pd.DataFrame(
        {"value": [-1e-9, math.nan, -math.inf], "rank": ranks, "text": ["-3", "+1e5", "-inf"], "flag": [True, False, True]}
    )
    assert as_csv(table) == table.to_csv(index=False)
    assert as_csv(pd.DataFrame(columns=["a", "b"])) == "a,b\n"


@given(st.lists(st.one_of(st.text(max_size=8), st.floats(), st.integers(-9, 9)), min_size=1, max_size=5))
def test_no_text_is_left_that_begins_as_a_formula(cells: list[object]) -> None:
    kept = list(csv.reader(io.StringIO(as_csv(pd.DataFrame({"cell": pd.Series(cells, dtype=object), "end": 0})), newline="")))[1:]
    for given_cell, row in zip(cells, kept, strict=True):
        if isinstance(given_cell, str) and row[0].startswith(FORMULA):
            float(row[0])
        elif not isinstance(given_cell, str):
            assert not row[0].startswith("'")
