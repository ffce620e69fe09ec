"""Runs jobs as tasks of a Ray cluster.

Models and data are put into the object store once, and every worker process takes them from there once. Workers write their cells straight
into the run folder, which must be on storage that all nodes share, or in a bucket. Joining and leaving nodes are Ray's business. A
task whose worker or node died is given out again, without the cells that it had finished.
"""

from __future__ import annotations

import math
import os
import socket
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from veracity.core.errors import InputError, StoreError, VeracityError, error_text, warn
from veracity.core.registry import EXECUTORS
from veracity.core.settings import NonNegative, Positive
from veracity.engine.executors.base import Executor
from veracity.engine.executors.local import CANNOT_TRAVEL, TRIES
from veracity.engine.loop import JobRunner, forget_jobs
from veracity.engine.memory import CPU_MEMORY, gpu_limit, gpus_of
from veracity.engine.plan import Job
from veracity.engine.progress import JobProgress, weight
from veracity.engine.store import RunFolder
from veracity.engine.versions import versions

AHEAD = 4
"""How many tasks are given out for each that can run, so that no node waits for this process."""
PATIENCE = 5.0
"""Seconds that an address has to answer."""
LOOK_EVERY = 1.0
"""Seconds between two looks at the cluster's size."""


@EXECUTORS.add
@dataclass(frozen=True, kw_only=True)
class Ray(Executor):
    """Runs jobs as tasks of a Ray cluster, the largest jobs first (extra `ray`).

    `address` is that of the head, such as "10.0.0.1:6379"; "auto" finds the cluster of this machine or of $RAY_ADDRESS; "local" starts one
    on this machine and ends it afterwards. Every job gets `cpus` CPUs and `gpus` GPUs (by default a whole one if the models are on a
    GPU), and declares the memory budget of a worker. A process that has called `ray.init` itself keeps that connection.
    """

    name = "ray"
    address: str = "auto"
    cpus: Positive = 1
    gpus: NonNegative | None = None

    def check(self) -> None:
        """Raise if Ray is missing, or nothing answers at the address."""
        if not imported().is_initialized():
            check_address(self.address)

    def run(self, jobs: Sequence[Job], runner: JobRunner, progress: JobProgress) -> None:
        """Give out the jobs until none is left."""
        if jobs:
            with connected(self.address) as ray:
                Tasks(ray, self, jobs, runner, progress).run()

    def resources(self, runner: JobRunner) -> dict[str, float]:
        """What one job takes, as Ray names it."""
        on_gpu = bool(gpus_of(model.module for model in runner.problem.models.values()))
        gpus = (1.0 if on_gpu else 0.0) if self.gpus is None else self.gpus
        if on_gpu and not gpus:
            raise InputError("The models are on a GPU, and Ray(gpus=0) hides GPUs from the workers: give gpus=1, or a part such as 0.25.")
        return {"num_cpus": self.cpus, "num_gpus": gpus, "memory": CPU_MEMORY if on_gpu or runner.memory is None else runner.memory}


class Tasks:
    """The jobs of one run as tasks, and how often a worker died on each."""

    def __init__(self, ray: Any, executor: Ray, jobs: Sequence[Job], runner: JobRunner, progress: JobProgress) -> None:
        self.ray, self.runner, self.progress = ray, runner, progress
        self.queue = deque(sorted(jobs, key=lambda job: -weight(job.cost)))
        self.whole = {job.base_key: job for job in jobs}
        self.deaths: Counter[str] = Counter()
        self.running: dict[Any, Job] = {}
        self.known, self.looked = 1, -math.inf
        self.needs = executor.resources(runner)
        self.task = ray.remote(**self.needs, max_retries=0, max_calls=0)(run_job)
        try:
            self.given = [ray.put(runner)]
        except (TypeError, AttributeError, ValueError) as error:
            raise InputError(CANNOT_TRAVEL.format(error)) from error
        self.about = Expected(uuid.uuid4().hex, versions(), runner.folder, RunFolder(runner.folder).run)

    def run(self) -> None:
        """Give out tasks and wait for them until nothing is left to do."""
        self.check_room()
        try:
            while self.queue or self.running:
                while self.queue and len(self.running) < self.room():
                    job = self.queue.popleft()
                    self.running[self.task.remote(self.given, self.about, job)] = job
                ended, _ = self.ray.wait(list(self.running), num_returns=1, timeout=LOOK_EVERY)
                for reference in ended:
                    self.end(reference, self.running.pop(reference))
        finally:
            for reference in self.running:
                self.ray.cancel(reference, force=True)

    def slots(self) -> int:
        """How many jobs can run at once, by the last look at the cluster."""
        if time.monotonic() - self.looked >= LOOK_EVERY:
            self.known, self.looked = self.count_slots(), time.monotonic()
        return self.known

    def count_slots(self) -> int:
        """How many jobs can run at once now."""
        there, wanted = self.ray.cluster_resources(), {"CPU": self.needs["num_cpus"], "GPU": self.needs["num_gpus"]}
        return max(1, min(int(there.get(name, 0) / amount) for name, amount in wanted.items() if amount))

    def room(self) -> int:
        """How many tasks may be given out."""
        return AHEAD * self.slots()

    def check_room(self) -> None:
        """Say so if no node is large enough for a job; one may join."""
        wanted = {"CPU": self.needs["num_cpus"], "GPU": self.needs["num_gpus"], "memory": self.needs["memory"]}
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        if not any(all(node.get(name, 0) >= amount for name, amount in wanted.items()) for node in nodes):
            words = f"{wanted['CPU']:g} CPUs, {wanted['GPU']:g} GPUs and {wanted['memory'] / 2**30:.1f} GiB"
            warn(f"None of the {len(nodes)} nodes of the Ray cluster has {words} for a job: the run waits until one joins.")

    def end(self, reference: Any, job: Job) -> None:
        """Count a finished job, or give one out again whose worker died."""
        errors = self.ray.exceptions
        try:
            self.ray.get(reference)
        except errors.RayTaskError as error:
            cause = error.cause
            raise cause if isinstance(cause, VeracityError) else InputError(f"A Ray worker failed with {error_text(cause)}") from None
        except (errors.LocalRayletDiedError, errors.RaySystemError, errors.RuntimeEnvSetupError, errors.TaskUnschedulableError) as error:
            raise InputError(f"The Ray cluster failed ({first_line(error)}): run the same command again, which resumes.") from error
        except errors.RayError as error:
            self.again(job, error)
        else:
            self.progress.finish(self.whole[job.base_key])

    def again(self, job: Job, error: Exception) -> None:
        """Put what is left of a job back into the queue, or record why it failed after too many deaths."""
        folder = RunFolder(self.runner.folder)
        left = job.without(folder.finished() - folder.incomplete())
        before = 0 if len(left.cells) < len(job.cells) else self.deaths[job.base_key]
        self.deaths[job.base_key] = before + 1
        if left.cells and before + 1 < TRIES:
            self.queue.append(left)
            return
        self.runner.fail(left, f"The Ray worker died {TRIES} times on this job; the last time: {first_line(error)}")
        self.progress.finish(self.whole[job.base_key])


