"""Whether an error means that memory ran out, on any device."""

from __future__ import annotations

import torch

WORDS = (
    "defaultcpuallocator",
    "not enough memory",
    "allocate memory",
    "out of memory",
    "bad_alloc",
    "status_alloc_failed",
)
"""What a plain RuntimeError says then: of the CPU's allocator in its several wordings, of CUDA, cuBLAS, cuDNN and MPS, and of C++."""


def out_of_memory(error: BaseException) -> bool:
    """Whether a smaller batch may help.

    >>> out_of_memory(RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."))
    True
    >>> out_of_memory(RuntimeError("CUDA error: out of memory")), out_of_memory(RuntimeError("shapes differ"))
    (True, False)
    """
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in WORDS)
