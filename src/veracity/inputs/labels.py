"""Which part of a data set is its labels: in datasets of torch and Hugging Face, dicts, and lists of samples."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from veracity.core.errors import InputError, warn
from veracity.core.randomness import gpus_in_use, seeded
from veracity.inputs.chunks import read_samples
from veracity.inputs.datasets import DatasetInputs, is_map_style
from veracity.inputs.entries import entries_of, label_name, shown_entries, single_entry
from veracity.inputs.several import in_order

METHODS = ("shape", "size", "take", "fingerprint", "adapt")
"""What every Inputs has."""


@dataclass(frozen=True)
class Split:
    """Samples, their labels or None, and what was taken for the labels, such as "The entry 'y'".

    `found` are the labels, or a function that reads them: those of a dataset that is not held in memory.
    """

    samples: Any
    found: Any = None
    taken: str = ""

    @cached_property
    def labels(self) -> Any:
        """The labels."""
        return self.found() if callable(self.found) else self.found


def split_labels(given: Any, needed: Collection[str] = (), *, known: bool = False) -> Split:
    """Samples and labels. A note says what was taken for labels, since it may be an input.

    `needed` are names of inputs that the model cannot do without: they are no labels. With `known` labels, those found are left out.
    """
    found = split(given, needed)
    if found.taken:
        done = "was left out, since it looks like labels and targets are given" if known else "was taken for the labels, not for an input"
        warn(f"{found.taken} {done}: pass SeveralInputs({{'name': array}}) if the model takes it.")
    return found


def split(given: Any, needed: Collection[str] = ()) -> Split:
    """Samples and labels; something that holds no labels stays as it is."""
    if isinstance(given, DatasetInputs):
        return Split(given, given.labels if given.labelled else None)
    if isinstance(given, np.memmap) and given.ndim > 1 and given.dtype.kind == "f":
        return Split(DatasetInputs(given))
    if isinstance(given, (Tensor, np.ndarray, pd.DataFrame)) or all(hasattr(given, name) for name in METHODS):
        return Split(given)
    if isinstance(given, DataLoader):
        raise InputError(
            "The inputs are a DataLoader, whose batches an audit chooses by itself: pass its dataset, inputs=loader.dataset, and the rows "
            "per call as audit.run(folder, batch=...); for processes that read ahead, inputs=DatasetInputs(loader.dataset, workers=4)."
        )
    if isinstance(given, Dataset) or (hasattr(given, "column_names") and hasattr(given, "features")) or is_samples(given):
        return of_dataset(given, needed)
    if isinstance(given, Mapping) or hasattr(given, "input_ids"):
        return of_batch(given, needed)
    if isinstance(given, list) and given and (isinstance(given[0], Mapping) or is_pair(given[0])):
        return of_samples(given, needed)
    return Split(given)


def is_samples(given: Any) -> bool:
    """Whether an object of somebody's own class is a dataset: it has a length, and gives samples by number."""
    known = (list, tuple, str, bytes, memoryview, array, Mapping, pd.Series, pd.Index)
    return is_map_style(given) and not isinstance(given, known) and not any(hasattr(given, one) for one in ("to_data_list", "input_ids"))


def of_dataset(given: Any, needed: Collection[str] = ()) -> Split:
    """From a dataset: one array per sample is read when it is needed; texts, graphs and several arrays are read at once."""
    with seeded(0, gpus_in_use()):  # datasets may draw at random
        if not is_map_style(given):
            return of_samples(list(given), needed)
        entry = single_entry(read_samples(given, [0])[0], needed) if len(given) else None
        if entry is None:
            return of_samples(read_samples(given, range(len(given))), needed)
    found = DatasetInputs(given, entry=entry)
    return Split(found) if entry.label is None else Split(found, found.labels, entry.taken)


def is_pair(sample: Any) -> bool:
    """Whether a sample in a list is an array with something behind it, such as a label, or a text with a label."""
    if not isinstance(sample, tuple) or len(sample) < 2:
        return False
    if isinstance(sample[0], str):
        return len(sample) == 2
    return isinstance(sample[0], (Tensor, np.ndarray)) and sample[0].ndim > 0


def of_samples(samples: Sequence[Any], needed: Collection[str] = ()) -> Split:
    """From a list of samples: the label is the entry of that name in a dict, and the last of several entries in a tuple."""
    if not samples:
        raise InputError("There are no inputs: the dataset is empty.")
    first = samples[0]
    check_entries(samples)
    if isinstance(first, Mapping):
        label = label_name(first, needed)
        rest = [{name: part for name, part in row.items() if name != label} for row in samples]
        alone = [next(iter(row.values())) for row in rest] if len(rest[0]) == 1 else rest
        return Split(alone) if label is None else Split(alone, [row[label] for row in samples], f"The entry '{label}'")
    if not isinstance(first, (tuple, list)):
        return Split(samples)
    if len(first) == 1:
        return Split([row[0] for row in samples])
    single = len(first) == 2
    rest = [row[0] if single else in_order(row[:-1]) for row in samples]
    return Split(rest, [row[-1] for row in samples], "The last entry of each sample")


def check_entries(samples: Sequence[Any]) -> None:
    """Raise unless all samples have the entries of the first one: the same names in dicts, as many in tuples."""
    expected = entries_of(samples[0])
    for number, sample in enumerate(samples):
        if entries_of(sample) != expected:
            raise InputError(
                f"Sample 0 has {shown_entries(samples[0])}, but sample {number} has {shown_entries(sample)}: give all samples the same "
                "entries."
            )


def of_batch(batch: Any, needed: Collection[str] = ()) -> Split:
    """From one batch of all samples: arrays by name, in a tuple, or one array."""
    if isinstance(batch, Mapping) or hasattr(batch, "input_ids"):
        parts = dict(batch)
        label = label_name(parts, needed)
        rest = {name: part for name, part in parts.items() if name != label}
        return Split(rest) if label is None else Split(rest, parts[label], f"The entry '{label}'")
    if not isinstance(batch, (tuple, list)) or isinstance(batch[0], str):
        return Split(batch)
    if len(batch) == 1:
        return Split(batch[0])
    rest = batch[0] if len(batch) == 2 else in_order(batch[:-1])
    return Split(rest, batch[-1], "The last entry of each batch")
