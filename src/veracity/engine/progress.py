"""Bars with the time left, weighted by the passes that each job needs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich import progress as rich
from rich.console import Console

from veracity.core.explainers import Cost
from veracity.engine.plan import Job


def weight(cost: Cost) -> int:
    """The cost in forward passes; a backward pass costs about two, and a millisecond of foreign code about one."""
    return cost.forward + 2 * cost.backward + round(1000 * cost.seconds)


LATE = 2.0
"""Seconds after which the preparation of a run shows a bar."""


class Advance(Protocol):
    """What moves a bar."""

    def __call__(self, steps: int, text: str = "", /) -> None:
        """Move the bar by some steps, and change its text if one is given."""


@contextmanager
def bar(description: str, total: int, enabled: bool = True, after: float = 0.0) -> Iterator[Advance]:
    """A bar on the error stream, if that is a terminal.

    It appears `after` some seconds, even if nothing has moved.
    """
    console = Console(stderr=True)
    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TaskProgressColumn(), rich.TimeRemainingColumn())
    shown = rich.Progress(*columns, console=console, transient=True, disable=not (enabled and console.is_terminal))
    task = shown.add_task(description, total=total)
    timer = threading.Timer(after, shown.start)
    timer.daemon = True

    def advance(steps: int, text: str = "", /) -> None:
        shown.update(task, advance=steps, description=text[:40] or None)

    (timer if after and not shown.disable else shown).start()
    try:
        yield advance
    finally:
        timer.cancel()
        if timer.is_alive():
            timer.join()
        shown.stop()


class JobProgress:
    """Moves a bar as executors report how far each job is."""

    def __init__(self, move: Callable[[int, str], None]) -> None:
        self.move = move
        self.done: Counter[str] = Counter()

    def advance(self, job: Job, passes: int) -> None:
        """Count further passes of a job."""
        step = min(passes, weight(job.cost) - self.done[job.base_key])
        self.done[job.base_key] += step
        self.move(step, f"{job.model} / {job.explainer or 'model'}")

    def finish(self, job: Job) -> None:
        """Count all passes of a job, however many it took."""
        self.advance(job, weight(job.cost))
