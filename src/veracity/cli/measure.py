"""Commands that measure: demo, audit, recipe, scan, advise."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from veracity.cli.read import own_report, write_report
from veracity.core.errors import SpecError
from veracity.recipe import Scale

if TYPE_CHECKING:
    from torch import nn

    from veracity.audit import Audit
    from veracity.recipe import RecipeResult
    from veracity.results import Result

TYPED: ContextVar[str] = ContextVar("typed", default="")
"""The command line as a user would type it again."""
Workers = typer.Option(None, help="Worker processes; by default one for each core, at most 8, and one for a GPU or a smoke test.")
Device = typer.Option("cpu", help="Where the models run, such as cuda.")


def default_workers(workers: int | None, device: str = "cpu") -> int:
    """The number of workers: as given, or one per core up to 8, or one for a GPU."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return workers if workers is not None else min(8, cores) if device == "cpu" else 1


@contextmanager
def resumable() -> Iterator[None]:
    """Runs within it remember the command that started them, and an interrupted one says how to resume.

    Of a shard they remember the command that does what is left, whichever shard it belongs to.
    """
    from veracity.engine.store.state import commanded

    try:
        with commanded(re.sub(r"--shard[= ]\S+", "--shard auto", TYPED.get())):
            yield
    except KeyboardInterrupt:
        Console(stderr=True).print("Stopped. Run the same command again to resume.")
        raise typer.Exit(130) from None


def finish(result: RecipeResult, folder: str | Path, started: float) -> None:
    """Print the table and where everything is; exit with 1 if something failed."""
    from veracity.cli.summary import print_page, summary_of
    from veracity.orbits import OrbitResult

    found = summary_of(str(folder), result)
    print_page(found.page, wrap=found.wrap)
    console = Console()
    console.print(f"{folder}/report.html written; run folder {folder}; {time.perf_counter() - started:.0f} s", soft_wrap=True)
    if isinstance(result, OrbitResult):
        console.print(f"Look at it with live models: veracity app {folder}", soft_wrap=True)
    if len(result.failures()) and not getattr(result, "failures_expected", False):
        raise typer.Exit(1)


def demo(out: Path = typer.Option(Path("runs/demo"), help="The run folder."), workers: int | None = Workers) -> None:
    """Train three small networks on digits, audit fourteen explainers, write a report: about a minute."""
    recipe("symmetry-digits", Scale.SMALL, out, workers, "cpu")


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
        from veracity.recipe import run_recipe

        crew = 1 if workers is None and scale is Scale.SMOKE else default_workers(workers, device)  # a worker takes seconds to start
        finish(run_recipe(name, folder, scale, workers=crew, device=device), folder, started)


