"""The command `examine`: explainers on tasks whose right answer is planted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from veracity.planted.examination import Examination

STYLES = {"✓": "green", "✗": "red", "?": "yellow"}


def examine(
    explainers: list[str] | None = typer.Argument(None, help="Names, or module:Class of your own; all built-in explainers by default."),
    modality: list[str] | None = typer.Option(None, help="images, tables, series, texts or graphs; may be given again. All by default."),
    samples: int | None = typer.Option(None, min=4, help="How many samples each task has; by default 16 images and series, else 32."),
    seed: int = typer.Option(0, min=0, help="The same seed gives the same numbers."),
    out: Path | None = typer.Option(None, help="A folder for examine.csv, examine.md and the page examine.html."),
) -> None:
    """Run explainers on tasks whose right answer is known by construction, and say where each of them fails."""
    from veracity.planted.suite import examine as examined

    started, console = time.perf_counter(), Console()
    with Console(stderr=True).status("examining") as status:
        found = examined(explainers or None, modality=modality or None, samples=samples, seed=seed, report=lambda task: status.update(task))
    for part in page(found):
        console.print(part, highlight=False, soft_wrap=isinstance(part, str))
    if explainers and found.skipped:
        console.print("\n[bold]Not examined[/]")
        for line in found.left_out():
            console.print(escape(line), highlight=False, soft_wrap=True)
    written = "" if out is None else "".join(f"{escape(str(path))} written; " for path in found.save(out))
    console.print(f"{written}{time.perf_counter() - started:.0f} s", soft_wrap=True)


def page(found: Examination) -> Iterator[Table | str]:
    """A table per modality with its tasks by number, what the numbers mean, and the failures whose reason is known."""
    for modality in found.modalities:
        rows = found.grid(modality)
        if not rows:
            continue
        table = Table(title=modality, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
        table.add_column("explainer", no_wrap=True)
        for number in range(1, len(found.tasks_of(modality)) + 1):
            table.add_column(str(number), no_wrap=True)
        for label, cells in rows:
            table.add_row(escape(label), *(f"[{STYLES.get(cell[0], 'dim')}]{cell}[/]" for cell in cells))
        yield table
        yield from (escape(line) for line in found.legend(modality))
        yield ""
    yield found.key
    known = found.known_failures()
    if known:
        yield "\n[bold]Known failures[/]"
        yield from (escape(line) for line in known)
