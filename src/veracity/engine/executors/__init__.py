"""Where jobs run: in this process, or in worker processes of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from veracity.engine.executors.local import Local, check_main
from veracity.engine.loop import JobRunner
from veracity.engine.plan import Job
from veracity.engine.progress import Watch

__all__ = ["Executor", "Inline", "Local", "check_main", "executor"]


class Executor(Protocol):
    """Runs jobs and tells how far each is."""

    def run(self, jobs: Sequence[Job], runner: JobRunner, watch: Watch) -> None:
        """Run every job once; a job that fails is a record in the folder, not an exception."""
        ...


class Inline:
    """Runs jobs one after the other in this process, each with all its threads."""

    def run(self, jobs: Sequence[Job], runner: JobRunner, watch: Watch) -> None:
        """Run every job in order."""
        for job in jobs:
            runner.run(job, partial(watch.moved, job))
            watch.ended(job)


def executor(workers: int) -> Executor:
    """In this process for one worker, in spawned ones for more."""
    return Inline() if workers <= 1 else Local(workers)
