"""Kills runs at random moments, runs the same command again, and looks at what is left.

    python -m tests.kills --kills 100 --seed 0

Of all kills 40 % hit a worker at work, 20 % a worker that is still starting, 20 % the parent and 20 % its whole process group; those
of parents and groups are done with one worker and with two in turn. A run counts as lost if it does not end, ends with an error, or
leaves a cell that failed; a cell as recomputed if its file changed after it was finished; a table as different if it is not,
bit by bit, that of a run that nobody killed.

Workers are spawned as in any run, and import everything anew. The process that runs the audit is forked from one that has imported
everything already, and a run with workers takes several kills, so that a hundred kills take minutes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import random
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from torch import nn

from veracity import Audit
from veracity.engine.executors import local
from veracity.perturb import CyclicShift

STARTING, WORKING, PARENT, GROUP = "worker, starting", "worker, at work", "parent", "process group"
PER_RUN = 6
"""How many workers are killed in one run."""
AT_WORK = 0.5
"""At most so many seconds a worker is at work before it is killed."""
EMPTY = 20
"""How many runs may end before a worker could be killed."""
PATIENCE = 600.0
"""After so many seconds a run counts as lost."""

State = dict[str, tuple[str, int, int]]


def audit(samples: int = 256) -> Audit:
    """A small network on digits, four explainers, the controls, and three scores: 100 cells of 256 samples."""
    from veracity.demo import digits

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6 * 9, 10)).eval()
    images, labels = digits(padding=0)
    return Audit(
        models={"cnn": net},
        inputs=images[:samples],
        targets=labels[:samples],
        symmetry=CyclicShift(axes=(-2, -1)),
        walk={"name": "monte_carlo", "draws": 6},
        explainers=["gradient", "saliency", {"name": "smooth_grad", "draws": 4}, {"name": "integrated_gradients", "steps": 4}],
        scores=["equivariance", "model_invariance", "action_floor", {"name": "fast_gef", "sigma": 0.5}],
    )


def noted(ready: str) -> None:
    """Let this process note the workers that are ready."""
    listen = local.WorkerPool.listen

    def listening(shift: local.WorkerPool, worker: local.Worker, word: Any) -> None:
        listen(shift, worker, word)
        if isinstance(word, local.Ready):
            with open(ready, "a") as note:
                note.write(f"{worker.process.pid}\n")

    local.WorkerPool.listen = listening  # type: ignore[assignment, method-assign]


def work(folder: str, samples: int, workers: int, table: str, log: str, ready: str) -> None:
    """The command: run the audit into the folder, and write its table down."""
    os.setpgid(0, 0)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    torch.set_num_threads(1)
    noted(ready)
    result = audit(samples).run(folder, workers=workers, batch=256, progress=False)
    Path(table).write_bytes(pickle.dumps((result.table(), len(result.failures()))))


class Command:
    """One call of the command, in a process group of its own."""

    def __init__(self, folder: Path, samples: int, workers: int) -> None:
        self.folder, self.workers = folder, workers
        self.table, self.log = folder.with_suffix(".table"), folder.with_suffix(".log")
        self.ready = folder.with_suffix(".ready")
        self.table.unlink(missing_ok=True)
        self.ready.write_text("")
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["veracity.audit", "sklearn.datasets"])
        where = (str(self.table), str(self.log), str(self.ready))
        self.process: BaseProcess = context.Process(target=work, args=(str(folder), samples, workers, *where))
        self.process.start()
        self.ends = time.monotonic() + PATIENCE

    def running(self) -> bool:
        """Whether it has not ended yet, within the time that it has."""
        return self.process.is_alive() and time.monotonic() < self.ends

    def until(self, ready: Callable[[], Any]) -> bool:
        """Wait for something; False if the command ended before."""
        while not ready():
            if not self.running():
                return False
            time.sleep(0.002)
        return True

    def crew(self) -> dict[int, bool]:
        """The workers' processes, and whether each is still starting."""
        found, ready = {}, self.ready.read_text().split()
        try:
            for child in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found[int(child)] = child not in ready
        except (FileNotFoundError, ProcessLookupError):
            return {}
        return found

    def kill(self, kind: str) -> None:
        """Kill the process or its group."""
        pid = self.process.pid or 0
        (os.killpg if kind == GROUP else os.kill)(pid, signal.SIGKILL)
        self.process.join()

    def finish(self) -> tuple[Any, int] | None:
        """The table and the number of failed cells, once the command has ended; None if it went wrong."""
        self.process.join(max(0.0, self.ends - time.monotonic()))
        if self.process.is_alive():
            self.kill(GROUP)
        return pickle.loads(self.table.read_bytes()) if self.table.exists() else None


def cells(folder: Path) -> State:
    """Every finished cell, by its key: its file's name, time and size."""
    found = {}
    for path in (folder / "cells").glob("[!.]*"):
        about = path.stat()
        found[path.name.split(".")[0]] = (path.name, about.st_mtime_ns, about.st_size)
    return found


@dataclass
class Line:
    """One line of the table."""

    kills: int = 0
    lost: int = 0
    recomputed: int = 0
    differ: int = 0


