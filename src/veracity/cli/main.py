"""Entry point: a user's mistake is one sentence on the error stream and exit code 2, never a traceback.

The modules of commands import nothing heavy at their top: a command imports what it needs when it runs.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from veracity import __version__
from veracity.cli import card, catalogue, examine, measure, read
from veracity.core.errors import Note, VeracityError

app = typer.Typer(
    name="veracity",
    help="Does this explanation tell the truth about this model? Measured, with uncertainty and controls.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
COMMANDS: tuple[Callable[..., None], ...] = (
    measure.demo, measure.audit, measure.recipe, measure.scan, measure.advise, card.card, examine.examine,
    read.show, read.report, read.leaderboard, read.join, read.gate, read.diff, catalogue.ls,
)  # fmt: skip
for command in COMMANDS:
    app.command()(command)
app.command(name="app")(read.interface)


@app.callback(invoke_without_command=True)
def version(show: bool = typer.Option(False, "--version", help="Print the version and stop.", is_eager=True)) -> None:
    """Does this explanation tell the truth about this model? Measured, with uncertainty and controls."""
    if show:
        typer.echo(f"veracity {__version__}")
        raise typer.Exit


@cache
def command_line() -> Any:
    """All commands with their options, which are read off the signatures once: it takes 10 ms, and `main` may be called again."""
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    errors = Console(stderr=True, soft_wrap=True)
    before = measure.TYPED.set(shlex.join(["veracity", *(sys.argv[1:] if arguments is None else arguments)]))
    with no_interruption_lost(), warnings.catch_warnings():
        warnings.simplefilter("always", Note)
        warnings.showwarning = lambda message, category, *rest: tell(errors, message, category)
        try:
            command_line()(args=None if arguments is None else list(arguments))
        except VeracityError as error:
            errors.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False)
            sys.exit(2)
        finally:
            measure.TYPED.reset(before)


@contextmanager
def no_interruption_lost() -> Iterator[None]:
    """Raise a Ctrl-C again that Python would print and forget because it came in an import callback or a destructor."""
    before = sys.unraisablehook

    def again(unraisable: Any) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        else:
            before(unraisable)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before


def tell(errors: Console, message: Warning | str, category: type[Warning]) -> None:
    """Print our own notes in full; other libraries' warnings are for developers."""
    if issubclass(category, Note):
        errors.print(f"[yellow]note:[/] {escape(str(message))}", highlight=False)
