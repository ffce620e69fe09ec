"""The runs that a server shows: the folders of a directory by their paths below it. The models of orbit evaluations and audits are made
on the first question about them. A name from a client is only ever compared with those of the folders there are, never made a path.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from starlette.websockets import WebSocket

from veracity.app.draws import LiveDraws
from veracity.app.home import facts, seconds_left
from veracity.app.live import Answer, Answerer, Inference, InputQuestion, Reading, Steps, WorstQuestion, audit_question, orbit_question
from veracity.app.uploads import LARGEST, Uploads
from veracity.audit import Audit
from veracity.cards.checks import MAPS
from veracity.core.errors import SpecError, StoreError, VeracityError, error_text
from veracity.core.registry import RECIPES
from veracity.core.sentences import tell
from veracity.core.wording import count
from veracity.engine.store import RunFolder
from veracity.engine.store.files import Files
from veracity.engine.store.folder import RUN
from veracity.engine.store.manifest import MANIFEST, Kind
from veracity.engine.store.records import printable
from veracity.engine.store.search import run_folders
from veracity.engine.store.state import Progress, Stage
from veracity.orbits import Live, OrbitEvaluation, OrbitResult
from veracity.recipe import Scale, without_training
from veracity.report.interactive import answers
from veracity.results import Result

REPORTS = ("report.html", "card.html")
"""A run's own page, by the names that it can have."""
STUDY, DAMAGED, UNREAD = "report", "damaged", "unread"
"""Kinds of the interface beside audits and orbits: a study is shown by its report, and an unread run is one that nobody had time for."""
ONLY = "0"
"""What the only run of a directory is called too, as in a page that is one file."""
LIVELY = ("lock", "shards", "cells", "failed", "orbits", "packs")
"""What changes in a run folder when a run begins, goes on or ends."""
SETTLED = (Stage.DONE.value, Stage.FAILURES.value)
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
        named = {"id": self.id, "kind": self.kind, "title": self.title, "created": self.created, "path": self.path}
        about = {**self.measured(), **facts(self.about), **named}
        try:
            state = self.progress()
            left = None if state is None else seconds_left(self.folder, state)
            return {**about, "state": state and state.plain(), "left": left, **({"why": self.why} if self.why else {})}
        except (VeracityError, OSError) as error:
            return {**about, "kind": DAMAGED, "state": None, "left": None, "why": printable(str(error))}

    def measured(self) -> dict[str, Any]:
        """The models, explainers and samples of a card, which its first part knows; nothing of other runs, or before that part begins."""
        with suppress(VeracityError, OSError):
            found = facts(RunFolder(str(self.folder / MAPS)).manifest()) if self.kind == STUDY and self.about["kind"] == Kind.CARD else {}
            return {key: found[key] for key in ("models", "explainers", "samples") if key in found}
        return {}

    def state(self) -> dict[str, Any] | None:
        """Where the run stands by now, as the interface shows it; None for a damaged one."""
        found = self.progress()
        if found is None:
            return None
        study = self.study() if found.stage is Stage.UNFINISHED else ""
        share = f"{found.measured} of {count(found.cells, found.unit)}"
        return {**found.plain(), **({"sentence": tell("run.enough", study, share, left=found.pending)} if study else {})}

    def study(self) -> str:
        """The finished study that this run is a part of, in words; "" if there is none. It needs no more of its parts."""
        for folder in self.folder.parents[: len(Path(self.path).parts)]:
            with suppress(VeracityError, OSError):
                outer = RunFolder(str(folder))
                about = outer.manifest(None) if (folder / MANIFEST).is_file() else {}
                if about and (kind := Kind(about["kind"])).study and outer.progress(about).settled:
                    return "study" if kind is Kind.AUDITS else kind.words.partition(" ")[2]
        return ""

    def progress(self) -> Progress | None:
        """How far the run has come by now; None for a damaged one."""
        return RunFolder(str(self.folder)).progress(self.about) if self.about else None

    def report(self) -> Path | None:
        """The report in the folder, if there is one and it lies in the folder truly."""
        for name in REPORTS:
            with suppress(StoreError, OSError):
                return Path(Files(str(self.folder)).regular(name))
        return None


