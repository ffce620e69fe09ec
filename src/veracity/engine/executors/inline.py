"""Jobs in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from veracity.core.registry import EXECUTORS
from veracity.engine.executors.base import Executor
from veracity.engine.loop import JobRunner
from veracity.engine.plan import Job
from veracity.engine.progress import Watch


@EXECUTORS.add
@dataclass(frozen=True, kw_only=True)
class Inline(Executor):
    """Runs jobs one after the other in this process, each with all its threads."""

    name = "inline"

    def run(self, jobs: Sequence[Job], runner: JobRunner, watch: Watch) -> None:
        """Run every job in order."""
        for job in jobs:
            runner.run(job, partial(watch.moved, job))
            watch.ended(job)
