"""The runs that a server shows: the folders of a directory by number. Orbit evaluations are read, and their models made, on the first
question about them. Clients send numbers, never paths.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.websockets import WebSocket

from veracity.app.live import Answer, Answerer, Inference
from veracity.core.errors import SpecError, StoreError, VeracityError, error_text
from veracity.core.registry import RECIPES
from veracity.engine.store import RunFolder
from veracity.engine.store.files import Files
from veracity.engine.store.folder import RUN
from veracity.engine.store.manifest import MANIFEST, Kind
from veracity.engine.store.records import printable
from veracity.engine.store.search import run_folders
from veracity.engine.store.state import Progress
from veracity.orbits import Live, OrbitEvaluation, OrbitResult
from veracity.recipe import Scale, without_training
from veracity.report.interactive import answers

REPORT = "report.html"
STUDY, DAMAGED = "report", "damaged"
"""Kinds of the interface beside audits and orbits: a study is shown by its report."""
Description = tuple[str, dict[str, Any], str]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder: `kind` is orbits, audit, report (a study, shown by its report) or damaged, and then `why` says what is wrong."""

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
            return {**about, "kind": DAMAGED, "state": None, "why": printable(str(error))}

    def state(self) -> dict[str, Any] | None:
        """Where the run stands by now, as the interface shows it; None for a damaged one."""
        found = self.progress()
        return None if found is None else found.plain()

    def progress(self) -> Progress | None:
        """How far the run has come by now; None for a damaged one."""
        return RunFolder(str(self.folder)).progress(self.about) if self.about else None

    def report(self) -> Path | None:
        """The report in the folder, if there is one and it lies in the folder truly."""
        try:
            return Path(Files(str(self.folder)).regular(REPORT))
        except (StoreError, OSError):
            return None


class Runs:
    """The run folders in a directory, the runs of studies too; one keeps its number as long as the server lives, and later ones follow."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._ids: dict[Path, str] = {}
        self._known: dict[Path, tuple[tuple[int, int], Description]] = {}
        self._lock = threading.Lock()
        if not self.directory.is_dir():
            raise StoreError(f"'{directory}' is not a folder: give a run folder, or a folder that holds some.")
        if not self.all():
            raise StoreError(f"There is no run in '{directory}': give a run folder, or a folder that holds some.")

    def all(self) -> list[Run]:
        """Every run there is now, by path."""
        with self._lock:
            folders = sorted(run_folders(self.directory, lambda folder: self._describe(folder)[0] == STUDY))
            for folder in folders:
                self._ids.setdefault(folder, str(len(self._ids)))
            return [self._run(folder) for folder in folders]

    def get(self, number: str) -> Run | None:
        """The run with a number, or None."""
        with self._lock:
            folder = next((path for path, known in self._ids.items() if known == number), None)
            return self._run(folder) if folder is not None and folder.is_dir() else None

    def _describe(self, folder: Path) -> Description:
        """What a folder says of itself; read again only where that has changed."""
        now = (changed_at(folder / MANIFEST), changed_at(folder / RUN))
        if folder not in self._known or self._known[folder][0] != now:
            self._known[folder] = (now, describe(folder))
        return self._known[folder][1]

    def _run(self, folder: Path) -> Run:
        kind, about, why = self._describe(folder)
        path = folder.relative_to(self.directory).as_posix()
        path = printable(self.directory.resolve().name if path == "." else path)
        title, created = str(about.get("title") or path), None if about.get("created") is None else str(about["created"])
        number = self._ids[folder]
        return Run(id=number, kind=kind, title=title, created=created, folder=folder, path=path, about=about, why=printable(why))


def stamp(folder: Path, *names: str) -> tuple[int, ...]:
    """What changes whenever one of these files and folders of a run does."""
    return tuple(changed_at(folder / name) for name in (MANIFEST, *names))


def changed_at(path: Path) -> int:
    """When a file or folder was last changed; 0 if it is not there or may not be looked at."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def describe(folder: Path) -> Description:
    """The kind of a run as the interface shows it, its manifest, and what is wrong with that, if anything."""
    try:
        manifest = RunFolder(str(folder)).manifest(None)
        return STUDY if Kind(manifest["kind"]).study else str(manifest["kind"]), manifest, ""
    except VeracityError as error:
        return DAMAGED, {}, str(error)
    except (OSError, ValueError, MemoryError) as error:
        return DAMAGED, {}, f"{folder / MANIFEST} cannot be read ({error}): delete the folder, or run the command that wrote it again."


HELD = 8
"""How many runs are held at once."""
MODELS = "models"
"""The folder of a run that recipes keep their models in."""
RECIPE = "orbits-"
"""How the names of recipes of orbit evaluations begin; no other is put together because a manifest says so."""
GOING_AWAY = 1001
"""The code with which a socket is closed when the server ends."""
ENDING = "The server is shutting down."
ALONE = "This run has no live models: it was not made by a recipe, and no evaluation was given."


