"""Tables as CSV that a spreadsheet shows as text and numbers, and never as formulas."""

from __future__ import annotations

from typing import Any

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
    return str(table.map(as_text).to_csv(index=False))


def as_text(cell: Any) -> Any:
    """A cell with an apostrophe in front if it is a text that begins as a formula does and is no number."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) and not is_number(cell) else cell


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
