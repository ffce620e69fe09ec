"""What the training scripts share: their command line, their lines of JSON, a one-cycle loop, and weights in half precision."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from veracity_papers.zoo.storage import save

Network = TypeVar("Network", bound=nn.Module)
Report = Callable[[int, float], None]


def command(description: str, names: Iterable[str] = (), **numbers: int | None) -> argparse.ArgumentParser:
    """A parser for the folder OUT, --only some of the names, --seed, --device, and whole numbers with their defaults."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("out", type=Path, help="the folder to write the weights to")
    known = list(names)
    if known:
        parser.add_argument("--only", nargs="+", choices=known, default=known, metavar="NAME", help=f"some of {', '.join(known)}")
    for name, default in {**numbers, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser


def say(line: Mapping[str, object]) -> None:
    """Print one line of JSON."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def progress(name: str, start: float, every: int, quantity: str) -> Report:
    """A report that prints a quantity every so many steps."""

    def report(step: int, value: float) -> None:
        if step % every == 0:
            say({"model": name, "step": step, quantity: round(value, 4), "seconds": round(time.perf_counter() - start, 1)})

    return report


def one_cycle(
    model: Network, loss: Callable[[], Tensor], steps: int, *, rate: float, decay: float, clip: float, report: Report | None = None
) -> Network:
    """Train in place by AdamW over one cycle, with clipped gradients; returns the model in evaluation mode.

    `report` is called with the step and the loss after every 50 steps and at the end.
    """
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=rate, total_steps=steps)
    model.train()
    for step in range(1, steps + 1):
        error = loss()
        optimiser.zero_grad(set_to_none=True)
        error.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimiser.step()
        schedule.step()
        if report is not None and (step % 50 == 0 or step == steps):
            report(step, float(error.detach()))
    return model.eval()


def halve(model: nn.Module) -> None:
    """Round the weights to half precision, in which they are written, before the model is scored."""
    model.load_state_dict({key: value.half() if value.is_floating_point() else value for key, value in model.state_dict().items()})


def write(model: nn.Module, name: str, out: Path, start: float, **facts: object) -> dict[str, object]:
    """Write the weights in half precision with facts about them, and return the facts as a line to print."""
    save(model.state_dict(), out / f"{name}.safetensors", half=True, **facts)
    return {"model": name, **facts, "seconds": round(time.perf_counter() - start, 1)}