class Workspace:
    """The runs of a directory; `evaluation` is what one of them was made by, where it is at hand."""

    def __init__(self, runs: Runs, evaluation: OrbitEvaluation | None = None) -> None:
        self.runs, self.inference = runs, Inference()
        self.sockets: set[WebSocket] = set()
        self._evaluation = evaluation
        self._results = lru_cache(maxsize=HELD)(lambda folder, stamp: OrbitResult(folder))
        self._metas = lru_cache(maxsize=HELD)(answers.meta)
        self._models: dict[Path, tuple[tuple[int, ...], Live]] = {}
        self._errors: dict[Path, tuple[tuple[int, ...], str]] = {}

    def run(self, number: str) -> Run:
        """The run with this number."""
        found = self.runs.get(number)
        if found is None:
            raise SpecError(f"There is no run '{number[:20]}' here: /api/index lists those there are.")
        if found.kind == DAMAGED:
            raise StoreError(found.why)
        return found

    def orbits(self, number: str) -> OrbitResult:
        """The orbit evaluation with this number."""
        found = self.run(number)
        if found.kind != "orbits":
            raise SpecError(f"The run '{found.path}' has no orbits: it is one of the kind '{found.kind}'.")
        return self.view(found)

    def view(self, run: Run) -> OrbitResult:
        """An orbit evaluation, read again where something was measured since."""
        return self._results(run.folder, stamp(run.folder, "orbits", "failed"))

    def meta(self, run: Run) -> dict[str, Any]:
        """What the page needs first of an orbit evaluation; its tables are made once."""
        found, live = self._metas(self.view(run), run.id), self.live(run)
        return {**found, "state": run.state(), "title": run.title, "live": live, "why": None if live else self._error(run) or ALONE}

    def live(self, run: Run) -> bool:
        """Whether a run's models can be asked, as far as is known before they are."""
        return self._error(run) is None and (self._given(run) or self._recipe(run) is not None)

    def answerer(self, number: str) -> Answerer:
        """The function that answers questions about a run; its models are made when the first question comes."""
        self.orbits(number)
        run = self.run(number)
        if not self.live(run):
            raise SpecError(self._error(run) or ALONE)

        def answer(sample: int, at: Sequence[float], explainer: str | None) -> Answer:
            return answers.live(self._live(run).answer(sample, at, explainer))

        return answer

    async def dismiss(self) -> None:
        """Tell every client of a socket that the server goes away."""
        await asyncio.gather(*(socket.close(GOING_AWAY, ENDING) for socket in list(self.sockets)), return_exceptions=True)

    def _live(self, run: Run) -> Live:
        """A run's models, made once for every manifest; for the thread of the models alone."""
        now = stamp(run.folder, MODELS)
        known, live = self._models.get(run.folder, (None, None))
        if live is None or known != now:
            self._models.pop(run.folder, None)
            try:
                live = Live(self._assemble(run), run.folder)
            except Exception as error:
                self._errors[run.folder] = (now, f"The models of this run could not be made again: {error_text(error)}")
                raise
            self._models[run.folder] = (now, live)
            while len(self._models) > HELD:
                self._models.pop(next(iter(self._models)))
        return live

    def _error(self, run: Run) -> str | None:
        """Why a run's models could not be made, unless it was run again since."""
        known, why = self._errors.get(run.folder, (None, None))
        return why if known == stamp(run.folder, MODELS) else None

    def _given(self, run: Run) -> bool:
        """Whether the evaluation that was given is this run's."""
        return self._evaluation is not None and run.folder == self.runs.directory

    def _recipe(self, run: Run) -> tuple[str, Scale] | None:
        """The recipe and scale that made a run, where its manifest names a known one of orbits."""
        about = self.view(run).manifest.get("about") or {}
        name, scale = str(about.get("recipe", "")), str(about.get("scale", ""))
        known = name.startswith(RECIPE) and name in RECIPES and scale in list(Scale)
        return (name, Scale(scale)) if known else None

    def _assemble(self, run: Run) -> OrbitEvaluation:
        """The evaluation that made a run: given, or put together by its recipe."""
        if self._evaluation is not None and self._given(run):
            return self._evaluation
        if (recipe := self._recipe(run)) is None:
            raise SpecError(ALONE)
        name, scale = recipe
        with without_training():
            evaluation = RECIPES[name].assemble(run.folder, scale)
        if not isinstance(evaluation, OrbitEvaluation):
            raise SpecError(f"The recipe '{name}' makes several runs, and does not say which one this is.")
        return evaluation
