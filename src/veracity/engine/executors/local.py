"""Runs jobs in spawned, single-threaded processes of this machine.

A worker that dies is replaced and its job tried again; workers end with their parent, however it ends. Ctrl-C is the parent's
business alone: a terminal sends it to the workers too, and they never see it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

from veracity.core.errors import InputError, StoreError
from veracity.engine.executors.task import Task
from veracity.engine.plan import Job
from veracity.engine.progress import Watch, weight
from veracity.engine.store import RunFolder

TRIES = 2
SAY_EVERY = 0.2


CANNOT_TRAVEL = "Several workers need models and explainers that can be imported by name"
USE_ONE = "define them at the top of a module, or use workers=1."
NOT_STARTED = "A worker process could not start: put the script's code under if __name__ == '__main__':, or use workers=1."


@dataclass(frozen=True)
class Ready:
    """A worker's first word: it has the task, or why it cannot read it."""

    trouble: str = ""


@dataclass(frozen=True)
class Ended:
    """A worker's last word on a job: done, or why the folder could not take it."""

    trouble: str = ""


@dataclass
class Worker:
    """One process, the pipe to it, and what it is doing."""

    process: BaseProcess
    pipe: Connection
    job: Job | None = None
    ready: bool = False


class Local:
    """The executor of several workers."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, jobs: Sequence[Job], task: Task, watch: Watch) -> None:
        """Hand out jobs, the largest first, until none is left."""
        payload = packed(task)
        queue = deque(sorted(jobs, key=lambda job: -weight(job.cost)))
        tries: Counter[str] = Counter()
        crew: list[Worker] = []
        try:
            while len(crew) < min(self.workers, len(queue)):
                crew.append(hire(payload))
            while queue or any(worker.job for worker in crew):
                for worker in crew:
                    if worker.job is None and queue:
                        worker.job = queue.popleft()
                        assign(worker)
                for pipe in wait([worker.pipe for worker in crew if worker.job]):
                    worker = next(worker for worker in crew if worker.pipe is pipe)
                    job = worker.job
                    if job is None:
                        continue
                    try:
                        said = worker.pipe.recv()
                    except (EOFError, ConnectionError):
                        if not worker.ready:
                            raise InputError(NOT_STARTED) from None
                        crew[crew.index(worker)] = hire(payload)
                        job = job.without(RunFolder(task.folder).finished())
                        tries[job.base_key] += 1
                        if tries[job.base_key] < TRIES:
                            queue.appendleft(job)
                            continue
                        task.fail(job, f"The worker process died {TRIES} times on this job (out of memory?).")
                        said = Ended()
                    if isinstance(said, Ready):
                        worker.ready = True
                        if said.trouble:
                            raise InputError(f"{CANNOT_TRAVEL} ({said.trouble}): {USE_ONE}")
                        continue
                    if isinstance(said, int):
                        watch.moved(job, said)
                        continue
                    if said.trouble:
                        raise StoreError(said.trouble)
                    worker.job = None
                    watch.ended(job)
        finally:
            for worker in crew:
                worker.process.terminate()
            for worker in crew:
                worker.process.join()
                worker.pipe.close()


def packed(task: Task) -> bytes:
    """The task as bytes for this machine's own workers, or a sentence on why it cannot travel."""
    try:
        return pickle.dumps(task)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(f"{CANNOT_TRAVEL} ({error}): {USE_ONE}") from error


def hire(payload: bytes) -> Worker:
    """Start a worker."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, payload), daemon=True)
    with interruption_held_back():
        process.start()
    there.close()
    return Worker(process, here)


@contextmanager
def interruption_held_back() -> Iterator[None]:
    """Ctrl-C takes effect only after this block, and never in a process that is started within it.

    A new process inherits the blocked signal, so that it is deaf to it even while it imports. The resource tracker is started
    before, since its start would unblock the signal.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()
    came: list[int] = []
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if handler is not None:
        signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


def assign(worker: Worker) -> None:
    """Send the worker its job; a worker that is gone is noticed when its answer is read."""
    try:
        worker.pipe.send(worker.job)
    except (BrokenPipeError, ConnectionError):
        return


def serve(pipe: Connection, payload: bytes) -> None:
    """A worker's life: one job at a time until the pipe closes or the parent is gone."""
    follow_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    with suppress(EOFError, ConnectionError):
        try:
            task: Task = pickle.loads(payload)
        except (pickle.UnpicklingError, AttributeError, ImportError) as error:
            pipe.send(Ready(str(error)))
            return
        pipe.send(Ready())
        while True:
            job: Job = pipe.recv()
            try:
                task.perform(job, Sayings(pipe))
            except StoreError as error:
                pipe.send(Ended(str(error)))
            else:
                pipe.send(Ended())


class Sayings:
    """Tells the parent how many passes were made, a few times a second."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe, self.passes, self.last = pipe, 0, time.monotonic()

    def __call__(self, passes: int) -> None:
        """Some more passes."""
        self.passes += passes
        if time.monotonic() - self.last > SAY_EVERY:
            self.pipe.send(self.passes)
            self.passes, self.last = 0, time.monotonic()


def follow_parent() -> None:
    """End this process as soon as its parent ends."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
