from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from torch import Tensor, nn

from small import broken_explainer, small_net
from veracity import Audit
from veracity.core.errors import InputError, Note
from veracity.engine.executors.local import FAILED, KILLED, TRIES, ErrorStream, Worker, pickle_runner
from veracity.engine.loop import JobRunner


class DiesOnce(nn.Module):
    """A network whose process is killed on its first large batch, the first time only."""

    def __init__(self, marker: str) -> None:
        super().__init__()
        self.net, self.marker, self.parent = small_net(), marker, os.getpid()

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 6 and os.getpid() != self.parent and not os.path.exists(self.marker):
            open(self.marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        out: Tensor = self.net(x)
        return out


class DiesWhileStarting(nn.Module):
    """A network that kills the first processes it comes to, so many in all."""

    def __init__(self, marker: str, deaths: int) -> None:
        super().__init__()
        self.net, self.marker, self.deaths, self.parent = small_net(), marker, deaths, os.getpid()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if os.getpid() != self.parent:
            with open(self.marker, "a") as marker:
                marker.write("died\n")
            if len(Path(self.marker).read_text().split()) <= self.deaths:
                os.kill(os.getpid(), signal.SIGKILL)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x)
        return out


class LeavesAChild(nn.Module):
    """A network whose process is killed on its first large batch, the first time only, and leaves a child with all its pipes."""

    def __init__(self, marker: str) -> None:
        super().__init__()
        self.net, self.marker, self.parent = small_net(), marker, os.getpid()

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 6 and os.getpid() != self.parent and not os.path.exists(self.marker):
            child = os.fork()
            if child == 0:
                time.sleep(300)
                os._exit(0)
            Path(self.marker).write_text(str(child))
            os.kill(os.getpid(), signal.SIGKILL)
        out: Tensor = self.net(x)
        return out


