"""Commands that measure: demo, audit, recipe."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console

from veracity.cli import audit_file, tables
from veracity.cli.main import app
from veracity.cli.tables import orbit_results
from veracity.core.errors import StoreError
from veracity.engine.forecast import Forecast
from veracity.engine.store.marks import made_from
from veracity.orbits import OrbitResult
from veracity.recipe import Found, Scale, run_recipe
from veracity.results import Result
from veracity.studies.distance_check import DistanceResult
from veracity.studies.several import JointResult

Workers = typer.Option(None, help="Worker processes; by default one for each core, at most 8, and one for a GPU.")
Device = typer.Option("cpu", help="Where the models run, such as cuda.")


def default_workers(workers: int | None, device: str = "cpu") -> int:
    """As many workers as there are cores, within reason; a GPU is kept busy by one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return workers if workers is not None else min(8, cores) if device == "cpu" else 1


@contextmanager
def resumable() -> Iterator[None]:
    """An interrupted run says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        Console(stderr=True).print("Stopped. Run the same command again to resume.")
        raise typer.Exit(130) from None


def own_report(folder: Path) -> Path:
    """Where a folder keeps its report; raises if that is a link, which would let a folder from elsewhere overwrite any file."""
    target = folder / "report.html"
    if target.is_symlink():
        raise StoreError(f"{target} is a link, which is not written through: delete it first.")
    return target


def finish(result: Found, folder: Path, started: float) -> None:
    """The table, where everything is, and exit code 1 if something failed."""
    console = Console()
    if isinstance(result, OrbitResult):
        console.print(orbit_results(result))
    else:
        console.print(tables.results(result) if isinstance(result, Result) else str(result), soft_wrap=not isinstance(result, Result))
    console.print(f"{folder / 'report.html'} written; run folder {folder}; {time.perf_counter() - started:.0f} s", soft_wrap=True)
    if isinstance(result, OrbitResult):
        console.print(f"Look at it with live models: veracity app {folder}", soft_wrap=True)
    if isinstance(result, (Result, JointResult, DistanceResult, OrbitResult)) and len(result.failures()):
        raise typer.Exit(1)


@app.command()
def demo(out: Path = typer.Option(Path("runs/demo"), help="The run folder."), workers: int | None = Workers) -> None:
    """Train three small networks on digits, audit fourteen explainers, write a report: about a minute."""
    started = time.perf_counter()
    with resumable():
        finish(run_recipe("symmetry-digits", out, Scale.SMALL, workers=default_workers(workers)), out, started)


@app.command()
def recipe(
    name: str = typer.Argument(help="See: veracity ls recipes"),
    scale: Scale = typer.Option(Scale.SMALL, help="Seconds, minutes, or as published."),
    out: Path | None = typer.Option(None, help="The run folder; runs/NAME-SCALE by default."),
    workers: int | None = Workers,
    device: str = Device,
) -> None:
    """Run a published protocol into a folder, with a report."""
    started = time.perf_counter()
    folder = out or Path("runs") / f"{name}-{scale.value}"
    with resumable():
        finish(run_recipe(name, folder, scale, workers=default_workers(workers, device), device=device), folder, started)


@app.command()
def audit(
    file: Path = typer.Argument(help="The audit file (TOML)."),
    out: Path | None = typer.Option(None, help="The run folder; the file's 'out' by default."),
    workers: int | None = Workers,
    device: str = Device,
    batch: int | None = typer.Option(None, help="Model rows at once; by default as many as the memory budget allows."),
    memory: float | None = typer.Option(None, help="Memory budget in GiB; 1 on a CPU, a quarter of a GPU's by default."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what it would cost, and stop."),
) -> None:
    """Run an audit file; the same command resumes what was interrupted."""
    started = time.perf_counter()
    with resumable():
        asked, named = audit_file.read(file)
        folder = out or named
        asked = replace(asked, about={**asked.about, "file": file.name})
        crew, budget = default_workers(workers, device), None if memory is None else int(memory * 2**30)
        asked = asked.on(device)
        if dry_run:
            Console().print(costs(asked.forecast(folder, workers=crew, batch=batch, memory=budget)))
            return
        with made_from(file):
            result = asked.run(folder, workers=crew, batch=batch, memory=budget)
        result.save_report(own_report(folder))
        finish(result, folder, started)


def costs(cost: Forecast) -> str:
    """A forecast in words."""
    minutes, seconds = divmod(round(cost.seconds), 60)
    first = [
        *([f"calibration of {counted(cost.calibrations, 'path')}"] if cost.calibrations else []),
        *([f"learning by {counted(cost.lessons, 'explainer')}"] if cost.lessons else []),
        *([f"training of {counted(cost.folds, 'fold')}, which is not counted"] if cost.folds else []),
    ]
    least = "at least " if first else ""
    lines = [
        f"{cost.cells} cells, {cost.finished} of them finished",
        *([f"before the first cell: {'; '.join(first)}"] if first else []),
        f"{least}{cost.forward:,} forward and {cost.backward:,} backward passes to go",
        f"about {minutes} min {seconds} s, {cost.memory / 2**20:,.0f} MiB for the largest batches",
    ]
    return "\n".join(lines)


def counted(number: int, noun: str) -> str:
    """A number and its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
