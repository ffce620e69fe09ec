"""The runs that a server shows: orbit evaluations once they are read, and their models once somebody asks them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.websockets import WebSocket

from veracity.app.inference import Answer, Answering, Inference
from veracity.app.runs import Run, Runs, stamp
from veracity.core.errors import SpecError, StoreError, said
from veracity.core.registry import RECIPES
from veracity.orbits import Live, OrbitEvaluation, OrbitResult
from veracity.recipe import Scale, without_training
from veracity.report.interactive import answers

HELD = 8
"""How many runs are held at once."""
MODELS = "models"
"""The folder of a run that recipes keep their models in."""
RECIPE = "orbits-"
"""How the names of recipes of orbit evaluations begin; no other is put together because a manifest says so."""
GOING_AWAY = 1001
"""The code with which a socket is closed when the server ends."""
ENDING = "The server is ending."
ALONE = "This run has no live models: it was not made by a recipe, and no evaluation was given."


class Opened:
    """The runs of a directory; `evaluation` is what one of them was made by, where it is at hand."""

    def __init__(self, runs: Runs, evaluation: OrbitEvaluation | None = None) -> None:
        self.runs, self.inference = runs, Inference()
        self._evaluation = evaluation
        self._views: dict[Path, tuple[tuple[int, ...], OrbitResult]] = {}
        self._metas: dict[Path, tuple[OrbitResult, dict[str, Any]]] = {}
        self._lives: dict[Path, tuple[tuple[int, ...], Live]] = {}
        self._broken: dict[Path, tuple[tuple[int, ...], str]] = {}
        self._lock = threading.Lock()
        self.sockets: set[WebSocket] = set()

    def run(self, number: str) -> Run:
        """The run with this number."""
        found = self.runs.get(number)
        if found is None:
            raise SpecError(f"There is no run '{number[:20]}' here: /api/index lists those there are.")
        if found.kind == "damaged":
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
        now = stamp(run.folder, "orbits", "failed")
        with self._lock:
            known, view = self._views.pop(run.folder, (None, None))
            if view is None or known != now:
                view = OrbitResult(run.folder)
            self._views[run.folder] = (now, view)
            while len(self._views) > HELD:
                self._views.pop(next(iter(self._views)))
            return view

    def meta(self, run: Run) -> dict[str, Any]:
        """What the page needs first of an orbit evaluation; its tables are made once."""
        view = self.view(run)
        known = self._metas.get(run.folder)
        if known is None or known[0] is not view:
            known = self._metas[run.folder] = (view, answers.meta(view, run.id))
        live = self.live(run)
        return {**known[1], "state": run.state(), "title": run.title, "live": live, "why": None if live else self._why_broken(run) or ALONE}

    def live(self, run: Run) -> bool:
        """Whether a run's models can be asked, as far as is known before they are."""
        return self._why_broken(run) is None and (self._given(run) or self._recipe(run) is not None)

    def answering(self, number: str) -> Answering:
        """What answers questions about a run; its models are made when the first question comes."""
        self.orbits(number)
        run = self.run(number)
        if not self.live(run):
            raise SpecError(self._why_broken(run) or ALONE)

        def answer(sample: int, at: Sequence[float], explainer: str | None) -> Answer:
            return answers.live(self._live(run).answer(sample, at, explainer))

        return answer

    async def dismiss(self) -> None:
        """Tell every client of a socket that the server goes away."""
        await asyncio.gather(*(socket.close(GOING_AWAY, ENDING) for socket in list(self.sockets)), return_exceptions=True)

    def close(self) -> None:
        """Let the thread of the models end."""
        self.inference.close()

    def _live(self, run: Run) -> Live:
        """A run's models, made once for every manifest; for the thread of the models alone."""
        now = stamp(run.folder, MODELS)
        known, live = self._lives.get(run.folder, (None, None))
        if live is None or known != now:
            self._lives.pop(run.folder, None)
            try:
                live = Live(self._made(run), run.folder)
            except Exception as error:
                self._broken[run.folder] = (now, f"The models of this run could not be made again: {said(error)}")
                raise
            self._lives[run.folder] = (now, live)
            while len(self._lives) > HELD:
                self._lives.pop(next(iter(self._lives)))
        return live

    def _why_broken(self, run: Run) -> str | None:
        """Why a run's models could not be made, unless it was run again since."""
        known, why = self._broken.get(run.folder, (None, None))
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

    def _made(self, run: Run) -> OrbitEvaluation:
        """The evaluation that made a run: given, or put together by its recipe."""
        recipe = self._recipe(run)
        if self._given(run) and self._evaluation is not None:
            return self._evaluation
        if recipe is None:
            raise SpecError(ALONE)
        name, scale = recipe
        with without_training():
            made = RECIPES[name].assemble(run.folder, scale)
        if not isinstance(made, OrbitEvaluation):
            raise SpecError(f"The recipe '{name}' makes several runs, of which this one cannot be told.")
        return made
