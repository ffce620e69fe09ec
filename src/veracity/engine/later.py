"""Files are written by a thread of their own, in order, while the models go on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import torch
from torch import Tensor

WAITING = 8
"""How many pieces of work may wait, which bounds the memory that they hold."""


def fetch(tensor: Tensor) -> Callable[[], Tensor]:
    """A function that brings the numbers that a tensor has now to the CPU, beside what its GPU does from now on."""
    if tensor.device.type != "cuda":
        return lambda: tensor
    ready = torch.cuda.Event()
    ready.record(torch.cuda.current_stream(tensor.device))

    def fetched() -> Tensor:
        aside = torch.cuda.Stream(tensor.device)
        with torch.cuda.stream(aside):
            aside.wait_event(ready)
            found = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor.detach(), non_blocking=True)
            tensor.record_stream(aside)
            aside.synchronize()
        return found

    return fetched


class Later:
    """Does work in the order in which it comes. An error is raised by the next call, or at the end of the block."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.waiting: deque[Future[None]] = deque()

    def __call__(self, work: Callable[[], None]) -> None:
        """Do this work soon."""
        while self.waiting and (self.waiting[0].done() or len(self.waiting) >= WAITING):
            self.waiting.popleft().result()
        self.waiting.append(self.pool.submit(work))

    def __enter__(self) -> Later:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Wait for all work; after an error of the block, errors of the work are left out."""
        self.pool.shutdown(wait=True)
        while kind is None and self.waiting:
            self.waiting.popleft().result()
