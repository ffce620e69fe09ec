"""Samples of a dataset, read by chunks of 64 ahead of the model, and never held as a whole.

A chunk is checked and hashed while it is read: all samples have one shape and finite values, and a chunk that is read again is what it
was. Samples of a chunk are read together, so that a dataset which draws from the global generators gives the same samples each time.
"""

from __future__ import annotations

import os
import random
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from mmap import mmap
from multiprocessing import get_context
from multiprocessing.process import current_process
from threading import Lock
from typing import Any, Literal

import numpy as np
import torch
from torch import Size, Tensor

from veracity.core import fingerprint
from veracity.core.errors import InputError, VeracityError, warn
from veracity.core.inputs import check_readable
from veracity.core.randomness import gpus_in_use, seeded
from veracity.inputs.entries import Entry, entries_of, shown_entries

CHUNK = 64
"""Samples per chunk; the blocks of a run are whole chunks."""
SCANNED = 16
"""Chunks that are read at once if all are."""
SPARSE = 4
"""Single samples are read where a chunk would be read for less than one part in so many of it."""
STEADY = "return the same sample for the same number, without random augmentation, or copy the data first."
FLOATING = "The samples of the dataset must be arrays of floating-point numbers"


@dataclass(frozen=True)
class Form:
    """What every sample of a dataset must be: its entries as those of the first one, its shape, and the type that it is converted to."""

    entry: Entry
    first: Any
    size: int
    shape: Size
    kind: torch.dtype
    hashed: bool


@dataclass(frozen=True)
class Chunk:
    """Consecutive samples (n, ...), their labels, a hash of their content ("" if there is none), and the smallest and largest value."""

    values: Any
    labels: Any
    key: str
    span: tuple[float, float]


def as_values(given: Any) -> Tensor:
    """The values of one sample as a tensor."""
    if isinstance(given, Tensor):
        found = given.detach()
    else:
        try:
            found = torch.as_tensor(given) if isinstance(given, list) else from_numpy(np.array(given))
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{FLOATING}, not {type(given).__name__}: convert them in the dataset.") from error
    check_readable(found, "inputs")
    return found


def from_numpy(given: np.ndarray[Any, Any]) -> Tensor:
    """An array as a tensor, in this machine's order of bytes."""
    try:
        return torch.from_numpy(given.astype(given.dtype.newbyteorder("="), copy=False))
    except TypeError as error:
        raise InputError(f"{FLOATING}, not of type {given.dtype}: convert them, for example with .astype('float32').") from error


def read_samples(dataset: Any, numbers: Sequence[int]) -> list[Any]:
    """Samples by number: at once if the dataset can, as those of Hugging Face do. If that fails, one by one, to name the bad sample."""
    if hasattr(dataset, "__getitems__"):
        with suppress(Exception):
            return list(dataset.__getitems__(list(numbers)))
    found = []
    for number in numbers:
        try:
            found.append(dataset[number])
        except VeracityError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise InputError(f"Sample {number} of the dataset cannot be read ({reason}): repair it, or leave it out.") from error
    return found


def load(dataset: Any, form: Form, numbers: Sequence[int]) -> Chunk:
    """Samples by number, checked, converted and hashed."""
    if isinstance(dataset, np.ndarray):
        values = from_numpy(np.array(dataset[list(numbers)]))
        labels = None
    else:
        samples = read_samples(dataset, numbers)
        for number, sample in zip(numbers, samples, strict=True):
            if entries_of(sample) != form.first and form.entry.values is not None:
                raise InputError(
                    f"Sample {number} of the dataset has different entries from sample 0: it has {shown_entries(sample)}. Give all samples "
                    "the same entries."
                )
        values = stacked([form.entry.of(sample) for sample in samples], numbers, form.shape)
        labels = None if form.entry.label is None else as_label_numbers([sample[form.entry.label] for sample in samples])
    values = values.to(form.kind)
    finite = values.flatten(1).isfinite().all(1)
    if not finite.all():
        bad = numbers[int((~finite).nonzero()[0])]
        raise InputError(f"Sample {bad} of the dataset holds NaN or infinity: replace these values, or leave the sample out.")
    low, high = values.aminmax()
    return Chunk(values, labels, fingerprint.of_tensor(values) if form.hashed else "", (float(low), float(high)))


