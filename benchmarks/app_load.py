"""Many people at once, one who floods, and a restart: python -m benchmarks.app_load [--minutes 10] [--clients 50]

A server in a process of its own shows two runs: an audit of a LeNet, and digits along rotations with three networks. Half of the clients
look at each, by HTTP and over a socket, as the page does: they choose a sample, then drag along its orbit or ask for draws, each question
after the answer to the last one. After the minutes the server ends and starts again at the same port with the same token, and the clients
go on. Then one client measures its answers alone, and beside another one that floods the server without waiting for answers.
Printed are errors, times from a question to its answer, the server's memory with its slope, who came back, and what a flood does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import torch
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from benchmarks.browsing import machine, process, quantiles, resident
from benchmarks.timing import CONSOLE, empty_table, quiet
from veracity import Audit
from veracity.app.server import make_server
from veracity.core.registry import RECIPES
from veracity.demo import digits
from veracity.perturb import Dihedral
from veracity.recipe import Scale
from veracity.report.interactive.packed import unpack
from veracity.trainers.training import initialised
from veracity.walk import MonteCarlo
from veracity_papers.zoo.lenet import lenet

SAMPLES, DRAWS = 64, 8
DRAGGED, DRAWN = 20, 3
"""How many questions in a row a client asks over its socket about a sample."""
REST = 0.5
"""Seconds for which a client looks at a sample."""
PATIENCE = 30.0
"""Seconds without an answer that count as an error."""
PAUSES = (0.25, 4.0)
"""The shortest and the longest pause, in seconds, before a client connects again, as in the page."""
DOWN = 3.0
"""Seconds for which the server is away."""
ABOUT = {"model": "LeNet", "score": "equivariance"}
AUDIT = [
    "cases?model=LeNet&explainer=saliency&score=equivariance",
    "spread?model=LeNet&explainer=saliency&score=equivariance",
    "plane?model=LeNet&explainer=saliency&x=equivariance&y=sparseness",
    "cases/{sample}?model=LeNet&score=equivariance",
    "cases/{sample}/explanation?model=LeNet&score=equivariance&explainer=saliency",
    "cases/{sample}/explanation?model=LeNet&score=equivariance&explainer=gradient",
]
FLOODS = ("drags", "draws", "searches", "6 requests at a time", "32 requests at a time")
"""Questions about places, draws and the worst place of an orbit; requests as many as a browser has under way, and more."""
ORBIT = ["samples/{sample}", "samples/{sample}", "values?model=plain&metric=confidence", "thumbnails"]


def audit() -> Audit:
    """A LeNet on digits, two explainers, three scores, with draws."""
    x, y = digits("test", padding=10)
    models = {"LeNet": initialised(lenet, seed=0)}
    return Audit(
        models=models, inputs=x[:SAMPLES], targets=y[:SAMPLES], explainers=["saliency", "gradient"], symmetry=Dihedral(),
        walk=MonteCarlo(draws=DRAWS), scores=["equivariance", "max_sensitivity", "sparseness"],
    )  # fmt: skip


def making(folder: str, tell: Connection) -> None:
    """A process that measures both runs."""
    torch.set_num_threads(1)
    with quiet():
        audit().run(f"{folder}/audit", progress=False)
        RECIPES["orbits-digits"].assemble(Path(folder, "orbit"), Scale.SMOKE).run(f"{folder}/orbit", progress=False)
    tell.send(None)


def serving(folder: str, port: int, token: str, tell: Connection) -> None:
    """The server's process."""
    torch.set_num_threads(1)
    server, listening, address = make_server(
        folder, port=port, token=token or None, find=lambda found: audit if found.name == "audit" else None
    )
    tell.send(address)
    server.run(sockets=[listening])


@dataclass
class Outage:
    """When the server was away; what fails then is no error."""

    since: float | None = None
    until: float | None = None

    def excuses(self, started: float) -> bool:
        """Whether something that began then may have met the outage."""
        return self.since is not None and (self.until is None or started < self.until)


