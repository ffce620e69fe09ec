"""Equivariance over a whole group, against its floor, and its peak memory."""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.timing import CONSOLE, empty_table, floor_seconds, synchronise
from veracity import Audit
from veracity.core.explainers import Cost
from veracity.core.spaces import InputSpace
from veracity.demo import GlobalMax, all_cnn, digits
from veracity.perturb import CyclicShift, WindowShift
from veracity.trainers.training import initialised
from veracity.walk import MonteCarlo

CASES = {"saliency": 48, "integrated_gradients": 3, "occlusion": 3}


def digits_net() -> nn.Module:
    """The demo's exactly invariant architecture."""
    return initialised(lambda: all_cnn((8, 16, 32), 10, GlobalMax()), seed=0).eval()


def equivariance_audit(model: nn.Module, x: Tensor, explainers: list[str], symmetry: InputSpace) -> Audit:
    """One score over every element of the symmetry."""
    return Audit(
        models=model, inputs=x, explainers=explainers, symmetry=symmetry, scores=["equivariance"], controls=False, walk="exhaustive"
    )


def ratio(audit: Audit, model: nn.Module, x: Tensor, batch: int | None = None) -> dict[str, float]:
    """Seconds of the audit and of its floor (before and after it, averaged), in one run."""
    prepared = audit.prepare(batch=batch)
    cost = sum((job.cost for job in prepared.jobs), Cost())
    rows = prepared.budgets["model"].rows
    floor_seconds(model, x, Cost(2 * rows, rows), rows)
    warm_up(audit, x)
    before = floor_seconds(model, x, cost, rows)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        audit.run(Path(folder) / "run", batch=batch, progress=False)
        synchronise(x.device)
        seconds = time.perf_counter() - start
    after = floor_seconds(model, x, cost, rows)
    floor = (before + after) / 2
    return {
        "maps": len(x),
        "forward": cost.forward,
        "backward": cost.backward,
        "rows": rows,
        "audit": seconds,
        "floor": floor,
        "ratio": seconds / floor,
    }


def warm_up(audit: Audit, x: Tensor) -> None:
    """One sample and one shift, so that imports and first allocations are not timed."""
    with tempfile.TemporaryDirectory() as folder:
        replace(audit, inputs=x[:1], walk=MonteCarlo(draws=1)).run(Path(folder) / "run", progress=False)


def peak(samples: int, margin: int, answer: multiprocessing.queues.SimpleQueue[float]) -> None:
    """Peak memory in MiB of an audit, in this fresh process."""
    torch.set_num_threads(1)
    x, _ = digits("train")
    symmetry = WindowShift(margin=margin) if margin else CyclicShift(axes=(-2, -1))
    with tempfile.TemporaryDirectory() as folder:
        audit = equivariance_audit(digits_net(), x[torch.arange(samples) % len(x)], ["saliency"], symmetry)
        audit.run(Path(folder) / "run", progress=False)
    answer.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def peaks() -> dict[str, float]:
    """Peak memory for two group orders and for two numbers of samples."""
    context = multiprocessing.get_context("spawn")
    found = {}
    for name, samples, margin in (
        ("64 samples x 9", 64, 1),
        ("64 samples x 196", 64, 0),
        ("512 samples x 9", 512, 1),
        ("512 samples x 49", 512, 3),
    ):
        answer = context.SimpleQueue()
        process = context.Process(target=peak, args=(samples, margin, answer))
        process.start()
        found[name] = answer.get()
        process.join()
    return found


def main() -> None:
    """Print both tables."""
    x, _ = digits("test")
    model = digits_net()
    table = empty_table(
        f"Equivariance over all 196 cyclic shifts of 14x14 digits, {torch.get_num_threads()} threads",
        "explainer",
        "samples",
        "forward",
        "backward",
        "rows",
        "audit s",
        "floor s",
        "ratio",
    )
    for name, samples in CASES.items():
        found = ratio(equivariance_audit(model, x[:samples], [name], CyclicShift(axes=(-2, -1))), model, x[:samples])
        counts = [f"{int(found[key]):,}" for key in ("maps", "forward", "backward", "rows")]
        table.add_row(name, *counts, f"{found['audit']:.2f}", f"{found['floor']:.2f}", f"{found['ratio']:.3f}")
    CONSOLE.print(table)
    memory = empty_table("Peak memory of an audit of saliency, samples x group elements", "size", "MiB")
    for name, value in peaks().items():
        memory.add_row(name, f"{value:,.0f}")
    CONSOLE.print(memory)
