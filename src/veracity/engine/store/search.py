"""Run folders below a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from veracity.engine.store.manifest import MANIFEST

DEPTH = 3
"""How many levels below a folder are searched for run folders."""


def run_folders(folder: Path, holds_runs: Callable[[Path], bool], depth: int = DEPTH) -> Iterator[Path]:
    """Run folders at or below a folder, in any order, and those inside a run folder that `holds_runs`. No link is followed."""
    if os.path.lexists(folder / MANIFEST):
        yield folder
        if not holds_runs(folder):
            return
        depth = max(depth, 1)
    for inner in entries(folder) if depth else ():
        if os.path.isdir(inner) and not os.path.islink(inner) and not inner.name.startswith("."):
            yield from run_folders(inner, holds_runs, depth - 1)


def entries(folder: Path) -> list[Path]:
    """What lies in a folder; nothing where it may not be looked into."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []
