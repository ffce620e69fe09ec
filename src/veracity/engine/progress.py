"""Bars with the time left, weighted by the passes that each job needs."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from html import escape
from typing import Protocol

from rich import progress as rich
from rich.console import Console
from rich.text import Text

from veracity.core.explainers import Cost
from veracity.core.wording import duration
from veracity.engine.plan import Job


def weight(cost: Cost) -> int:
    """The cost in forward passes; a backward pass costs about two, and a millisecond of foreign code about one."""
    return cost.forward + 2 * cost.backward + round(1000 * cost.seconds)


LATE = 2.0
"""Seconds after which the preparation of a run shows a bar."""
FIRST, EVERY = 10.0, 30.0
"""Seconds until the first line, and between lines, if the error stream is no terminal."""
OFTEN = 0.5
"""Seconds between two states of a bar in a notebook."""


class Advance(Protocol):
    """What moves a bar."""

    def __call__(self, steps: int, text: str = "", /) -> None:
        """Move the bar by some steps, and change its text if one is given."""


@contextmanager
def bar(description: str, total: int, enabled: bool = True, after: float = 0.0) -> Iterator[Advance]:
    """A bar on the error stream, or under the cell of a notebook; if that is no terminal, a line every half minute.

    It appears `after` some seconds, even if nothing has moved.
    """
    console = Console(stderr=True)
    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TaskProgressColumn(), TimeLeft())
    shown = rich.Progress(*columns, console=console, transient=True, disable=not (enabled and console.is_terminal))
    task = shown.add_task(description, total=total)
    timer = threading.Timer(after, shown.start)
    timer.daemon = True

    def advance(steps: int, text: str = "", /) -> None:
        shown.update(task, advance=steps, description=text[:40] or None)

    told: AbstractContextManager[None] = nullcontext()
    if enabled and not console.is_terminal:
        told = cell(shown.tasks[0], after) if console.is_jupyter else lines(description, shown.tasks[0], console)
    with told:
        (timer if after and not shown.disable else shown).start()
        try:
            yield advance
        finally:
            timer.cancel()
            if timer.is_alive():
                timer.join()
            shown.stop()


@contextmanager
def lines(description: str, task: rich.Task, console: Console) -> Iterator[None]:
    """Say from time to time how far a task is, for logs."""
    ended = threading.Event()

    def tell() -> None:
        wait = FIRST
        while not ended.wait(wait):
            console.print(line(description, task), highlight=False, soft_wrap=True)
            wait = EVERY

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def cell(task: rich.Task, after: float) -> Iterator[None]:
    """A bar under the cell of a notebook if it takes a while, which goes away at the end; plain HTML, so that no extension is needed."""
    from IPython.display import HTML, display

    ended = threading.Event()

    def tell() -> None:
        shown, wait = None, max(after, OFTEN)
        while not ended.wait(wait):
            text = escape(line(task.description, task))
            page = HTML(f'<progress max="100" value="{task.percentage:.0f}"></progress> <small>{text}</small>')
            if shown is None:
                shown = display(page, display_id=True)
            else:
                shown.update(page)
            wait = OFTEN
        if shown is not None:
            shown.update(HTML(""))

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def line(description: str, task: rich.Task) -> str:
    """How far a task is, and how long the rest takes once that is known."""
    share = f"{description}: {task.percentage:.0f} % after {duration(task.elapsed or 0.0)}"
    left = seconds_left(task)
    return share if left is None else f"{share}, about {duration(left)} left"


def seconds_left(task: rich.Task) -> float | None:
    """How long the rest of a task takes at its pace since the start, since the last moments are one explainer's; None if unknown."""
    if task.finished or not task.completed or task.total is None or task.elapsed is None:
        return None
    return task.elapsed * (task.total - task.completed) / task.completed


class TimeLeft(rich.ProgressColumn):
    """The time left beside a bar."""

    max_refresh = 0.5

    def render(self, task: rich.Task) -> Text:
        """Hours, minutes and seconds."""
        left = seconds_left(task)
        return Text("-:--:--" if left is None else str(timedelta(seconds=math.ceil(left))), style="progress.remaining")


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
