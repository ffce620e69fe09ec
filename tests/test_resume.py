from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor

from small import series_inputs, small_net
from veracity import Audit, Result
from veracity.cli import main
from veracity.perturb import CyclicShift

FILE = """
data = "test_resume:many"
explainers = ["gradient", {name = "smooth_grad", draws = 8}, {name = "integrated_gradients", steps = 20}]
scores = ["equivariance"]
symmetry = {name = "cyclic_shift", axes = [-1]}
[models.net]
build = "small:small_net"
"""


def many() -> Tensor:
    return series_inputs(500)


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


def work_in_two(folder: Path) -> None:
    audit(300).run(folder, progress=False, workers=2)


def command(folder: Path) -> None:
    """The command line, which ends this process, in a session of its own with its errors in a file."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests were started in the background
    for stream, name in ((1, os.devnull), (2, str(folder / "errors"))):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    main(["audit", str(folder / "audit.toml"), "--out", str(folder / "run"), "--workers", "2"])


def start(target: Callable[[Path], None], folder: Path) -> BaseProcess:
    """Run something in a process of its own, forked from a clean one that has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["veracity.audit"])
    process = context.Process(target=target, args=(folder,))
    process.start()
    return process


def finish(folder: Path) -> None:
    process = start(work, folder)
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
        process = start(work, folder)
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
    process = start(work_in_two, tmp_path / "run")
    while process.is_alive() and not list((tmp_path / "run").glob("cells/*.parquet")):
        time.sleep(0.01)
    children = spawned(process.pid)
    assert len(children) == 2
    process.kill()
    process.join()
    deadline = time.monotonic() + 20
    while any(alive(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [child for child in children if alive(child)]


@pytest.mark.subprocess
def test_an_interrupted_command_prints_no_traceback_even_while_its_workers_import(tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text(FILE)
    for moment in (importing, measuring):
        process = start(command, tmp_path)
        while not moment(process.pid, tmp_path):
            assert process.is_alive(), "the audit ended before it could be interrupted"
            time.sleep(0.01)
        children = spawned(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        process.join(60)
        errors = (tmp_path / "errors").read_text()
        assert "Traceback" not in errors
        assert errors.splitlines()[-1] == "Stopped. Run the same command again to resume."
        assert process.exitcode == 130
        assert not [child for child in children if alive(child)]


def importing(parent: int | None, folder: Path) -> bool:
    return any("libtorch" in Path(f"/proc/{child}/maps").read_text() for child in spawned(parent))


def measuring(parent: int | None, folder: Path) -> bool:
    return bool(list(folder.glob("run/cells/*.parquet")))


def spawned(parent: int | None) -> list[str]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def alive(pid: str) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()
