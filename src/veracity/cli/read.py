"""Commands that read folders: show, report, leaderboard, join, gate, diff, app."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from veracity.core.errors import InputError, SpecError, StoreError, VeracityError

if TYPE_CHECKING:
    from veracity.recipe import RecipeResult

Folder = typer.Argument(help="A folder that a command wrote.")


class Format(StrEnum):
    """How to print a table."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    LATEX = "latex"


def show(
    folder: str = Folder,
    format: Format = typer.Option(Format.TABLE, help="json: one object per line; markdown and latex: for a README or a paper."),
    numbers: bool = typer.Option(False, "--numbers", help="Of a card in markdown or latex, the numbers behind the words."),
) -> None:
    """Print the table of a folder; in json and csv, an end that is not known is empty."""
    from veracity.cli.summary import print_page, summary_of

    if format in (Format.MARKDOWN, Format.LATEX):
        typer.echo(for_paper(folder, format, numbers=numbers), nl=False)
        return
    if numbers:
        raise SpecError("--numbers is for --format markdown and latex of a card.")

    found = summary_of(folder)
    if format is Format.TABLE:
        print_page(found.page, wrap=found.wrap)
        return
    import pandas as pd

    from veracity.core.spreadsheets import as_csv

    table = pd.DataFrame(found.table).replace([-math.inf, math.inf], math.nan)
    if format is Format.CSV:
        typer.echo(as_csv(table), nl=False)
        return
    for row in table.to_dict("records"):
        typer.echo(json.dumps({key: None if isinstance(value, float) and math.isnan(value) else value for key, value in row.items()}))


def for_paper(folder: str, format: Format, *, numbers: bool) -> str:
    """The table of a card, or the boards of an audit, in Markdown or LaTeX."""
    from veracity.cards.result import Card
    from veracity.report.leaderboard import Leaderboard
    from veracity.report.leaderboard import leaderboard as read
    from veracity.results import Result
    from veracity.studies.result import load

    found = load(folder)
    if isinstance(found, Card):
        return found.to_markdown(numbers=numbers) if format is Format.MARKDOWN else found.to_latex(numbers=numbers)
    if numbers:
        raise SpecError(f"--numbers is for a card, and {folder} holds none: leave it out.")
    if not isinstance(found, Result):
        raise SpecError(f"Tables in Markdown and LaTeX are made of audits and cards, and {folder} holds neither: use --format csv.")
    board: Leaderboard = read([folder])
    return board.to_markdown() if format is Format.MARKDOWN else board.to_latex()


def report(
    folder: str = Folder,
    out: Path | None = typer.Option(None, help="The file; report.html in the folder by default."),
    samples: int | None = typer.Option(None, help="Of orbits, how many samples the file holds; as many as fit into 12 MB by default."),
) -> None:
    """Write the report of a folder: one HTML file that opens anywhere."""
    from veracity.orbits import OrbitResult
    from veracity.studies.result import load

    result = load(folder)
    if out is None and in_bucket(folder):
        if samples is not None:
            raise SpecError("--samples needs --out for a folder in a bucket.")
        typer.echo(f"{write_report(result, folder)} written")
        return
    target = out or own_report(Path(folder))
    if isinstance(result, OrbitResult):
        written = result.save_report(target, samples)
    elif samples is not None:
        raise SpecError("--samples is for orbits: every other report holds what was measured of all samples.")
    else:
        written = result.save_report(target)
    typer.echo(f"{written} written")


class BoardFormat(StrEnum):
    """How to write a leaderboard."""

    PAGE = "page"
    MARKDOWN = "markdown"
    LATEX = "latex"
    CSV = "csv"


SUFFIXES = {".md": BoardFormat.MARKDOWN, ".tex": BoardFormat.LATEX, ".csv": BoardFormat.CSV}
"""The format of a leaderboard by the end of its file's name; any other is a page."""


