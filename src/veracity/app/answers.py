"""The routes under /api: each looks a run up by its number and answers for it.

Orbit evaluations are answered by `report.interactive.answers`; here are the numbers of an audit, and reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Response

from veracity import __version__, report
from veracity.app.runs import REPORT, STUDY, Run, Workspace, stamp
from veracity.core.errors import StoreError
from veracity.engine.store.files import Files
from veracity.orbits import OrbitResult
from veracity.report.interactive import answers
from veracity.report.interactive.packed import encoded
from veracity.report.wording import title_of
from veracity.results import Result

HELD = 8
"""How many audits' numbers are held at once."""
CHANGING = ("cells", "failed", "advice.json")
"""What changes while an audit goes on."""


def audit(run: Run) -> dict[str, Any]:
    """An audit as the interface shows it: kind, title, created, state, models, explainers, scores, table, failures, notes."""
    return {"state": run.state(), **audit_numbers(run.folder, stamp(run.folder, *CHANGING)), "title": run.title, "created": run.created}


def study(run: Run) -> dict[str, Any]:
    """A folder of several runs: its report, or its progress while there is no report."""
    kind = "report" if run.report() is not None else "waiting"
    return {"kind": kind, "title": run.title, "created": run.created, "state": run.state(), "rows": []}


def waiting(run: Run, result: OrbitResult) -> dict[str, Any]:
    """An orbit evaluation that has no plots yet, since models are not measured on every block."""
    rows = result.states().to_dict("records")
    return {"kind": "waiting", "title": run.title, "created": run.created, "state": run.state(), "rows": rows}


def page(run: Run) -> str:
    """The report of a run: the one in its folder, or for an audit that went on since, one made now."""
    stored, now, state = run.report(), stamp(run.folder, *CHANGING), run.progress()
    if run.kind != "audit" and stored is None:
        raise StoreError(f"There is no report in '{run.path}' yet: finish the run by the command that began it.")
    if run.kind == "audit" and not (stored and stored.stat().st_mtime_ns >= max(now) and (state is None or state.settled)):
        return render_report(run.folder, (*now, state is not None and bool(state.writer)))
    return Files(str(run.folder)).read(REPORT).decode(errors="replace")


@lru_cache(maxsize=HELD)
def audit_numbers(folder: Path, stamp: tuple[int, ...]) -> dict[str, Any]:
    """What is derived from an audit's cells, while they stay as they are."""
    result = Result(folder)
    scores = {one.score: one for one in result.series}
    return {
        "kind": "audit",
        "models": list(result.manifest["models"]),
        "explainers": list(dict.fromkeys(one.explainer for one in result.series if one.explainer)),
        "scores": [
            {**score_entry(name, one.direction.value, in_map_units=result.in_map_units(name)), "low": one.bounds[0], "high": one.bounds[1]}
            for name, one in scores.items()
            if name in result.manifest["scores"]
        ],
        "table": result.table(),
        "failures": result.failures(),
        "notes": [note_sentence(note) for note in result.manifest["notes"]],
    }


def score_entry(score: str, direction: str, *, in_map_units: bool) -> dict[str, str]:
    """A score's name, title and better direction; a score in the map's own units has none across explainers."""
    units = ", in each map's own units" if in_map_units else ""
    return {"name": score, "title": title_of(score) + units, "direction": "" if in_map_units else direction}


def note_sentence(note: Mapping[str, str]) -> str:
    """A note with whom it is about.

    >>> note_sentence({"model": "net", "explainer": "lime", "text": "Drawn anew for each batch."})
    'net: lime: Drawn anew for each batch.'
    """
    return ": ".join(filter(None, (note.get("model"), note.get("explainer"), note.get("text"))))


@lru_cache(maxsize=HELD)
def render_report(folder: Path, stamp: tuple[int, ...]) -> str:
    """An audit's report, while its cells stay as they are."""
    return report.render(Result(folder))


BINARY = "application/octet-stream"
HEADERS = {"cache-control": "no-store"}
REPORT_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; frame-ancestors 'self'"
"""A report may show itself and nothing else: no script, no request, no form."""


def add_answers(app: FastAPI, workspace: Workspace) -> None:
    """Add the routes that answer from run folders."""

    @app.get("/api/index")
    def index() -> Response:
        return as_json({"version": __version__, "runs": [run.entry() for run in workspace.runs.all()]})

    @app.get("/api/runs/{number}")
    def run(number: str) -> Response:
        found = workspace.run(number)
        if found.kind == "orbits":
            view = workspace.view(found)
            return as_json(workspace.meta(found) if view.complete else waiting(found, view))
        return as_json(study(found) if found.kind == STUDY else audit(found))

    @app.get("/api/runs/{number}/state")
    def state(number: str) -> Response:
        return as_json(workspace.run(number).state())

    @app.get("/api/runs/{number}/values")
    def values(number: str, model: str, metric: str, reference: str = "truth") -> Response:
        return as_bytes(answers.values(workspace.orbits(number), model, metric, reference))

    @app.get("/api/runs/{number}/reduction")
    def reduction(number: str, method: str, metric: str, reference: str = "truth") -> Response:
        return as_bytes(answers.reduction(workspace.orbits(number), method, metric, reference))

    @app.get("/api/runs/{number}/thumbnails")
    def thumbnails(number: str) -> Response:
        return as_bytes(answers.thumbnails(workspace.orbits(number)))

    @app.get("/api/runs/{number}/samples/{sample}")
    def sample(number: str, sample: int) -> Response:
        return as_bytes(answers.sample(workspace.orbits(number), sample, frames=not workspace.live(workspace.run(number))))

    @app.get("/api/runs/{number}/report")
    def report(number: str) -> Response:
        headers = {**HEADERS, "content-security-policy": REPORT_POLICY}
        return Response(page(workspace.run(number)), headers=headers, media_type="text/html; charset=utf-8")


def as_json(value: object) -> Response:
    """An answer as JSON; numbers that are not finite are null."""
    return Response(encoded(value), headers=HEADERS, media_type="application/json")


def as_bytes(data: bytes) -> Response:
    """An answer as bytes."""
    return Response(data, headers=HEADERS, media_type=BINARY)
