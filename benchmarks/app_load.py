"""Many clients dragging at once: python -m benchmarks.app_load [--clients 20] [--seconds 60] [--rate 60] [--patient]

A server in a process of its own shows digits with two LeNets. Every client asks for a new angle `rate` times a second, whether or not
it was answered; the server answers the newest question of each client in turn. With --patient a client asks again only when it was
answered, as the page does. Printed are the errors, the time from a question to its answer, the time between two answers to a client,
whether every client's last question was answered, and the server's memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from websockets.asyncio.client import ClientConnection, connect

from veracity import OrbitEvaluation
from veracity.app.server import make_server
from veracity.demo import digits
from veracity.orbits import Classification, RotationOrbit
from veracity.report.interactive.packed import unpack
from veracity.trainers.training import initialised
from veracity_papers.zoo.lenet import lenet

SAMPLES, PADDING = 200, 10
PATIENCE = 10.0
"""Seconds until the last question counts as lost."""


@dataclass
class Seen:
    """What one client saw."""

    sent: int = 0
    delays: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    final: bool = False


def serving(folder: str, tell: Connection) -> None:
    """The server's process: two models, 200 digits, 72 angles."""
    torch.set_num_threads(1)
    x, y = digits("test", padding=PADDING)
    models = {f"seed {seed}": initialised(lenet, seed=seed) for seed in (0, 1)}
    task = Classification(classes=tuple(map(str, range(10))))
    made = OrbitEvaluation(models=models, inputs=x[:SAMPLES], targets=y[:SAMPLES], orbit=RotationOrbit(step=5.0), task=task)
    made.run(folder, progress=False)
    server, listening, address = make_server(folder, evaluation=made)
    tell.send(address)
    server.run(sockets=[listening])


@contextmanager
def served() -> Iterator[tuple[str, int]]:
    """The server's address, and its process's number."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        process = context.Process(target=serving, args=(str(Path(folder) / "run"), there), daemon=True)
        process.start()
        try:
            yield here.recv(), process.pid or 0
        finally:
            process.terminate()
            process.join()


def resident(process: int) -> float:
    """A process's resident memory in MiB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def busy(process: int) -> float:
    """A process's processor time in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def drag(address: str, number: int, seconds: float, rate: float, patient: bool) -> Seen:
    """One client: a hand that circles through one sample's orbit, then rests."""
    seen, asked = Seen(), dict[int, float]()
    async with connect(address, max_size=None, compression=None) as socket:
        reading = asyncio.create_task(read(socket, seen, asked))
        begun = time.perf_counter()
        while time.perf_counter() - begun < seconds:
            due = time.perf_counter() + 1.0 / rate
            await ask(socket, seen, asked, number % SAMPLES, 57.0 * (due - begun) + number)
            if patient:
                await answered(seen, asked)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await ask(socket, seen, asked, number % SAMPLES, 123.0)
        seen.final = await answered(seen, asked)
        reading.cancel()
    return seen


async def ask(socket: ClientConnection, seen: Seen, asked: dict[int, float], sample: int, degrees: float) -> None:
    """Ask for one place."""
    seen.sent += 1
    asked[seen.sent] = time.perf_counter()
    await socket.send(json.dumps({"seq": seen.sent, "sample": sample, "at": [math.fmod(degrees, 360.0)]}))


async def read(socket: ClientConnection, seen: Seen, asked: dict[int, float]) -> None:
    """Note when which question was answered; older ones were replaced."""
    async for data in socket:
        header, arrays = unpack(data if isinstance(data, bytes) else data.encode())
        seq = header["seq"]
        if "error" in header or not arrays:
            seen.errors.append(str(header.get("error")))
        seen.times.append(time.perf_counter())
        seen.delays.append(seen.times[-1] - asked[seq])
        for old in [one for one in asked if one <= seq]:
            del asked[old]
        seen.heard.set()


async def answered(seen: Seen, asked: dict[int, float]) -> bool:
    """Whether the last question is answered in time."""
    while seen.sent in asked:
        seen.heard.clear()
        try:
            await asyncio.wait_for(seen.heard.wait(), PATIENCE)
        except TimeoutError:
            return False
    return True


async def watch(process: int, seconds: float, every: float = 5.0) -> list[float]:
    """The server's memory from time to time."""
    found, begun = [resident(process)], time.perf_counter()
    while time.perf_counter() - begun < seconds:
        await asyncio.sleep(min(every, seconds))
        found.append(resident(process))
    return found


async def load(
    address: str, process: int, clients: int, seconds: float, rate: float, patient: bool
) -> tuple[list[Seen], list[float], float]:
    """All clients at once, after one of them has warmed the server up."""
    parts = urlsplit(address)
    socket = f"ws://{parts.netloc}/api/runs/0/live?{parts.query}"
    await drag(socket, 0, 1.0, rate, patient)
    before = busy(process)
    everything = asyncio.gather(*(drag(socket, number, seconds, rate, patient) for number in range(clients)))
    memory = await watch(process, seconds)
    return await everything, [*memory, resident(process)], busy(process) - before


def main() -> None:
    """Print what the clients saw."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=60.0, help="questions a second of each client")
    parser.add_argument("--patient", action="store_true", help="ask again only when answered")
    given = parser.parse_args()
    with served() as (address, process):
        seen, memory, spent = asyncio.run(load(address, process, given.clients, given.seconds, given.rate, given.patient))
    delays = 1000.0 * np.concatenate([one.delays for one in seen])
    p50, p90, p99 = np.percentile(delays, [50, 90, 99])
    between = 1000.0 * np.concatenate([np.diff(one.times) for one in seen])
    fewest = min(len(one.delays) for one in seen)
    table = Table(
        title=f"{given.clients} clients dragging for {given.seconds:g} s, {given.rate:g} questions a second each", title_justify="left"
    )
    table.add_column("")
    table.add_column("", justify="right")
    for name, value in {
        "errors": sum(len(one.errors) for one in seen),
        "questions": f"{sum(one.sent for one in seen):,}",
        "answers": f"{len(delays):,}",
        "answers a second": f"{len(delays) / given.seconds:,.0f}",
        "answers of the least served client": f"{fewest:,}",
        "question to answer, p50": f"{p50:.1f} ms",
        "p90": f"{p90:.1f} ms",
        "p99": f"{p99:.1f} ms",
        "between two answers to a client, p50": f"{np.percentile(between, 50):.1f} ms",
        "processor time of the server, an answer": f"{1000.0 * spent / len(delays):.1f} ms",
        "last question answered": f"{sum(one.final for one in seen)} of {given.clients}",
        "server's memory at the start": f"{memory[0]:.0f} MiB",
        "most on the way": f"{max(memory):.0f} MiB",
        "at the end": f"{memory[-1]:.0f} MiB",
    }.items():
        table.add_row(name, str(value))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