def leaderboard(
    folders: list[str] = typer.Argument(metavar="DIR", help="Run folders, or folders that hold some."),
    out: Path | None = typer.Option(None, help="The file, such as leaderboard.html; without one, the tables are printed."),
    format: BoardFormat | None = typer.Option(None, help="By default what the file's name says; without a file, markdown."),
) -> None:
    """Rank the explainers of all audits in some folders: a page that can be sorted, or tables. Ties are shown as ties."""
    chosen = format or (BoardFormat.MARKDOWN if out is None else SUFFIXES.get(out.suffix.lower(), BoardFormat.PAGE))
    if chosen is BoardFormat.PAGE and out is None:
        raise SpecError("A page needs a file: add --out leaderboard.html, or ask for --format markdown, latex or csv.")
    from veracity.core.spreadsheets import as_csv
    from veracity.report.leaderboard import leaderboard as read
    from veracity.results.pages import save_text

    board = read(folders)
    texts: dict[BoardFormat, Callable[[], str]] = {
        BoardFormat.MARKDOWN: board.to_markdown,
        BoardFormat.LATEX: board.to_latex,
        BoardFormat.CSV: lambda: as_csv(board.table()),
    }
    if out is None:
        typer.echo(texts[chosen](), nl=False)
        return
    written = board.save_page(out) if chosen is BoardFormat.PAGE else save_text(texts[chosen], out)
    typer.echo(f"{written} written")


def own_report(folder: Path) -> Path:
    """Where a folder keeps its report; raises if that is a link, which would let a folder from elsewhere overwrite any file."""
    target = folder / "report.html"
    if target.is_symlink():
        raise StoreError(f"{target} is a link, which is not written through: delete it first.")
    return target


def in_bucket(folder: str | Path) -> bool:
    """Whether a folder is an address such as s3://bucket/run."""
    return "://" in str(folder)


def write_report(result: RecipeResult, folder: str | Path) -> str:
    """Write the report of a result into its own folder, on a disk or in a bucket, and say where."""
    from veracity.engine.store import RunFolder
    from veracity.results.pages import page_of

    if not in_bucket(folder):
        return str(result.save_report(own_report(Path(folder))))
    store = RunFolder(str(folder))
    store.files.write("report.html", page_of(store.manifest(None)["kind"], result).encode())
    return f"{folder}/report.html"


def join(folder: str = Folder) -> None:
    """Check that all shards of an audit have done their share, and write its table and report."""
    from veracity.cli.summary import print_page, summary_of
    from veracity.results import joined

    result = joined(folder)
    written = write_report(result, folder)
    found = summary_of(folder, result)
    print_page(found.page, wrap=found.wrap)
    typer.echo(f"{result.progress.sentence()} {written} written")
    if len(result.failures()):
        raise typer.Exit(1)


class GateFormat(StrEnum):
    """How to print what a gate found."""

    TEXT = "text"
    GITHUB = "github"
    JUNIT = "junit"


