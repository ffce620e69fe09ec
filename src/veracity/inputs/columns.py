"""The columns of a table as numbers and back, and models that take a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from veracity.core.errors import InputError, listed
from veracity.core.models import View, unwrap


@dataclass(frozen=True)
class Columns:
    """The name, the type and, for a category, the levels of every column; its label if that is not text, such as a number."""

    kinds: tuple[tuple[str, Any, tuple[Any, ...] | None], ...]
    labels: tuple[Any, ...] = ()

    def encode(self, frame: pd.DataFrame) -> Tensor:
        """A table as numbers (N, columns); raises on a level that is not known."""
        found = []
        for (name, _, known), (_, column) in zip(self.kinds, frame.items(), strict=True):
            if known is None:
                try:
                    numbers = column.to_numpy(dtype=np.float64)
                except (TypeError, ValueError):
                    raise InputError(f"Column '{name}' must hold numbers, not {str(column.iloc[0])[:40]!r}: convert it first.") from None
                if not np.isfinite(numbers).all():
                    raise InputError(f"Column '{name}' has infinite values: replace them.")
                found.append(numbers)
                continue
            place = {level: number for number, level in enumerate(known)}
            unseen = next((value for value in column if value not in place), None)
            if unseen is not None:
                levels = listed([str(level) for level in known])
                raise InputError(
                    f"Column '{name}' has the value {unseen!r}, which is not among its levels {levels}: drop these rows, or give "
                    f"levels={{'{name}': [...]}} if the model knows it."
                )
            found.append(np.array([place[value] for value in column], dtype=np.float64))
        return torch.from_numpy(np.stack(found, axis=1))

    def level_in(self, message: str) -> tuple[str, Any] | None:
        """The column and the level that an error message quotes; None if it quotes none."""
        known = ((name, level) for name, _, levels in self.kinds for level in levels or ())
        return next(((name, level) for name, level in known if repr(level) in message), None)

    def decode(self, values: np.ndarray[Any, Any], order: Sequence[str] | None = None) -> pd.DataFrame:
        """Rows of numbers as a table with these types. Categories are rounded to a level; whole numbers become floats."""
        columns: dict[str, Any] = {}
        for at, (name, kind, known) in enumerate(self.kinds):
            if known is None:
                columns[name] = values[:, at].astype(kind if kind.kind == "f" and isinstance(kind, np.dtype) else np.float64)
                continue
            codes = np.clip(np.rint(values[:, at]), 0, len(known) - 1).astype(np.int64)
            if isinstance(kind, pd.CategoricalDtype):
                columns[name] = pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(list(known), ordered=kind.ordered))
            else:
                columns[name] = pd.Series(np.array([*known, None], dtype=object)[:-1][codes]).astype(kind)
        frame = pd.DataFrame(columns)
        chosen = frame if order is None else frame[list(order)]
        own = dict(zip(columns, self.labels, strict=False))
        return chosen.rename(columns=own) if own else chosen


class FrameModel(View):
    """A model on rows of numbers that gets a DataFrame."""

    def __init__(self, model: nn.Module, columns: Columns, order: tuple[str, ...]) -> None:
        super().__init__(model)
        self.columns, self.order = columns, order

    def forward(self, values: Tensor) -> Tensor:
        """Scores of rows."""
        inner: Any = unwrap(self.model)
        try:
            answer = inner.predict(self.columns.decode(values.detach().cpu().numpy(), self.order))
        except ValueError as error:
            unseen = self.columns.level_in(str(error)) if "unknown categor" in str(error).lower() else None
            if unseen is None:
                raise
            raise InputError(
                f"Column '{unseen[0]}' has the value {unseen[1]!r}, which {inner.title} was not fitted on: drop these rows, or fit it with "
                "them, or with OneHotEncoder(handle_unknown='ignore')."
            ) from error
        scores: Tensor = inner.scored(values, answer)
        return scores


def needs_frame(model: nn.Module, framed: nn.Module, row: Tensor) -> bool:
    """Whether a model fails on an array and takes a DataFrame, such as a function that looks up columns by name."""
    with torch.no_grad():
        try:
            model(row)
        except Exception:
            try:
                framed(row)
            except Exception:
                return False
            return True
    return False