class Runs:
    """The run folders in a directory, the runs of studies too, each under its path below the directory."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._own = self.directory.resolve().name
        self._described: dict[Path, tuple[tuple[int, ...], Description]] = {}
        self._entries: dict[Path, tuple[tuple[int, ...], dict[str, Any]]] = {}
        self._folders: dict[str, Path] = {}
        if not self.directory.is_dir():
            raise StoreError(f"'{directory}' is not a folder: give a run folder, or a folder that holds some.")
        if not any(run_folders(self.directory, lambda folder: False)):
            raise StoreError(f"There is no run in '{directory}': give a run folder, or a folder that holds some.")

    def entries(self, within: float = math.inf) -> list[dict[str, Any]]:
        """Every run there is now as the index lists it, by path.

        What nobody has read yet is read for so many seconds, the newest first; of the rest, only the place is told.
        """
        until, read, now = time.monotonic() + within, set[Path](), dict[Path, tuple[int, ...]]()

        def kind(folder: Path) -> str:
            """The kind of a run that was read before and has not changed since, else `unread`."""
            now.setdefault(folder, stamp(folder, RUN, *LIVELY))
            known, found = self._described.get(folder, ((), (UNREAD, {}, "")))
            return found[0] if folder in self._entries and known == now[folder][: len(known)] else UNREAD

        while True:
            folders = sorted(run_folders(self.directory, lambda folder: kind(folder) == STUDY))
            unread = sorted((one for one in folders if one not in read and kind(one) == UNREAD), key=changed_at, reverse=True)
            for folder in unread:
                if time.monotonic() >= until:
                    break
                self._entries[folder] = (now[folder], self._run(folder).entry())
                read.add(folder)
            if not unread or time.monotonic() >= until:
                break
        for gone in self._entries.keys() - set(folders):
            self._entries.pop(gone, None)
            self._described.pop(gone, None)
        return [self._entry(one, now[one], kind(one)) for one in folders]

    def get(self, name: str) -> Run | None:
        """The run of a name, or None; of the others, only studies on the way to it are read."""
        known = self._folders.get(name)
        if known is not None and os.path.lexists(known / MANIFEST) and not os.path.islink(known):
            return self._run(known)
        self._folders.pop(name, None)

        def leads_there(folder: Path) -> bool:
            return (folder == self.directory or name.startswith(f"{self.name(folder)}/")) and self._describe(folder)[0] == STUDY

        for folder in run_folders(self.directory, leads_there):
            if self.name(folder) == name:
                self._folders[name] = folder
                return self._run(folder)
        if name == ONLY:
            folders = list(run_folders(self.directory, lambda folder: self._describe(folder)[0] == STUDY))
            return self._run(folders[0]) if len(folders) == 1 else None
        return None

    def name(self, folder: Path) -> str:
        """What clients call a run: its path below the directory. The directory's own name ends with a slash, as no path below it does."""
        path = folder.relative_to(self.directory).as_posix()
        return escaped(f"{self._own}/" if path == "." else path)

    def _entry(self, folder: Path, now: tuple[int, ...], kind: str) -> dict[str, Any]:
        """A run as the index lists it; where nothing can have changed, as it was listed before."""
        known, entry = self._entries.get(folder, ((), {}))
        if known == now and (entry["state"] or {}).get("stage") in SETTLED:
            return entry
        if kind == UNREAD:
            path = self._path(folder)
            return {"id": self.name(folder), "kind": UNREAD, "title": path, "created": None, "path": path, "state": None, "left": None}
        entry = self._run(folder).entry()
        self._entries[folder] = (now, entry)
        return entry

    def _describe(self, folder: Path) -> Description:
        """What a folder says of itself; read again only where that has changed."""
        now = stamp(folder, RUN)
        known, found = self._described.get(folder, (None, None))
        if found is None or known != now:
            found = describe(folder)
            self._described[folder] = (now, found)
        return found

    def _run(self, folder: Path) -> Run:
        kind, about, why = self._describe(folder)
        path = self._path(folder)
        title, created = str(about.get("title") or path), None if about.get("created") is None else str(about["created"])
        return Run(id=self.name(folder), kind=kind, title=title, created=created, folder=folder, path=path, about=about, why=printable(why))

    def _path(self, folder: Path) -> str:
        """A run's path as people read it."""
        path = folder.relative_to(self.directory).as_posix()
        return str(printable(self._own if path == "." else path))


def search(live: Live, asked: WorstQuestion) -> Steps:
    """The worst place of an orbit by model, step by step."""
    search = live.search(asked.sample, asked.worst, asked.reference)
    while True:
        try:
            next(search)
        except StopIteration as ended:
            yield {"worst": {name: asdict(one) for name, one in ended.value.items()}}, {}
            return
        yield None


def by_model(live: Live, sample: int, at: tuple[float, ...], explainer: str | None) -> Steps:
    """What the models give at one place, those that take long one after the other."""
    parts = live.parts(explainer)
    for place, models in enumerate(parts):
        header, arrays = answers.live(live.answer(sample, at, explainer, models))
        yield {**header, "last": place == len(parts) - 1}, arrays


