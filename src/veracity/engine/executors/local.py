"""Runs jobs in spawned, single-threaded processes of this machine.

A worker that dies is replaced, also while it starts, and its job is tried again. Workers end with their parent, however it ends. Only the
parent reacts to Ctrl-C: a terminal sends it to the workers too, and they ignore it.
"""

from __future__ import annotations

import codecs
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from veracity.core.errors import InputError, StoreError, error_text
from veracity.engine.loop import JobRunner
from veracity.engine.memory import gpu_limit
from veracity.engine.plan import Job
from veracity.engine.progress import JobProgress, weight
from veracity.engine.store import RunFolder

TRIES = 5
"""How many workers may die on a job, with none of its cells finished in between, before its cells are recorded as failed."""
FAILED, KILLED = 3, 10
"""How many starts in a row may fail by themselves, and how many in all, before no more workers are started."""
SAY_EVERY = 0.2
"""Seconds between two messages of a worker about its progress."""
LOOK_EVERY = 1.0
"""Seconds between two checks whether workers are alive, in case no event announces a death."""
GRACE = 5.0
"""Seconds that a worker has to end."""
TAIL = 4000
"""How many characters of a worker's error stream are kept."""

CANNOT_TRAVEL = (
    "Several workers need models and explainers that can be imported by name ({}): define them at the top of a module, or use workers=1."
)
UNGUARDED = (
    "Every worker process imports this script, which starts the audit again: put the script's code under if __name__ == '__main__':, "
    "or use workers=1."
)
BOOTSTRAPPING = "current process has finished its bootstrapping phase"


@dataclass(frozen=True)
class Message:
    """What a worker tells its parent; `trouble` says what went wrong."""

    trouble: str = ""


class Awake(Message):
    """The worker has imported everything and waits for the runner."""


class Ready(Message):
    """The worker has the runner, or cannot read it."""


class Ended(Message):
    """The job is done, or the folder could not take its results."""


