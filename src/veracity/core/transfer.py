"""Copies between CPU and GPU that overlap with the GPU's work."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor


@cache
def side_stream(device: torch.device) -> torch.cuda.Stream:
    """The stream of a GPU in which tensors travel."""
    return torch.cuda.Stream(device)


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device. On its way to a GPU it waits for nothing that the GPU still has to do."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    here, aside = torch.cuda.current_stream(device), side_stream(device)
    with torch.cuda.stream(aside):
        found = tensor.to(device)
    here.wait_stream(aside)
    found.record_stream(here)
    return found


def fetch(tensor: Tensor) -> Callable[[], Tensor]:
    """A function that copies a tensor to the CPU while its GPU goes on. Do not write into the tensor before it is called."""
    if tensor.device.type != "cuda":
        return lambda: tensor
    ready = torch.cuda.Event()
    ready.record(torch.cuda.current_stream(tensor.device))

    def fetched() -> Tensor:
        aside = torch.cuda.Stream(tensor.device)
        with torch.cuda.stream(aside):
            aside.wait_event(ready)
            found = pinned_like(tensor).copy_(tensor.detach(), non_blocking=True)
            tensor.record_stream(aside)
            aside.synchronize()
        return found

    return fetched


def pinned_like(tensor: Tensor) -> Tensor:
    """An empty tensor on the CPU, in pinned memory if there is enough."""
    try:
        return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    except RuntimeError:
        return torch.empty(tensor.shape, dtype=tensor.dtype)
