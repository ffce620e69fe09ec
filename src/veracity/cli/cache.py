"""Answers of `show` and `gate`, kept between calls: deriving a table takes torch, whose import alone takes more than a second.

An answer is kept under the folder's path and a stamp of its files: their names, kinds, sizes and times. It is used only while these and
the installed code are the same, and nobody writes the folder. Answers lie in this user's own state folder, beside the marks of runs,
so that no folder from elsewhere can bring its own.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import veracity
from veracity.cli.catalogue import KINDS
from veracity.engine.store import writers
from veracity.engine.store.files import Files

MOST = 64
"""How many answers are kept."""
LARGEST = 16 << 20
"""The largest answer that is read, in bytes."""
UNREAD = {writers.LOCK, "report.html"}
"""Files of a run folder that no table is made of."""


def answer(folder: str, question: str, find: Callable[[], Any]) -> Any:
    """What `find` gives, as JSON can write it; from an earlier call, if nothing has changed since."""
    place = path(folder, question)
    if place is not None:
        with suppress(OSError, ValueError):
            return json.loads(writers.read_private(place, LARGEST))
    found = find()
    if place is not None and place == path(folder, question):  # nothing was measured meanwhile
        with suppress(OSError):
            writers.write_private(place, json.dumps(found))
            for old in sorted(place.parent.glob("*.json"), key=os.path.getmtime)[:-MOST]:
                old.unlink(missing_ok=True)
    return found


def path(folder: str, question: str) -> Path | None:
    """Where an answer is kept; None for a folder that somebody writes, or that is not on a disk."""
    files = Files(folder)
    if not files.local or not os.path.isdir(files.root) or writers.writer(files):
        return None
    digest = hashlib.sha256(f"{os.path.realpath(files.root)}\0{question}\0".encode())
    for line in (*stamps(files.root), *code()):
        digest.update(f"{line}\n".encode(errors="surrogateescape"))
    return writers.state_folder() / "answers" / f"{digest.hexdigest()[:32]}.json"


def stamps(root: str) -> Iterator[str]:
    """What changes whenever a file below the folder does; no link is followed."""
    for place, folders, names in os.walk(root):
        folders.sort()
        for name in sorted({*names, *(one for one in folders if os.path.islink(os.path.join(place, one)))} - UNREAD):
            with suppress(OSError):
                found = os.lstat(os.path.join(place, name))
                stamp = found.st_mode, found.st_size, found.st_mtime_ns, found.st_ino
                yield f"{os.path.relpath(place, root)}/{name} {stamp}"


def code() -> Iterator[str]:
    """What changes with the installed code: the times of this package's files, and the distributions with plugins for it."""
    for place, folders, names in os.walk(os.path.dirname(veracity.__file__)):
        folders[:] = sorted(one for one in folders if one != "__pycache__")
        yield from (f"{name} {os.stat(os.path.join(place, name)).st_mtime_ns}" for name in sorted(names) if name.endswith(".py"))
    points = entry_points()
    plugins = {one.dist for plural in KINDS for one in points.select(group=f"veracity.{plural}") if one.dist is not None}
    yield from sorted({f"{one.name} {one.version}" for one in plugins})
