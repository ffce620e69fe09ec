"""An audit on a Ray cluster of this machine: speed of two workers against one, and what happens when parts of it are killed.

    python -m benchmarks.ray_cluster speed --samples 2048
    python -m benchmarks.ray_cluster kills --samples 1500

A head without CPUs and nodes with one CPU each are started on loopback addresses, with a token of their own. The work is bound by
computation, with one thread per process: some 20 ms of CPU time per sample, in jobs of 64 samples and one explainer. Tables are compared
bit by bit with those of the same audit in this process. If other processes want the cores too, compare CPU times: a worker's share of them
says nothing about Ray. Ray is found as any package is, such as in a folder of $PYTHONPATH.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

from veracity import Audit, Ray
from veracity.engine.loop import JobRunner
from veracity.engine.plan import Job
from veracity.engine.progress import JobProgress
from veracity.perturb import CyclicShift

TOKEN = secrets.token_hex(16)
"""What processes must know to take part; one for all clusters, since Ray reads it once."""
START = 120.0
"""Seconds that a part of the cluster has to start."""


def audit(samples: int, draws: int = 8) -> Audit:
    """A small network on random images, two explainers, one score: some 60 passes per sample and explainer."""
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 256, 10)
        ).eval()
    return Audit(
        models={"cnn": net},
        inputs=torch.rand(samples, 1, 16, 16, generator=generator),
        symmetry=CyclicShift(axes=(-2, -1)),
        walk={"name": "monte_carlo", "draws": draws},
        explainers=[{"name": "integrated_gradients", "steps": 4}, {"name": "smooth_grad", "draws": 4}],
        scores=["equivariance"],
        controls=False,
        companions=False,
    )


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.1.1", 0))
        return int(found.getsockname()[1])


class Cluster:
    """A head and nodes, each a process group of its own."""

    def __init__(self, folder: str) -> None:
        self.folder, self.port = folder, free_port()
        self.address = f"127.0.1.1:{self.port}"
        self.parts: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": TOKEN,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_raylet_start_wait_time_s": "120",
            "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
            "OMP_NUM_THREADS": "1",
        }

    def start(self, name: str, *arguments: str) -> None:
        """Start a part in the foreground of its own process group."""
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats", *arguments]
        log = open(f"{self.folder}/{name}.log", "ab")  # noqa: SIM115
        kept = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL}
        self.parts[name] = subprocess.Popen(command, env=self.environment, start_new_session=True, **kept)  # type: ignore[call-overload]

    def start_head(self) -> None:
        """Start the head, without CPUs."""
        where = ("--port", str(self.port), "--node-ip-address", "127.0.1.1", "--temp-dir", self.folder)
        self.start("head", "--head", "--num-cpus", "0", "--include-dashboard=false", "--object-store-memory", str(100 << 20), *where)
        until(lambda: listens(self.port), "the head")

    def start_node(self, number: int) -> None:
        """Start a node with one CPU."""
        where = ("--address", self.address, "--node-ip-address", f"127.0.1.{number + 1}")
        self.start(f"node {number}", "--num-cpus", "1", "--object-store-memory", str(100 << 20), *where)

    def nodes(self, count: int) -> None:
        """Wait until so many CPUs are there."""
        until(lambda: int(self.ask("print(int(ray.cluster_resources().get('CPU', 0)))") or -1) == count, f"{count} nodes")

    def ask(self, code: str) -> str:
        """What a line of Python prints on the cluster."""
        line = f"import ray; ray.init({self.address!r}, logging_level='error', log_to_driver=False); {code}"
        found = subprocess.run([sys.executable, "-c", line], env=self.environment, capture_output=True, text=True, check=False)
        return found.stdout.strip()

    def processes(self, word: str, part: str = "") -> list[int]:
        """The processes of the cluster, or of one part, whose command holds a word."""
        groups = {one.pid for name, one in self.parts.items() if not part or name == part}
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if word in words and os.getsid(int(entry.name)) in groups:
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def memory(self) -> int:
        """The bytes that all processes of the cluster hold, shared ones counted in parts."""
        total = 0
        for pid in self.processes(""):
            try:
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                total += next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
            except (OSError, StopIteration):
                continue
        return total

    def workers(self) -> set[int]:
        """The worker processes."""
        return {*self.processes("ray::run_job"), *self.processes("ray::IDLE")}

    def busy(self, processes: set[int]) -> dict[int, float]:
        """The seconds of CPU time that each of these processes has had so far."""
        found = {}
        for pid in processes:
            with suppress(OSError):
                words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                found[pid] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        return found

    def stop(self, name: str) -> None:
        """End a part with all of its processes."""
        one = self.parts.pop(name)
        for pid in [pid for pid in self.processes_of(one.pid) if pid != one.pid] + [one.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        one.wait()

    def processes_of(self, session: int) -> list[int]:
        """The processes of one session."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    found += [int(entry.name)] if os.getsid(int(entry.name)) == session else []
                except OSError:
                    continue
        return found


@contextmanager
def cluster(nodes: int) -> Iterator[Cluster]:
    """A head and so many nodes; $RAY_AUTH_TOKEN holds their token meanwhile."""
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        found = Cluster(folder)
        before = dict(os.environ)
        os.environ.update({name: value for name, value in found.environment.items() if name.startswith("RAY_")})
        try:
            found.start_head()
            for number in range(1, nodes + 1):
                found.start_node(number)
                found.nodes(number)
            yield found
        except TimeoutError as error:
            logs = {path.name: path.read_text(errors="replace")[-1500:] for path in Path(folder).glob("*.log")}
            raise TimeoutError(f"{error}: {logs}") from error
        finally:
            for name in list(found.parts):
                found.stop(name)
            for name in set(os.environ) - set(before):
                del os.environ[name]
            os.environ.update(before)


def listens(port: int) -> bool:
    """Whether somebody listens at a port."""
    with socket.socket() as found:
        found.settimeout(1.0)
        return found.connect_ex(("127.0.1.1", port)) == 0


def until(ready: Callable[[], Any], what: str, patience: float = START) -> None:
    """Wait for something."""
    ends = time.monotonic() + patience
    while not ready():
        if time.monotonic() > ends:
            raise TimeoutError(f"{what} did not come up")
        time.sleep(0.1)


def timed(samples: int, folder: str, **settings: Any) -> tuple[float, pd.DataFrame]:
    """The seconds and the table of a run."""
    began = time.perf_counter()
    result = audit(samples).run(folder, batch=256, progress=False, **settings)
    return time.perf_counter() - began, result.table()


def command(samples: int, folder: str, address: str) -> subprocess.Popen[bytes]:
    """The same audit on the cluster, in a process of its own."""
    line = f"import torch; torch.set_num_threads(1); from benchmarks.ray_cluster import audit, Ray; audit({samples}).run({folder!r}, "
    line += f"batch=256, progress=False, on=Ray(address={address!r}))"
    return subprocess.Popen([sys.executable, "-c", line])


def cells(folder: str) -> dict[str, int]:
    """The finished cells of a folder, and when each was written."""
    try:
        return {one.name: one.stat().st_mtime_ns for one in Path(folder, "cells").iterdir() if not one.name.startswith(".")}
    except FileNotFoundError:
        return {}


@dataclass(frozen=True, kw_only=True)
class TimedRay(Ray):
    """Remembers how long the jobs took, without the checks and the plan before them, and this process's CPU time meanwhile."""

    took: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)

    def run(self, jobs: Sequence[Job], runner: JobRunner, progress: JobProgress) -> None:
        began, used = time.perf_counter(), time.process_time()
        super().run(jobs, runner, progress)
        self.took.append(time.perf_counter() - began)
        self.own.append(time.process_time() - used)


def imported() -> int:
    """A task that makes a worker import what jobs need, and keeps it busy for a moment; returns its process."""
    import veracity.engine.executors.cluster  # noqa: F401

    time.sleep(1.0)
    return os.getpid()


def wake(ray: Any, nodes: int) -> None:
    """Start a worker on every node: a few short jobs would all be done by one that is up, and the next audit would wait for imports."""
    task = ray.remote(num_cpus=1)(imported)
    until(lambda: len(set(ray.get([task.remote() for _ in range(nodes)]))) == nodes, f"{nodes} workers")


