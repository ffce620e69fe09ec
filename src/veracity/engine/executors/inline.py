"""Runs jobs one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from veracity.engine.executors.task import Task
from veracity.engine.plan import Job


class Inline:
    """The executor of a single worker: all threads of this process serve one job."""

    def run(self, jobs: Sequence[Job], task: Task, ended: Callable[[Job], None]) -> None:
        """Run every job in order."""
        for job in jobs:
            task.perform(job)
            ended(job)
