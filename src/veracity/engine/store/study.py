"""Several runs that belong together: one folder that holds theirs, and a file that says which."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from veracity.core.errors import StoreError
from veracity.engine.store import lock
from veracity.engine.store.files import Files
from veracity.engine.store.folder import RunFolder
from veracity.engine.store.manifest import inside
from veracity.engine.store.records import sealed
from veracity.engine.store.state import COMMAND, Progress, progress


@contextmanager
def studying(files: Files, mark: str, about: Mapping[str, Any], parts: Sequence[str], unit: str = "run") -> Iterator[None]:
    """Hold the folder of a study; its file `mark` says which parts there will be, and whether all of them are there."""
    known = {**about, "parts": list(parts), "unit": unit, **({"command": COMMAND.get()} if COMMAND.get() else {})}
    with lock.writing(files):
        files.write(mark, sealed({**known, "finished": False}))
        yield
        files.write(mark, sealed({**known, "finished": True}))


def study_progress(root: str, about: Mapping[str, Any]) -> Progress | None:
    """How far a study has come, by what its file says; None if it says too little, as older ones do."""
    parts, files = about.get("parts"), Files(root)
    if not isinstance(parts, list) or "finished" not in about:
        return None
    who, names = lock.writer(files), [inside(part) for part in parts]
    over = bool(about["finished"]) and not who
    done = {name for name in names if over or (within(root, name) and complete(f"{root}/{name}"))}
    return progress(names, done, {}, writer=who, command=str(about.get("command") or ""), unit=str(about.get("unit") or "run"))


def within(root: str, part: str) -> bool:
    """Whether a part lies in the folder truly; a link may lead out of it."""
    return os.path.realpath(f"{root}/{part}").startswith(os.path.realpath(root) + os.sep)


def complete(root: str) -> bool:
    """Whether a folder holds a run with nothing pending."""
    folder = RunFolder(root)
    try:
        return folder.progress(folder.manifest(None)).settled
    except StoreError:
        return False
