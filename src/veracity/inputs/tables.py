"""Rows of a table: named columns, categories, one-hot groups, and a background that says what usual values are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Size, Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, listed
from veracity.core.features import Features
from veracity.core.inputs import Inputs, Signals, Subset
from veracity.core.models import unwrap, weight_type
from veracity.core.wording import count
from veracity.inputs.columns import Columns, FrameModel, needs_frame
from veracity.models.base import Converted, NumpyModel


@dataclass(frozen=True, eq=False)
class TableInputs:
    """The rows of a DataFrame. A sample's values are one number per column; a category is the number of its level.

    Columns of text, of booleans and of pandas' categories are categories. Models that were fitted on a DataFrame get one again.

    background  rows that say what usual values are, such as the training set: masks put in the mean of a column, or the most frequent
                level of a category, and noise is measured in standard deviations. Without it, these rows themselves say so
    levels      the levels of columns, such as {"job": ["clerk", "cook"]}: of numbers that are categories, and where the model knows more
                levels than occur here
    groups      the columns of one feature, such as {"job": ["job_clerk", "job_cook"]}; or the sign between a feature and its level,
                "_" for job_clerk and job_cook, which puts together columns of 0 and 1 whose names are the same up to the last "_"

    >>> table = TableInputs(pd.DataFrame({"age": [30.0, 41.0], "job": ["cook", "clerk"]}))
    >>> table.take(torch.tensor([0, 1])).values
    tensor([[30.,  1.],
            [41.,  0.]], dtype=torch.float64)
    """

    frame: pd.DataFrame
    background: pd.DataFrame | None = None
    levels: Mapping[str, Sequence[Any]] | None = None
    groups: Mapping[str, Sequence[Any]] | str | None = None

    def __post_init__(self) -> None:
        check_frame(self.frame, "table")
        if self.background is not None:
            check_frame(self.background, "background")
        absent = next((name for name in self.levels or {} if name not in self.names), None)
        if absent is not None:
            raise InputError(
                f"levels=... names the column '{absent}', which the table does not have: its columns are {listed(self.names)}."
            )
        self.features  # noqa: B018  (raises now if a column cannot be read)

    @classmethod
    def of_array(
        cls,
        values: Any,
        names: Sequence[str] | None = None,
        groups: Mapping[str, Sequence[Any]] | str | None = None,
        background: Any = None,
    ) -> TableInputs:
        """A table from an array (N, d); groups name columns, or say their numbers.

        >>> table = TableInputs.of_array([[30.0, 0, 1], [41.0, 1, 0]], ["age", "job_clerk", "job_cook"], groups="_")
        >>> table.features.names, table.features.groups
        (('age', 'job'), tensor([0, 1, 1]))
        """
        arrays = [
            None if one is None else np.asarray(one.detach().cpu() if isinstance(one, Tensor) else one) for one in (values, background)
        ]
        width = arrays[0].shape[1] if arrays[0] is not None and arrays[0].ndim == 2 else None
        if width is None:
            raise InputError(f"A table is made from an array of shape (rows, columns), not {np.shape(values)}.")
        columns = [f"feature {number}" for number in range(width)] if names is None else [str(name) for name in names]
        for array, what in zip(arrays, ("table", "background"), strict=True):
            if array is not None and array.shape[1:] != (len(columns),):
                raise InputError(f"The {what} has shape {array.shape}, and there are {len(columns)} names: give one name for each column.")
        frame = pd.DataFrame(arrays[0], columns=columns)
        usual = None if arrays[1] is None else pd.DataFrame(arrays[1], columns=columns)
        if isinstance(groups, Mapping):
            groups = {
                name: [columns[one] if isinstance(one, int) and one < width else one for one in some] for name, some in groups.items()
            }
        return cls(frame, usual, groups=groups)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(str(name) for name in self.frame.columns)

    @cached_property
    def columns(self) -> Columns:
        """How columns become numbers, and numbers columns; a background knows the types of the training set."""
        usual = self.frame if self.background is None else aligned(self.background, self.names, "background")
        kinds: list[tuple[str, Any, tuple[Any, ...] | None]] = []
        for name, (_, column) in zip(self.names, usual.items(), strict=True):
            given = (self.levels or {}).get(name)
            if pd.api.types.is_datetime64_any_dtype(column):
                raise InputError(f"Column '{name}' holds dates: turn them into numbers, such as days since the first.")
            if given is None and pd.api.types.is_numeric_dtype(column) and column.dtype != bool:
                kinds.append((name, column.dtype, None))
                continue
            if given is None and isinstance(column.dtype, pd.CategoricalDtype):
                given = list(column.cat.categories)
            known = sorted(column.unique().tolist(), key=str) if given is None else list(given)
            kinds.append((name, column.dtype, tuple(known)))
        labels = tuple(self.frame.columns)
        return Columns(tuple(kinds), () if labels == self.names else labels)

    @property
    def categories(self) -> dict[str, list[Any]]:
        """The levels of every column of categories."""
        return {name: list(known) for name, _, known in self.columns.kinds if known is not None}

    def encode(self, frame: pd.DataFrame, what: str = "reference") -> Tensor:
        """Rows of another table with the same columns as numbers, (N, columns); `what` names the table in errors."""
        check_frame(frame, what)
        return self.columns.encode(aligned(frame, self.names, what))

    def like(self, frame: pd.DataFrame, what: str) -> TableInputs:
        """Another table with the same columns, coded like this one; `what` names it in errors."""
        check_frame(frame, what)
        return replace(self, frame=aligned(frame, self.names, what), background=None, levels=self.categories)

    def with_levels(self, frame: pd.DataFrame, what: str) -> TableInputs:
        """This table with the levels of another one as well, except in columns whose levels were given; `what` names it in errors."""
        check_frame(frame, what)
        other, more = aligned(frame, self.names, what), dict[str, list[Any]]()
        for (name, kind, known), (_, column) in zip(self.columns.kinds, other.items(), strict=True):
            if known is None or name in (self.levels or {}):
                continue
            ordered = isinstance(kind, pd.CategoricalDtype)
            found = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column.unique()
            extra = [level for level in found.tolist() if level not in known]
            if extra:
                more[name] = [*known, *extra] if ordered else sorted([*known, *extra], key=str)
        return replace(self, levels={**(self.levels or {}), **more}) if more else self

    @cached_property
    def values(self) -> Tensor:
        """The whole table as numbers, (N, columns)."""
        return self.columns.encode(self.frame)

    @cached_property
    def features(self) -> Features:
        """Names, groups, scales and reference values of the columns."""
        names, groups = group_columns(self.names, self.groups, self.values)
        usual = self.values if self.background is None else self.columns.encode(aligned(self.background, self.names, "background"))
        categorical = torch.tensor([known is not None for _, _, known in self.columns.kinds])
        return Features.measured(usual, names=names, groups=groups, categorical=categorical, own=self.background is None)

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

    def adapt(self, model: nn.Module) -> nn.Module:
        """The model on rows of numbers; one that was fitted on a DataFrame gets one."""
        inner = unwrap(model)
        if not isinstance(inner, NumpyModel):
            if self.categories and reads_texts(inner):
                raise InputError(
                    f"The model reads texts, and the inputs are a table: pass the column of texts, such as "
                    f"inputs=list(frame['{next(iter(self.categories))}']), and that of labels as targets."
                )
            if self.categories:
                raise InputError(
                    f"Column '{next(iter(self.categories))}' holds categories, and this model takes numbers: encode it, or pass a Pipeline "
                    "that does."
                )
            kind = weight_type(model)
            return model if kind is None or kind is torch.float64 else Converted(model, kind)
        fitted_on: tuple[str, ...] | None = getattr(inner, "feature_names", None)
        if fitted_on is not None:
            check_fitted_columns(inner.title, fitted_on, self.names)
            return FrameModel(model, self.columns, fitted_on)
        framed = FrameModel(model, self.columns, self.names)
        return framed if self.categories or needs_frame(model, framed, self.values[:1]) else model


def reads_texts(model: nn.Module) -> bool:
    """Whether a model takes tokens of texts, as those of `transformers` do: it has an embedding of words."""
    return callable(getattr(model, "get_input_embeddings", None)) and hasattr(getattr(model, "config", None), "vocab_size")


def table_of(inputs: Inputs) -> TableInputs | None:
    """The table that inputs are rows of; None if they are something else."""
    while isinstance(inputs, Subset):
        inputs = inputs.inputs
    return inputs if isinstance(inputs, TableInputs) else None


def check_frame(frame: Any, what: str) -> None:
    """Raise unless this is a DataFrame with rows, with every column once and without missing values."""
    if not isinstance(frame, pd.DataFrame) or frame.empty:
        raise InputError(f"The {what} must be a pandas DataFrame with at least one row and one column, not {type(frame).__name__}.")
    names = [str(name) for name in frame.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"Two columns of the {what} are called '{twice}': rename one.")
    for name in frame.columns:
        missing = int(frame[name].isna().sum())
        if missing:
            raise InputError(
                f"Column '{name}' of the {what} has {count(missing, 'missing value')} in {len(frame)} rows: fill them in, or drop "
                "these rows."
            )


def check_fitted_columns(title: str, fitted_on: Sequence[str], names: Sequence[str]) -> None:
    """Raise if a model was fitted on other columns than the table has."""
    lacking = [name for name in fitted_on if name not in names]
    if lacking:
        raise InputError(f"{title} was fitted on the column '{lacking[0]}', which the table does not have: add it to {listed(names)}.")
    surplus = [name for name in names if name not in fitted_on]
    if surplus:
        raise InputError(f"The table has the column '{surplus[0]}', which {title} was not fitted on: leave it out.")


def aligned(frame: pd.DataFrame, names: Sequence[str], what: str) -> pd.DataFrame:
    """A table with these columns in this order; raises if it has others."""
    own = {str(name): name for name in frame.columns}
    lacking = next((name for name in names if name not in own), None)
    if lacking is not None:
        raise InputError(f"The {what} lacks the column '{lacking}' of the table: give it the same columns.")
    return frame[[own[name] for name in names]]


def group_columns(names: Sequence[str], groups: Mapping[str, Sequence[Any]] | str | None, values: Tensor) -> tuple[list[str], Tensor]:
    """The names of the features, in the order of their first columns, and the feature of each column (d,)."""
    member = {name: name for name in names}
    if isinstance(groups, str):
        if not groups:
            raise InputError("groups=... is the sign between a feature and its level, such as '_', or {'feature': [columns]}, not ''.")
        binary = dict(zip(names, ((values == 0) | (values == 1)).all(dim=0).tolist(), strict=True))
        member |= {name: name.rpartition(groups)[0] for name in names if binary[name] and name.rpartition(groups)[0]}
    elif groups is not None:
        for feature, columns in groups.items():
            for column in columns:
                if str(column) not in member:
                    raise InputError(
                        f"The group '{feature}' has the column '{column}', which the table does not have: it has {listed(names)}."
                    )
                if member[str(column)] != str(column):
                    raise InputError(f"The column '{column}' is in two groups, '{member[str(column)]}' and '{feature}': leave it in one.")
                member[str(column)] = str(feature)
    features = list(dict.fromkeys(member.values()))
    return features, torch.tensor([features.index(member[name]) for name in names])
