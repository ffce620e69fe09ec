"""The built front end inside the package: three files, known by name."""

from __future__ import annotations

from functools import cache
from importlib import resources

from veracity.core.errors import StoreError

NAMES = ("index.html", "app.js", "app.css")
"""All that the front end consists of."""


@cache
def bundled(name: str) -> str:
    """The text of one of the front end's files."""
    file = resources.files("veracity.report.interactive").joinpath("bundle", name)
    if name not in NAMES or not file.is_file():
        raise StoreError(f"The interface's file '{name}' is not in this installation of veracity: install it again.")
    return file.read_text(encoding="utf-8")
