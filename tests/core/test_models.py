from __future__ import annotations

import pytest
import torch
from torch import nn

from veracity.core.models import evaluating, in_precision, out_of_memory


def test_modes_and_gradients_come_back_even_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.Linear(2, 2))
    model[1].eval()
    model[0].weight.grad = torch.ones(2, 2)

    def fail() -> None:
        with evaluating(model):
            assert not any(module.training for module in model.modules())
            model(torch.ones(1, 2)).sum().backward()
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert [module.training for module in model] == [True, False, True]
    assert model.training
    assert torch.equal(model[0].weight.grad, torch.ones(2, 2))
    assert model[2].weight.grad is None


def test_full_precision_inside_and_the_callers_choice_outside() -> None:
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = "tf32"
        with evaluating(nn.Linear(1, 1)):
            assert matmul.fp32_precision == "ieee"
        assert matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = before


def test_blocks_of_threads_that_end_in_any_order_leave_the_callers_settings() -> None:
    conv, rnn = torch.backends.cudnn.conv, torch.backends.cudnn.rnn
    before = (conv.fp32_precision, rnn.fp32_precision)
    first, second = evaluating(nn.Linear(1, 1)), evaluating(nn.Linear(1, 1))
    first.__enter__()
    with in_precision("tf32"), evaluating(nn.Linear(1, 1)):
        assert conv.fp32_precision == "tf32"
    second.__enter__()
    first.__exit__(None, None, None)
    assert (conv.fp32_precision, rnn.fp32_precision) == ("ieee", "ieee")
    second.__exit__(None, None, None)
    assert (conv.fp32_precision, rnn.fp32_precision) == before


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("XPU out of memory."),
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
        RuntimeError("CUDA error: out of memory\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("MPS backend out of memory (MPS allocated: 17.9 GB)."),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_every_wording_of_too_little_memory_is_known(error: Exception) -> None:
    assert out_of_memory(error)


def test_what_the_allocator_of_this_machine_says_is_known() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**50)
    assert out_of_memory(raised.value)


@pytest.mark.parametrize("error", [RuntimeError("The size of tensor a must match"), ValueError("out of memory"), KeyError("memory")])
def test_other_errors_are_not_taken_for_it(error: Exception) -> None:
    assert not out_of_memory(error)