@dataclass
class Client:
    """Somebody with one page open: on the audit or on the orbits."""

    address: str
    run: str
    number: int
    outage: Outage = field(default_factory=Outage)
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: list[str] = field(default_factory=list)
    cut: int = 0
    back: float | None = None
    """Seconds from the end of the outage to the first answer over the socket."""
    seq: int = 0

    def __post_init__(self) -> None:
        parts = urlsplit(self.address)
        self.place, self.token = (parts.hostname or "", parts.port or 0), parts.query.partition("=")[2]
        self.random = random.Random(self.number)

    async def get(self, path: str) -> None:
        """One answer by HTTP."""
        started = time.perf_counter()
        reader, writer = await asyncio.open_connection(*self.place)
        try:
            head = f"GET {path} HTTP/1.1\r\nHost: {self.place[0]}:{self.place[1]}\r\nAuthorization: Bearer {self.token}\r\n"
            writer.write(f"{head}X-Client: {self.number}\r\nConnection: close\r\n\r\n".encode())
            data = await asyncio.wait_for(reader.read(-1), PATIENCE)
        finally:
            writer.close()
        if data.split(b" ", 2)[1:2] != [b"200"]:
            raise RuntimeError(f"{path}: {data[:200]!r}")
        self.times["HTTP"].append(time.perf_counter() - started)

    def socket(self) -> connect:
        """The socket of the page."""
        where = f"ws://{self.place[0]}:{self.place[1]}/api/runs/{self.run}/live?token={self.token}"
        return connect(where, max_size=None, compression=None, open_timeout=PATIENCE)

    def question(self, sample: int) -> str:
        """Any place along the sample's orbit, or any draw of it."""
        self.seq += 1
        if self.run == "orbit":
            return json.dumps({"seq": self.seq, "sample": sample, "at": [self.random.uniform(0.0, 359.0)]})
        draw = {"draw": self.random.randrange(DRAWS), "explainer": self.random.choice(["saliency", "gradient"])}
        return json.dumps({"seq": self.seq, "sample": sample, **draw, **ABOUT})

    async def ask(self, socket: ClientConnection, sample: int) -> None:
        """One question and its answer over the socket."""
        started = time.perf_counter()
        await socket.send(self.question(sample))
        data = await asyncio.wait_for(socket.recv(), PATIENCE)
        header, _ = unpack(data if isinstance(data, bytes) else data.encode())
        if "error" in header or header["seq"] != self.seq:
            raise RuntimeError(str(header))
        now = time.perf_counter()
        self.times["drag" if self.run == "orbit" else "draw"].append(now - started)
        if self.back is None and self.outage.until is not None:
            self.back = now - self.outage.until

    async def look(self, socket: ClientConnection) -> None:
        """Choose a sample, look at it, ask about it."""
        sample = self.random.randrange(SAMPLES)
        if self.random.random() < 0.1:
            await self.get("/api/index")
            await self.get(f"/api/runs/{self.run}")
        for path in AUDIT if self.run == "audit" else ORBIT:
            await self.get(f"/api/runs/{self.run}/{path.format(sample=sample)}")
        for _ in range(DRAGGED if self.run == "orbit" else DRAWN):
            await self.ask(socket, sample)
        await asyncio.sleep(REST)

    async def stay(self, ended: asyncio.Event) -> None:
        """Look at samples until it ends; connect again whenever the server was away."""
        pause = PAUSES[0]
        while not ended.is_set():
            started = time.perf_counter()
            try:
                async with self.socket() as socket:
                    while not ended.is_set():
                        started = time.perf_counter()
                        await self.look(socket)
                        pause = PAUSES[0]
            except (OSError, RuntimeError, TimeoutError, WebSocketException, asyncio.IncompleteReadError) as error:
                if self.outage.excuses(started):
                    self.cut += 1
                else:
                    self.errors.append(f"{type(error).__name__}: {error}")
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSES[1])


def folded(clients: list[Client]) -> dict[str, list[float]]:
    """All times of all clients in milliseconds, by kind."""
    return {kind: [1000 * one for client in clients for one in client.times[kind]] for kind in ("drag", "draw", "HTTP")}


async def watched(number: int, seconds: float, every: float) -> list[tuple[float, float]]:
    """Minutes and a process's memory in MiB, from time to time."""
    begun, found = time.perf_counter(), []
    while (passed := time.perf_counter() - begun) < seconds:
        found.append((passed / 60, resident(number)))
        await asyncio.sleep(min(every, seconds / 8))
    return [*found, (seconds / 60, resident(number))]


Start = Callable[[int, str], tuple[str, int]]


async def crowd(start: Start, stop: Callable[[], None], clients: int, minutes: float) -> dict[str, Any]:
    """All clients for some minutes; then the server is away for a moment, and they go on for a fifth of the time."""
    address, number = await asyncio.to_thread(start, 0, "")
    outage, ended = Outage(), asyncio.Event()
    people = [Client(address, ("audit", "orbit")[one % 2], one, outage) for one in range(clients)]
    tasks = [asyncio.create_task(one.stay(ended)) for one in people]
    memory = await watched(number, 60 * minutes, 5.0)
    before, load = folded(people), machine()
    outage.since = time.perf_counter()
    await asyncio.to_thread(stop)
    await asyncio.sleep(DOWN)
    await asyncio.to_thread(start, people[0].place[1], people[0].token)
    outage.until = time.perf_counter()
    await asyncio.sleep(max(12 * minutes, 12.0))
    ended.set()
    await asyncio.gather(*tasks)
    return {"people": people, "times": before, "memory": memory, "load": load, "address": address}


