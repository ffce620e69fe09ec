"""A bar with the time left, weighted by the passes that each job needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich import progress as rich
from rich.console import Console

from veracity.engine.plan import Job


def weight(job: Job) -> int:
    """How long a job takes, in forward passes; a backward pass costs about two."""
    return 1 + job.cost.forward + 2 * job.cost.backward


@contextmanager
def bar(description: str, total: int, enabled: bool = True) -> Iterator[Callable[[int, str], None]]:
    """A bar with the time left on the terminal's error stream, silent where there is none; call it to move on."""
    console = Console(stderr=True)
    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TaskProgressColumn(), rich.TimeRemainingColumn())
    with rich.Progress(*columns, console=console, transient=True, disable=not (enabled and console.is_terminal)) as shown:
        task = shown.add_task(description, total=total)
        yield lambda advance, text: shown.update(task, advance=advance, description=text[:40])


@contextmanager
def over_jobs(jobs: Sequence[Job], enabled: bool = True) -> Iterator[Callable[[Job], None]]:
    """A bar over jobs; call it with each job that has ended."""
    with bar("auditing", sum(weight(job) for job in jobs), enabled) as advance:
        yield lambda job: advance(weight(job), f"{job.model} / {job.explainer or 'model'}")