def escaped(path: str) -> str:
    """A path as text that any client can send back: what cannot be printed is written as in an address, and so is the percent sign.

    >>> escaped("joint/ResNet 50"), escaped("5 %"), escaped("\\udcff")
    ('joint/ResNet 50', '5 %25', '%FF')
    """
    return "".join(one if one.isprintable() and one != "%" else quote(os.fsencode(one), safe="") for one in path)


def stamp(folder: Path, *names: str) -> tuple[int, ...]:
    """What changes whenever one of these files and folders of a run does."""
    return tuple(changed_at(f"{folder}/{name}") for name in (MANIFEST, *names))


def changed_at(path: str | Path) -> int:
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
CHANGING = ("cells", "failed")
"""What changes while an audit goes on."""


def no_draws(folder: Path) -> str:
    """What to type to see more of an audit than its folder holds."""
    place = os.path.abspath(folder)
    return (
        f"To see draws, steps and inputs beyond the stored ones, start the server with the models at hand: 'veracity app "
        f"{shlex.quote(place)} --audit FILE' with the audit file of this run, or veracity.app.serve(audit, {json.dumps(place)}) in Python."
    )


Find = Callable[[Path], Callable[[], Audit] | None]
"""From the folder of an audit to what makes the audit again; None if it is not at hand."""


