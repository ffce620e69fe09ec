"""The command `ls`: which components there are, with a sentence each, without importing any of them; or all about one of them.

The names of this package are in catalogue.json, which `python -m tests.catalogue` writes and a test compares with the registries.
Those of other distributions come from their entry points, and their sentences from the docstrings in the source files.
"""

from __future__ import annotations

import ast
import json
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import typer

from veracity.core.errors import unknown

FILE = Path(__file__).with_name("catalogue.json")
KINDS = (
    "explainers", "models", "groups", "spaces", "measures", "scores", "walks", "kernels", "targets", "trainers", "orbits", "tasks",
    "recipes", "executors", "figures", "presets",
)  # fmt: skip
"""The kinds of components, in the order in which they are listed."""


def ls(
    kind: str = typer.Argument("", help=f"One of: {', '.join(KINDS)}."),
    name: str = typer.Argument("", help="One component, with its settings and what it needs."),
) -> None:
    """List the components there are, with one sentence each; or say all about one."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    if kind and kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    if name:
        from veracity.cli.component import describe

        for line in describe(kind, name):
            Console().print(escape(line), highlight=False, soft_wrap=True)
        return
    own, points = json.loads(FILE.read_text(encoding="utf-8")), entry_points()
    for plural in [kind] if kind else KINDS:
        found = {point.name: sentence(point) for point in points.select(group=f"veracity.{plural}")} | own[plural]
        table = Table(title=plural, title_justify="left", box=None, show_header=False)
        for name, text in sorted(found.items()):
            table.add_row(f"[bold]{escape(name)}[/]", escape(text))
        Console().print(table)


def sentence(point: EntryPoint) -> str:
    """The first paragraph of the docstring of what an entry point names, read from its source; else where it comes from."""
    try:
        body = ast.parse(source(point.module).read_bytes()).body
        named = next(one for one in body if isinstance(one, (ast.ClassDef, ast.FunctionDef)) and one.name == point.attr)
        return (ast.get_docstring(named) or "").split("\n\n")[0].replace("\n", " ")
    except (OSError, SyntaxError, ValueError, StopIteration):
        return f"from the distribution {point.dist.name if point.dist else point.module}"


def source(module: str) -> Path:
    """The file of a module, which is not imported; raises a ValueError if there is none."""
    folders, found = None, None
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        found = PathFinder.find_spec(".".join(parts[:depth]), folders)
        folders = None if found is None else found.submodule_search_locations
    if found is None or found.origin is None:
        raise ValueError(f"there is no source of {module}")
    return Path(found.origin)
