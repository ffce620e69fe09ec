"""Runs jobs one after the other in this process.

What a worker is given, and how it runs one job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from veracity.core.errors import StoreError, error_text
from veracity.engine.loop import run_job
from veracity.engine.memory import Budget
from veracity.engine.plan import Job
from veracity.engine.problem import Problem
from veracity.engine.progress import Watch
from veracity.engine.store import RunFolder


class Inline:
    """The executor of a single worker: all threads of this process serve one job."""

    def run(self, jobs: Sequence[Job], task: Task, watch: Watch) -> None:
        """Run every job in order."""
        for job in jobs:
            task.perform(job, partial(watch.moved, job))
            watch.ended(job)


@dataclass(frozen=True)
class Task:
    """The problem, the folder that takes the results, and the row budget of each model."""

    problem: Problem
    folder: str
    budgets: dict[str, Budget]

    def perform(self, job: Job, moved: Callable[[int], None]) -> None:
        """Run a job; whatever a model or an explainer throws becomes the record of the cells that it left undone."""
        folder = RunFolder(self.folder)
        try:
            run_job(job, self.problem, folder, self.budgets[job.model], moved)
        except StoreError:
            raise
        except Exception as error:
            self.fail(job, error_text(error))

    def fail(self, job: Job, reason: str) -> None:
        """Record why the job's unfinished cells are missing."""
        folder = RunFolder(self.folder)
        for cell in job.cells:
            if not folder.has(cell.key):
                folder.write_failure(cell.key, reason)