@dataclass(frozen=True)
class Expected:
    """What a worker must have in common with the process that gives out the jobs."""

    runner: str
    versions: Mapping[str, str]
    folder: str
    run: str

    def check(self) -> None:
        """Raise if this worker has other versions, or does not see the run folder."""
        node, mine = socket.gethostname(), versions()
        for name, wanted in self.versions.items():
            if name in mine and mine[name] != wanted:
                raise InputError(
                    f"The node {node} has {name} {mine[name]}, and the process that gives out the jobs {name} {wanted}: install the same "
                    "versions on all nodes."
                )
        if RunFolder(self.folder).run != self.run:
            raise StoreError(
                f"The node {node} does not see the run folder {self.folder}: put it on storage that all nodes share, or in a bucket."
            )


RUNNERS: dict[str, JobRunner] = {}
"""The runner of this worker process, by its name."""


def run_job(given: Sequence[Any], about: Expected, job: Job) -> None:
    """One task: take the runner from the object store if this process does not have it yet, and run a job."""
    if about.runner not in RUNNERS:
        import ray

        torch.set_num_threads(1)
        about.check()
        RUNNERS.clear()
        forget_jobs()  # of the run before
        RUNNERS[about.runner] = ray.get(given[0])
    runner = RUNNERS[about.runner]
    with gpu_limit((model.module for model in runner.problem.models.values()), runner.memory):
        runner.run(job, lambda passes: None)


def imported() -> Any:
    """Ray, or the error that says how to get it."""
    try:
        import ray
    except ImportError as error:
        raise InputError("The executor 'ray' needs Ray: pip install 'veracity[ray]'.") from error
    return ray


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster; the connection is closed afterwards unless it was there before."""
    ray = imported()
    if ray.is_initialized():
        yield ray
        return
    check_address(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", include_dashboard=False if address == "local" else None)
    except ConnectionError as error:
        raise (refused(address, error) if named(address) else no_cluster(address, error)) from error
    except Exception as error:  # such as another version of Ray or Python
        raise InputError(f"The Ray cluster at '{address}' refused this process: {' '.join(str(error).split())[:300]}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def check_address(address: str) -> None:
    """Raise if nothing answers at an address; Ray itself would wait for a minute."""
    place = named(address)
    if not place:
        return
    host, _, port = place.removeprefix("ray://").rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()):
        raise InputError(f"'{place}' is not an address of a Ray cluster: give host:port, such as '10.0.0.1:6379', 'auto' or 'local'.")
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise no_cluster(place, error) from error


def named(address: str) -> str:
    """The host and port that an address stands for; "" if Ray has to find or start the cluster."""
    place = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    return "" if place in ("auto", "local") else place


def refused(address: str, error: Exception) -> InputError:
    """The error for an address that answers and takes no connection."""
    return InputError(
        f"Something listens at '{address}', but Ray cannot connect to it ({first_line(error)}): is this the port of a Ray head, and is "
        "$RAY_AUTH_TOKEN the token of that cluster?"
    )


def no_cluster(address: str, error: Exception) -> InputError:
    """The error for an address where there is no cluster."""
    return InputError(
        f"There is no Ray cluster at '{address}' ({first_line(error)}): start one with 'ray start --head', give the address of its head, "
        "such as '10.0.0.1:6379', or use address='local'."
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")
