"""An orbit evaluation over its floor: python -m benchmarks.orbits [--samples 10000] [--step 5] [--threads 1] [--device cpu]

The test digits of MNIST at every angle, three LeNets. The floor is the same forward passes as bare batched calls on inputs that are
moved already; the whole evaluation moves inputs, judges outputs against truth and consensus, and writes tables, outputs and
pictures. Half of the floor is timed before and half after, so that a machine that is slowing down does not flatter either. A last
line says how long one place along an orbit takes, live, and how long the result takes to read.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.timing import CONSOLE, empty_table, now, synchronise
from veracity import OrbitEvaluation
from veracity.core.inputs import Signals
from veracity.orbits import Classification, Live, OrbitResult, RotationOrbit
from veracity.orbits.loop import repeat_signals
from veracity.trainers.training import initialised
from veracity_papers.data.mnist import mnist
from veracity_papers.zoo.lenet import lenet

MODELS, MADE, ASKED = 3, 64, 200
"""Models, digits whose moved inputs the floor goes through again and again, and live questions."""


def evaluation(samples: int, step: float, device: str) -> OrbitEvaluation:
    """Three untrained LeNets: what they say does not change how long they take."""
    x, y = mnist("test")
    models = {f"lenet {number}": initialised(lenet, seed=number).eval().requires_grad_(False) for number in range(MODELS)}
    task = Classification(classes=tuple("0123456789"))
    made = OrbitEvaluation(models=models, inputs=x[:samples], targets=y[:samples], orbit=RotationOrbit(step=step), task=task)
    return made.on(device)


def moved_already(asked: OrbitEvaluation, device: torch.device) -> Tensor:
    """Some digits at every angle, one orbit after the other."""
    elements, few = asked.orbit.elements, torch.as_tensor(asked.inputs)[:MADE]
    return asked.orbit.space.act(elements.repeat(len(few), 1), repeat_signals(Signals(few), len(elements)).values).to(device)


def passes(models: list[nn.Module], moved: Tensor, total: int, rows: int) -> float:
    """Seconds for this many rows of every model as bare calls."""
    batches = moved.split(rows)
    start, done, number = now(moved.device), 0, 0
    with torch.no_grad():
        while done < total:
            batch = batches[number % len(batches)][: total - done]
            for model in models:
                model(batch)
            done, number = done + len(batch), number + 1
    synchronise(moved.device)
    return now(moved.device) - start


def live_seconds(asked: OrbitEvaluation, folder: Path, where: torch.device) -> list[float]:
    """How long each of many places along an orbit takes."""
    live, found = Live(asked, folder), []
    for number in range(ASKED):
        start = now(where)
        live.answer(number % min(8, len(torch.as_tensor(asked.inputs))), [number * 1.7])
        found.append(now(where) - start)
    return found


def main(samples: int = 10_000, step: float = 5.0, threads: int | None = None, device: str = "cpu") -> float:
    """Print the table; the ratio comes back."""
    if threads is not None:
        torch.set_num_threads(threads)
    where = torch.device(device)
    asked = evaluation(samples, step, device)
    ready = asked.prepare()
    rows = min(one.rows for one in ready.budgets.values())
    rows = max(1, rows // len(ready.elements)) * len(ready.elements) if rows >= len(ready.elements) else rows
    models, moved = [one.module for one in ready.models.values()], moved_already(asked, where)
    total = ready.inputs.size() * len(ready.elements)
    passes(models, moved, min(total, len(moved)), rows)
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "run"
        floor = passes(models, moved, total // 2, rows)
        start = now(where)
        asked.run(folder, progress=False)
        synchronise(where)
        whole = now(where) - start
        floor += passes(models, moved, total - total // 2, rows)
        start = now(where)
        OrbitResult(folder).table()
        reading = now(where) - start
        answers = np.array(live_seconds(asked, folder, where)) * 1e3
        size = sum(path.stat().st_size for path in folder.rglob("*")) / 2**20
    title = f"{samples:,} digits at {len(ready.elements)} angles, {MODELS} models, {torch.get_num_threads()} threads on {device}"
    table = empty_table(title, "passes", "rows per call", "floor s", "whole s", "ratio", "MiB written", left=0)
    table.add_row(f"{total * MODELS:,}", str(rows), f"{floor:.2f}", f"{whole:.2f}", f"{whole / floor:.3f}", f"{size:.0f}")
    CONSOLE.print(table)
    middle, most = np.quantile(answers, [0.5, 0.9])
    CONSOLE.print(f"Reading the table took {reading:.2f} s; one place live {middle:.1f} ms (p50), {most:.1f} ms (p90).")
    return whole / floor


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--samples", type=int, default=10_000, help="how many of the 10,000 test digits")
    parser.add_argument("--step", type=float, default=5.0, help="degrees between angles")
    parser.add_argument("--threads", type=int, default=None, help="threads of every model pass; torch's own number by default")
    parser.add_argument("--device", default="cpu", help="where the models run, such as cuda")
    given = parser.parse_args()
    main(given.samples, given.step, given.threads, given.device)
