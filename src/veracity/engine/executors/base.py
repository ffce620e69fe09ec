"""What an executor is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from veracity.core.component import Component
from veracity.engine.loop import JobRunner
from veracity.engine.plan import Job
from veracity.engine.progress import JobProgress


@dataclass(frozen=True, kw_only=True)
class Executor(Component, ABC):
    """Runs jobs and reports their progress. The choice of executor never affects numbers."""

    role = "executor"

    def check(self) -> None:
        """Raise at once, before anything is prepared, if jobs could not run."""

    @abstractmethod
    def run(self, jobs: Sequence[Job], runner: JobRunner, progress: JobProgress) -> None:
        """Run every job once: `runner.run(job, partial(progress.advance, job))`, then `progress.finish(job)`.

        `runner` can be pickled and writes into the run folder. A job that fails is a record in the folder, not an exception.
        """