def audit(
    file: Path = typer.Argument(help="The audit file (TOML)."),
    out: str | None = typer.Option(None, help="The run folder, such as runs/a or s3://bucket/a; the file's 'out' by default."),
    workers: int | None = Workers,
    device: str = Device,
    batch: int | None = typer.Option(None, help="Model rows at once; by default as many as the memory budget allows."),
    memory: float | None = typer.Option(None, help="Memory budget in GiB; 1 on a CPU, a quarter of a GPU's by default."),
    on: str | None = typer.Option(None, help="Where jobs run; by default in worker processes. See: veracity ls executors"),
    address: str | None = typer.Option(None, help="With --on ray, the cluster's head, such as 10.0.0.1:6379; auto by default."),
    gpus: float | None = typer.Option(None, help="With --on ray, GPUs per job, such as 0.25."),
    scores: str | None = typer.Option(None, help="A preset or names with commas, instead of the file's scores. See: veracity ls presets"),
    shard: str | None = typer.Option(None, help="Do a share of the jobs beside other shards, such as 3/16; auto: whatever is free."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what it would cost, and stop."),
) -> None:
    """Run an audit file; the same command resumes what was interrupted."""
    started = time.perf_counter()
    with resumable():
        from veracity.cli import audit_file
        from veracity.core.registry import EXECUTORS
        from veracity.engine.store.writers import run_from

        asked, named = audit_file.read(file)
        folder = named if out is None else out
        asked = replace(asked, about={**asked.about, "file": file.name})
        if scores is not None:
            asked = replace(asked, scores=[one.strip() for one in scores.split(",")] if "," in scores else scores)
        where = {name: value for name, value in (("address", address), ("gpus", gpus)) if value is not None}
        if where and on is None:
            raise SpecError(f"--{next(iter(where))} belongs to an executor: add --on ray.")
        crew, budget = default_workers(workers, device), None if memory is None else int(memory * 2**30)
        if on == "ray":
            crew = workers or 1  # every job has a budget of its own
        asked = asked.on(device)
        if dry_run:
            Console().print("\n".join(asked.forecast(folder, workers=crew, batch=batch, memory=budget).lines()))
            return
        with run_from(file):
            chosen = EXECUTORS.build({"name": on, **where}) if where else on
            result = asked.run(folder, workers=crew, on=chosen, batch=batch, memory=budget, shard=shard)
        if shard is not None:
            took = time.perf_counter() - started
            Console().print(f"Shard {shard} has ended after {took:.0f} s. When all shards have: veracity join {folder}", soft_wrap=True)
            return
        write_report(result, folder)
        finish(result, folder, started)


def scan(
    file: Path | None = typer.Argument(None, help="An audit file; its models and data are used, and nothing else."),
    model: str | None = typer.Option(None, help="The model as module:function (or module:name), instead of a file."),
    data: str | None = typer.Option(None, help="The inputs as module:function, beside --model."),
    weights: Path | None = typer.Option(None, help="The model's weights (safetensors, or torch's with tensors alone)."),
    samples: int = typer.Option(32, min=2, help="How many inputs to move."),
    draws: int = typer.Option(16, min=1, help="How many elements of a large symmetry to draw for each."),
    out: Path | None = typer.Option(None, help="A folder that keeps the measurements."),
) -> None:
    """Find the symmetries that a model keeps: every catalogued one that fits the input, best kept first."""
    with resumable():
        from veracity.cli.summary import print_page
        from veracity.cli.tables import symmetries
        from veracity.studies.symmetry_scan import scan as measured

        models, inputs = subjects(file, model, data, weights)
        for name, module in models.items():
            folder = None if out is None else out / name
            found = measured(module, inputs, samples=samples, draws=draws, folder=folder, title=f"{name}: symmetries, best kept first")
            print_page(symmetries(found))


def subjects(file: Path | None, model: str | None, data: str | None, weights: Path | None) -> tuple[dict[str, nn.Module], object]:
    """The models and the inputs, from a file or from the options."""
    from torch import nn

    from veracity.cli import audit_file
    from veracity.engine.resolve import as_models

    if file is not None:
        audit, _ = audit_file.read(file)
        models = as_models(audit.models)
        modules = {name: one for name, one in models.items() if isinstance(one, nn.Module)}
        if len(modules) < len(models):
            crossed = next(name for name in models if name not in modules)
            raise SpecError(f"The model '{crossed}' is cross-trained, and a scan looks at trained ones: give it build=... and weights=...")
        return modules, audit.inputs
    if model is None or data is None:
        raise SpecError("A scan needs an audit file, or --model module:function and --data module:function.")
    entry = {"build": model, **({} if weights is None else {"weights": str(weights)})}
    module = audit_file.build("model", entry, Path.cwd())
    return {"model": module}, audit_file.data(data, Path.cwd(), {"model": module})[0]


def advise(
    folder: Path = typer.Argument(help="A run folder made by `veracity recipe`, `veracity audit` or `veracity demo`."),
    measure: bool = typer.Option(True, help="Measure the changed explainers too, or only say what to change."),
    passes: int = typer.Option(60_000, min=1, help="Do not measure a change that costs more model passes than this."),
    workers: int | None = Workers,
    audit: Path | None = typer.Option(None, help="The audit file that made the run, if the folder was not written by a run of yours."),
) -> None:
    """Say for each explainer which assumption fails, what to change, and what the change gains; the report shows it too."""
    with resumable():
        from veracity.cli import tables
        from veracity.results import Result
        from veracity.studies.advice import advise as measured

        target = own_report(folder)
        asked = audit_behind(Result(folder), folder, audit)
        found = measured(asked, folder, measure=measure, passes=passes, workers=default_workers(workers))
        Result(folder).save_report(target)
    for line in tables.advice(found):
        Console().print(line, highlight=False, soft_wrap=True)
    typer.echo(f"{target} written")


def audit_behind(result: Result, folder: Path, file: Path | None = None) -> Audit:
    """The audit that made a run: from the audit file that was given, from an installed recipe, or from this user's own audit file.

    A manifest is no reason to import anything: the folder may come from elsewhere.
    """
    from veracity.audit import Audit
    from veracity.cli import audit_file
    from veracity.core.registry import RECIPES
    from veracity.engine.store.writers import mark_of

    if file is not None:
        return audit_file.read(file)[0]
    spec = result.manifest["spec"]
    if spec.get("recipe") is not None:
        if spec.get("scale") not in list(Scale):
            raise SpecError(f"{folder} names no scale of the recipe '{spec['recipe']}': run the recipe again.")
        made = RECIPES[spec["recipe"]].assemble(folder, Scale(spec["scale"]))
        if not isinstance(made, Audit):
            raise SpecError(f"The recipe '{spec['recipe']}' makes no single audit, so there is no advice on its run.")
        return made
    if "file" in spec:
        mark = mark_of(result.folder.files)
        if mark is None or not mark.file:
            raise SpecError(
                f"{folder} was not written by a run of yours, or has changed since, so that no code is run for it: name the audit file "
                f"that made it, as in 'veracity advise {folder} --audit FILE', if you trust that file."
            )
        return audit_file.read(Path(mark.file))[0]
    raise SpecError(f"{folder} was made from Python: call veracity.advise(audit, '{folder}') there, where its models are at hand.")


def may_have_made(audit: Audit, folder: Path) -> bool:
    """Whether a run is an audit with a model of the same name: all that is known before anything is prepared."""
    from veracity.engine.store import RunFolder
    from veracity.engine.store.manifest import Kind

    manifest = RunFolder(str(folder)).manifest(None)
    return Kind(manifest["kind"]) is Kind.AUDIT and not set(audit.modules).isdisjoint(manifest["models"])


def audits_at_hand(served: Path, file: Path | None) -> Callable[[Path], Callable[[], Audit] | None]:
    """Finds what makes the audit behind a run again: the file that was given for it, or the audit file or recipe of this user's own run.

    The file belongs to the run in its own folder, or to the served folder if that is a run.
    """
    from veracity.audit import Audit
    from veracity.cli import audit_file
    from veracity.core.registry import RECIPES
    from veracity.engine.store import RunFolder
    from veracity.engine.store.manifest import MANIFEST
    from veracity.engine.store.writers import mark_of
    from veracity.recipe import without_training

    given, places = None, set[Path]()
    if file is not None:
        given, out = audit_file.read(file)
        places = {place.resolve() for place in (served, Path(out)) if (place / MANIFEST).is_file()}
        shown = [place for place in places if place.is_relative_to(served.resolve())]
        if not shown:
            raise SpecError(f"The run of {file} is not in {served}: give its folder, as in 'veracity app RUN --audit {file}'.")
        if not any(may_have_made(given, place) for place in shown):
            raise SpecError(f"{file} made no run in {served}: no audit there has one of its models. Give the audit file of the run.")

    def assembled(name: str, folder: Path, scale: str) -> Audit:
        with without_training():
            made = RECIPES[name].assemble(folder, Scale(scale))
        if not isinstance(made, Audit):
            raise SpecError(f"The recipe '{name}' makes no single audit, so that the models of this run are not at hand.")
        return made

    def find(folder: Path) -> Callable[[], Audit] | None:
        if given is not None and folder.resolve() in places:
            return lambda: given
        store = RunFolder(str(folder))
        mark = mark_of(store.files)
        if mark is None:
            return None
        if mark.file:
            return lambda: audit_file.read(Path(mark.file))[0]
        spec = store.manifest()["spec"]
        name, scale = str(spec.get("recipe", "")), str(spec.get("scale", ""))
        return partial(assembled, name, folder, scale) if name in RECIPES and scale in list(Scale) else None

    return find
