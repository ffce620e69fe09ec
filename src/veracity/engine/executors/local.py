"""Runs jobs in spawned, single-threaded processes of this machine.

A worker that dies is replaced, while it starts as well as on a job, and its job is tried again; workers end with their parent,
however it ends. Ctrl-C is the parent's business alone: a terminal sends it to the workers too, and they never see it.
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
from multiprocessing.process import BaseProcess, current_process
from typing import Any

import torch

from veracity.core.errors import InputError, StoreError, error_text
from veracity.core.registry import EXECUTORS
from veracity.engine.executors.base import Executor
from veracity.engine.loop import JobRunner
from veracity.engine.plan import Job
from veracity.engine.progress import Watch, weight
from veracity.engine.store import RunFolder

TRIES = 5
"""How many workers may die on a job, none of its cells finished in between, before its cells are recorded as failed."""
FAILED, KILLED = 3, 10
"""How many starts in a row may fail by themselves, and how many in all, before there are no more."""
SAY_EVERY = 0.2
LOOK_EVERY = 1.0
"""Seconds between two looks at whether a worker is alive, should nothing tell of its death."""
GRACE = 5.0
"""Seconds that a worker has to end."""
TAIL = 4000
"""How much of what a worker wrote to its error stream is kept, in characters."""

CANNOT_TRAVEL = "Several workers need models and explainers that can be imported by name"
USE_ONE = "define them at the top of a module, or use workers=1."
UNGUARDED = "Every worker process imports this script, which starts the audit again"
GUARD = "put the script's code under if __name__ == '__main__':, or use workers=1."
BOOTSTRAPPING = "current process has finished its bootstrapping phase"


@dataclass(frozen=True)
class Awake:
    """A worker's first word: it has imported everything and waits for the runner."""


@dataclass(frozen=True)
class Ready:
    """A worker's second word: it has the runner, or why it cannot read it."""

    trouble: str = ""


@dataclass(frozen=True)
class Ended:
    """A worker's last word on a job: done, or why the folder could not take it."""

    trouble: str = ""


@dataclass(frozen=True)
class Starts:
    """How many starts failed, one after the other, and how many of those by themselves; the others were killed."""

    count: int = 0
    failed: int = 0

    def failing(self, killed: bool) -> Starts:
        """One more."""
        return Starts(self.count + 1, self.failed + (not killed))

    @property
    def hopeless(self) -> bool:
        """Whether another try is not worth it."""
        return self.count >= KILLED or self.failed >= FAILED


class Worker:
    """One process, the pipe to it, its error stream, and what it is doing."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, there = context.Pipe()
        self.errors = Errors()
        self.process: BaseProcess = context.Process(target=serve, args=(there,), daemon=True)
        self.job: Job | None = None
        self.ready = False
        try:
            with interruption_held_back(), self.errors.of_children():
                self.process.start()
        except OSError:
            self.pipe.close()
            self.errors.close()
            raise
        finally:
            there.close()  # with the child's end open here too, nothing would tell of its death

    def watched(self) -> list[Any]:
        """What there is to wait for."""
        return [self.pipe, self.process.sentinel, *self.errors.open()]

    def heard(self) -> Iterator[Any]:
        """What the worker has said since; ends with EOFError if it is dead."""
        self.errors.relay()
        alive = self.process.exitcode is None
        while self.pipe.poll():
            try:
                word = self.pipe.recv()
            except OSError as error:
                raise EOFError from error
            yield word
        if not alive:
            raise EOFError

    def send(self, what: Job | bytes) -> None:
        """Send a job, or the runner; a worker that is gone is noticed when it is listened to."""
        with suppress(ConnectionError):
            if isinstance(what, bytes):
                self.pipe.send_bytes(what)
            else:
                self.pipe.send(what)

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


@EXECUTORS.add
@dataclass(frozen=True, kw_only=True)
class Local(Executor):
    """Runs jobs in worker processes of this machine, the largest first."""

    name = "local"

    def run(self, jobs: Sequence[Job], runner: JobRunner, watch: Watch) -> None:
        """Hand out the jobs until none is left."""
        WorkerPool(self.workers, jobs, runner, watch).run()


class WorkerPool:
    """The jobs of one run, the workers on them, and how often which of them died."""

    def __init__(self, workers: int, jobs: Sequence[Job], runner: JobRunner, watch: Watch) -> None:
        self.workers, self.runner, self.watch = workers, runner, watch
        self.payload = pickled(runner)
        self.queue = deque(sorted(jobs, key=lambda job: -weight(job.cost)))
        self.whole = {job.base_key: job for job in jobs}
        self.crew: list[Worker] = []
        self.deaths: Counter[str] = Counter()
        self.starts = Starts()

    def run(self) -> None:
        """Hire, hand out and listen until there is nothing left to do."""
        try:
            while self.queue or any(worker.job for worker in self.crew):
                self.hire()
                for worker in self.crew:
                    if worker.ready and worker.job is None and self.queue:
                        worker.job = self.queue.popleft()
                        worker.send(worker.job)
                wait([one for worker in self.crew for one in worker.watched()], timeout=LOOK_EVERY)
                for worker in list(self.crew):
                    try:
                        for word in worker.heard():
                            self.listen(worker, word)
                    except EOFError:
                        self.bury(worker)
        finally:
            for worker in self.crew:
                worker.process.terminate()
            for worker in self.crew:
                worker.end()

    def hire(self) -> None:
        """Start as many workers as there is work for, unless no start succeeds."""
        wanted = min(self.workers, len(self.queue) + sum(worker.job is not None for worker in self.crew))
        while len(self.crew) < wanted and not self.starts.hopeless:
            try:
                self.crew.append(Worker())
            except OSError as error:
                self.not_started(f"could not be created: {error.strerror or error}", killed=False)

    def listen(self, worker: Worker, word: Any) -> None:
        """What follows from a worker's word."""
        if isinstance(word, Awake):
            worker.send(self.payload)
        elif isinstance(word, Ready):
            if word.trouble:
                raise InputError(f"{CANNOT_TRAVEL} ({word.trouble}): {USE_ONE}")
            worker.ready, self.starts = True, Starts()
        elif worker.job is not None and isinstance(word, int):
            self.watch.moved(self.whole[worker.job.base_key], word)
        elif worker.job is not None and isinstance(word, Ended):
            if word.trouble:
                raise StoreError(word.trouble)
            self.watch.ended(self.whole[worker.job.base_key])
            worker.job = None

    def bury(self, worker: Worker) -> None:
        """Take a dead worker out of the crew, and put what it left undone back into the queue."""
        self.crew.remove(worker)
        how = worker.end()
        if not worker.ready:
            if unguarded(worker.errors.tail):
                raise InputError(f"{UNGUARDED}: {GUARD}")
            self.not_started(how, killed=(worker.process.exitcode or 0) < 0)
            return
        self.starts = Starts()
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
        self.watch.ended(self.whole[worker.job.base_key])

    def not_started(self, how: str, killed: bool) -> None:
        """Count a start that failed; raises if too many did, one after the other, and no worker is left."""
        self.starts = self.starts.failing(killed)
        if self.starts.hopeless and not any(worker.ready for worker in self.crew):
            raise InputError(
                f"No worker process could start ({self.starts.count} tries; the last one {how}): use fewer workers, or workers=1."
            )