@dataclass
class Harness:
    """The runs that nobody killed, and what became of the others."""

    scratch: Path
    random: random.Random
    samples: int = 256
    lines: dict[str, Line] = field(default_factory=lambda: {kind: Line() for kind in (STARTING, WORKING, PARENT, GROUP)})
    whole: dict[int, Any] = field(default_factory=dict)
    count: int = 0
    start_takes: float = 1.0
    first_cell: dict[int, float] = field(default_factory=dict)
    cells: int = 0
    empty: int = 0

    def folder(self) -> Path:
        """A new one."""
        self.count += 1
        return self.scratch / f"run{self.count}"

    def unbroken(self, workers: int) -> None:
        """Run without a kill, and see how long a start takes."""
        command, begin = Command(self.folder(), self.samples, workers), time.monotonic()
        if workers > 1:
            command.until(command.crew)
            born = time.monotonic()
            command.until(lambda: not all(command.crew().values()))
            self.start_takes = time.monotonic() - born
        command.until(lambda: cells(command.folder))
        self.first_cell[workers] = time.monotonic() - begin
        found = command.finish()
        if found is None or found[1]:
            raise SystemExit(f"The run without kills failed: {command.log.read_text()[-2000:]}")
        self.whole[workers], self.cells = found[0], len(cells(command.folder))

    def judge(self, kinds: Sequence[str], command: Command, seen: State) -> None:
        """What became of a run: of the one that went on, or of the same command after the kill."""
        found, line = command.finish(), self.lines[kinds[-1]]
        if found is None or found[1]:
            line.lost += 1
            print(f"lost ({', '.join(kinds)}): {command.log.read_text()[-600:] if command.log.exists() else ''}", file=sys.stderr)
            return
        line.recomputed += changed(seen, cells(command.folder))
        line.differ += not found[0].equals(self.whole[command.workers])

    def kill_workers(self, kinds: deque[str]) -> None:
        """Kill workers of one run, as long as it lasts, let it end, and run the same command again."""
        command = Command(self.folder(), self.samples, workers=2)
        killed: list[str] = []
        seen: State = {}
        missed: set[int] = set()
        while kinds and command.running():
            starting = kinds[0] == STARTING
            victim = next((pid for pid, young in command.crew().items() if young == starting and pid not in missed), None)
            time.sleep(0.002 if victim is None else self.random.uniform(0, 0.9 * self.start_takes if starting else AT_WORK))
            if victim is None:
                continue
            if command.crew().get(victim) != starting:
                missed.add(victim)
                self.start_takes *= 0.8 if starting else 1.0
                continue
            missed.clear()
            os.kill(victim, signal.SIGKILL)
            killed.append(kinds.popleft())
            self.lines[killed[-1]].kills += 1
            seen |= {key: state for key, state in cells(command.folder).items() if key not in seen}
        if not killed:
            self.empty += 1
            if self.empty > EMPTY:
                raise SystemExit(f"The audit ended {EMPTY} times before a worker could be killed.")
            return
        self.judge(killed, command, seen)
        seen = cells(command.folder)
        self.judge(killed[-1:], Command(command.folder, self.samples, workers=2), seen)

    def kill_all(self, kind: str, workers: int) -> None:
        """Kill the parent or its group before the first cell or after some, and run the same command again."""
        command = Command(self.folder(), self.samples, workers)
        if self.random.random() < 0.25:
            command.until(lambda: os.getpgid(command.process.pid or 0) == command.process.pid)
            time.sleep(self.random.uniform(0, 0.9 * self.first_cell[workers]))
        else:
            number = self.random.randrange(1, self.cells)
            command.until(lambda: len(cells(command.folder)) >= number)
        if not command.running():
            self.judge([kind], command, {})
            self.kill_all(kind, workers)
            return
        command.kill(kind)
        self.lines[kind].kills += 1
        seen = cells(command.folder)
        self.judge([kind], Command(command.folder, self.samples, workers), seen)

    def run(self, kills: int) -> dict[str, Line]:
        """So many kills, one fifth of them each of starting workers, parents and groups."""
        workers = deque([STARTING] * (kills // 5) + [WORKING] * (kills - 3 * (kills // 5)))
        self.random.shuffle(workers)
        self.unbroken(1)
        self.unbroken(2)
        while workers:
            some = deque(workers.popleft() for _ in range(min(PER_RUN, len(workers))))
            self.kill_workers(some)
            workers.extendleft(reversed(some))
            self.tell(kills)
        for number in range(2 * (kills // 5)):
            self.kill_all((PARENT, GROUP)[number % 2], (1, 2)[number // 2 % 2])
            self.tell(kills)
        return self.lines

    def tell(self, kills: int) -> None:
        """How far it is, on the error stream."""
        total = self.total()
        done = f"{total.kills} of {kills} kills, {total.lost} runs lost, {total.recomputed} cells recomputed, {total.differ} tables differ"
        print(done, file=sys.stderr, flush=True)

    def total(self) -> Line:
        """All kinds together."""
        lines = self.lines.values()
        return Line(*(sum(getattr(line, name) for line in lines) for name in ("kills", "lost", "recomputed", "differ")))


def changed(before: State, after: State) -> int:
    """How many finished cells are not as they were."""
    return sum(after.get(key) != state for key, state in before.items())


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what became of the runs; exit code 1 if anything was lost."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kills", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given, begin = parser.parse_args(arguments), time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        harness = Harness(Path(scratch), random.Random(given.seed))
        lines = harness.run(given.kills)
    print(f"{'kind':18}{'kills':>8}{'lost runs':>12}{'recomputed':>12}{'differ':>8}")
    for kind, line in lines.items():
        print(f"{kind:18}{line.kills:8}{line.lost:12}{line.recomputed:12}{line.differ:8}")
    print(f"{time.monotonic() - begin:.0f} s")
    total = harness.total()
    sys.exit(1 if total.lost or total.recomputed or total.differ else 0)


if __name__ == "__main__":
    main()