class Worker:
    """One process, the pipe to it, its error stream, and its job."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, there = context.Pipe()
        self.errors = ErrorStream()
        self.process: BaseProcess = context.Process(target=serve, args=(there,), daemon=True)
        self.job: Job | None = None
        self.ready = False
        try:
            with block_interrupts(), self.errors.redirect():
                self.process.start()
        except OSError:
            self.pipe.close()
            self.errors.close()
            raise
        finally:
            there.close()  # with the child's end open here too, its death would go unnoticed

    def handles(self) -> list[int]:
        """What to wait for besides the pipe."""
        return [self.process.sentinel, *self.errors.open()]

    def messages(self) -> Iterator[Any]:
        """What the worker has sent; raises EOFError if it is dead."""
        self.errors.relay()
        alive = self.process.exitcode is None
        while self.pipe.poll():
            try:
                message = self.pipe.recv()
            except OSError as error:
                raise EOFError from error
            yield message
        if not alive:
            raise EOFError

    def end(self, grace: float = GRACE) -> str:
        """Make sure that the process has ended, and say how it did."""
        self.process.join(grace)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join(GRACE)
        self.errors.relay()
        self.errors.close()
        self.pipe.close()
        return ending(self.process.exitcode, last_words(self.errors.tail))


class WorkerPool:
    """The jobs of one run, the workers on them, and how often workers died."""

    def __init__(self, workers: int, jobs: Sequence[Job], runner: JobRunner, progress: JobProgress) -> None:
        self.workers, self.runner, self.progress = workers, runner, progress
        self.payload = pickle_runner(runner)
        self.queue = deque(sorted(jobs, key=lambda job: -weight(job.cost)))
        self.whole = {job.base_key: job for job in jobs}
        self.crew: list[Worker] = []
        self.deaths: Counter[str] = Counter()
        self.failed_starts: list[bool] = []
        """One entry per failed start since the last success: whether the process was killed."""

    def run(self) -> None:
        """Start workers, hand out jobs and listen until nothing is left to do."""
        try:
            while self.queue or any(worker.job for worker in self.crew):
                self.start_workers()
                for worker in self.crew:
                    if worker.ready and worker.job is None and self.queue:
                        worker.job = self.queue.popleft()
                        with suppress(ConnectionError):  # a dead worker is noticed when its messages are read
                            worker.pipe.send(worker.job)
                wait([*(worker.pipe for worker in self.crew), *(one for worker in self.crew for one in worker.handles())], LOOK_EVERY)
                for worker in list(self.crew):
                    try:
                        for message in worker.messages():
                            self.listen(worker, message)
                    except EOFError:
                        self.bury(worker)
        finally:
            for worker in self.crew:
                worker.process.terminate()
            for worker in self.crew:
                worker.end()

    @property
    def hopeless(self) -> bool:
        """Whether it is not worth starting another worker."""
        return len(self.failed_starts) >= KILLED or self.failed_starts.count(False) >= FAILED

    def start_workers(self) -> None:
        """Start as many workers as there is work for."""
        wanted = min(self.workers, len(self.queue) + sum(worker.job is not None for worker in self.crew))
        while len(self.crew) < wanted and not self.hopeless:
            try:
                self.crew.append(Worker())
            except OSError as error:
                self.count_failed_start(f"could not be created: {error.strerror or error}", killed=False)

    def listen(self, worker: Worker, message: Any) -> None:
        """React to a message: the number of passes made, or one of the classes above."""
        if isinstance(message, Awake):
            with suppress(ConnectionError):
                worker.pipe.send_bytes(self.payload)
        elif isinstance(message, Ready):
            if message.trouble:
                raise InputError(CANNOT_TRAVEL.format(message.trouble))
            worker.ready, self.failed_starts = True, []
        elif worker.job is not None and isinstance(message, int):
            self.progress.advance(self.whole[worker.job.base_key], message)
        elif worker.job is not None and isinstance(message, Ended):
            if message.trouble:
                raise StoreError(message.trouble)
            self.progress.finish(self.whole[worker.job.base_key])
            worker.job = None

    def bury(self, worker: Worker) -> None:
        """Remove a dead worker, and put what is left of its job back into the queue."""
        self.crew.remove(worker)
        how = worker.end()
        if not worker.ready:
            signs = (UNGUARDED, BOOTSTRAPPING, f"is being written by process {os.getpid()} ")
            if any(sign in worker.errors.tail for sign in signs):
                raise InputError(UNGUARDED)
            self.count_failed_start(how, killed=(worker.process.exitcode or 0) < 0)
            return
        self.failed_starts = []
        if worker.job is None:
            return
        folder = RunFolder(self.runner.folder)
        job = worker.job.without(folder.finished() - folder.incomplete())
        before = 0 if len(job.cells) < len(worker.job.cells) else self.deaths[job.base_key]
        self.deaths[job.base_key] = before + 1
        if job.cells and before + 1 < TRIES:
            self.queue.append(job)  # last, so that workers killed from outside rarely die on the same job
            return
        self.runner.fail(job, f"The worker process died {TRIES} times on this job; the last one {how}.")
        self.progress.finish(self.whole[worker.job.base_key])

    def count_failed_start(self, how: str, killed: bool) -> None:
        """Raise if too many starts failed in a row and no worker is left."""
        self.failed_starts.append(killed)
        if self.hopeless and not self.crew:
            raise InputError(
                f"No worker process could start ({len(self.failed_starts)} tries; the last one {how}): use fewer workers, or workers=1."
            )


def pickle_runner(runner: JobRunner) -> bytes:
    """The runner as bytes for the workers; raises if it cannot be pickled."""
    try:
        return pickle.dumps(runner)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(CANNOT_TRAVEL.format(error)) from error


def ending(code: int | None, words: str) -> str:
    """How a process ended, with its own last words unless it was killed from outside.

    >>> ending(-9, "Loading."), ending(1, "ValueError: no")
    ('was killed by signal 9, perhaps out of memory', 'ended with exit code 1: ValueError: no')
    """
    if code is None:
        return "does not end"
    if code == -signal.SIGKILL:
        return f"was killed by signal {-code}, perhaps out of memory"
    own = f": {words}" if words and code != -signal.SIGTERM else ""
    if code < 0:
        return f"was killed by signal {-code} ({(signal.strsignal(-code) or 'unknown').lower()}){own}"
    return f"ended with exit code {code}{own}"


def last_words(text: str) -> str:
    """The error of a traceback, or else the last three lines of a text, on one line.

    >>> last_words("Warning: old\\nTraceback (most recent call last):\\n  File 'a.py'\\nValueError: not\\n  good\\n")
    'ValueError: not good'
    """
    lines = [line for line in text.splitlines() if line.strip()]
    traced = [number for number, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    after = range(traced[-1] + 1, len(lines)) if traced else range(0)
    error = next((number for number in after if not lines[number][0].isspace()), max(0, len(lines) - 3))
    return " ".join(" ".join(lines[error:]).split())[:300]


class ErrorStream:
    """Passes the error stream of a worker on to this process's own, and keeps the end of it."""

    def __init__(self) -> None:
        self.source, self.sink = os.pipe()
        os.set_blocking(self.source, False)
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.tail, self.closed = "", False

    @contextmanager
    def redirect(self) -> Iterator[None]:
        """Processes that start within it write their errors here; so does this process meanwhile."""
        try:
            own = os.dup(2)
        except OSError:  # a process without an error stream
            own = None
        try:
            if own is not None:
                os.dup2(self.sink, 2)
            yield
        finally:
            if own is not None:
                os.dup2(own, 2)
                os.close(own)
            os.close(self.sink)

    def open(self) -> list[int]:
        """The stream to wait for, as long as somebody may write to it."""
        return [] if self.closed else [self.source]

    def relay(self) -> None:
        """Pass on what has been written."""
        while not self.closed:
            try:
                found = os.read(self.source, 65536)
            except BlockingIOError:
                return
            if not found:
                self.close()
                return
            text = self.decoder.decode(found)
            self.tail = (self.tail + text)[-TAIL:]
            if sys.stderr is not None:
                sys.stderr.write(text)
                sys.stderr.flush()

    def close(self) -> None:
        """Stop reading."""
        if not self.closed:
            self.closed = True
            os.close(self.source)


