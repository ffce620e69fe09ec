"""Data that does not fit in memory: any map-style dataset, read by blocks while the models work."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.inputs import FLOATS, Signals
from veracity.core.randomness import gpus_in_use, seeded
from veracity.inputs.chunks import CHUNK, SCANNED, ChunkReader, Form, as_values, from_numpy, packed, read_samples, unpacked
from veracity.inputs.entries import Entry, check_entry, entries_of, shown_entries, single_entry


def is_map_style(given: Any) -> bool:
    """Whether samples can be read by their number, and there is a last one."""
    if not hasattr(given, "__len__") or not hasattr(given, "__getitem__") or isinstance(given, IterableDataset):
        return False
    try:
        return len(given) >= 0
    except TypeError:  # sparse matrices have a length that only raises
        return False


@dataclass(frozen=True, eq=False)
class DatasetInputs:
    """The samples of a map-style dataset, which are read when they are needed and never held as a whole.

    A sample is an array of floating-point numbers, alone or with its label: (array, label), or a dict of both. NumPy's memory maps,
    datasets of torch and of Hugging Face, and any object with `__len__` and `__getitem__` will do. All samples have one shape.

    version  what the data are called, such as "imagenet-val-2012". It takes the place of a hash of every sample, and is trusted: results
             of one version are reused, even if samples were changed. Without it, samples are hashed while they are read
    workers  how many processes read ahead of the models; 0 reads only when samples are needed. By default, a thread reads ahead, unless
             the dataset draws from the global random generators
    held     how many bytes of samples are kept, for explainers that ask for the same ones; the two largest blocks are always kept
    entry    where a sample has its values and its label; found from the first sample

    >>> squares = DatasetInputs([(np.array([n, n * n], dtype=np.float32), n % 2) for n in range(100)])
    >>> squares.size(), squares.shape, squares.take(torch.tensor([7])).values, int(squares.labels().sum())
    (100, torch.Size([2]), tensor([[ 7., 49.]]), 50)
    """

    dataset: Any
    _: KW_ONLY
    version: str | None = None
    workers: int | None = None
    held: int = 256 << 20
    entry: Entry | None = None
    kind: torch.dtype | None = None
    """The type that samples are converted to; their own by default."""

    streamed = True

    def __post_init__(self) -> None:
        if not is_map_style(self.dataset):
            what = type(self.dataset).__name__
            fix = "pass its dataset, loader.dataset" if isinstance(self.dataset, DataLoader) else "copy its samples to disk first"
            raise InputError(f"DatasetInputs takes a dataset with __len__ and __getitem__, not {what}: {fix}.")
        if not len(self.dataset):
            raise InputError("There are no inputs: the dataset is empty.")
        if self.workers is not None and (isinstance(self.workers, bool) or not isinstance(self.workers, int) or self.workers < 0):
            raise InputError(f"The workers that read a dataset must be a whole number of at least 0, not {self.workers!r}.")
        if self.version is not None and (not isinstance(self.version, str) or not self.version):
            raise InputError(f"The version of a dataset must be a text, such as 'photos-2024-05', not {self.version!r}.")

    @cached_property
    def reader(self) -> ChunkReader:
        """Reads the samples; raises if the first one is not what an audit can take."""
        if isinstance(self.dataset, np.ndarray):
            entry, first, values = Entry(None), None, from_numpy(np.array(self.dataset[0]))
        else:
            with seeded(0, gpus_in_use()):
                sample = read_samples(self.dataset, [0])[0]
            found = self.entry or single_entry(sample)
            if found is None:
                raise InputError(
                    f"A sample of the dataset must be one array, alone or with its label, but sample 0 has {shown_entries(sample)}: return "
                    "(array, label), or pass SeveralInputs or TextInputs."
                )
            check_entry(sample, found)
            entry, first, values = found, entries_of(sample), as_values(found.of(sample))
        if not values.ndim or not values.numel() or values.dtype not in FLOATS:
            what = f"{str(values.dtype).removeprefix('torch.')} of shape {tuple(values.shape)}"
            raise InputError(
                f"A sample of the dataset must be an array of floating-point numbers, but sample 0 is {what}: convert it in the dataset, "
                "for example pixels with image / 255."
            )
        form = Form(entry, first, len(self.dataset), values.shape, self.kind or values.dtype, self.version is None)
        return ChunkReader(self.dataset, form, self.workers, self.held, values)

    @property
    def shape(self) -> Size:
        """The shape of one sample."""
        return self.reader.form.shape

    @property
    def dtype(self) -> torch.dtype:
        """The type of the samples."""
        return self.reader.form.kind

    @property
    def labelled(self) -> bool:
        """Whether samples come with labels."""
        return self.reader.form.entry.label is not None

    @property
    def place(self) -> list[str | int | None]:
        """Where samples have their values and labels: part of the key of a version, whose samples are not hashed."""
        entry = self.reader.form.entry
        return [entry.values, entry.label]

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"dataset": packed(self.dataset)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        found = state.get("reader")
        vars(self).update(state | {"dataset": unpacked(state["dataset"]) if found is None else found.dataset})

    def size(self) -> int:
        """The number of samples."""
        return len(self.dataset)

    def take(self, index: Tensor) -> Signals:
        """Samples by index, as one batch."""
        return Signals(self.reader.rows(index))

    def to(self, kind: torch.dtype) -> DatasetInputs:
        """The same samples in another floating-point type."""
        return replace(self, kind=kind)

    def labels(self) -> Any:
        """The labels of all samples, in their order; reads what was not read yet."""
        self.reader.scan()
        return joined(self.reader.labels)

    def labels_at(self, index: Tensor) -> Any:
        """The labels of some samples; reads these alone."""
        return joined([self.reader.some([number]).labels for number in index.tolist()])

    def first(self, count: int) -> tuple[Tensor, Any]:
        """The first samples and their labels, None if there are none."""
        numbers = range(-(-count // CHUNK))
        parts = [torch.cat(self.reader.chunks(numbers[start : start + SCANNED])) for start in numbers[::SCANNED]]
        return torch.cat(parts)[:count], joined(self.reader.labels[: len(numbers)])[:count] if self.labelled else None

    def fingerprint(self) -> str:
        """A hash of the version, or else of every sample; reads what was not read yet."""
        about = ["dataset", self.size(), list(self.shape), str(self.dtype)]
        if self.version is not None:
            return fingerprint.of_json([*about, self.version, self.place])
        self.reader.scan()
        return fingerprint.of_json([*about, self.reader.keys])

    def content_key(self, index: Tensor) -> str:
        """A hash of some samples: from those of their chunks, without reading them again, if they are whole chunks."""
        first, last, reader = int(index[0]), int(index[-1]) + 1, self.reader
        if self.version is not None:
            which = [first, last] if last - first == len(index) else index.tolist()
            return fingerprint.of_json(["version", self.version, self.place, list(self.shape), str(self.dtype), which])
        whole = first % CHUNK == 0 and (last % CHUNK == 0 or last == self.size()) and last - first == len(index)
        if not whole:
            return self.take(index).fingerprint()
        numbers = range(first // CHUNK, -(-last // CHUNK))
        for number in numbers:
            if not reader.keys[number]:
                reader.chunks([number])
        return fingerprint.of_json([reader.keys[number] for number in numbers])

    def span(self) -> tuple[float, float]:
        """The smallest and the largest value of all samples; reads what was not read yet."""
        self.reader.scan()
        return float(self.reader.spans[:, 0].min()), float(self.reader.spans[:, 1].max())

    def adapt(self, model: nn.Module) -> nn.Module:
        """The model itself."""
        return model


def joined(parts: list[Any]) -> Any:
    """The labels of several chunks as one tensor, or as a list if they are no numbers."""
    if all(isinstance(part, Tensor) for part in parts) and len({(part.dtype, part.shape[1:]) for part in parts}) == 1:
        return torch.cat(parts)
    return [label for part in parts for label in (part.tolist() if isinstance(part, Tensor) else part)]
