"""Which part of a data set is its labels: in datasets and loaders of torch, datasets of Hugging Face, dicts, and lists of samples."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler, default_collate

from veracity.core.errors import InputError, listed, warn
from veracity.core.randomness import gpus_in_use, seeded
from veracity.inputs.several import in_order

LABELS = ("label", "labels", "target", "targets", "y")
"""Names of the entry that holds the labels."""
METHODS = ("shape", "size", "take", "fingerprint", "adapt")
"""What every Inputs has."""


@dataclass(frozen=True)
class Split:
    """Samples, their labels or None, and what was taken for the labels, such as "The entry 'y'"."""

    samples: Any
    labels: Any = None
    taken: str = ""


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
    if isinstance(given, (Tensor, np.ndarray, pd.DataFrame)) or all(hasattr(given, name) for name in METHODS):
        return Split(given)
    if isinstance(given, (DataLoader, Dataset)) or (hasattr(given, "column_names") and hasattr(given, "features")):
        with seeded(0, gpus_in_use()):  # samplers, datasets and collate functions may draw at random
            return of_loader(given, needed) if isinstance(given, DataLoader) else of_samples(samples_in(given), needed)
    if isinstance(given, Mapping) or hasattr(given, "input_ids"):
        return of_batch(given, needed)
    if isinstance(given, list) and given and (isinstance(given[0], Mapping) or is_pair(given[0])):
        return of_samples(given, needed)
    return Split(given)


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


def label_name(parts: Mapping[str, Any], needed: Collection[str] = ()) -> str | None:
    """The name of the labels among the parts of a sample; None if there are no labels or no other parts."""
    return next((name for name in LABELS if name in parts and name not in needed), None) if len(parts) > 1 else None


def samples_in(dataset: Any) -> list[Any]:
    """All samples of a dataset."""
    return list(dataset) if is_stream(dataset) else [dataset[number] for number in range(len(dataset))]


def is_stream(dataset: Any) -> bool:
    """Whether samples come one after the other, without numbers. A stream may have a length all the same."""
    return isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__")


def of_loader(loader: DataLoader[Any], needed: Collection[str] = ()) -> Split:
    """The samples that a loader chooses, put together as it does: all of them in one batch, so that padding fits all.

    A loader that shuffles is read in the order of its dataset.
    """
    dataset: Any = loader.dataset
    order = order_of(loader)
    samples = samples_in(dataset) if order is None else [dataset[number] for number in order]
    if loader.batch_sampler is None and is_stream(dataset):
        return of_samples([loader.collate_fn(sample) for sample in samples], needed)
    if loader.collate_fn is default_collate or loader.batch_sampler is None or not samples:
        return of_samples(samples, needed)
    try:
        return of_batch(loader.collate_fn(samples), needed)
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        raise InputError(
            f"The collate_fn of the DataLoader fails on all {len(samples)} samples at once with {reason}: pass the samples as arrays."
        ) from error


def order_of(loader: DataLoader[Any]) -> list[Any] | None:
    """The numbers of the samples that a loader chooses; None for all in the order of the dataset. Its generator stays as it was."""
    dataset: Any = loader.dataset
    if is_stream(dataset):
        return None
    plain = loader.batch_sampler is None or type(loader.batch_sampler) is BatchSampler
    sampler: Any = loader.sampler if plain else loader.batch_sampler
    shuffled = type(sampler) is RandomSampler and not sampler.replacement
    if type(sampler) is SequentialSampler or (shuffled and sampler.num_samples == len(dataset)):
        return None
    own = getattr(sampler, "generator", None)
    before = own.get_state() if isinstance(own, torch.Generator) else None
    try:
        chosen = list(sampler)
    finally:
        if isinstance(own, torch.Generator) and before is not None:
            own.set_state(before)
    return chosen if plain else [number for batch in chosen for number in batch]