def speed(samples: int) -> None:
    """Two workers against one, in one connection, so that workers of the first audits are still there for the second ones."""
    with tempfile.TemporaryDirectory() as scratch:
        took, table = timed(samples, f"{scratch}/inline")
        print(f"inline: {took:.1f} s with checks and plan; load {os.getloadavg()[0]:.1f}")
        began = time.perf_counter()
        with cluster(1) as found:
            print(f"head and one node up after {time.perf_counter() - began:.1f} s, {found.memory() / 2**20:.0f} MiB")
            import ray  # reads the token, which is known only now

            began = time.perf_counter()
            ray.init(found.address, logging_level="error", log_to_driver=False)
            print(f"connected after {time.perf_counter() - began:.1f} s")
            executor = TimedRay(address=found.address)
            work: list[list[float]] = []
            for nodes in (1, 2):
                if nodes == 2:
                    found.start_node(2)
                    found.nodes(2)
                began = time.perf_counter()
                wake(ray, nodes)
                timed(64 * 4, f"{scratch}/warm{nodes}", on=executor)
                print(f"{nodes} workers: ready after {time.perf_counter() - began:.1f} s, with 256 samples")
                before = found.busy(set(found.processes("")))
                _, mine = timed(samples, f"{scratch}/ray{nodes}", on=executor)
                used = {pid: seconds - before.get(pid, 0.0) for pid, seconds in found.busy(set(found.processes(""))).items()}
                work.append(sorted(used.get(pid, 0.0) for pid in found.workers()))
                rest, share = sum(used.values()) - sum(work[-1]), sum(work[-1]) / nodes / executor.took[-1]
                each = ", ".join(f"{one:.1f} s" for one in work[-1])
                print(f"{nodes} workers: CPU time {each}, {100 * share:.0f} % of their time")
                print(f"{nodes} workers: the process that gives out jobs {executor.own[-1]:.1f} s, Ray's own processes {rest:.1f} s")
                about = f"same table: {mine.equals(table)}; {found.memory() / 2**20:.0f} MiB; load {os.getloadavg()[0]:.1f}"
                print(f"{nodes} workers: {executor.took[-1]:.1f} s; {about}", flush=True)
            print(f"two workers against one: {executor.took[1] / executor.took[3]:.2f} times as fast")
            print(f"by the CPU time of the busiest worker, as if each had a core to itself: {work[0][-1] / work[1][-1]:.2f} times")
            print(f"by the CPU time of all workers, as if their jobs were shared evenly: {2 * sum(work[0]) / sum(work[1]):.2f} times")
            ray.shutdown()


PARTS = {"worker": ("ray::run_job", "node 1"), "node": ("raylet/raylet", "node 2"), "head": ("gcs_server", "head")}
"""What is killed: a word in the process's command, and the part of the cluster that it belongs to."""


def kills(samples: int, only: str | None) -> None:
    """Kill a worker, a node and the head's control process in the middle of a run."""
    with tempfile.TemporaryDirectory() as scratch:
        _, table = timed(samples, f"{scratch}/inline")
        with cluster(2) as found:
            for what, (word, part) in ((name, PARTS[name]) for name in PARTS if only in (None, name)):
                folder = f"{scratch}/{what}"
                process = command(samples, folder, found.address)
                while len(cells(folder)) < 6 or not found.processes(word, part):
                    time.sleep(0.05)
                victim = found.processes(word, part)[0]
                before = cells(folder)
                os.kill(victim, signal.SIGKILL)
                began = time.perf_counter()
                code = process.wait(timeout=150)
                ended = time.perf_counter() - began
                again = ""
                if what == "head":
                    for name in list(found.parts):
                        found.stop(name)
                    found.start_head()
                    for number in (1, 2):
                        found.start_node(number)
                        found.nodes(number)
                if code:
                    second = command(samples, folder, found.address)
                    again = f", same command again: exit code {second.wait(timeout=150)}"
                if what == "node":
                    found.stop("node 2")
                    found.start_node(2)
                    found.nodes(2)
                after = cells(folder)
                lost = [name for name in before if after.get(name) != before[name]]
                from veracity import Result

                same = Result(folder).table().equals(table)
                print(
                    f"{what} killed after {len(before)} of {len(after)} cells: exit code {code} after {ended:.1f} s{again}; "
                    f"finished cells lost or measured again: {len(lost)}; same table: {same}",
                    flush=True,
                )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "kills"])
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--only", choices=["worker", "node", "head"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # so that the cluster is ended
    speed(given.samples) if given.what == "speed" else kills(given.samples, given.only)


if __name__ == "__main__":
    main()
