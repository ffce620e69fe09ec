"""Paired differences as a table that prints all of its numbers."""

from __future__ import annotations

import pandas as pd

QUIET = {"unseen": float("nan"), "bound": "", "status": "ok", "control": False}
"""Columns that are not printed where every row has this value."""


class Differences(pd.DataFrame):
    """Paired differences, one row per pair. As text, it is cut to no width, and columns that say nothing are left out.

    >>> print(Differences({"first": ["lime"], "second": ["shap"], "difference": [0.12345], "unseen": [float("nan")], "status": ["ok"]}))
    first second  difference
     lime   shap       0.123
    """

    @property
    def _constructor(self) -> type[Differences]:
        return Differences

    def __repr__(self) -> str:
        silent = [name for name, value in QUIET.items() if name in self and (self[name].isna() | (self[name] == value)).all()]
        rows = pd.get_option("display.max_rows")
        return str(self.drop(columns=silent).to_string(index=False, float_format="{:.3g}".format, na_rep="", max_rows=rows))
