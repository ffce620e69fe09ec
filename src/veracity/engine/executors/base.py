"""What an executor is: it runs the jobs of a plan, wherever it likes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from veracity.core.component import Component
from veracity.core.settings import Count
from veracity.engine.loop import JobRunner
from veracity.engine.plan import Job
from veracity.engine.progress import Watch


@dataclass(frozen=True, kw_only=True)
class Executor(Component, ABC):
    """Runs jobs and reports their progress. Which executor runs a job never affects its numbers."""

    role = "executor"
    workers: Count = 1

    @abstractmethod
    def run(self, jobs: Sequence[Job], runner: JobRunner, watch: Watch) -> None:
        """Run every job once: `runner.run(job, partial(watch.moved, job))`, then `watch.ended(job)`.

        `runner` can be pickled and writes into the run folder. A job that fails is a record in the folder, not an exception.
        """
