"""Where jobs run: here, or in workers of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from veracity.engine.executors.inline import Inline, Task
from veracity.engine.executors.local import Local, check_main
from veracity.engine.plan import Job
from veracity.engine.progress import Watch


class Executor(Protocol):
    """Runs jobs and tells how far each is."""

    def run(self, jobs: Sequence[Job], task: Task, watch: Watch) -> None:
        """Run every job once; a job that fails is a record in the folder, not an exception."""
        ...


def executor(workers: int) -> Executor:
    """In this process for one worker, in spawned ones for more."""
    return Inline() if workers <= 1 else Local(workers)
