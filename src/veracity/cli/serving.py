"""The command that opens the interactive interface."""

from __future__ import annotations

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
    show(folder, port=port, host=host, open_browser=browser)