def gate(
    folder: str = Folder,
    require: list[str] = typer.Option(
        [],
        help='Such as "equivariance>=0.9"; of a card "faithful", "deletion>=0.1"; of orbits "gap<=0.1", of a meta-evaluation "mc>=0.6", of '
        'a degradation check "slope<=0" or "p_adjusted<=0.05", of a distance check "trend>=0.9", of a scan "invariance>=0.99"; may be '
        "repeated.",
    ),
    explainer: list[str] = typer.Option([], help="Only these explainers (of a study, tests); may be repeated."),
    model: list[str] = typer.Option([], help="Only these models (of a study, scores, distances or symmetries); may be repeated."),
    max_unseen: float | None = typer.Option(
        None, help="Where all samples are equal, the largest share of the population that may differ unseen, such as 0.05."
    ),
    baseline: str | None = typer.Option(
        None, help="An audit or a card of the last release on the same samples: nothing may be worse than there by more than --margin."
    ),
    margin: float | None = typer.Option(None, help="The largest loss against --baseline that you accept, such as 0.02."),
    score: list[str] = typer.Option([], help="With --baseline, only these scores (of a card, checks); may be repeated."),
    format: GateFormat = typer.Option(GateFormat.TEXT, help="github: annotations of a workflow; junit: XML for any other CI."),
) -> None:
    """Exit 1 unless every row holds every requirement at the worse end of its interval, and none is worse than --baseline.

    What is shown to be broken comes first ("not held"), then what the data leave open ("not shown"): both exit 1.
    """
    from veracity.cli.gate import Case, Verdict, check_questions, check_units, github_line, judge, junit
    from veracity.cli.summary import summary_of

    try:
        if baseline is None and (margin is not None or score):
            raise SpecError("--margin and --score compare with an earlier run: add --baseline RUN.")
        if not require and baseline is None:
            raise SpecError('A gate needs something to judge: add --require "equivariance>=0.9", or --baseline RUN --margin 0.02.')
        cases: list[Case] = []
        if require:
            found = summary_of(folder)
            check_questions(found.requirements, require)
            check_units(found.requirements, require, explainer)
            cases += judge(found.requirements, require, explainer, model, max_unseen, found.confidence).cases
        if baseline is not None:
            from veracity.cli.baseline import not_worse

            cases += not_worse(folder, baseline, margin, explainer, model, score, max_unseen)
    except VeracityError as error:
        if format is GateFormat.GITHUB:
            typer.echo(github_line("error", "veracity gate", str(error)))
        raise
    verdict = Verdict(tuple(cases))
    asked = [*require, *([f"not worse than {baseline} by more than {margin:g}"] if margin is not None else [])]
    if format is GateFormat.JUNIT:
        typer.echo(junit(verdict), nl=False)
    else:
        for line in verdict.notes:
            typer.echo(github_line("notice", "veracity gate", line) if format is GateFormat.GITHUB else f"note: {line}")
        for case in verdict.failed:
            if format is GateFormat.GITHUB:
                typer.echo(github_line("warning" if case.open else "error", f"veracity: {case.asked}", case.said))
            else:
                typer.echo(f"{case.state}: {case.line}", err=True)
    if verdict.failed:
        if format is not GateFormat.JUNIT:
            typer.echo(verdict.summary, err=format is GateFormat.TEXT)
        raise typer.Exit(1)
    if format is not GateFormat.JUNIT:
        typer.echo(f"held: {', '.join(asked)} ({verdict.count} judged)")


def diff(
    first: str = typer.Argument(metavar="A", help="A folder."), second: str = typer.Argument(metavar="B", help="Another one.")
) -> None:
    """Compare two audits, or several with several, row by row: B minus A, paired by sample where the data are the same.

    Of two cards, say what got worse and better beyond chance from A to B.
    """
    from veracity.cli.baseline import audits, both_cards
    from veracity.cli.summary import print_page
    from veracity.cli.tables import comparison
    from veracity.results import compared

    if cards := both_cards(first, second):
        typer.echo(str(cards[1].changes_since(cards[0])))
        return
    runs = [audits(first, "veracity diff"), audits(second, "veracity diff")]
    names = [name for name in runs[0] if name in runs[1]]
    if not names:
        raise InputError(f"{first} and {second} have no audit in common: {', '.join(runs[0])} and {', '.join(runs[1])}.")
    for name in names:
        before, after = (run[name] for run in runs)
        folds = bool(before.manifest.get("folds") or after.manifest.get("folds"))
        print_page(comparison(compared(before, after), f"{second} minus {first}{f', {name}' if name else ''}", folds=folds))


def interface(
    folder: Path = typer.Argument(metavar="DIR", help="A run folder, or a folder that holds some."),
    port: int | None = typer.Option(None, help="The port; the one of last time by default, and 0 for any free one."),
    host: str = typer.Option("127.0.0.1", help="Where to listen; anything but the loopback lets other machines in who know the address."),
    token_file: Path | None = typer.Option(None, help="A file that holds the token; it is made, for you alone, if it is not there."),
    browser: bool = typer.Option(True, "--browser/--no-browser", help="Open the browser."),
    audit: Path | None = typer.Option(None, help="The audit file that made the run, for live draws; not needed for runs of yours."),
) -> None:
    """Look at runs in the browser: orbits with live models, audits, reports."""
    from veracity.app import show as serve
    from veracity.cli.measure import audits_at_hand

    find = audits_at_hand(folder, audit)
    if serve(folder, find=find, port=port, host=host, token_file=token_file, open_browser=browser):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # an answer that some thread still computes would keep the process for as long as it takes
