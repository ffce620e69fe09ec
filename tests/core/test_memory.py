from __future__ import annotations

import pytest
import torch

from veracity.core.models import out_of_memory


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
