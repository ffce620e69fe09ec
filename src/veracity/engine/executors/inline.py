"""Runs jobs one after the other in this process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from veracity.engine.executors.task import Task
from veracity.engine.plan import Job
from veracity.engine.progress import Watch


class Inline:
    """The executor of a single worker: all threads of this process serve one job."""

    def run(self, jobs: Sequence[Job], task: Task, watch: Watch) -> None:
        """Run every job in order."""
        for job in jobs:
            task.perform(job, partial(watch.moved, job))
            watch.ended(job)
