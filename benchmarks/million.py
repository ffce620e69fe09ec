"""Data that does not fit in memory: python -m benchmarks.million [10000 100000 1000000] [--folder DIR] [--keep]

A data set is made on the fly, sample by sample, and a tiny network is audited on it with three scores, two explainers and their controls.
Every step has a process of its own: the audit, `veracity show`, `veracity gate`, the report, and all numbers of the page of the app.
Printed are the seconds of each, the seconds of the processor (which do not depend on what else the machine does) and the peak memory, the
files of the run folder, and how the audit compares with its floor: its model passes as bare batched calls. Start it with
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import Dataset

from benchmarks.timing import CONSOLE, bare_passes, empty_table, quiet
from veracity import Audit
from veracity.core.explainers import Cost
from veracity.core.models import evaluating
from veracity.perturb.groups import CyclicShift
from veracity.walk import MonteCarlo

LENGTH, CLASSES, SIZES = 16, 3, (10_000, 100_000, 1_000_000)
SCORES = ("equivariance", "model_invariance", "sparseness")


class Waves(Dataset[Any]):
    """Series of 16 values that are made from their number alone."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.frequency = np.random.default_rng(0).uniform(0.1, 3.0, (1, LENGTH)).astype(np.float32)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, number: int) -> tuple[NDArray[np.float32], int]:
        return np.sin(self.frequency * np.float32(number % 9973) + np.float32(number / self.size)), number % CLASSES


def network() -> nn.Module:
    """A perceptron with 675 weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(LENGTH, 32), nn.ReLU(), nn.Linear(32, CLASSES)).eval()


def audit(size: int) -> Audit:
    """Three scores of two explainers and their controls."""
    return Audit(
        models={"net": network()},
        inputs=Waves(size),
        explainers=["saliency", "input_x_gradient"],
        symmetry=CyclicShift(axes=(-1,)),
        walk=MonteCarlo(draws=4),
        scores=list(SCORES),
    )


def measure(size: int, folder: str) -> dict[str, Any]:
    """Run the audit in this process, then its passes alone."""
    with quiet():
        asked = audit(size)
        start, used = time.perf_counter(), time.process_time()
        asked.run(folder, progress=False)
        seconds, cpu, memory = time.perf_counter() - start, time.process_time() - used, peak()
        plan = asked.prepare()
        cost = sum((job.cost for job in plan.jobs), Cost())
    made = time.process_time()
    data = Waves(size)
    batch = torch.from_numpy(np.stack([data[number][0] for number in range(512)]))
    for number in range(512, size):
        data[number]
    made = time.process_time() - made
    model, rows = network(), 512
    with evaluating(model):
        targets = model(batch).argmax(1)[:, None].detach()
        used = time.process_time()
        bare_passes(model, batch, targets, cost, rows)
        floor = time.process_time() - used
    return {"seconds": seconds, "cpu": cpu, "memory": memory, "floor": floor, "made": made, "passes": cost.forward + cost.backward}


def first_page(folder: str) -> dict[str, Any]:
    """Ask a server for what the browser needs: the list of runs, and all numbers of the audit, before which its page opens."""
    from starlette.testclient import TestClient

    from veracity.app.application import create
    from veracity.app.runs import Runs, Workspace

    start = time.perf_counter()
    app = create(Workspace(Runs(folder)), "token")
    with TestClient(app, base_url="http://127.0.0.1:8000", headers={"authorization": "Bearer token"}) as client:
        for path in ("/api/index", "/api/runs/0?whole=true"):
            if client.get(path).status_code != 200:
                raise RuntimeError(f"{path} was not answered")
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time(), "memory": peak()}


def peak() -> int:
    """The largest memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def in_process(*arguments: str) -> dict[str, Any]:
    """What a step of this module says that runs in a process of its own."""
    found = subprocess.run([sys.executable, "-m", "benchmarks.million", *arguments], check=True, stdout=subprocess.PIPE)
    return dict(json.loads(found.stdout.splitlines()[-1]))


