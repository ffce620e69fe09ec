"""The run folders in a directory, by number: no path ever comes from a client."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veracity.core.errors import StoreError, VeracityError
from veracity.engine.store import RunFolder
from veracity.engine.store.files import Files
from veracity.engine.store.folder import ORBITS, RUN, SEVERAL
from veracity.engine.store.manifest import MANIFEST, as_study
from veracity.engine.store.sealed import LARGEST, printable
from veracity.engine.store.state import Progress
from veracity.engine.store.study import study_progress

DEPTH = 3
"""How deep below the directory run folders are looked for."""
REPORT = "report.html"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder: `kind` is orbits, audit, report (several runs, read by their report) or damaged, and then `why` says what is wrong."""

    id: str
    kind: str
    title: str
    created: str | None
    folder: Path
    path: str
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)
    why: str = ""

    def entry(self) -> dict[str, Any]:
        """The run as the index lists it; of a damaged one, `why` is a sentence on what is wrong."""
        about = {"id": self.id, "kind": self.kind, "title": self.title, "created": self.created, "path": self.path}
        try:
            return {**about, "state": self.state(), **({"why": self.why} if self.why else {})}
        except (VeracityError, OSError) as error:
            return {**about, "kind": "damaged", "state": None, "why": printable(str(error))}

    def state(self) -> dict[str, Any] | None:
        """Where the run stands by now, as the interface shows it; None where its folder does not say."""
        found = self.progress()
        return None if found is None else found.plain()

    def progress(self) -> Progress | None:
        """How far the run has come by now; None where its folder does not say."""
        if self.kind in ("audit", "orbits"):
            return RunFolder(str(self.folder)).progress(self.about)
        return study_progress(str(self.folder), self.about) if self.kind == "report" else None

    def report(self) -> Path | None:
        """The report in the folder, if there is one and it lies in the folder truly."""
        try:
            return Path(Files(str(self.folder)).regular(REPORT))
        except (StoreError, OSError):
            return None


class Runs:
    """The run folders in a directory; one keeps its number as long as the server lives, and later ones follow."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._ids: dict[Path, str] = {}
        self._known: dict[Path, tuple[tuple[str, int, int], Run]] = {}
        self._lock = threading.Lock()
        if not self.directory.is_dir():
            raise StoreError(f"'{directory}' is not a folder: give a run folder, or a folder that holds some.")
        if not self.all():
            raise StoreError(f"There is no run in '{directory}': give a run folder, or a folder that holds some.")

    def all(self) -> list[Run]:
        """Every run there is now, by path."""
        with self._lock:
            folders = sorted(found(self.directory, DEPTH))
            for folder in folders:
                self._ids.setdefault(folder, str(len(self._ids)))
            return [self._read(folder) for folder in folders]

    def get(self, number: str) -> Run | None:
        """The run with a number, or None."""
        with self._lock:
            folder = next((path for path, known in self._ids.items() if known == number), None)
            return self._read(folder) if folder is not None and folder.is_dir() else None

    def _read(self, folder: Path) -> Run:
        """A run as its folder describes it; read again only where that has changed."""
        mark = marked(folder)
        now = (mark.name, changed(mark), changed(folder / RUN))
        if folder not in self._known or self._known[folder][0] != now:
            self._known[folder] = (now, self._made(folder, mark))
        return self._known[folder][1]

    def _made(self, folder: Path, mark: Path) -> Run:
        kind, about, why = described(folder, mark)
        path = folder.relative_to(self.directory).as_posix()
        shown = printable(self.directory.resolve().name if path == "." else path)
        title = about.get("title")
        created = about.get("created")
        return Run(
            id=self._ids[folder],
            kind=kind,
            title=str(title) if title else shown,
            created=None if created is None else str(created),
            folder=folder,
            path=shown,
            about=about,
            why=printable(why),
        )


def found(folder: Path, depth: int) -> Iterator[Path]:
    """Run folders at or below a folder; what lies in a run is its own, and links are not followed."""
    if os.path.lexists(folder / MANIFEST):
        yield folder
        return
    if any(os.path.lexists(folder / mark) for mark in SEVERAL):
        yield folder
    for inner in inside(folder) if depth else ():
        if os.path.isdir(inner) and not os.path.islink(inner) and not inner.name.startswith("."):
            yield from found(inner, depth - 1)


def inside(folder: Path) -> list[Path]:
    """What lies in a folder; nothing where it may not be looked into."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def stamp(folder: Path, *names: str) -> tuple[int, ...]:
    """What changes whenever one of these files and folders of a run does."""
    return tuple(changed(folder / name) for name in (MANIFEST, *names))


def changed(path: Path) -> int:
    """When a file or folder was last changed; 0 if it is not there or may not be looked at."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def marked(folder: Path) -> Path:
    """The file by which a run folder is known."""
    return folder / next((name for name in (MANIFEST, *SEVERAL) if os.path.lexists(folder / name)), MANIFEST)


def described(folder: Path, mark: Path) -> tuple[str, dict[str, Any], str]:
    """The kind of a run folder, what is said of it by the file by which it is known, and what is wrong with that file, if anything."""
    try:
        if mark.name == MANIFEST:
            about = RunFolder(str(folder)).manifest(None)
            return "orbits" if about.get("kind") == ORBITS else "audit", about, ""
        return "report", as_study(Files(str(folder)).read(mark.name, LARGEST)), ""
    except VeracityError as error:
        return "damaged", {}, str(error)
    except (OSError, ValueError, MemoryError) as error:
        return "damaged", {}, f"{mark} cannot be read ({error}): delete the folder, or run the command that wrote it again."
