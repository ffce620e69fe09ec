"""Memory: how many model rows fit at once, what to do when there were too many, and outputs that explainers of a model share."""

from __future__ import annotations

import gc
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from veracity.core.inputs import Signals
from veracity.core.models import out_of_memory, unwrap
from veracity.core.scores import Reads

T = TypeVar("T")
K = TypeVar("K")
CPU_MEMORY = 1 << 30
GPU_SHARE = 2
MOST_ROWS = {"cpu": 512, "cuda": 16384}
CALL_SECONDS = 0.4
"""How long a call of a model on a GPU should take, so that starting its kernels takes less."""
LAUNCH_BOUND = 1.5
"""If twice the rows take less than this many times as long, starting kernels takes most of the time."""
PERTURBATIONS = 8
"""One part in so many of the memory is for perturbations and comparisons, the rest for model passes."""
TRIED_ROWS = (16, 32)
"""Two numbers of rows whose memory and time are measured."""


@dataclass
class Budget:
    """The largest number of model rows to run at once, which only ever shrinks; and the bytes of a GPU that it was made for."""

    rows: int
    memory: int | None = None

    def spend(self, count: int, rows_each: int, work: Callable[[slice], None], calls: int = 1) -> None:
        """Do the work in consecutive slices of 0..count, each item of which needs `rows_each` rows; see `attempt`.

        The rows of a slice fill up to `calls` calls of the model. Give more than one only if the work cuts its rows into calls itself.
        """
        start = 0
        while start < count:
            stop = min(start + max(1, min(self.rows, calls * self.rows // max(1, rows_each))), count)
            try:
                work(slice(start, stop))
            except (RuntimeError, MemoryError) as error:
                self.check_shrinkable(error)
            else:
                start = stop
                continue
            self.shrink()

    def attempt(self, work: Callable[[], T]) -> T:
        """Return what the work gives; it is tried again with half the rows whenever memory runs out."""
        while True:
            try:
                return work()
            except (RuntimeError, MemoryError) as error:
                self.check_shrinkable(error)
            self.shrink()

    def check_shrinkable(self, error: BaseException) -> None:
        """Raise the error that is being handled unless fewer rows may help."""
        if not out_of_memory(error) or self.rows == 1:
            raise error

    def shrink(self) -> None:
        """Halve the rows. Call it outside of the except block, whose traceback holds the tensors of the failed call."""
        self.rows = max(1, self.rows // 2)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


@torch.no_grad()
def row_bytes(model: nn.Module, row: Signals) -> int:
    """What one input row (1, ...) makes the model allocate: every layer's output, kept once and differentiated once."""
    total = row.nbytes

    def count(_module: nn.Module, _inputs: Any, output: Any) -> None:
        nonlocal total
        if isinstance(output, Tensor):
            total += output.nbytes

    handles = [module.register_forward_hook(count) for module in model.modules() if not list(module.children())]
    try:
        row.through(model)
    finally:
        for handle in handles:
            handle.remove()
    return 3 * total


def memory_for(device: torch.device) -> int:
    """The memory budget where none is given: 1 GiB on a CPU, half of what is free on a GPU or kept by torch for later tensors."""
    if device.type != "cuda":
        return CPU_MEMORY
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return (torch.cuda.mem_get_info(device)[0] + kept) // GPU_SHARE


@contextmanager
def gpu_limit(models: Iterable[Any], memory: int | None) -> Iterator[None]:
    """Let torch take at most so many bytes more of the GPUs of the models meanwhile; None sets no limit.

    Rows per call alone do not keep a run within its budget: for a few rows of large images, cuDNN's fastest convolutions want gigabytes of
    work space. Within a limit, torch takes one that needs less.
    """
    gpus = gpus_of(models) if isinstance(memory, int) else []
    found = {gpu: torch.cuda.get_per_process_memory_fraction(gpu) for gpu in gpus}
    try:
        for gpu in found:
            torch.cuda.empty_cache()
            total = torch.cuda.get_device_properties(gpu).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, (torch.cuda.memory_reserved(gpu) + (memory or 0)) / total), gpu)
        yield
    finally:
        for gpu, fraction in found.items():
            torch.cuda.set_per_process_memory_fraction(fraction, gpu)


def gpus_of(models: Iterable[Any]) -> list[torch.device]:
    """The GPUs that hold parameters of the models."""
    parts = [part for model in models if isinstance(model, nn.Module) for part in model.parameters()]
    return sorted({part.device for part in parts if part.is_cuda}, key=str)


def budget_for(model: nn.Module, row: Signals, memory: int | None, rows: int | None, workers: int = 1) -> Budget:
    """The given number of rows, or as many as a worker's share of the memory budget (bytes) allows and the device can use."""
    on_gpu = row.values.device.type == "cuda"
    if rows is not None:
        return Budget(rows, memory // workers if on_gpu and memory is not None else None)
    own = getattr(unwrap(model), "most_rows", None)
    most = MOST_ROWS.get(row.values.device.type, MOST_ROWS["cpu"]) if own is None else own
    share = (memory_for(row.values.device) if memory is None else memory) // workers
    if on_gpu and own is None:
        return Budget(measured_rows(model, row, share - share // PERTURBATIONS, most), share)
    return Budget(max(1, min(most, share // row_bytes(model, row))))


def measured_rows(model: nn.Module, row: Signals, share: int, most: int) -> int:
    """Rows per call: about 0.4 s of work on a GPU within `share` bytes; a power of two, at most `most`.

    The bytes and seconds per row are measured, forward and backward, with two numbers of rows; with fewer if these do not fit, or would
    take more than `share` by an estimate. A network that is so small that twice the rows take hardly longer is tried once more with many.
    """
    few, more = TRIED_ROWS
    estimate = row_bytes(model, row)
    while more > 2 and more * estimate > share:
        few, more = few // 2, more // 2
    while few > 1 and cost_of_pass(model, row, more) is None:
        few, more = few // 2, more // 2
    cost_of_pass(model, row, few)  # first calls also look for algorithms and for memory
    low, high = cost_of_pass(model, row, few), cost_of_pass(model, row, more)
    if low is None or high is None:
        return 1 if low is None else few
    each = max(1.0, (high[0] - low[0]) / (more - few))
    fixed = max(0.0, low[0] - few * each)
    limit = 1 << max(0, int(max(1, min(most, (share - fixed) / each))).bit_length() - 1)
    rows = min(limit, enough_rows(more, high[1]))
    if high[1] < LAUNCH_BOUND * low[1] and rows >= 32 * more and (found := cost_of_pass(model, row, rows)) is not None:
        rows = min(limit, max(rows, enough_rows(rows, found[1])))
    return rows


def enough_rows(rows: int, seconds: float) -> int:
    """A power of two of rows that takes about 0.4 s, if `rows` of them take `seconds`.

    >>> enough_rows(32, 0.02), enough_rows(32, 1.0)
    (1024, 32)
    """
    return max(32, 1 << math.ceil(math.log2(max(1.0, rows * CALL_SECONDS / max(seconds, 1e-9)))))


def cost_of_pass(model: nn.Module, row: Signals, rows: int) -> tuple[int, float] | None:
    """The bytes and seconds of one pass of copies of a row on its GPU, forward and, if it can, backward; None if they do not fit."""
    device = row.values.device
    x = row[torch.zeros(rows, dtype=torch.long, device=device)]
    for slopes in (True, False) if x.values.is_floating_point() else (False,):
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before, start = torch.cuda.memory_allocated(device), time.perf_counter()
        try:
            one_pass(model, x, slopes)
        except RuntimeError as error:
            if out_of_memory(error):
                return None
            if not slopes:
                raise
            continue  # a model that takes no gradients
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before, time.perf_counter() - start
    return None


def one_pass(model: nn.Module, x: Signals, slopes: bool) -> None:
    """A forward pass, with the backward pass to the values if `slopes`."""
    leaf = x.values.detach().clone().requires_grad_(slopes)
    with torch.set_grad_enabled(slopes):
        output = Signals(leaf, x.structure, x.present).through(model)
        if slopes and isinstance(output, Tensor) and output.requires_grad:
            torch.autograd.grad(output.float().sum(), leaf, allow_unused=True)


Readings = dict[Reads, Tensor]
BYTES = 64 << 20


class Memory(Generic[K]):
    """The outputs asked for last, by keys that say everything they depend on, in a bounded number of bytes.

    Outputs of one `scope`, such as the copies of a model on a block of samples, are asked for in turns: in the order of turns, dropping
    the oldest would drop each one just before it is asked for again. So those of other scopes are dropped first, and of the same scope
    none: what does not fit is not kept.
    """

    def __init__(self, limit: int = BYTES) -> None:
        self.limit, self.held = limit, 0
        self.kept: OrderedDict[str, dict[K, Tensor]] = OrderedDict()
        self.scopes: dict[str, str] = {}

    def recall(self, key: str, what: frozenset[K], compute: Callable[[frozenset[K]], dict[K, Tensor]], scope: str = "") -> dict[K, Tensor]:
        """What is known under a key, and the rest computed; more may be computed along. Without a scope, the oldest outputs are dropped."""
        found = self.kept.pop(key, {})
        self.held -= size(found)
        missing = what - set(found)
        if missing:
            found = {**found, **compute(missing)}
        self.kept[key], self.scopes[key] = found, scope
        self.held += size(found)
        old = [one for one in self.kept if one != key and not (scope and self.scopes[one] == scope)] if self.held > self.limit else []
        for one in (*old, *([key] if scope else [])):
            if self.held <= self.limit:
                break
            self.held -= size(self.kept.pop(one))
            del self.scopes[one]
        return {one: found[one] for one in what}

    def __contains__(self, key: str) -> bool:
        return key in self.kept

    def forget(self) -> None:
        """Drop everything."""
        self.kept.clear()
        self.scopes.clear()
        self.held = 0


def size(found: Mapping[Any, Tensor]) -> int:
    """The bytes of all tensors."""
    return sum(tensor.nbytes for tensor in found.values())


MEMORY: Memory[Reads] = Memory()
"""One per process; it never affects results."""
ACTIVATIONS: Memory[str] = Memory(1 << 30)
"""The activations of layers that explainers of a model share, by the layer; 25 copies of 30 layers on 250 texts take 430 MB."""

EXPLAINED: Memory[str] = Memory(1 << 28)
"""Explanations that several explainers start from, such as a map and its largest numbers."""


def forget_outputs() -> None:
    """Drop all outputs, activations and explanations, which may be those of a changed model."""
    MEMORY.forget()
    ACTIVATIONS.forget()
    EXPLAINED.forget()
