"""The people behind the samples: which samples belong together (units, such as patients), and which subgroup each belongs to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.errors import InputError, warn
from veracity.core.settings import short_repr
from veracity.core.wording import count

Codes = NDArray[np.int64]
UNIT, GROUP = "unit", "group"
"""What units and groups are called if they have no name."""
MOST_GROUPS = 20
"""Groups by one name, beyond which there are hardly samples in each."""


@dataclass(frozen=True)
class Units:
    """Which unit each sample belongs to, as whole numbers (samples,); labels are not kept, since they may identify people."""

    name: str
    codes: Codes

    def take(self, rows: Any) -> Units:
        """Those of some samples."""
        return Units(self.name, self.codes[np.asarray(rows)])

    def record(self, samples: int) -> dict[str, Any]:
        """The first samples as plain data: the name, and the number of each sample's unit in the order of their appearance."""
        return {"name": self.name, "of": numbered(self.codes[:samples].tolist())[1].tolist()}


@dataclass(frozen=True)
class Groups:
    """The subgroups by one name, such as "sex": their labels, and the place of each sample's label (samples,), -1 if it has none."""

    name: str
    labels: tuple[str, ...]
    codes: Codes

    def take(self, rows: Any) -> Groups:
        """Those of some samples."""
        return Groups(self.name, self.labels, self.codes[np.asarray(rows)])

    def record(self, samples: int) -> dict[str, Any]:
        """The first samples as plain data."""
        return {"name": self.name, "labels": list(self.labels), "of": self.codes[:samples].tolist()}


def as_units(given: Any, size: int, table: Any = None) -> Units | None:
    """The units of `size` samples: one label per sample, {"name": labels}, or the name of a column of the `table` of inputs.

    None if each sample is a unit of its own, which changes nothing.

    >>> as_units({"patient": ["a", "b", "a"]}, 3).codes.tolist()
    [0, 1, 0]
    """
    if given is None or isinstance(given, Units):
        return given
    if isinstance(given, Mapping) and len(given) != 1:
        raise InputError(f"Samples belong to one kind of units, such as {{'patient': labels}}, not to {len(given)}.")
    ((name, labels),) = given.items() if isinstance(given, Mapping) else [(spoken(name_of(given) or UNIT), given)]
    found, codes = numbered(column(labels, size, "units", table))
    missing = np.flatnonzero(codes < 0)
    if len(missing):
        raise InputError(
            f"{len(missing)} of {count(size, 'sample')} {'has' if len(missing) == 1 else 'have'} no {name}, the first of them sample "
            f"{missing[0]}: give each a label, one of its own if it belongs to no other sample."
        )
    if len(found) == 1:
        raise InputError(
            f"All {size} samples belong to one {name}, so nothing can be said about others: leave units out, and read the intervals as "
            f"being about other samples of this {name}; or add samples of others."
        )
    if len(found) == size:
        warn(f"Each of the {size} samples is a {name} of its own, so that units=... changes nothing.")
        return None
    return Units(str(name), codes)


def as_groups(given: Any, size: int, table: Any = None) -> tuple[Groups, ...]:
    """The subgroups of `size` samples: one label per sample, or {"name": labels}, or the name of a column of the `table` of inputs.

    >>> as_groups({"sex": ["m", "f", None]}, 3)[0].codes.tolist()
    [1, 0, -1]
    """
    if given is None:
        return ()
    if isinstance(given, tuple) and all(isinstance(one, Groups) for one in given):
        return given
    every = list(given.items()) if isinstance(given, Mapping) else [(name_of(given) or GROUP, given)]
    return tuple(one_grouping(str(name), labels, size, table) for name, labels in every)


