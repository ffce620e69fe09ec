"""The floor of an audit: its model passes as bare batched calls."""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

from veracity.core.explainers import Cost


def synchronise(device: torch.device) -> None:
    """Wait for what a GPU still has to do."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def floor_seconds(model: nn.Module, x: Tensor, cost: Cost, rows: int) -> float:
    """Seconds for `cost` model rows in calls of `rows`: backward ones with their forward, the rest forward alone."""
    batch = x[torch.arange(rows, device=x.device) % len(x)]
    targets = model(batch).argmax(1)[:, None].detach()
    start = time.perf_counter()
    for count in chunks(cost.backward, rows):
        leaf = batch[:count].detach().requires_grad_()
        torch.autograd.grad(model(leaf).gather(1, targets[:count]).sum(), leaf)
    with torch.no_grad():
        for count in chunks(cost.forward - cost.backward, rows):
            model(batch[:count])
    synchronise(x.device)
    return time.perf_counter() - start


def chunks(total: int, rows: int) -> list[int]:
    """A total in parts of at most `rows`."""
    return [rows] * (total // rows) + ([total % rows] if total % rows else [])
