"""Files are written by a thread of their own, in order, while the models go on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import torch

WAITING = 8
"""How many pieces of work may wait, which bounds the memory that they hold."""


class Later:
    """Does work in the order in which it comes. An error is raised by the next call, or at the end of the block."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.waiting: deque[Future[None]] = deque()

    def __call__(self, work: Callable[[], None]) -> None:
        """Do this work soon."""
        while self.waiting and (self.waiting[0].done() or len(self.waiting) >= WAITING):
            self.waiting.popleft().result()
        self.waiting.append(self.pool.submit(in_stream_of_caller(work)))

    def __enter__(self) -> Later:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Wait for all work; after an error of the block, errors of the work are left out."""
        self.pool.shutdown(wait=True)
        while kind is None and self.waiting:
            self.waiting.popleft().result()


def in_stream_of_caller(work: Callable[[], None]) -> Callable[[], None]:
    """The work in the caller's stream of the GPU, after what the caller has asked of it so far."""
    if not torch.cuda.is_initialized():
        return work
    stream = torch.cuda.current_stream()

    def inside() -> None:
        with torch.cuda.stream(stream):
            work()

    return inside
