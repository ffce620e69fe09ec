from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn

from small import small_net
from veracity import Audit, audit
from veracity.engine import preliminaries, progress
from veracity.engine.executors import Inline
from veracity.engine.loop import JobRunner
from veracity.engine.progress import JobProgress, weight
from veracity.engine.store import RunFolder


def test_the_bar_reaches_its_end_exactly_and_moves_within_a_job(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    prepared = make_audit(explainers=["integrated_gradients"]).prepare(batch=100)
    steps: list[int] = []
    Inline().run(
        prepared.jobs, JobRunner(prepared.problem, str(tmp_path), prepared.budgets), JobProgress(lambda step, text: steps.append(step))
    )
    assert sum(steps) == sum(weight(job.cost) for job in prepared.jobs)
    assert len([step for step in steps if step]) > 20


class Slow(nn.Module):
    """A network that takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(0.1)
        out: Tensor = self.net(x)
        return out


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal is shown."""
    shown = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(file=shown, force_terminal=True, width=100))
    return shown


def time_left(shown: io.StringIO, text: str) -> list[str]:
    """The times that were left while something was under way."""
    return re.findall(rf"{text}[^\r\n]*[1-9]\d?%\S* \S*(\d+:\d\d:\d\d)", shown.getvalue().replace("100%", ""))


def test_looking_at_a_slow_model_says_how_long_it_will_take(
    make_audit: Callable[..., Audit], terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "LATE", 0.1)
    make_audit(models={"net": Slow()}, explainers=["gradient"]).prepare(batch=1, progress=True)
    assert time_left(terminal, "looking at net")


def test_a_slow_calibration_says_how_long_it_will_take(
    make_audit: Callable[..., Audit], tmp_path: Path, terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LATE", 0.1), ("DRAWS", 4), ("MOST_DRAWS", 4)):
        monkeypatch.setattr(preliminaries, name, value)
    prepared = make_audit(models={"net": Slow()}, explainers=["gradient"], scores=["fast_gef"], controls=False, companions=False).prepare()
    preliminaries.calibrate_all(prepared.problem, prepared.budgets, RunFolder(str(tmp_path)))
    assert time_left(terminal, "calibrating net")


def test_the_time_left_follows_the_pace_since_the_start() -> None:
    clock = [0.0]
    shown = Progress(get_time=lambda: clock[0], disable=True)
    shown.add_task("auditing", total=100)
    task = shown.tasks[0]
    assert progress.seconds_left(task) is None
    for second, steps in ((10.0, 2), (20.0, 2), (20.1, 16)):
        clock[0] = second
        shown.update(task.id, advance=steps)
    assert progress.seconds_left(task) == pytest.approx(20.1 * 80 / 20)
    assert progress.line("auditing", task) == "auditing: 20 % after 20 s, about 1 min 20 s left"
    shown.update(task.id, advance=80)
    assert progress.seconds_left(task) is None


def test_a_quick_preparation_shows_nothing(make_audit: Callable[..., Audit], terminal: io.StringIO) -> None:
    make_audit(explainers=["gradient"]).prepare(progress=True)
    assert terminal.getvalue() == ""


def test_a_bar_appears_while_nothing_moves(terminal: io.StringIO) -> None:
    with progress.bar("thinking", 3, after=0.05):
        time.sleep(0.5)
    assert "thinking" in terminal.getvalue()


def test_a_log_gets_a_line_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(file=shown, force_terminal=False, width=40))
    monkeypatch.setattr(progress, "FIRST", 0.05)
    monkeypatch.setattr(progress, "EVERY", 0.05)
    with progress.bar("auditing", 4) as advance:
        for _ in range(3):
            advance(1, "net / gradient")
            time.sleep(0.1)
    lines = shown.getvalue().splitlines()
    assert len(lines) >= 3
    assert re.fullmatch(r"auditing: (25|50|75) % after \d+ s(, about \d+ s left)?", lines[0])
    assert any("left" in line for line in lines)


def test_a_quick_run_leaves_a_log_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(file=shown, force_terminal=False, width=40))
    with progress.bar("auditing", 2) as advance:
        advance(2)
    with progress.bar("auditing", 2, enabled=False):
        time.sleep(0.05)
    assert shown.getvalue() == ""


def test_a_notebook_has_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[str] = []
    shown = SimpleNamespace(update=pages.append)
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(
        sys.modules, "IPython.display", SimpleNamespace(HTML=str, display=lambda page, display_id: pages.append(page) or shown)
    )
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(file=io.StringIO(), force_jupyter=True))
    monkeypatch.setattr(progress, "OFTEN", 0.01)
    with progress.bar("auditing", 4) as advance:
        advance(1, "net / <b>")
        time.sleep(0.1)
    assert '<progress max="100" value="25"></progress> <small>net / &lt;b&gt;: 25 %' in pages[-2]
    assert pages[-1] == ""