def pickled(runner: JobRunner) -> bytes:
    """The runner as bytes for this machine's own workers, or a sentence on why it cannot travel."""
    try:
        return pickle.dumps(runner)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(f"{CANNOT_TRAVEL} ({error}): {USE_ONE}") from error


def check_main() -> None:
    """Raise in a worker that has come here by importing the user's script, which lacks its guard."""
    if getattr(current_process(), "_inheriting", False):
        raise InputError(f"{UNGUARDED}: {GUARD}")


def unguarded(words: str) -> bool:
    """Whether a worker's error stream tells of a script that starts processes, or this very run, when it is imported."""
    return any(sign in words for sign in (UNGUARDED, BOOTSTRAPPING, f"is being written by process {os.getpid()} "))


def ending(code: int | None, words: str) -> str:
    """How a process ended, in words, and its own last ones unless it was killed from outside.

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
    """What a process had to say in the end: of a traceback the error, else the last three lines; on one line.

    >>> last_words("Warning: old\\nTraceback (most recent call last):\\n  File 'a.py'\\nValueError: not\\n  good\\n")
    'ValueError: not good'
    """
    lines = [line for line in text.splitlines() if line.strip()]
    traced = [number for number, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    after = range(traced[-1] + 1, len(lines)) if traced else range(0)
    error = next((number for number in after if not lines[number][0].isspace()), max(0, len(lines) - 3))
    return " ".join(" ".join(lines[error:]).split())[:300]


class Errors:
    """What a worker writes to its error stream: handed on to this process's, and the end of it kept."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.tail, self.closed = "", False

    @contextmanager
    def of_children(self) -> Iterator[None]:
        """A process that is started within this block writes its errors here; what this one writes meanwhile comes along."""
        try:
            kept = os.dup(2)
        except OSError:  # a process without an error stream
            kept = None
        try:
            if kept is not None:
                os.dup2(self.writing, 2)
            yield
        finally:
            if kept is not None:
                os.dup2(kept, 2)
                os.close(kept)
            os.close(self.writing)

    def open(self) -> list[int]:
        """The stream, as long as somebody may write to it."""
        return [] if self.closed else [self.reading]

    def relay(self) -> None:
        """Hand on what has been written since."""
        while not self.closed:
            try:
                found = os.read(self.reading, 65536)
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
        """Nobody reads any more."""
        if not self.closed:
            self.closed = True
            os.close(self.reading)


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


def serve(pipe: Connection) -> None:
    """A worker's life: one job at a time until the pipe closes or the parent is gone."""
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
        while True:
            job: Job = pipe.recv()
            try:
                runner.run(job, ProgressPipe(pipe))
            except StoreError as error:
                pipe.send(Ended(str(error)))
            else:
                pipe.send(Ended())


class ProgressPipe:
    """Tells the parent how many passes were made, a few times a second."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe, self.passes, self.last = pipe, 0, time.monotonic()

    def __call__(self, passes: int) -> None:
        """Some more passes."""
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
