"""A shard of a run: it measures its share of the jobs, or whatever is free, beside other shards on the same folder.

Whatever executor runs the jobs, a job is claimed where it starts. A shard with a number leaves to others what they have claimed. A shard
`auto` stays until every job is settled, and takes over those of shards that died.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from veracity.core.errors import InputError
from veracity.engine.executors import Executor
from veracity.engine.later import Later
from veracity.engine.loop import JobRunner
from veracity.engine.plan import Job, unfinished
from veracity.engine.progress import JobProgress
from veracity.engine.store import RunFolder
from veracity.engine.store.shards import Heart, Member, Share, alive, signs

LOOK = 1.0
"""Seconds between two looks at what other shards have done, at first; doubled up to the following."""
SELDOM = 10.0


@dataclass(frozen=True)
class ClaimingRunner(JobRunner):
    """Runs the jobs that it can claim for its shard, and leaves the others."""

    member: Member | None = None

    def run(self, job: Job, advance: Callable[[int], None], later: Later | None = None) -> None:
        """Claim and run a job."""
        if self.member is None or self.member.claim(job.base_key):
            super().run(job, advance, later)


def run_share(
    jobs: Sequence[Job], left: Sequence[Job], runner: JobRunner, executor: Executor, progress: JobProgress, member: Member, heart: Heart
) -> None:
    """Run the jobs of a shard: of all `jobs`, those of its share that are `left`."""
    mine = member.share.mine([job.base_key for job in jobs])
    claiming = ClaimingRunner(runner.problem, runner.folder, runner.budgets, runner.memory, member)
    told = CountedProgress(progress, heart)
    wanted = turned([job for job in left if job.base_key in mine], member.name)
    heart.sign = replace(heart.sign, jobs=len(wanted))
    if member.share.count:
        executor.run(wanted, claiming, told)
        return
    known: dict[str, str] = {}
    done: set[str] = set()
    pause = LOOK
    while wanted := still_open(wanted, member, done, known):
        free = free_jobs(wanted, member, known, [job.base_key for job in jobs])
        if free:
            executor.run(free, claiming, told)
            owners = member.owners({job.base_key for job in free}, known)
            done |= {key for key, owner in owners.items() if owner == member.name}
            pause = LOOK
        else:
            time.sleep(pause)
            pause = min(2 * pause, SELDOM)


class CountedProgress(JobProgress):
    """Moves a bar, and counts finished jobs in the signs of life."""

    def __init__(self, progress: JobProgress, heart: Heart) -> None:
        super().__init__(progress.move)
        self.heart = heart

    def finish(self, job: Job) -> None:
        """Count a job."""
        super().finish(job)
        self.heart.count()


def turned(jobs: list[Job], name: str) -> list[Job]:
    """The jobs in an order that begins elsewhere for every shard, so that two of them seldom want the same one."""
    start = sum(name.encode()) * 7919 % max(1, len(jobs))
    return jobs[start:] + jobs[:start]


def still_open(jobs: Sequence[Job], member: Member, done: set[str], known: dict[str, str]) -> list[Job]:
    """The jobs that nobody has settled: not done by this shard, and with cells that are neither measured nor, since they were claimed,
    recorded as failed.
    """
    folder = RunFolder(member.root)
    finished, failed = folder.finished(), folder.records.keys("failed")
    rest = unfinished([job for job in jobs if job.base_key not in done], finished - failed)
    owners = member.owners({job.base_key for job in rest}, known)
    return [job for job in rest if job.base_key not in owners or not all(cell.key in finished | failed for cell in job.cells)]


def free_jobs(jobs: Sequence[Job], member: Member, known: dict[str, str], every: list[str]) -> list[Job]:
    """The jobs that no shard at work has claimed, or will do because they are its share."""
    folder = RunFolder(member.root)
    there, now = signs(folder.files), folder.files.written(f"shards/{member.name}.json")
    working = {name for name, sign in there.items() if alive(folder.files, name, sign, now)}
    owners = member.owners({job.base_key for job in jobs}, known)
    theirs: set[str] = set()
    for name in working - {member.name}:
        share = Share.of(there[name].shard)
        theirs |= share.mine(every) if share.count else set()
    taken = {key for key, owner in owners.items() if owner in working and owner != member.name}
    return [job for job in jobs if job.base_key not in taken and (job.base_key in owners or job.base_key not in theirs)]


def check_same_plan(before: Mapping[str, Any], now: Mapping[str, Any], root: str) -> None:
    """Raise if a shard plans something else than the shards that are at work."""
    known, mine = before.get("versions") or {}, now["versions"]
    for name in (name for name in mine if name in known and name != "python" and known[name] != mine[name]):
        raise InputError(
            f"This shard has {name} {mine[name]}, and the run in {root} was planned with {name} {known[name]}: install the same versions "
            "wherever shards run."
        )
    keys = [{cell["key"] for cell in one.get("cells", ())} for one in (before, now)]
    if keys[0] != keys[1]:
        raise InputError(
            f"This shard plans {len(keys[1] - keys[0])} cells that the shards at work in {root} do not know, and misses "
            f"{len(keys[0] - keys[1])} of theirs: start every shard with the same audit file, data, models, batch and memory."
        )