def command(*arguments: str) -> dict[str, Any]:
    """The seconds and the peak memory of a command of veracity, with the start of its process."""
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", "veracity", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise RuntimeError(f"veracity {' '.join(arguments)} failed")
    return {"seconds": time.perf_counter() - start, "cpu": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss << 10}


def files_of(folder: str) -> tuple[int, int, int]:
    """How many files there are, how many the fullest folder holds, and their bytes."""
    held = {place: names for place, _, names in os.walk(folder)}
    size = sum(os.path.getsize(os.path.join(place, name)) for place, names in held.items() for name in names)
    return sum(map(len, held.values())), max(map(len, held.values())), size


def steps(size: int, folder: str) -> dict[str, Any]:
    """Everything that is measured of one size; a gate reads the table by itself, as if nobody had shown it."""
    shutil.rmtree(folder, ignore_errors=True)
    found: dict[str, Any] = {"audit": in_process("--measure", str(size), "--folder", folder)}
    found["files"], found["fullest"], found["bytes"] = files_of(folder)
    found["page"] = in_process("--first-page", "--folder", folder)
    for name, arguments in (("show", ()), ("gate", ("--require", "sparseness>=0.1"))):
        Path(folder, "summary.json").unlink(missing_ok=True)
        found[name] = command(name, folder, *arguments)
    found["report"] = command("report", folder)
    return found


def main(sizes: tuple[int, ...] = SIZES, folder: str | None = None, keep: bool = False) -> None:
    """Print the table."""
    table = empty_table("A data set that is made on the fly, a perceptron, three scores", "samples", *map("{:,}".format, sizes))
    place = folder or tempfile.mkdtemp(prefix="veracity-million-")
    found = [steps(size, f"{place}/{size}") for size in sizes]
    lines = [
        ("audit, seconds", [f"{one['audit']['seconds']:.1f}" for one in found]),
        ("  of the processor", [f"{one['audit']['cpu']:.1f}" for one in found]),
        ("  per 1,000 samples", [f"{1000 * one['audit']['cpu'] / size:.3f}" for one, size in zip(found, sizes, strict=True)]),
        ("  model passes", [f"{one['audit']['passes']:,}" for one in found]),
        ("  bare passes, seconds", [f"{one['audit']['floor']:.1f}" for one in found]),
        ("  making every sample once", [f"{one['audit']['made']:.1f}" for one in found]),
        ("  over the bare passes", [f"{one['audit']['cpu'] / one['audit']['floor']:.2f}" for one in found]),
        ("  peak memory, MiB", [f"{one['audit']['memory'] >> 20:,}" for one in found]),
        ("files", [f"{one['files']:,}" for one in found]),
        ("  in the fullest folder", [f"{one['fullest']:,}" for one in found]),
        ("  MiB", [f"{one['bytes'] / 2**20:,.0f}" for one in found]),
    ]
    for name, title in (("show", "show"), ("gate", "gate"), ("report", "report"), ("page", "all numbers of the app's page")):
        lines.append((f"{title}, seconds", [f"{one[name]['seconds']:.1f}" for one in found]))
        lines.append(("  of the processor", [f"{one[name]['cpu']:.1f}" for one in found]))
        lines.append(("  peak memory, MiB", [f"{one[name]['memory'] >> 20:,}" for one in found]))
    for line, values in lines:
        table.add_row(line, *values)
    CONSOLE.print(table)
    if not keep:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.million")
    parser.add_argument("sizes", nargs="*", type=int, default=list(SIZES), help="how many samples; 10000 100000 1000000 by default")
    parser.add_argument("--folder", help="where the run folders are made; a temporary folder by default")
    parser.add_argument("--keep", action="store_true", help="leave the run folders there")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--first-page", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.folder)))
    elif given.first_page:
        print(json.dumps(first_page(given.folder)))
    else:
        main(tuple(given.sizes), given.folder, given.keep)