def always_deadly(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    if len(inputs) > 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    return inputs.clone()


@pytest.mark.usefixtures("forked")
def test_workers_that_die_while_they_start_are_replaced(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    marker = tmp_path / "deaths"
    audit = make_audit(models={"net": DiesWhileStarting(str(marker), KILLED - 1)}, explainers=["gradient"], controls=False)
    result = audit.run(tmp_path / "run", workers=2)
    assert len(marker.read_text().split()) >= KILLED
    assert result.progress.sentence().startswith("Finished: all")


@pytest.mark.usefixtures("forked")
def test_a_run_ends_if_no_worker_ever_starts(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    audit = make_audit(models={"net": DiesWhileStarting(str(tmp_path / "deaths"), 1000)}, explainers=["gradient"], controls=False)
    with pytest.raises(InputError, match=r"1\d tries; the last one was killed by signal 9, perhaps out of memory.*workers=1\."):
        audit.run(tmp_path / "run", workers=2)
    assert not list((tmp_path / "run").glob("failed/*"))


@pytest.mark.usefixtures("forked")
def test_a_job_that_kills_every_worker_is_a_record_and_the_rest_goes_on(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    audit = make_audit(explainers=["gradient", always_deadly], controls=False, companions=False)
    with pytest.warns(Note, match=rf"died {TRIES} times on this job; the last one was killed by signal 11 \(segmentation fault\)"):
        result = audit.run(tmp_path / "run", workers=2)
    assert set(result.failures()["explainer"]) == {"always_deadly"}
    assert result.table().set_index("explainer").loc["gradient", "value"] > 0.9999


@pytest.mark.usefixtures("forked")
def test_a_dead_worker_is_noticed_while_its_child_holds_its_pipe(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    marker = tmp_path / "child"
    result = make_audit(models={"net": LeavesAChild(str(marker))}, explainers=["gradient"], controls=False).run(tmp_path / "run", workers=2)
    os.kill(int(marker.read_text()), signal.SIGKILL)
    assert result.progress.sentence().startswith("Finished: all")


@pytest.mark.usefixtures("forked")
def test_a_worker_that_ignores_its_end_is_killed(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=deaf, args=(str(tmp_path / "deaf"),))
    process.start()
    while not (tmp_path / "deaf").exists():
        time.sleep(0.01)
    worker = object.__new__(Worker)
    worker.process, worker.errors, (worker.pipe, there) = process, ErrorStream(), context.Pipe()
    process.terminate()
    assert worker.end(grace=0.1) == "was killed by signal 9, perhaps out of memory"
    there.close()


def run_script(script: Path) -> tuple[str, str]:
    """What a script says on its two streams; it is forked from a clean process that has imported everything, but its workers are not."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["veracity.audit"])
    process = context.Process(target=as_main, args=(script,))
    process.start()
    process.join()
    return script.with_suffix(".out").read_text(), script.with_suffix(".err").read_text()


def as_main(script: Path) -> None:
    for stream, suffix in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(script.with_suffix(suffix), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    runpy.run_path(str(script), run_name="__main__")


def deaf(marker: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(marker).touch()
    time.sleep(300)


@pytest.mark.subprocess
def test_a_spawned_worker_that_dies_early_is_replaced_and_one_that_always_does_has_the_last_word(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(here=str(Path(__file__).parents[1]), folder=str(tmp_path)))
    said, errors = run_script(script)
    assert said.splitlines() == ["Finished: all 2 cells are measured."]
    assert errors.count("a warning of the worker's own") == 2
    end = f"No worker process could start ({FAILED} tries; the last one ended with exit code 1: ValueError: no luck today)"
    assert end in errors.splitlines()[-1]


SCRIPT = """
import os, signal, sys
from pathlib import Path
from typing import Any
sys.path.insert(0, {here!r})
FOLDER = Path({folder!r})
if __name__ != "__main__":
    if (FOLDER / "unlucky").exists():
        raise ValueError("no luck\\ntoday")
    print("a warning of the worker's own", file=sys.stderr)
    if not (FOLDER / "died").exists():  # while the parent sends what is larger than a pipe holds
        (FOLDER / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    from small import series_inputs, small_net
    from veracity import Audit
    from veracity.perturb import CyclicShift
    audit = Audit(models=small_net(), inputs=series_inputs(20000), explainers=["gradient"], symmetry=CyclicShift(axes=(-1,)),
                  scores=["equivariance"], controls=False)
    from dataclasses import replace
    from veracity.engine.executors import Local
    from veracity.engine.loop import JobRunner
    from veracity.engine.progress import JobProgress
    prepared = audit.prepare()
    jobs = [prepared.jobs[0]]
    cells = [cell for job in jobs for cell in job.cells]
    Local(workers=1).run(jobs, JobRunner(prepared.problem, str(FOLDER / "run"), prepared.budgets), JobProgress(lambda step, text: None))
    print(f"Finished: all {{len(cells)}} cells are measured.")
    (FOLDER / "unlucky").touch()
    Local(workers=1).run(jobs, JobRunner(prepared.problem, str(FOLDER / "run"), prepared.budgets), JobProgress(lambda step, text: None))
"""


@pytest.mark.usefixtures("forked")
@pytest.mark.subprocess
def test_two_workers_give_the_numbers_of_one_and_survive_a_killed_worker(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    marker = str(tmp_path / "died")
    audit = make_audit(models={"net": DiesOnce(marker)}, explainers=["smooth_grad", "gradient_shap"])
    one = audit.run(tmp_path / "one", workers=1).table()
    two = audit.run(tmp_path / "two", workers=2).table()
    assert os.path.exists(marker)
    pd.testing.assert_frame_equal(one, two, atol=1e-6, rtol=0)


def test_what_cannot_travel_is_said(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    prepared = make_audit(explainers=[lambda model, inputs, targets: inputs.clone()]).prepare()
    with pytest.raises(InputError, match="workers=1"):
        pickle_runner(JobRunner(prepared.problem, str(tmp_path), prepared.budgets))


def test_a_failing_explainer_is_a_record_and_the_rest_goes_on(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    audit = make_audit(explainers=["gradient", broken_explainer])
    with pytest.warns(Note, match="failed for broken_explainer: .*more than two rows"):
        result = audit.run(tmp_path)
    assert "breaks on more than two rows" in result.failures().set_index("explainer").loc["broken_explainer", "error"]
    table = result.table().set_index("explainer")
    assert table.loc["gradient", "value"] > 0.9999
    assert pd.isna(table.loc["broken_explainer", "value"])


@pytest.mark.subprocess
def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from small import series_inputs, small_net\nfrom veracity import Audit\nfrom veracity.perturb import CyclicShift\n"
        "Audit(models=small_net(), inputs=series_inputs(), explainers=['gradient'], symmetry=CyclicShift(axes=(-1,)), "
        f"scores=['equivariance'], controls=False).run({str(tmp_path / 'run')!r}, workers=2)\n"
    )
    _, errors = run_script(script)
    assert "put the script's code under if __name__ == '__main__':" in errors.splitlines()[-1]
    assert not list((tmp_path / "run").glob("failed/*"))