async def flood(address: str, how: str) -> None:
    """Ask until the process ends: over the socket of a run without waiting for answers, or by so many requests at a time."""
    client = Client(address, "audit" if how == "draws" else "orbit", 1000)
    if how.endswith("at a time"):
        path = f"/api/runs/audit/{AUDIT[0]}"
        while True:
            await asyncio.gather(*(client.get(path) for _ in range(int(how.split()[0]))))

    async def hear(socket: ClientConnection) -> None:
        async for _ in socket:
            pass

    async with client.socket() as socket:
        hearing = asyncio.create_task(hear(socket))
        while not hearing.done():
            sample = client.random.randrange(SAMPLES)
            search = json.dumps({"seq": 0, "sample": sample, "worst": "confidence", "reference": "truth"})
            await socket.send(search if how == "searches" else client.question(sample))
            await asyncio.sleep(0.002)


def flooding(address: str, how: str, tell: Connection) -> None:
    """The process of a client that floods."""
    tell.send(None)
    asyncio.run(flood(address, how))


async def alone(address: str, how: str, seconds: float) -> float:
    """The middle time in ms of one client's answers: places of a drag, draws, or requests for a sample of the audit."""
    client = Client(address, "orbit" if how == "drag" else "audit", 2000)

    async def until(act: Callable[[], Awaitable[None]]) -> None:
        begun = time.perf_counter()
        while time.perf_counter() - begun < seconds:
            await act()
            await asyncio.sleep(0.02)

    if how == "HTTP":
        await until(lambda: client.get(f"/api/runs/audit/{AUDIT[3].format(sample=client.random.randrange(SAMPLES))}"))
    else:
        async with client.socket() as socket:
            await client.ask(socket, 0)
            client.times.clear()
            await until(lambda: client.ask(socket, client.random.randrange(SAMPLES)))
    return float(np.median(client.times[how])) * 1000


def flooded(address: str, seconds: float) -> None:
    """Print what a flood does to one other client."""
    table = empty_table("One client's p50 (ms) beside one that floods; target: below 3 times", "", "drag", "draw", "HTTP")
    quiet_times = {how: asyncio.run(alone(address, how, seconds)) for how in ("drag", "draw", "HTTP")}
    table.add_row("alone", *(f"{one:.1f}" for one in quiet_times.values()))
    for how in FLOODS:
        with process(flooding, address, how):
            time.sleep(1.0)
            found = {victim: asyncio.run(alone(address, victim, seconds)) for victim in quiet_times}
        table.add_row(f"beside a flood of {how}", *(f"{one:.1f} ({one / quiet_times[victim]:.1f} x)" for victim, one in found.items()))
    CONSOLE.print(table)
    CONSOLE.print(f"{machine()}; the client that floods is a process of its own and takes a part of a core.", highlight=False)


def show(found: dict[str, Any], minutes: float) -> None:
    """Print what the clients saw."""
    people, memory, lasting = found["people"], found["memory"], len(found["memory"]) // 2
    half = np.array(memory[lasting:])
    slope = float(np.polyfit(half[:, 0], half[:, 1], 1)[0])
    table = empty_table(
        f"{len(people)} clients on two runs for {minutes:g} minutes",
        "from a question to its answer (ms)",
        "answers",
        "p50",
        "p90",
        "p99",
        "most",
    )
    for kind, times in found["times"].items():
        table.add_row(kind, f"{len(times):,}", *quantiles(times, 0.5, 0.9, 0.99, 1.0))
    everything = [one for times in found["times"].values() for one in times]
    table.add_row("all", f"{len(everything):,}", *quantiles(everything, 0.5, 0.9, 0.99, 1.0))
    CONSOLE.print(table)
    errors = [one for client in people for one in client.errors]
    minute = {int(at): size for at, size in reversed(memory)}
    series = ", ".join(f"{size:.0f}" for _, size in sorted(minute.items()))
    back = sorted(client.back for client in people if client.back is not None)
    for line in (
        f"{len(errors)} errors{''.join(f'; {one}' for one in errors[:5])}.",
        f"The server's memory at the start of every minute: {series} MiB; {memory[-1][1]:.0f} MiB at the end; "
        f"in the second half a slope of {slope:+.2f} MiB per minute.",
        f"Restart, away for {DOWN:g} s: {len(back)} of {len(people)} clients came back, "
        f"{'' if not back else f'the last one {back[-1]:.1f} s after the server did (p50 {np.median(back):.1f} s), '}"
        f"{sum(client.cut for client in people)} attempts in between.",
        f"{found['load']}.",
    ):
        CONSOLE.print(line, highlight=False)


def main(minutes: float, clients: int) -> None:
    """Print everything."""
    with tempfile.TemporaryDirectory() as folder:
        with process(making, folder):
            pass
        with ExitStack() as servers:

            def start(port: int, token: str) -> tuple[str, int]:
                found: tuple[str, int] = servers.enter_context(process(serving, folder, port, token))
                return found

            found = asyncio.run(crowd(start, servers.close, clients, minutes))
            show(found, minutes)
            flooded(found["address"], min(10.0, 60 * minutes))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=50)
    given = parser.parse_args()
    main(given.minutes, given.clients)
