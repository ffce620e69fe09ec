"""The floor of an audit: its model passes as bare batched calls."""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

from veracity.core.explainers import Cost
from veracity.core.models import evaluating


def synchronise(device: torch.device) -> None:
    """Wait for what a GPU still has to do."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def floor_seconds(model: nn.Module, x: Tensor, cost: Cost, rows: int) -> float:
    """Seconds for `cost` model rows in calls of `rows`: backward ones with their forward, the rest forward alone."""
    batch = x[torch.arange(rows, device=x.device) % len(x)]
    targets = model(batch).argmax(1)[:, None].detach()
    with evaluating(model):
        start = time.perf_counter()
        bare_passes(model, batch, targets, cost, rows)
        synchronise(x.device)
        return time.perf_counter() - start


def bare_passes(model: nn.Module, batch: Tensor, targets: Tensor, cost: Cost, rows: int) -> None:
    """Nothing but the calls."""
    for count in chunks(cost.backward, rows):
        leaf = batch[:count].detach().requires_grad_()
        torch.autograd.grad(model(leaf).gather(1, targets[:count]).sum(), leaf)
    with torch.no_grad():
        for count in chunks(cost.forward - cost.backward, rows):
            model(batch[:count])


def chunks(total: int, rows: int) -> list[int]:
    """A total in parts of at most `rows`."""
    return [rows] * (total // rows) + ([total % rows] if total % rows else [])
