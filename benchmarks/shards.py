"""Many shards on one folder, some of them killed, and `auto` finishing: is the table that of a plain run?

    python -m benchmarks.shards --shards 16 --kills 5 --samples 1024

The shards are started at once, forked from a process that has imported everything. Those to be killed get SIGKILL at random moments after
the first cells are stored. Then one shard `auto` does what is left, beside the others if they still run, and the folder is joined.
With --folder s3://bucket/run the shards fill a bucket (set AWS_ENDPOINT_URL and credentials).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import tempfile
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pandas as pd
import torch
from torch import nn

from veracity import Audit
from veracity.core.errors import StoreError
from veracity.engine.store import RunFolder
from veracity.engine.store import shards as signs
from veracity.perturb import CyclicShift
from veracity.results import joined

CELLS = 8
"""How many cells are stored before somebody is killed."""


def audit(samples: int) -> Audit:
    """A small network on digits, four explainers with their controls, three scores."""
    from veracity.demo import digits

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6 * 9, 10)).eval()
    images, labels = digits(padding=0)
    return Audit(
        models={"cnn": net},
        inputs=images[:samples],
        targets=labels[:samples],
        symmetry=CyclicShift(axes=(-2, -1)),
        walk={"name": "monte_carlo", "draws": 6},
        explainers=["gradient", "saliency", {"name": "smooth_grad", "draws": 4}, {"name": "integrated_gradients", "steps": 4}],
        scores=["equivariance", "model_invariance", "action_floor", {"name": "fast_gef", "sigma": 0.5}],
    )


def work(folder: str, samples: int, shard: str | None, log: str) -> None:
    """One process: a shard, or the plain run for None."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    torch.set_num_threads(1)
    audit(samples).run(folder, batch=256, shard=shard, progress=False)


def start(folder: str, samples: int, shard: str | None, log: str) -> BaseProcess:
    """Start one process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["veracity.audit", "sklearn.datasets"])
    process = context.Process(target=work, args=(folder, samples, shard, log))
    process.start()
    return process


def kill_at_work(folder: str, processes: list[BaseProcess], kills: int, generator: random.Random) -> int:
    """Kill processes at work, once there are some cells; returns how many were still running."""
    killed, files = 0, RunFolder(folder).files
    while len(files.names("cells")) < CELLS and any(one.is_alive() for one in processes):
        time.sleep(0.02)
    while killed < kills and any(one.is_alive() for one in processes):
        working = {sign.pid for sign in signs.signs(files).values() if not sign.ended}
        victims = [one for one in processes if one.is_alive() and one.pid in working]
        if victims:
            time.sleep(generator.random() * 0.3)
            victim = generator.choice(victims)
            if victim.is_alive() and victim.pid is not None:
                os.kill(victim.pid, signal.SIGKILL)
                victim.join()
                killed += 1
        time.sleep(0.02)
    return killed


def compare(shards: int, kills: int, samples: int, seed: int = 0, folder: str | None = None) -> dict[str, object]:
    """Run everything, and say what came out."""
    with tempfile.TemporaryDirectory() as scratch:
        root, plain, log = folder or f"{scratch}/shards", f"{scratch}/plain", f"{scratch}/log"
        began = time.perf_counter()
        one = start(plain, samples, None, log)
        one.join()
        alone = time.perf_counter() - began
        began = time.perf_counter()
        processes = [start(root, samples, f"{number}/{shards}", log) for number in range(1, shards + 1)]
        killed = kill_at_work(root, processes, kills, random.Random(seed))
        before = ""
        if killed:
            try:
                joined(root)
            except StoreError as error:
                before = str(error)
        last = start(root, samples, "auto", log)
        for process in (*processes, last):
            process.join()
        took = time.perf_counter() - began
        result, wanted = joined(root), joined(plain)
        pd.testing.assert_frame_equal(result.table(), wanted.table(), check_exact=True)
        return {
            "cells": len(result.manifest["cells"]),
            "jobs": len({cell["base"] for cell in result.manifest["cells"]}),
            "shards": shards,
            "killed": killed,
            "join before": before,
            "same table": True,
            "plain_s": round(alone, 1),
            "shards_s": round(took, 1),
            "exit codes": sorted({process.exitcode for process in (*processes, last)}, key=str),
            "log": Path(log).read_text()[-2000:],
        }


def main() -> None:
    """Print what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder")
    for name, value in compare(**vars(parser.parse_args())).items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
