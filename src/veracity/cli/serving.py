"""The command that opens the interactive interface."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from veracity.app import show
from veracity.cli.main import app


@app.command(name="app")
def interface(
    folder: Path = typer.Argument(metavar="DIR", help="A run folder, or a folder that holds some."),
    port: int = typer.Option(0, help="The port; 0 stands for a free one."),
    host: str = typer.Option("127.0.0.1", help="Where to listen; anything but the loopback lets other machines in who know the address."),
    browser: bool = typer.Option(True, "--browser/--no-browser", help="Open the browser."),
) -> None:
    """Look at runs in the browser: orbits with live models, audits, reports."""
    if show(folder, port=port, host=host, open_browser=browser):
        leave()


def leave() -> None:
    """End now: an answer that is still being computed in some thread would keep the process for as long as it takes."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
