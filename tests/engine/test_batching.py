from __future__ import annotations

import pytest
import torch
from torch import nn

from small import series_inputs, small_net
from veracity.core.inputs import Signals
from veracity.engine.batching import Budget, budget_for, out_of_memory, row_bytes


def test_the_work_is_cut_into_slices_that_fit() -> None:
    seen: list[tuple[int, int]] = []
    Budget(rows=10).spend(7, 4, lambda part: seen.append((part.start, part.stop)))
    assert seen == [(0, 2), (2, 4), (4, 6), (6, 7)]


def test_an_explanation_larger_than_the_budget_still_goes_alone() -> None:
    assert Budget(rows=10).per_call(50) == 1


def test_running_out_of_memory_halves_the_rows_and_goes_on() -> None:
    budget, done = Budget(rows=16), []

    def work(part: slice) -> None:
        if part.stop - part.start > 4:
            raise torch.OutOfMemoryError("too much")
        done.extend(range(part.start, part.stop))

    budget.spend(10, 1, work)
    assert done == list(range(10))
    assert budget.rows == 4


def test_other_errors_and_hopeless_ones_are_raised() -> None:
    def fail(_part: slice) -> None:
        raise RuntimeError("a bug")

    def hungry(_part: slice) -> None:
        raise MemoryError

    with pytest.raises(RuntimeError, match="a bug"):
        Budget(rows=4).spend(4, 1, fail)
    with pytest.raises(MemoryError):
        Budget(rows=4).spend(4, 1, hungry)
    assert out_of_memory(RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"))


def test_the_bytes_of_a_row_are_counted_by_hand() -> None:
    x = Signals(series_inputs(1))
    # Input 12, conv 6x12, relu, conv 8x12, relu, pool 8, linear 3, in float32, times three.
    assert row_bytes(small_net(), x) == 3 * 4 * (12 + 2 * 72 + 2 * 96 + 8 + 3)


def test_the_budget_follows_the_memory_and_the_wish() -> None:
    net, x = small_net(), Signals(series_inputs(1))
    assert budget_for(net, x, memory=10 * row_bytes(net, x), rows=None).rows == 10
    assert budget_for(net, x, memory=1, rows=None).rows == 1
    assert budget_for(net, x, memory=1, rows=33).rows == 33
    assert all(not module._forward_hooks for module in net.modules() if isinstance(module, nn.Module))
