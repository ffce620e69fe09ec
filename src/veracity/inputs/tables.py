"""Rows of a table, with names, categories and missing values told apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Size, Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.inputs import Signals
from veracity.core.models import View, unwrap


@dataclass(frozen=True, eq=False)
class TableInputs:
    """The rows of a DataFrame. A sample's values are one number per column; a category is the number of its level.

    Columns of text, of booleans and of pandas' categories are categories; their levels are those of the column, or `levels`
    where the model knows more of them. Models that were fitted on a DataFrame get one again.

    >>> table = TableInputs(pd.DataFrame({"age": [30.0, 41.0], "job": ["cook", "clerk"]}))
    >>> table.take(torch.tensor([0, 1])).values
    tensor([[30.,  1.],
            [41.,  0.]], dtype=torch.float64)
    """

    frame: pd.DataFrame
    levels: dict[str, list[Any]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.frame, pd.DataFrame) or self.frame.empty:
            raise InputError("A table must be a pandas DataFrame with at least one row and one column.")
        names = [str(name) for name in self.frame.columns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"Two columns of the table are called '{twice}': rename one.")
        for name in self.frame.columns:
            missing = int(self.frame[name].isna().sum())
            if missing:
                raise InputError(f"Column '{name}' has {missing} missing values of {len(self.frame)}: fill them in, or drop these rows.")
        self.values  # noqa: B018  (a column that is no number is told now)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(str(name) for name in self.frame.columns)

    @cached_property
    def categories(self) -> dict[str, list[Any]]:
        """The levels of every column of categories."""
        found: dict[str, list[Any]] = {}
        for name in self.names:
            column = self.frame[name]
            if (self.levels and name in self.levels) or not pd.api.types.is_numeric_dtype(column) or column.dtype == bool:
                known = (self.levels or {}).get(name)
                listed = list(column.cat.categories) if known is None and isinstance(column.dtype, pd.CategoricalDtype) else known
                found[name] = sorted(column.unique().tolist(), key=str) if listed is None else list(listed)
        return found

    @cached_property
    def values(self) -> Tensor:
        """The whole table as numbers, (N, columns)."""
        columns = []
        for name in self.names:
            column = self.frame[name]
            if name not in self.categories:
                columns.append(column.to_numpy(dtype=np.float64))
                continue
            place = {level: number for number, level in enumerate(self.categories[name])}
            unknown = next((value for value in column if value not in place), None)
            if unknown is not None:
                raise InputError(f"Column '{name}' has the value {unknown!r}, which is not among its levels {list(place)[:8]}.")
            columns.append(np.array([place[value] for value in column], dtype=np.float64))
        table = torch.from_numpy(np.stack(columns, axis=1))
        if not bool(torch.isfinite(table).all()):
            at = self.names[int((~torch.isfinite(table)).any(0).nonzero()[0])]
            raise InputError(f"Column '{at}' has infinite values: replace them.")
        return table

    @property
    def shape(self) -> Size:
        """(columns,)."""
        return Size((len(self.names),))

    def size(self) -> int:
        """The number of rows."""
        return len(self.frame)

    def take(self, index: Tensor) -> Signals:
        """Rows by number."""
        return Signals(self.values[index.cpu()])

    def fingerprint(self) -> str:
        """A hash of the names, levels and numbers."""
        levels = {name: [str(level) for level in known] for name, known in self.categories.items()}
        return fingerprint.of_json(["table", list(self.names), levels, fingerprint.of_tensor(self.values)])

    def decode(self, values: np.ndarray[Any, Any]) -> pd.DataFrame:
        """Rows of numbers as a DataFrame like the given one; a number between two levels is rounded to the nearer."""
        columns: dict[Any, Any] = {}
        for at, name in enumerate(self.frame.columns):
            column = self.frame[name]
            known = self.categories.get(str(name))
            if known is None:
                columns[name] = values[:, at].astype(column.dtype if column.dtype.kind == "f" else np.float64, copy=False)
                continue
            codes = np.clip(np.rint(values[:, at]), 0, len(known) - 1).astype(np.int64)
            filled = pd.Series(np.asarray(known, dtype=object)[codes])
            columns[name] = filled.astype(column.dtype)
        return pd.DataFrame(columns)

    def adapt(self, model: nn.Module) -> nn.Module:
        """The model on rows of numbers; one that was fitted on a DataFrame gets one."""
        names = getattr(unwrap(model), "feature_names", None)
        if names is not None or (self.categories and hasattr(unwrap(model), "predict")):
            if names is not None and set(names) != set(self.names):
                absent = sorted(set(names) - set(self.names)) or sorted(set(self.names) - set(names))
                raise InputError(f"The model was fitted on other columns than the table has: '{absent[0]}' is in one of them only.")
            return FrameModel(model, self)
        if self.categories:
            first = next(iter(self.categories))
            raise InputError(f"Column '{first}' holds categories, and this model takes numbers: encode it, or pass a Pipeline that does.")
        return model


class FrameModel(View):
    """A model that was fitted on a DataFrame, on rows of numbers."""

    def __init__(self, model: nn.Module, table: TableInputs) -> None:
        super().__init__(model)
        self.table = table

    def forward(self, values: Tensor) -> Tensor:
        """Scores of rows."""
        inner: Any = unwrap(self.model)
        return inner.on_frame(values, self.table.decode)  # type: ignore[no-any-return]