@contextmanager
def block_interrupts() -> Iterator[None]:
    """Ctrl-C takes effect only after this block, and never in a process that is started within it.

    A new process inherits the blocked signal, so it ignores Ctrl-C even while it imports. The resource tracker is started before,
    because its start would unblock the signal.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()
    received: list[int] = []
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if handler is not None:
        signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        if received:
            signal.raise_signal(signal.SIGINT)


def serve(pipe: Connection) -> None:
    """The worker process: runs one job at a time until the pipe closes or the parent is gone."""
    follow_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    with suppress(EOFError, ConnectionError):
        pipe.send(Awake())
        payload = pipe.recv_bytes()
        try:
            runner: JobRunner = pickle.loads(payload)
        except Exception as error:
            pipe.send(Ready(error_text(error)))
            return
        pipe.send(Ready())
        with gpu_limit((model.module for model in runner.problem.models.values()), runner.memory):
            while True:
                job: Job = pipe.recv()
                try:
                    runner.run(job, ProgressPipe(pipe))
                except StoreError as error:
                    pipe.send(Ended(str(error)))
                else:
                    pipe.send(Ended())


class ProgressPipe:
    """Tells the parent a few times per second how many passes were made."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe, self.passes, self.last = pipe, 0, time.monotonic()

    def __call__(self, passes: int) -> None:
        """Count passes, and send the sum from time to time."""
        self.passes += passes
        if time.monotonic() - self.last > SAY_EVERY:
            try:
                self.pipe.send(self.passes)
            except ConnectionError:
                raise SystemExit(1) from None  # the parent is gone; an error of the user's code looks the same, and is recorded
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
