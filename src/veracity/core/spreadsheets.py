"""Tables as CSV that a spreadsheet shows as text and numbers, and never as formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a cell starts with that a spreadsheet takes for a formula."""


def as_csv(table: pd.DataFrame) -> str:
    """A table as CSV without its index; texts that a spreadsheet would take for a formula get an apostrophe in front.

    Numbers stay as they are, also those that are written as text.

    >>> print(as_csv(pd.DataFrame({"explainer": ["=1+1", "lime", "-3"], "value": [-0.5, 1.0, 2.0]})), end="")
    explainer,value
    '=1+1,-0.5
    lime,1.0
    -3,2.0
    """
    guarded = table.copy()
    for place, kind in enumerate(table.dtypes):
        if pd.api.types.is_object_dtype(kind) or pd.api.types.is_string_dtype(kind):
            cells = np.empty(len(table), dtype=object)
            cells[:] = [as_text(cell) for cell in table.iloc[:, place]]
            guarded.isetitem(place, cells)
    return str(guarded.to_csv(index=False))


def as_text(cell: Any) -> Any:
    """A cell with an apostrophe in front if it is a text that begins as a formula does and is no number.

    A carriage return becomes a line feed: CSV writers do not quote it, and readers take it for the end of a row.
    """
    if not isinstance(cell, str):
        return cell
    plain = cell.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{plain}" if cell.startswith(FORMULA) and not is_number(cell) else plain


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
