"""Where jobs run: in this process, in worker processes of this machine, on a cluster, or wherever a plugin's executor sends them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from multiprocessing.process import current_process

from veracity.core.errors import InputError, SpecError
from veracity.core.registry import EXECUTORS
from veracity.core.settings import Count, short_repr
from veracity.engine.executors.base import Executor
from veracity.engine.executors.cluster import Ray
from veracity.engine.executors.local import UNGUARDED, WorkerPool
from veracity.engine.later import Later
from veracity.engine.loop import JobRunner, forget_jobs
from veracity.engine.plan import Job
from veracity.engine.progress import JobProgress


@EXECUTORS.add
@dataclass(frozen=True, kw_only=True)
class Inline(Executor):
    """Runs one job after the other in this process, with all of its threads."""

    name = "inline"

    def run(self, jobs: Sequence[Job], runner: JobRunner, progress: JobProgress) -> None:
        """Run the jobs in their order."""
        try:
            with Later() as later:
                for job in jobs:
                    runner.run(job, partial(progress.advance, job), later)
                    progress.finish(job)
        finally:
            forget_jobs()


@EXECUTORS.add
@dataclass(frozen=True, kw_only=True)
class Local(Executor):
    """Runs jobs in `workers` processes of this machine, the largest jobs first."""

    name = "local"
    workers: Count = 1

    def run(self, jobs: Sequence[Job], runner: JobRunner, progress: JobProgress) -> None:
        """Hand out jobs until none is left."""
        WorkerPool(self.workers, jobs, runner, progress).run()


def as_executor(given: Executor | str | None, workers: int) -> Executor:
    """The given executor, the one of this name, or `inline` for one worker and `local` for more.

    >>> as_executor(None, 1).name, as_executor(None, 2).name, as_executor("local", 3).workers
    ('inline', 'local', 3)
    """
    if given is None:
        return Inline() if workers == 1 else Local(workers=workers)
    if isinstance(given, str):
        sized = any(item.name == "workers" for item in fields(EXECUTORS[given]))
        made: Executor = EXECUTORS.build({"name": given, "workers": workers} if sized else given)
        return made
    if not isinstance(given, Executor):
        raise SpecError(f"An executor is a name or an Executor, not {short_repr(given)}. See: veracity ls executors")
    return given


def check_main() -> None:
    """Raise in a worker process that imports the user's script if the script has no `__main__` guard."""
    if getattr(current_process(), "_inheriting", False):
        raise InputError(UNGUARDED)
