from __future__ import annotations

import multiprocessing
import random
import signal
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pandas as pd
import pytest
import torch

from small import series_inputs, small_net
from veracity import Audit, CyclicShift, Result

SCRIPT = """
import sys
sys.path.insert(0, {here!r})
if __name__ == "__main__":
    from test_resume import audit
    audit(300).run({folder!r}, workers=2)
"""


def audit(samples: int = 110) -> Audit:
    return Audit(
        models={"a": small_net(), "b": small_net(seed=1)},
        inputs=series_inputs(samples),
        symmetry=CyclicShift(axes=(-1,)),
        explainers=[
            "gradient",
            {"name": "smooth_grad", "draws": 6},
            {"name": "gradient_shap", "draws": 6},
            {"name": "integrated_gradients", "steps": 10},
            "saliency",
        ],
    )


def work(folder: Path) -> None:
    torch.set_num_threads(1)
    audit().run(folder, progress=False)


def start(folder: Path) -> BaseProcess:
    """Run the audit in a process of its own, forked from a clean one that has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["veracity.audit"])
    process = context.Process(target=work, args=(folder,))
    process.start()
    return process


def finish(folder: Path) -> None:
    process = start(folder)
    process.join()
    assert process.exitcode == 0


@pytest.mark.subprocess
def test_killed_at_five_moments_the_same_command_ends_with_the_same_table(tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    finish(whole)
    total = len(list(whole.glob("cells/*.parquet")))
    moments = sorted(random.Random(0).sample(range(1, total), 5))
    seen: dict[str, int] = {}
    for moment in moments:
        process = start(folder)
        while len(list(folder.glob("cells/*.parquet"))) < moment:
            assert process.is_alive(), "the audit ended before it could be killed"
            time.sleep(0.002)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        for cell in folder.glob("cells/*.parquet"):
            assert seen.setdefault(cell.name, cell.stat().st_mtime_ns) == cell.stat().st_mtime_ns
    assert 0 < len(seen) < total
    finish(folder)
    assert all((folder / "cells" / name).stat().st_mtime_ns == written for name, written in seen.items())
    pd.testing.assert_frame_equal(Result(folder).table(), Result(whole).table(), check_exact=True)
    assert not list(folder.rglob(".*"))


@pytest.mark.subprocess
def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(SCRIPT.format(here=str(Path(__file__).parent), folder=str(tmp_path / "run")))
    process = subprocess.Popen([sys.executable, str(script)])
    while process.poll() is None and not list((tmp_path / "run").glob("cells/*.parquet")):
        time.sleep(0.01)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) >= 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 20
    while any(alive(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [child for child in children if alive(child)]


def alive(pid: str) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()
