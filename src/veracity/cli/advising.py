"""Commands that look for symmetries and for what breaks them: scan, advise."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from torch import nn

from veracity.advice import Advice
from veracity.advice import advise as measured_advice
from veracity.audit import Audit
from veracity.cli import audit_file, tables
from veracity.cli.main import app
from veracity.cli.running import Workers, default_workers, resumable
from veracity.core.errors import SpecError
from veracity.core.registry import RECIPES
from veracity.core.sentences import tell
from veracity.engine.resolve import as_models
from veracity.recipes import Scale
from veracity.results import Result
from veracity.scanning import Scan
from veracity.scanning import scan as scanned


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
) -> None:
    """Say for each explainer which assumption fails, what to change, and what the change gains; the report shows it too."""
    result = Result(folder)
    audit = audit_behind(result, folder)
    with resumable():
        found = measured_advice(audit, folder, measure=measure, passes=passes, workers=default_workers(workers))
    Result(folder).save_report(folder / "report.html")
    console = Console()
    for one in found:
        advised(console, one)
    console.print(f"{folder / 'report.html'} written", soft_wrap=True)


def audit_behind(result: Result, folder: Path) -> Audit:
    """The audit that made a run, assembled again from its recipe or its file."""
    spec = result.manifest["spec"]
    if "recipe" in spec:
        audit: Audit = RECIPES[spec["recipe"]].assemble(folder, Scale(spec["scale"]))
        return audit
    if "file" in spec:
        return audit_file.read(folder / spec["file"])[0]
    raise SpecError(f"{folder} was made from Python: call veracity.advise(audit, '{folder}') there, where its models are at hand.")


def advised(console: Console, one: Advice) -> None:
    """One step, in a few lines."""
    mark = "[green]robust[/]" if one.robust else f"[yellow]{escape(one.assumption)}[/]"
    who = f"[bold]{escape(one.model)} / {escape(one.explainer)}[/]"
    console.print(f"{who} ({one.branch}, guideline {one.guideline}): {mark}", highlight=False)
    for line in one.lines():
        console.print(textwrap.indent(escape(line), "  "), highlight=False, soft_wrap=True)
