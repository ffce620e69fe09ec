"""Bars with the time left, weighted by the passes that each job needs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich import progress as rich
from rich.console import Console

from veracity.core.explainers import Cost
from veracity.engine.memory import Budget
from veracity.engine.plan import Job


def weight(cost: Cost) -> int:
    """How long passes take, in forward ones; a backward pass costs about two."""
    return cost.forward + 2 * cost.backward


LATE = 2.0
"""After so many seconds the preparation of a run shows how far it is."""


@contextmanager
def bar(description: str, total: int, enabled: bool = True, after: float = 0.0) -> Iterator[Callable[[int, str], None]]:
    """A bar on the terminal's error stream, silent where there is none; call it to move on.

    It appears after some seconds, by itself, even while nothing moves.
    """
    console = Console(stderr=True)
    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TaskProgressColumn(), rich.TimeRemainingColumn())
    shown = rich.Progress(*columns, console=console, transient=True, disable=not (enabled and console.is_terminal))
    task = shown.add_task(description, total=total)
    timer = threading.Timer(after, shown.start)
    timer.daemon = True
    (timer if after and not shown.disable else shown).start()
    try:
        yield lambda advance, text: shown.update(task, advance=advance, description=text[:40])
    finally:
        timer.cancel()
        if timer.is_alive():
            timer.join()
        shown.stop()


def telling(advance: Callable[[int, str], None], text: str) -> Callable[[int], None]:
    """Move a bar on that always says the same."""
    return lambda step: advance(step, text)


class CountingBudget(Budget):
    """A row budget that tells how many rows have been spent."""

    def __init__(self, rows: int, heard: Callable[[int], object]) -> None:
        super().__init__(rows)
        self.heard = heard

    def spend(self, count: int, rows_each: int, work: Callable[[slice], None]) -> None:
        """Do the work, and tell of each part that is done."""

        def told(part: slice) -> None:
            work(part)
            self.heard(part.stop - part.start)

        super().spend(count, rows_each, told)


class Watch:
    """Told by an executor how far each job is."""

    def __init__(self, advance: Callable[[int, str], None]) -> None:
        self.advance = advance
        self.done: Counter[str] = Counter()

    def moved(self, job: Job, passes: int) -> None:
        """A job has made some more of its passes."""
        step = min(passes, weight(job.cost) - self.done[job.base_key])
        self.done[job.base_key] += step
        self.advance(step, f"{job.model} / {job.explainer or 'model'}")

    def ended(self, job: Job) -> None:
        """A job has ended, however many passes it took."""
        self.moved(job, weight(job.cost))


@contextmanager
def watching(jobs: Sequence[Job], enabled: bool = True) -> Iterator[Watch]:
    """A bar over jobs."""
    with bar("auditing", sum(weight(job.cost) for job in jobs), enabled) as advance:
        yield Watch(advance)
