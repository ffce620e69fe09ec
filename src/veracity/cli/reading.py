"""Commands that read a run folder: show, report, gate, diff; and ls."""

from __future__ import annotations

import json
import math
from enum import StrEnum
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from veracity.cli import tables
from veracity.cli.gate import judge, orbit_rows, parsed
from veracity.cli.main import app
from veracity.cli.running import own_report
from veracity.cli.tables import orbit_results
from veracity.core.errors import SpecError, unknown
from veracity.core.registry import EXPLAINERS, GROUPS, KERNELS, MEASURES, ORBITS, RECIPES, SCORES, SPACES, TARGETS, TASKS, TRAINERS, WALKS
from veracity.engine.store import RunFolder
from veracity.engine.store import folder as run_folder
from veracity.orbits import OrbitResult
from veracity.results import Result, compared

KINDS = {
    registry.plural: registry
    for registry in (EXPLAINERS, GROUPS, SPACES, MEASURES, SCORES, WALKS, KERNELS, TARGETS, TRAINERS, ORBITS, TASKS, RECIPES)
}
Folder = typer.Argument(help="A run folder.")


class Format(StrEnum):
    """How to print a table."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


@app.command()
def show(folder: str = Folder, format: Format = typer.Option(Format.TABLE, help="json: one object per line.")) -> None:
    """Print a run's table; in json and csv, an end that is not known is empty."""
    result = opened(folder)
    if format is Format.TABLE:
        Console().print(tables.results(result) if isinstance(result, Result) else orbit_results(result))
    elif format is Format.CSV:
        typer.echo(result.table().replace([-math.inf, math.inf], math.nan).to_csv(index=False), nl=False)
    else:
        for row in result.table().to_dict("records"):
            known = {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
            typer.echo(json.dumps(known, allow_nan=False))


@app.command()
def report(
    folder: str = Folder,
    out: Path | None = typer.Option(None, help="The file; report.html in the folder by default."),
    samples: int | None = typer.Option(None, help="Of orbits, how many samples the file holds; as many as fit into 12 MB by default."),
) -> None:
    """Write a run's report: one HTML file that opens anywhere."""
    result, target = opened(folder), out or own_report(Path(folder))
    if samples is not None and not isinstance(result, OrbitResult):
        raise SpecError("--samples is for orbits: the report of an audit holds what was measured of all samples.")
    written = result.save_report(target) if isinstance(result, Result) else result.save_report(target, samples)
    typer.echo(f"{written} written")


def opened(folder: str) -> Result | OrbitResult:
    """What is in a run folder, by the kind that its manifest says."""
    return OrbitResult(folder) if RunFolder(folder).manifest(None).get("kind") == run_folder.ORBITS else Result(folder)


@app.command()
def gate(
    folder: str = Folder,
    require: list[str] = typer.Option(..., help='Such as "equivariance>=0.9", of orbits "gap<=0.1"; may be repeated.'),
    explainer: list[str] = typer.Option([], help="Only these explainers; may be repeated."),
    model: list[str] = typer.Option([], help="Only these models; may be repeated."),
    max_unseen: float | None = typer.Option(
        None, help="Where all samples are equal, the largest share of the population that may differ unseen, such as 0.05."
    ),
) -> None:
    """Exit 1 unless every explainer, and of orbits every model, holds every requirement at the worse end of its interval."""
    result = opened(folder)
    if isinstance(result, Result):
        check_units(result, require, explainer)
    rows = result.table() if isinstance(result, Result) else orbit_rows(result)
    confidence = float(result.manifest["spec"].get("confidence", 0.95)) if isinstance(result, Result) else result.confidence
    verdict = judge(rows, require, explainer, model, max_unseen, confidence)
    for line in verdict.alike:
        typer.echo(f"note: {line}")
    for line in verdict.broken:
        typer.echo(f"not held: {line}", err=True)
    if verdict.broken:
        raise typer.Exit(1)
    typer.echo(f"held: {', '.join(require)} ({verdict.judged} judged)")


def check_units(result: Result, rules: list[str], explainers: list[str]) -> None:
    """Refuse one bound for several explainers by a score in the map's own units."""
    for score in dict.fromkeys(parsed(rule)[0] for rule in rules):
        measured = {one.explainer for one in result.series if one.score == score and one.explainer and not one.control}
        chosen = measured & set(explainers) if explainers else measured
        if len(chosen) > 1 and result.in_map_units(score):
            raise SpecError(
                f"The score '{score}' is in each map's own units, so one bound cannot hold for {len(chosen)} explainers: choose one "
                "with --explainer."
            )


@app.command()
def diff(run_a: str = typer.Argument(help="A run folder."), run_b: str = typer.Argument(help="Another one.")) -> None:
    """Compare two runs, row by row: B minus A, paired by sample where the data are the same."""
    first, second = Result(run_a), Result(run_b)
    folded = bool(first.manifest.get("folds") or second.manifest.get("folds"))
    Console().print(tables.comparison(compared(first, second), f"{run_b} minus {run_a}", folded=folded))


@app.command()
def ls(kind: str = typer.Argument("", help=f"One of: {', '.join(KINDS)}.")) -> None:
    """List what there is, with one sentence each."""
    if kind and kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    for plural in [kind] if kind else KINDS:
        table = Table(title=plural, title_justify="left", box=None, show_header=False)
        for item in KINDS[plural].values():
            table.add_row(f"[bold]{escape(item.name)}[/]", escape(item.summary()))
        Console().print(table)
