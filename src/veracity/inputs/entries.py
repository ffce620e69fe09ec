"""The entries of one sample of a dataset: which of them is the label, and which are values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from veracity.core.errors import InputError, listed

LABELS = ("label", "labels", "target", "targets", "y")
"""Names of the entry that holds the labels."""


@dataclass(frozen=True)
class Entry:
    """Where the values of a sample stand, and its label: names in a dict, places in a tuple; None for a sample that is its values."""

    values: str | int | None
    label: str | int | None = None

    def of(self, sample: Any) -> Any:
        """The values of a sample."""
        return sample if self.values is None else sample[self.values]

    @property
    def taken(self) -> str:
        """What is taken for the label, as the start of a sentence."""
        return f"The entry '{self.label}'" if isinstance(self.label, str) else "The last entry of each sample"


def single_entry(sample: Any, needed: Collection[str] = ()) -> Entry | None:
    """Where a sample has its one array of values; None for texts, graphs, and samples of several arrays.

    `needed` are names of inputs that the model cannot do without: they are no labels.

    >>> single_entry(("an image would stand here", 3)), single_entry((np.zeros(2), 3))
    (None, Entry(values=0, label=1))
    """
    found: Entry | None = Entry(None)
    if isinstance(sample, Mapping):
        label = label_name(sample, needed)
        rest = [name for name in sample if name != label]
        found = Entry(rest[0], label) if len(rest) == 1 else None
    elif isinstance(sample, tuple):
        found = Entry(0, 1 if len(sample) == 2 else None) if len(sample) in (1, 2) else None
    if found is None:
        return None
    values = found.of(sample)
    arrays = isinstance(values, (Tensor, np.ndarray)) or hasattr(values, "__array_interface__")
    numbers = isinstance(values, list) and bool(values) and not isinstance(sample, list)
    return found if arrays or numbers else None


def check_entry(sample: Any, entry: Entry) -> None:
    """Raise if the first sample lacks its values or its label."""
    for name in (entry.values, entry.label):
        try:
            _ = None if name is None else sample[name]
        except (KeyError, IndexError, TypeError) as error:
            raise InputError(f"Sample 0 of the dataset has no entry {name!r}, but {shown_entries(sample)}: name one of them.") from error


def label_name(parts: Mapping[str, Any], needed: Collection[str] = ()) -> str | None:
    """The name of the labels among the parts of a sample; None if there are no labels or no other parts."""
    return next((name for name in LABELS if name in parts and name not in needed), None) if len(parts) > 1 else None


def entries_of(sample: Any) -> set[Any] | int | None:
    """The names of a sample's entries, their number if they have no names, or None if it has none."""
    return set(sample) if isinstance(sample, Mapping) else len(sample) if isinstance(sample, (tuple, list)) else None


def shown_entries(sample: Any) -> str:
    """The entries of a sample in words."""
    if isinstance(sample, Mapping):
        return f"the entries {listed([str(name) for name in sample])}" if sample else "no entries"
    if not isinstance(sample, (tuple, list)):
        return f"the type {type(sample).__name__}"
    return "1 entry" if len(sample) == 1 else f"{len(sample)} entries"