class Workspace:
    """The runs of a directory.

    `evaluation` is what made the run that lies in the directory itself, where it is at hand; `find` finds the audits behind other runs.
    """

    def __init__(self, runs: Runs, evaluation: OrbitEvaluation | Audit | None = None, find: Find | None = None) -> None:
        self.runs, self.inference = runs, Inference()
        self.sockets: set[WebSocket] = set()
        self.uploads = Uploads()
        self._evaluation, self._find = evaluation, find
        self._results = lru_cache(maxsize=HELD)(lambda folder, stamp: OrbitResult(folder))
        self._metas = lru_cache(maxsize=HELD)(answers.meta)
        self._audits = lru_cache(maxsize=1)(lambda folder, stamp: Result(folder))
        self._models: dict[Path, tuple[tuple[int, ...], Live | LiveDraws]] = {}
        self._errors: dict[Path, tuple[tuple[int, ...], str]] = {}

    def run(self, name: str) -> Run:
        """The run of this name."""
        found = self.runs.get(name)
        if found is None:
            raise SpecError(f"There is no run '{printable(name[:80])}' here: it was deleted, moved or renamed, or there never was one.")
        if found.kind == DAMAGED:
            raise StoreError(found.why)
        return found

    def orbits(self, name: str) -> OrbitResult:
        """The orbit evaluation of this name."""
        found = self.run(name)
        if found.kind != "orbits":
            raise SpecError(f"The run '{found.path}' has no orbits: it is one of the kind '{found.kind}'.")
        return self.view(found)

    def view(self, run: Run) -> OrbitResult:
        """An orbit evaluation, read again where something was measured since."""
        return self._results(run.folder, stamp(run.folder, "orbits", "failed"))

    def meta(self, run: Run) -> dict[str, Any]:
        """What the page needs first of an orbit evaluation; its tables are made once."""
        found, live = self._metas(self.view(run), run.id), self.live(run)
        told = {"state": run.state(), "title": run.title, "folder": os.path.abspath(run.folder)}
        return {**found, **told, "live": live, "why": None if live else self._error(run) or ALONE}

    def live(self, run: Run) -> bool:
        """Whether a run's models can be asked, as far as is known before they are."""
        if self._error(run) is not None:
            return False
        return self._maker(run) is not None if run.kind == "audit" else self._given(run) or self._recipe(run) is not None

    def draws(self, run: Run) -> dict[str, Any]:
        """Whether draws of an audit can be computed live, and why not."""
        live = self.live(run)
        return {"live": live, "why": None if live else self._error(run) or no_draws(run.folder)}

    def answerer(self, name: str) -> tuple[Answerer, Reading]:
        """What answers questions about a run, and what reads them; its models are made when the first question comes."""
        run = self.run(name)
        if run.kind == "audit":
            return partial(self._asked, self.audited(name)), audit_question
        if not self.orbits(name).complete:
            raise SpecError("This run goes on: its models can be asked once all of it is measured.")
        if not self.live(run):
            raise SpecError(self._error(run) or ALONE)

        def answer(asked: WorstQuestion | int, *place: Any) -> Answer | Steps:
            live = self._live(run)
            if not isinstance(live, Live):
                raise SpecError(ALONE)
            if isinstance(asked, WorstQuestion):
                return search(live, asked)
            return by_model(live, asked, *place)

        return answer, orbit_question

    def audited(self, name: str) -> Run:
        """The audit of this name, whose models are at hand."""
        run = self.run(name)
        if run.kind != "audit":
            raise SpecError(f"The run '{run.path}' takes no input of your own: it is one of the kind '{run.kind}', not an audit.")
        if not self.live(run):
            raise SpecError(self._error(run) or no_draws(run.folder))
        return run

    def _asked(self, run: Run, *parts: Any) -> Answer:
        """The answer to a question about an audit; for the thread of the models alone."""
        return self._own(run, parts[0]) if isinstance(parts[0], InputQuestion) else self._draw(run, *parts)

    def _own(self, run: Run, asked: InputQuestion) -> Answer:
        """What can be sent, or what the models say of an input that was sent."""
        self.run(run.id)  # which may have been deleted since the socket was opened
        live = self._live(run)
        if not isinstance(live, LiveDraws):
            raise SpecError(no_draws(run.folder))
        if not asked.input:
            return {**live.own.about(), "largest": LARGEST}, {}
        given = self.uploads.get(asked.input, run.folder).read(live.own.form)
        result = self._audits(run.folder, stamp(run.folder, *CHANGING))
        return live.own.answer(result, given, asked.model, asked.explainer, asked.score), {}

    def _draw(self, run: Run, sample: int, draw: int, model: str, explainer: str, score: str) -> Answer:
        """One draw of a sample of an audit; for the thread of the models alone."""
        live = self._live(run)
        if not isinstance(live, LiveDraws):
            raise SpecError(no_draws(run.folder))
        result = self._audits(run.folder, stamp(run.folder, *CHANGING))
        return live.answer(result, sample, draw, model, explainer, score), {}

    def inputs(self, run: Run, model: str, samples: Sequence[int]) -> dict[int, NDArray[np.float64]]:
        """The inputs of some samples of an audit; for the thread of the models alone."""
        if run.kind != "audit" or not self.live(run):
            raise SpecError(self._error(run) or no_draws(run.folder))
        live = self._live(run)
        if not isinstance(live, LiveDraws):
            raise SpecError(no_draws(run.folder))
        return live.inputs(self._audits(run.folder, stamp(run.folder, *CHANGING)), model, samples)

    async def dismiss(self) -> None:
        """Tell every client of a socket that the server goes away."""
        await asyncio.gather(*(socket.close(GOING_AWAY, ENDING) for socket in list(self.sockets)), return_exceptions=True)

    def _live(self, run: Run) -> Live | LiveDraws:
        """A run's models, made once for every manifest; for the thread of the models alone."""
        now = stamp(run.folder, MODELS)
        known, live = self._models.get(run.folder, (None, None))
        if live is None or known != now:
            self._models.pop(run.folder, None)
            try:
                live = self._make(run)
            except Exception as error:
                if run.kind != "audit":  # its file may be repaired meanwhile
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

    def _make(self, run: Run) -> Live | LiveDraws:
        """A run's models with its folder."""
        if run.kind != "audit":
            return Live(self._assemble(run), run.folder)
        if (make := self._maker(run)) is None:
            raise SpecError(no_draws(run.folder))
        return LiveDraws(make(), run.folder)

    def _maker(self, run: Run) -> Callable[[], Audit] | None:
        """What makes the audit behind a run: it was given, or is found; None if it is not at hand."""
        given = self._evaluation
        if isinstance(given, Audit) and run.folder == self.runs.directory:
            return lambda: given
        return None if self._find is None else self._find(run.folder)

    def _given(self, run: Run) -> bool:
        """Whether the evaluation that was given is this run's."""
        return isinstance(self._evaluation, OrbitEvaluation) and run.folder == self.runs.directory

    def _recipe(self, run: Run) -> tuple[str, Scale] | None:
        """The recipe and scale that made a run, where its manifest names a known one of orbits."""
        about = self.view(run).manifest.get("about") or {}
        name, scale = str(about.get("recipe", "")), str(about.get("scale", ""))
        known = name.startswith(RECIPE) and name in RECIPES and scale in list(Scale)
        return (name, Scale(scale)) if known else None

    def _assemble(self, run: Run) -> OrbitEvaluation:
        """The evaluation that made a run: given, or put together by its recipe."""
        if isinstance(self._evaluation, OrbitEvaluation) and self._given(run):
            return self._evaluation
        if (recipe := self._recipe(run)) is None:
            raise SpecError(ALONE)
        name, scale = recipe
        with without_training():
            evaluation = RECIPES[name].assemble(run.folder, scale)
        if not isinstance(evaluation, OrbitEvaluation):
            raise SpecError(f"The recipe '{name}' makes several runs, and does not say which one this is.")
        return evaluation
