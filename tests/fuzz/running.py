"""Cases in worker processes, so that one that hangs or crashes is one case; and what they found, in words."""

from __future__ import annotations

import multiprocessing
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random

import torch

from . import manifests as manifest_cases
from .audits import audit
from .files import files
from .manifests import manifests
from .outcome import Outcome
from .settings import settings

KINDS: dict[str, tuple[Callable[[Random], Outcome], float]] = {
    "audit": (audit, 0.55),
    "file": (files, 0.15),
    "settings": (settings, 0.15),
    "manifest": (manifests, 0.15),
}
"""Each kind of case, and its share of all cases."""
LIMIT = 20.0
"""Seconds of computing after which a case has hung; or WAITS times as many on the clock, whatever it computes."""
WAITS = 6.0
IMPORTED = (
    "torch._dynamo",
    "pyarrow.parquet",
    "sklearn.linear_model",
    "sklearn.svm",
    "skimage.segmentation",
    "veracity.report",
    "veracity.cli",
)
"""What audits import when they first need it: imported once, before workers are forked."""


def case(seed: int, number: int, kinds: Sequence[str] = tuple(KINDS)) -> Outcome:
    """Run one case here."""
    random = Random(f"{seed}:{number}")
    kind = random.choices(kinds, [KINDS[kind][1] for kind in kinds])[0]
    started = time.perf_counter()
    seen = KINDS[kind][0](random)
    seen.seconds = time.perf_counter() - started
    return seen


def work(pipe: Connection, seed: int, kinds: Sequence[str]) -> None:
    """Run the cases whose numbers come in."""
    torch.set_num_threads(1)
    while (number := pipe.recv()) is not None:
        pipe.send(case(seed, number, kinds))
    pipe.close()


class Worker:
    """A process that runs one case at a time."""

    def __init__(self, seed: int, kinds: Sequence[str]) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=work, args=(other, seed, kinds), daemon=True)
        self.process.start()
        other.close()
        self.number, self.since, self.spent = -1, 0.0, 0.0

    def give(self, number: int) -> None:
        self.number, self.since, self.spent = number, time.monotonic(), computed(self.process.pid)
        self.pipe.send(number)

    def hangs(self, limit: float) -> bool:
        """Whether the case has computed, or waited, for too long."""
        return computed(self.process.pid) - self.spent > limit or time.monotonic() - self.since > WAITS * limit

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def computed(process: int | None) -> float:
    """The seconds that a process has computed so far; 0 where the system does not say."""
    try:
        parts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return 0.0


def run(
    numbers: Sequence[int],
    seed: int,
    workers: int | None = None,
    kinds: Sequence[str] = tuple(KINDS),
    limit: float = LIMIT,
) -> Iterator[tuple[int, Outcome]]:
    """Every case with what became of it, in the order in which they end."""
    torch.set_num_threads(1)
    for name in IMPORTED:
        with suppress(ImportError):
            import_module(name)
    if "manifest" in kinds:
        manifest_cases.prepare()
    left = iter(numbers)
    crew = [Worker(seed, kinds) for _ in range(min(workers or os.cpu_count() or 1, len(numbers)))]
    busy: list[Worker] = []

    def next_for(worker: Worker) -> None:
        number = next(left, None)
        if number is None:
            worker.end()
        else:
            worker.give(number)
            busy.append(worker)

    for worker in crew:
        next_for(worker)
    while busy:
        ready = wait([worker.pipe for worker in busy], timeout=0.5)
        for worker in list(busy):
            if worker.pipe in ready:
                busy.remove(worker)
                try:
                    yield worker.number, worker.pipe.recv()
                except EOFError:
                    worker.process.join(5.0)
                    yield worker.number, Outcome("crash", findings=[f"the process ended with {worker.process.exitcode}"])
                    worker.end()
                    worker = Worker(seed, kinds)
                next_for(worker)
            elif worker.hangs(limit):
                busy.remove(worker)
                yield worker.number, Outcome("hang", findings=[f"took over {limit:g} s"], seconds=limit)
                worker.end()
                next_for(Worker(seed, kinds))


def summary(found: dict[int, Outcome], seed: int, seconds: float, kinds: Sequence[str] = tuple(KINDS)) -> str:
    """What was run, what refused, and what was found, each finding with the command that shows it again."""
    counts = Counter(one.kind for one in found.values())
    lines = [f"{len(found)} cases in {seconds:.0f} s: {', '.join(f'{count} {kind}' for kind, count in counts.most_common())}."]
    only = "" if tuple(kinds) == tuple(KINDS) else f" --kinds {','.join(kinds)}"
    for kind in ("audit", "file"):
        mine = [one for one in found.values() if one.kind == kind]
        if mine:
            share, median = sum(one.measured for one in mine) / len(mine), sorted(one.seconds for one in mine)[len(mine) // 2]
            lines.append(f"{share:.0%} of the {kind} cases measured something; half of them took less than {1000 * median:.0f} ms.")
    refused = Counter(shortened(one.refused) for one in found.values() if one.refused)
    lines += ["", f"{sum(refused.values())} refusals, the commonest:"] + [
        f"  {count:5d}  {text}" for text, count in refused.most_common(15)
    ]
    wrong: dict[str, list[int]] = {}
    for number, one in sorted(found.items()):
        for text in one.findings:
            wrong.setdefault(f"{one.kind}: {shortened(text, 170)}", []).append(number)
    lines += ["", f"{sum(map(len, wrong.values()))} findings of {len(wrong)} kinds{':' if wrong else '.'}"]
    for text, numbers in sorted(wrong.items(), key=lambda item: -len(item[1])):
        lines += [f"  {len(numbers):5d}  {text}", f"         python -m tests.fuzz --seed {seed}{only} --case {numbers[0]}"]
    return "\n".join(lines)


def shortened(text: str, most: int = 120) -> str:
    """A sentence without its numbers and names, so that equal ones are counted together."""
    plain = "".join("#" if one.isdigit() else one for one in re.sub(r"/tmp/\S+?/run\b", "FOLDER", text))
    while "##" in plain:
        plain = plain.replace("##", "#")
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."
