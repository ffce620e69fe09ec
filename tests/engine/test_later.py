from __future__ import annotations

import threading
import time

import pytest
import torch

from veracity.core.transfer import fetch
from veracity.engine.later import WAITING, Later


def test_work_is_done_in_order_by_another_thread_and_before_the_end() -> None:
    done: list[tuple[int, bool]] = []
    with Later() as later:
        for number in range(3 * WAITING):
            later(lambda number=number: done.append((number, threading.current_thread() is threading.main_thread())))
    assert done == [(number, False) for number in range(3 * WAITING)]


def test_few_pieces_of_work_wait() -> None:
    held = threading.Event()
    most = 0
    with Later() as later:
        later(lambda: held.wait(5) and None)
        for _ in range(WAITING - 1):
            later(lambda: None)
        threading.Timer(0.2, held.set).start()
        start = time.perf_counter()
        later(lambda: None)
        most = max(most, len(later.waiting))
    assert time.perf_counter() - start > 0.1
    assert most <= WAITING


def fail() -> None:
    raise OSError("disk full")


def test_an_error_is_raised_at_the_end() -> None:
    with pytest.raises(OSError, match="disk full"), Later() as later:
        later(fail)


def test_an_error_is_raised_by_the_next_call() -> None:
    later = Later()
    later(fail)
    later.waiting[0].exception(5)
    with pytest.raises(OSError, match="disk full"):
        later(lambda: None)
    later.__exit__(None, None, None)


def test_the_error_of_the_block_comes_first() -> None:
    later = Later()
    later(fail)
    later.__exit__(ValueError, ValueError("first"), None)


def test_a_tensor_of_the_cpu_is_fetched_as_it_is() -> None:
    x = torch.ones(2)
    assert fetch(x)() is x