def stacked(samples: Sequence[Any], numbers: Sequence[int], shape: Size) -> Tensor:
    """Samples of one shape as a tensor (n, ...)."""
    if all(type(sample) is np.ndarray and sample.shape == shape for sample in samples):
        return from_numpy(np.stack(samples))
    parts = [as_values(sample) for sample in samples]
    other = next((place for place, part in enumerate(parts) if part.shape != shape), None)
    if other is not None:
        raise InputError(
            f"The samples of the dataset differ in shape: sample 0 has {tuple(shape)}, sample {numbers[other]} has "
            f"{tuple(parts[other].shape)}: bring them to one shape."
        )
    return torch.stack(parts).cpu()


def as_label_numbers(labels: list[Any]) -> Any:
    """Labels as one tensor, or as they are if they are no numbers."""
    try:
        return torch.stack(labels).cpu() if isinstance(labels[0], Tensor) else torch.from_numpy(np.array(labels))
    except (TypeError, ValueError, RuntimeError):
        return labels


@dataclass(frozen=True)
class MappedFile:
    """A memory map on its way to another process, which opens the file again: the map itself would be sent with all its numbers."""

    filename: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    order: Literal["C", "F"]

    def open(self) -> np.ndarray[Any, Any]:
        """The memory map."""
        try:
            return np.memmap(self.filename, self.dtype, "r", self.offset, self.shape, self.order)
        except (OSError, ValueError) as error:
            raise InputError(
                f"The memory map {self.filename} cannot be opened in a worker process ({error}): keep its file where all processes see it."
            ) from error


def packed(dataset: Any) -> Any:
    """A dataset as it is sent to another process: of a memory map, only where it is, unless it leaves out numbers or may be changed."""
    if not isinstance(dataset, np.memmap) or not (dataset.flags.c_contiguous or dataset.flags.f_contiguous):
        return dataset
    root: Any = dataset.base if isinstance(dataset.base, np.memmap) else dataset
    if not isinstance(root.base, mmap) or root.filename is None or root.mode == "c":
        return dataset
    offset = root.offset + dataset.ctypes.data - root.ctypes.data
    order: Literal["C", "F"] = "C" if dataset.flags.c_contiguous else "F"
    return MappedFile(os.path.abspath(root.filename), dataset.dtype.str, dataset.shape, offset, order)


def unpacked(dataset: Any) -> Any:
    """What was packed."""
    return dataset.open() if isinstance(dataset, MappedFile) else dataset


SOURCE: dict[str, Any] = {}
"""In a reading process: its dataset."""


def open_source(dataset: Any) -> None:
    """Keep the dataset of a reading process, which computes with one thread."""
    torch.set_num_threads(1)
    SOURCE["dataset"] = unpacked(dataset)


def load_there(form: Form, number: int, numbers: range) -> Chunk:
    """A chunk, in a reading process, as arrays: tensors would be sent as open files."""
    with seeded(number, ()):
        found = load(SOURCE["dataset"], form, numbers)
    labels = found.labels.numpy() if isinstance(found.labels, Tensor) else found.labels
    return replace(found, values=found.values.contiguous().view(torch.uint8).numpy(), labels=labels)


