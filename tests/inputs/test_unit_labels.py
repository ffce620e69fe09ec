"""The people behind the samples: labels in all their forms, and mistakes in one sentence each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from veracity.core.errors import InputError, Note
from veracity.inputs.units import as_groups, as_units, without_column

TABLE = pd.DataFrame({"patient_id": ["p", "q", "p"], "sex": ["m", "f", None], "age": [30, 40, 30]})


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (["a", "b", "a"], "unit"),
        ({"patient": np.array([7, 8, 7])}, "patient"),
        (torch.tensor([1, 0, 1]), "unit"),
        (TABLE["patient_id"], "patient"),
        ("patient_id", "patient"),
        ([1.0, 2.0, 1.0], "unit"),
    ],
)
def test_units_in_all_forms(given: Any, name: str) -> None:
    found = as_units(given, 3, TABLE)
    assert found is not None
    assert (found.name, found.codes.tolist()) == (name, [0, 1, 0])
    assert found.take(torch.tensor([1, 2])).record(2) == {"name": name, "of": [0, 1]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["a", "b"], "units has 2 labels for 3 samples"),
        (["a", "a", "a"], "All 3 samples belong to one unit"),
        (["a", None, "a"], "1 of 3 samples has no unit, the first of them sample 1"),
        ([1.0, np.nan, 2.0], "1 of 3 samples has no unit"),
        ([0.5, 1.0, 0.5], "text or whole numbers, not 0.5"),
        ([[1], [2], [1]], "one label per sample"),
        ("who", "Its columns: patient_id, sex, age"),
        ({"a": [1, 2, 1], "b": [1, 2, 1]}, "one kind of units"),
        ([1, "1", 2], "units has the labels 1 and '1', which cannot be told apart"),
        ([1, True, 2], "units has the labels 1 and True, which cannot be told apart"),
        (["True", True, 2], "units has the labels 'True' and True, which cannot be told apart"),
    ],
)
def test_mistakes_are_one_sentence(given: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        as_units(given, 3, TABLE)


def test_units_of_one_sample_each_are_none() -> None:
    with pytest.warns(Note, match="changes nothing"):
        assert as_units(["a", "b", "c"], 3) is None


def test_groups_stand_in_order_and_may_be_missing() -> None:
    (sex,) = as_groups("sex", 3, TABLE)
    assert (sex.name, sex.labels, sex.codes.tolist()) == ("sex", ("f", "m"), [1, 0, -1])
    both = as_groups({"sex": "sex", "age": "age"}, 3, TABLE)
    assert [one.labels for one in both] == [("f", "m"), ("30", "40")]
    with pytest.raises(InputError, match="the labels 1 and '1', which cannot be told apart"):
        as_groups([1, "1", True], 3)
    with pytest.raises(InputError, match="bands of age"):
        as_groups(list(range(30)), 30)


def test_groups_keep_the_name_of_their_column() -> None:
    table = TABLE.rename(columns={"age": "age_band"})
    assert [as_groups(given, 3, table)[0].name for given in ("age_band", table["age_band"], ["a", "b", "a"])] == ["age_band"] * 2 + [
        "group"
    ]


def test_the_column_of_units_is_no_feature() -> None:
    assert list(without_column(TABLE, "patient_id").columns) == ["sex", "age"]
    assert without_column(TABLE, ["a", "b", "a"]) is TABLE
