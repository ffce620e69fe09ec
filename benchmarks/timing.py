"""What the benchmarks share: clocks, the floor of an audit (its model passes as bare batched calls), and tables."""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from veracity import Audit
from veracity.core.errors import Note
from veracity.core.explainers import Cost
from veracity.core.models import evaluating
from veracity.engine.memory import MEMORY

CONSOLE = Console(width=None if sys.stdout.isatty() else 120)


def empty_table(title: str, *columns: str, left: int = 1) -> Table:
    """An empty table whose first columns are words, to the left, and whose others are numbers, to the right."""
    made = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        made.add_column(column, justify="left" if place < left else "right")
    return made


def now(device: torch.device) -> float:
    """Seconds on a clock: with one thread on a CPU, of this process alone, whatever else the machine does."""
    return time.process_time() if device.type == "cpu" and torch.get_num_threads() == 1 else time.perf_counter()


def synchronise(device: torch.device) -> None:
    """Wait for what a GPU still has to do."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def in_turns(works: Mapping[str, Callable[[], Any]], device: torch.device, repeats: int = 3) -> dict[str, float]:
    """The shortest of some runs of each, in seconds; the first round only warms up."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(1 + repeats):
        for name, work in works.items():
            synchronise(device)
            start = now(device)
            work()
            synchronise(device)
            found[name].append(now(device) - start)
    return {name: min(seconds[1:]) for name, seconds in found.items()}


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the notes of audits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        yield


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


@cache
def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder that is deleted at the end, since deleting runs is no part of what is timed."""
    return tempfile.TemporaryDirectory()


def new_folder() -> Path:
    """Where a run may go."""
    return Path(tempfile.mkdtemp(dir=scratch().name)) / "run"


def ours(audit: Audit) -> None:
    """A run into a new folder, from an empty memory."""
    MEMORY.forget()
    audit.run(new_folder(), progress=False)


def quantus_metric(quantus: Any, metric: Any, model: nn.Module, x: Tensor, masks: Tensor | None = None) -> None:
    """A metric of Quantus on images and, if it needs them, masks (N, H, W), with Captum's gradient as it comes with Quantus."""
    device = next(model.parameters()).device
    with torch.no_grad():
        targets = model(x.to(device)).argmax(1).cpu()
    given = {} if masks is None else {"s_batch": masks[:, None].numpy(), "device": str(device), "batch_size": len(x)}
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        metric(
            model=model,
            x_batch=x.numpy().copy(),
            y_batch=targets.numpy(),
            channel_first=True,
            explain_func=quantus.explain,
            explain_func_kwargs={"method": "Gradient"},
            **given,
        )