def one_grouping(name: str, labels: Any, size: int, table: Any) -> Groups:
    """The subgroups by one name, in the order of their labels."""
    found, codes = numbered(column(labels, size, f"by ('{name}')", table))
    if not found:
        raise InputError(f"No sample has a label in by ('{name}'): give one label per sample.")
    if len(found) > MOST_GROUPS:
        raise InputError(
            f"by ('{name}') has {len(found)} different labels, and at most {MOST_GROUPS} make subgroups: put them into classes, such as "
            "bands of age."
        )
    order = sorted(range(len(found)), key=lambda place: (not isinstance(found[place], (int, float)), found[place]))
    place = {old: new for new, old in enumerate(order)}
    return Groups(name, tuple(str(found[old]) for old in order), np.array([place.get(code, -1) for code in codes.tolist()]))


def name_of(given: Any) -> str:
    """The name of labels that are a column of a table; "" if they have none."""
    name = given if isinstance(given, str) else getattr(given, "name", None)
    return name if isinstance(name, str) else ""


def spoken(name: str) -> str:
    """The name of a column as words, without an ending _id.

    >>> spoken("patient_id"), spoken("age_band")
    ('patient', 'age band')
    """
    return name.removesuffix("_id").replace("_", " ")


def column(labels: Any, size: int, what: str, table: Any) -> list[Any]:
    """One label per sample as a list; None where there is none."""
    if isinstance(labels, str):
        columns = columns_of(table)
        if labels not in columns:
            known = "" if not columns else f" Its columns: {', '.join(map(str, columns))[:200]}."
            raise InputError(
                f"{what}='{labels}' names a column of the table of inputs, and there is none: pass one label per sample.{known}"
            )
        labels = table[labels]
    if isinstance(labels, Tensor):
        labels = labels.detach().cpu().numpy()
    if hasattr(labels, "tolist"):
        labels = labels.tolist()
    if not isinstance(labels, Sequence):
        raise InputError(f"{what} needs one label per sample, text or whole numbers, not {short_repr(labels)}.")
    if len(labels) != size:
        raise InputError(f"{what} has {count(len(labels), 'label')} for {count(size, 'sample')}: give one per sample, in their order.")
    found = [clean(one, what) for one in labels]
    check_alike(found, what)
    return found


def clean(label: Any, what: str) -> Any:
    """A label as text, a whole number or a truth value; None if it is missing."""
    if isinstance(label, (np.generic, Tensor)) and label.ndim == 0:
        label = label.item()
    if label is None or type(label).__name__ in ("NAType", "NaTType") or (isinstance(label, float) and math.isnan(label)):
        return None
    if isinstance(label, float) and label.is_integer():
        return int(label)
    if not isinstance(label, (str, int)):
        raise InputError(f"{what} needs one label per sample, text or whole numbers, not {short_repr(label)}.")
    return label if label != "" else None


def check_alike(labels: Sequence[Any], what: str) -> None:
    """Refuse labels of two types that are equal or read alike, such as 1, "1" and True."""
    seen: dict[Any, Any] = {}
    for label in labels:
        for key in () if label is None else (label, str(label)):
            first = seen.setdefault(key, label)
            if (isinstance(first, str), isinstance(first, bool)) != (isinstance(label, str), isinstance(label, bool)):
                raise InputError(
                    f"{what} has the labels {short_repr(first)} and {short_repr(label)}, which cannot be told apart: write all labels as "
                    "text."
                )


def numbered(labels: Sequence[Any]) -> tuple[list[Any], Codes]:
    """The different labels in the order of their appearance, and the place of each sample's label, -1 for None."""
    places: dict[Any, int] = {}
    codes = [-1 if label is None else places.setdefault(label, len(places)) for label in labels]
    return list(places), np.array(codes, dtype=np.int64)


def without_column(inputs: Any, units: Any) -> Any:
    """A table of inputs without the column that names the units, which is no feature; anything else as it is."""
    name = next(iter(units.values()), None) if isinstance(units, Mapping) and len(units) == 1 else units
    return inputs.drop(columns=[name]) if isinstance(name, str) and name in columns_of(inputs) else inputs


def columns_of(table: Any) -> list[Any]:
    """The columns of a DataFrame; none of anything else."""
    return list(table.columns) if type(table).__name__ == "DataFrame" and hasattr(table, "columns") else []
