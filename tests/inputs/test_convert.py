from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from veracity.core.errors import InputError
from veracity.inputs import ImageInputs, SeveralInputs, TableInputs, as_inputs

ROWS = np.arange(12.0).reshape(4, 3)
pytestmark = pytest.mark.filterwarnings("ignore:.*taken for the labels")


def every(inputs: Any) -> list[Any]:
    return as_inputs(inputs).take(torch.arange(as_inputs(inputs).size())).values.tolist()  # type: ignore[no-any-return]


class Records(Dataset[Any]):
    """Samples as dicts, as datasets of Hugging Face give them."""

    column_names, features = ("values", "label"), None

    def __len__(self) -> int:
        return 4

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"values": ROWS[row], "label": row % 2}


@pytest.mark.parametrize(
    "given",
    [
        ROWS,
        torch.tensor(ROWS),
        list(ROWS),
        ROWS.tolist(),
        [torch.tensor(row) for row in ROWS],
        pd.DataFrame(ROWS, columns=["a", "b", "c"]),
        TensorDataset(torch.tensor(ROWS)),
        TensorDataset(torch.tensor(ROWS), torch.arange(4)),
        Records(),
        {"values": ROWS},
    ],
)
def test_the_same_rows_in_many_forms(given: Any) -> None:
    assert every(given) == ROWS.tolist()


def test_kinds() -> None:
    assert isinstance(as_inputs(pd.DataFrame({"a": [1.0]})), TableInputs)
    assert isinstance(as_inputs({"a": ROWS, "b": ROWS}), SeveralInputs)
    assert isinstance(as_inputs((ROWS, ROWS)), SeveralInputs)
    assert as_inputs(ImageInputs(np.zeros((2, 4, 4), dtype=np.uint8))).shape == (1, 4, 4)


def test_whole_numbers_of_a_table_become_floating_point() -> None:
    assert as_inputs(np.arange(6).reshape(2, 3)).take(torch.tensor([0])).values.dtype is torch.float64


class Strange:
    pass


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "There are no inputs: the list is empty."),
        ({}, "There are no inputs: pass at least one array by name"),
        (["a fine film", "a dull one"], r"There is text in the inputs, such as 'a fine film'.*TextInputs\(texts, tokenizer\)"),
        ([np.zeros(3), np.zeros(4)], r"sample 0 has \(3,\), sample 1 has \(4,\): bring them to one shape"),
        (np.zeros((2, 4, 4), dtype=np.uint8), r"images of type uint8, whose scaling is not known: pass ImageInputs\(images\)"),
        (pd.Series([1.0]), r"one column of a table: pass a DataFrame, such as frame\[\['age'\]\]"),
        (Strange(), "must be an array, a DataFrame, a list of samples.*not Strange"),
        (np.array([[1.0, np.nan]]), "1 of 1 inputs hold NaN or infinity; the first is sample 0"),
        ({"a": ROWS, "b": ROWS[:2]}, "The part 'a' has 4 samples, and 'b' has 2"),
    ],
)
def test_bad_inputs(given: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        as_inputs(given)


def test_given_tensors_are_not_changed() -> None:
    given: Tensor = torch.tensor(ROWS)
    as_inputs(given).take(torch.arange(4)).values.zero_()
    assert given.tolist() == ROWS.tolist()
