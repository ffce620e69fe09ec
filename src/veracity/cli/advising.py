"""Commands that look for symmetries and for what breaks them: scan, advise."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from torch import nn

from veracity.audit import Audit
from veracity.cli import audit_file, tables
from veracity.cli.main import app
from veracity.cli.running import Workers, default_workers, own_report, resumable
from veracity.core.errors import SpecError
from veracity.core.registry import RECIPES
from veracity.core.sentences import tell
from veracity.engine.resolve import as_models
from veracity.engine.store.marks import recorded
from veracity.recipe import Scale
from veracity.results import Result
from veracity.studies.advice import Advice
from veracity.studies.advice import advise as measured_advice
from veracity.studies.symmetry_scan import Scan
from veracity.studies.symmetry_scan import scan as scanned


@app.command()
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
    models, inputs = subjects(file, model, data, weights)
    for name, module in models.items():
        found = scanned(module, inputs, samples=samples, draws=draws, folder=None if out is None else out / name)
        show(name, found)


def subjects(file: Path | None, model: str | None, data: str | None, weights: Path | None) -> tuple[dict[str, nn.Module], object]:
    """The models and the inputs, from a file or from the options."""
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
    return {"model": audit_file.built("model", entry, Path.cwd())}, audit_file.data(data)[0]


def show(name: str, found: Scan) -> None:
    """A table, and the first row's reason."""
    console = Console()
    table = tables.ruled(f"{name}: symmetries, best kept first", ["symmetry"], ["elements", "invariance", "interval", "worst", "verdict"])
    for row in found.table().to_dict("records"):
        elements = "no end" if row["elements"] is None or row["elements"] != row["elements"] else size(int(row["elements"]))
        ends = "" if row["low"] != row["low"] else f"{tables.number(row['low'])} .. {tables.number(row['high'])}"
        kept = row["verdict"] == "kept"
        table.add_row(
            escape(row["symmetry"]), elements, tables.number(row["invariance"]), ends, tables.number(row["worst"]), row["verdict"],
            style="bold" if kept else "dim",
        )  # fmt: skip
    console.print(table)
    first = found.rows[0]
    alike = tell("scan.null", first.null, samples=first.n if math.isfinite(first.null) else 0)
    console.print(escape(" ".join(filter(None, (first.why, alike)))), highlight=False)


def size(elements: int) -> str:
    """A count that fits a column.

    >>> size(441), size(10**20)
    ('441', '> 10^9')
    """
    return f"{elements:,}" if elements <= 10**9 else "> 10^9"


@app.command()
def advise(
    folder: Path = typer.Argument(help="A run folder made by `veracity recipe`, `veracity audit` or `veracity demo`."),
    measure: bool = typer.Option(True, help="Measure the changed explainers too, or only say what to change."),
    passes: int = typer.Option(60_000, min=1, help="Do not measure a change that costs more model passes than this."),
    workers: int | None = Workers,
    audit: Path | None = typer.Option(None, help="The audit file that made the run, if the folder was not written by a run of yours."),
) -> None:
    """Say for each explainer which assumption fails, what to change, and what the change gains; the report shows it too."""
    with resumable():
        target = own_report(folder)
        asked = audit_behind(Result(folder), folder, audit)
        found = measured_advice(asked, folder, measure=measure, passes=passes, workers=default_workers(workers))
    Result(folder).save_report(target)
    console = Console()
    for one in found:
        advised(console, one)
    console.print(f"{target} written", soft_wrap=True)


def audit_behind(result: Result, folder: Path, file: Path | None = None) -> Audit:
    """The audit that made a run: from the audit file that was given, from an installed recipe, or from this user's own audit file.

    A manifest is no reason to import anything: the folder may come from elsewhere.
    """
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
        mark = recorded(result.folder.files)
        if mark is None or not mark.file:
            raise SpecError(
                f"{folder} was not written by a run of yours, or has changed since, so that no code is run for it: name the audit file "
                f"that made it, as in 'veracity advise {folder} --audit FILE', if you trust that file."
            )
        return audit_file.read(Path(mark.file))[0]
    raise SpecError(f"{folder} was made from Python: call veracity.advise(audit, '{folder}') there, where its models are at hand.")


def advised(console: Console, one: Advice) -> None:
    """One step, in a few lines."""
    mark = "[green]robust[/]" if one.robust else f"[yellow]{escape(one.assumption)}[/]"
    who = f"[bold]{escape(one.model)} / {escape(one.explainer)}[/]"
    console.print(f"{who} ({one.branch}, guideline {one.guideline}): {mark}", highlight=False)
    for line in one.lines():
        console.print(textwrap.indent(escape(line), "  "), highlight=False, soft_wrap=True)