class ChunkReader:
    """Reads chunks of a dataset in their order, ahead of whoever asks for them.

    workers  how many processes read; 0 for none: a chunk is read when it is asked for. None is a thread, unless the dataset draws from the
             global generators, which belong to the models meanwhile
    held     how many bytes of chunks are kept; two of the largest parts that were asked for at once are always kept
    sample   the values of sample 0, which must be the same when it is read again
    """

    def __init__(self, dataset: Any, form: Form, workers: int | None, held: int, sample: Tensor) -> None:
        self.dataset, self.form, self.workers, self.held, self.sample = dataset, form, workers, held, sample
        self.count = -(-form.size // CHUNK)
        self.keys, self.labels = [""] * self.count, [None] * self.count
        self.spans = np.full((self.count, 2), np.nan)
        self.draws: bool | None = None
        """Whether the dataset draws from the global generators; None before anything is read."""
        self.begin()

    def begin(self) -> None:
        """Without anything that belongs to one process."""
        self.lock = Lock()
        """Two threads never read the dataset at once."""
        self.cache: OrderedDict[int, Tensor] = OrderedDict()
        self.coming: dict[int, Future[Chunk]] = {}
        self.pool: Executor | None = None
        self.last = range(0)
        self.bytes = 0

    def __getstate__(self) -> dict[str, Any]:
        """For worker processes, which need neither labels nor what is held here."""
        own = {"lock", "cache", "coming", "pool", "last", "bytes"}
        kept = {name: value for name, value in vars(self).items() if name not in own}
        return kept | {"labels": [None] * self.count, "dataset": packed(self.dataset)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"dataset": unpacked(state["dataset"])})
        self.begin()

    def samples_of(self, number: int) -> range:
        """The samples of a chunk."""
        return range(number * CHUNK, min((number + 1) * CHUNK, self.form.size))

    def rows(self, index: Tensor) -> Tensor:
        """Samples by number (n,), as a copy."""
        index = index.cpu()
        if not len(index):
            return torch.empty(0, *self.form.shape, dtype=self.form.kind)
        numbers, place = (index // CHUNK).unique(return_inverse=True)
        needed = [int(number) for number in numbers]
        unread = sum(number not in self.cache and number not in self.coming for number in needed)
        if self.draws is False and SPARSE * len(index) < CHUNK * unread:
            chosen, again = index.unique(return_inverse=True)
            alone: Tensor = self.some(chosen.tolist()).values[again]
            return alone
        whole = torch.cat(self.chunks(needed))
        if len(index) == len(whole) and torch.equal(index, torch.arange(int(index[0]), int(index[0]) + len(index))):
            return whole
        return whole[place * CHUNK + index % CHUNK]

    def some(self, numbers: Sequence[int]) -> Chunk:
        """Single samples, which are not kept."""
        with self.lock:
            return load(self.dataset, self.form, numbers)

    @property
    def processes(self) -> int:
        """How many processes read; a worker process of an audit may not start any, and has a thread in their place."""
        return 0 if current_process().daemon else self.workers or 0

    def chunks(self, needed: Sequence[int]) -> list[Tensor]:
        """The values of chunks, in ascending order; the following ones are read meanwhile."""
        first, last = needed[0], needed[-1] + 1
        follows = self.last.start <= first <= self.last.stop and last - first == len(needed)
        most = max(self.held, 2 * len(needed) * self.chunk_bytes)
        ahead = range(last, min(last + max(len(needed), len(self.last), 2 * self.processes), self.count)) if follows else range(last, last)
        if self.processes:
            self.read_ahead(range(first, ahead.stop), most)
        found = [self.chunk(number, most) for number in needed]
        self.read_ahead(ahead, most)
        self.last = range(first, last)
        return found

    @property
    def chunk_bytes(self) -> int:
        """The bytes of one chunk."""
        return CHUNK * self.form.shape.numel() * self.form.kind.itemsize

    def chunk(self, number: int, most: int) -> Tensor:
        """The values of one chunk."""
        if number in self.cache:
            self.cache.move_to_end(number)
            return self.cache[number]
        waiting = self.coming.pop(number, None)
        found = self.read(number) if waiting is None else self.received(number, waiting)
        known, part = self.keys[number], self.samples_of(number)
        if known and found.key != known:
            raise InputError(f"Samples {part.start} to {part.stop - 1} of the dataset changed since they were first read: {STEADY}")
        if number == 0 and not torch.equal(found.values[0], self.sample.to(self.form.kind).cpu()):
            raise InputError(f"Sample 0 of the dataset changed since it was first read: {STEADY}")
        if np.isnan(self.spans[number, 0]):
            self.keys[number], self.labels[number], self.spans[number] = found.key, found.labels, found.span
        values: Tensor = found.values
        self.cache[number] = values
        self.bytes += values.nbytes
        while self.bytes > most and len(self.cache) > 1:
            self.bytes -= self.cache.popitem(last=False)[1].nbytes
        return values

    def read(self, number: int) -> Chunk:
        """Read a chunk now, and find out whether the dataset draws at random."""
        if self.draws is False:
            with self.lock:
                return load(self.dataset, self.form, self.samples_of(number))
        with self.lock, seeded(number, gpus_in_use()):
            before = random_states()
            found = load(self.dataset, self.form, self.samples_of(number))
            draws = random_states() != before
        if draws and not self.draws:
            warn(
                "The dataset draws from the global random generators. They are seeded whenever samples are read, so that one version of "
                "every sample is audited: switch random augmentation off if you did not mean that."
            )
        self.draws = bool(self.draws) or draws
        return found

    def read_in_thread(self, number: int) -> Chunk:
        """Read a chunk in the reading thread."""
        with self.lock:
            return load(self.dataset, self.form, self.samples_of(number))

    def received(self, number: int, waiting: Future[Chunk]) -> Chunk:
        """A chunk that was read ahead. What a thread cannot read may be tied to the main one, as a database connection is: it tries."""
        try:
            found = waiting.result()
        except BrokenProcessPool as error:
            raise InputError(
                "The processes that read the dataset could not start or were killed: put the dataset's class into a module that can be "
                "imported, and the call under `if __name__ == '__main__':`, or pass DatasetInputs(dataset, workers=0)."
            ) from error
        except Exception:
            if self.processes:
                raise
            found, self.workers = self.read(number), 0
            return found
        if isinstance(found.values, Tensor):
            return found
        labels = torch.from_numpy(found.labels) if isinstance(found.labels, np.ndarray) else found.labels
        return replace(found, values=torch.from_numpy(found.values).view(self.form.kind), labels=labels)

    def read_ahead(self, wanted: range, most: int) -> None:
        """Have the wanted chunks read, as far as half of the memory holds them; what is no longer wanted is dropped."""
        processes = self.processes
        if self.workers == 0 or not wanted or (self.draws is not False and not processes):
            return
        for number in [number for number in self.coming if number not in wanted]:
            self.coming.pop(number).cancel()
        if self.pool is None:
            self.pool = (
                ProcessPoolExecutor(processes, get_context("spawn"), open_source, (packed(self.dataset),))
                if processes
                else ThreadPoolExecutor(1)
            )
        for number in wanted:
            if len(self.coming) > max(1, most // 2 // self.chunk_bytes):
                break
            if number not in self.cache and number not in self.coming:
                self.coming[number] = (
                    self.pool.submit(load_there, self.form, number, self.samples_of(number))
                    if processes
                    else self.pool.submit(self.read_in_thread, number)
                )

    def close(self) -> None:
        """End the thread or the processes that read ahead; they start again when they are needed."""
        pool, self.pool = self.pool, None
        self.coming.clear()
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def scan(self) -> None:
        """Read every chunk that was not read yet."""
        unread = np.flatnonzero(np.isnan(self.spans[:, 0]))
        for part in np.split(unread, np.flatnonzero(np.diff(unread) > 1) + 1):
            for start in range(0, len(part), SCANNED):
                self.chunks(part[start : start + SCANNED].tolist())


def random_states() -> tuple[Any, ...]:
    """The states of the global generators on the CPU."""
    array: Any = np.random.get_state()  # noqa: NPY002
    return random.getstate(), bytes(array[1]), array[2], torch.get_rng_state().numpy().tobytes()
