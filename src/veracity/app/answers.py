"""The routes under /api: each looks a run up by its name, which is one part of the path, and answers for it.

Orbit evaluations are answered by `report.interactive.answers`; here are the numbers of an audit, and reports.
"""

from __future__ import annotations

import hashlib
import math
import os
import posixpath
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import FastAPI, Request, Response
from pydantic import AfterValidator

from veracity import __version__, report
from veracity.app.comparison import comparison
from veracity.app.home import answer_in, facts, orbit_verdict, plain_text
from veracity.app.links import key_of, report_path, with_links
from veracity.app.runs import REPORTS, STUDY, Run, Runs, Workspace, escaped, stamp
from veracity.core.errors import SpecError, StoreError
from veracity.engine.store.files import Files
from veracity.orbits import OrbitResult
from veracity.report.interactive import answers, cases
from veracity.report.interactive.packed import encoded
from veracity.report.page import answer_of
from veracity.report.wording import title_of
from veracity.results import Result

HELD = 8
"""How many audits' numbers are held at once."""
OPENED = 2
"""How many audits' measurements are held at once."""
LARGE = 50_000
"""The page of an audit with more samples opens before its table is derived."""
MANY = 4096
"""How many verdicts are held at once."""
CHANGING = ("cells", "failed", "advice.json")
"""What changes while an audit goes on."""


def audit(run: Run, whole: bool) -> dict[str, Any]:
    """An audit as the interface shows it: kind, title, created, state, models, explainers, scores, table, failures, notes.

    The table of a large one takes seconds to derive. Unless `whole` is asked for, it is `partial`: its rows have no numbers yet.
    """
    about = {"title": run.title, "created": run.created, "folder": os.path.abspath(run.folder)}
    if not whole and run.about["data"]["samples"] > LARGE:
        with reading(run) as result:
            return {"state": run.state(), **outline(result), **about}
    return {"state": run.state(), **audit_numbers(run.folder, stamp(run.folder, *CHANGING)), **about}


class Opened:
    """An audit that is read by one request at a time."""

    def __init__(self, folder: Path) -> None:
        self.result, self.lock = Result(folder), RLock()


@lru_cache(maxsize=OPENED)
def opened(folder: Path, stamp: tuple[int, ...]) -> Opened:
    """An audit, while its cells stay as they are."""
    return Opened(folder)


@contextmanager
def reading(run: Run) -> Iterator[Result]:
    """An audit's measurements, for one request; raises if the run is no audit."""
    if run.kind != "audit":
        raise SpecError(f"The run '{run.path}' has no samples of an audit: it is one of the kind '{run.kind}'.")
    found = opened(run.folder, stamp(run.folder, *CHANGING))
    with found.lock:
        yield found.result


def study(run: Run, runs: Runs) -> dict[str, Any]:
    """A folder of several runs: its report, or its progress while there is no report; `parts` are those of its runs that are here."""
    kind = "report" if run.report() is not None else "waiting"
    parts = [part for name in run.about["parts"] if (part := runs.get(runs.name(run.folder / name))) is not None]
    inner = [{"id": part.id, "name": part.path.rpartition("/")[2]} for part in parts]
    words = facts(run.about)["words"]
    return {"kind": kind, "words": words, "title": run.title, "created": run.created, "state": run.state(), "rows": [], "parts": inner}


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
    if stored is None:
        raise StoreError(f"There is no report in '{run.path}' any more.")
    return Files(str(run.folder)).read(stored.name).decode(errors="replace")


def verdict_of(run: Run) -> str:
    """What a finished run says, in words: the answer of its report, or of one that is not written yet; "" where there is none."""
    state, stored = run.progress(), run.report()
    if state is None or not state.settled:
        return ""
    now = stamp(run.folder, *CHANGING, "orbits")
    if run.kind == "orbits":
        return orbit_words(run.folder, now)
    if stored is not None and (run.kind != "audit" or stored.stat().st_mtime_ns >= max(now)):
        return answer_in(stored)
    return audit_words(run.folder, now) if run.kind == "audit" else ""


@lru_cache(maxsize=MANY)
def audit_words(folder: Path, stamp: tuple[int, ...]) -> str:
    """The answer of an audit, while its cells stay as they are."""
    return plain_text(" ".join(str(sentence) for paragraph in answer_of(Result(folder)) for sentence in paragraph))


@lru_cache(maxsize=MANY)
def orbit_words(folder: Path, stamp: tuple[int, ...]) -> str:
    """The verdict on an orbit evaluation, while its records stay as they are."""
    view = OrbitResult(folder)
    return orbit_verdict(view.table().to_dict("records")) if view.complete else ""


@lru_cache(maxsize=HELD)
def audit_numbers(folder: Path, stamp: tuple[int, ...]) -> dict[str, Any]:
    """What is derived from an audit's cells, while they stay as they are."""
    result = Result(folder)
    return {**outline(result), "partial": False, "table": result.table(), "failures": result.failures()}


def outline(result: Result) -> dict[str, Any]:
    """What an audit is about, by its manifest alone: rows are named, and have no numbers."""
    names = ("model", "explainer", "score", "control")
    scores = {one.score: one for one in result.series}
    models = list(result.manifest["models"])
    return {
        "kind": "audit",
        "models": models,
        "explainers": list(dict.fromkeys(one.explainer for one in result.series if one.explainer)),
        "samples": result.manifest["data"]["samples"],
        "confidence": result.confidence,
        "choices": {model: cases.choices(result, model) for model in models},
        "scores": [
            {
                **score_entry(name, one.direction.value, in_map_units=result.in_map_units(name)),
                "low": one.bounds[0],
                "high": one.bounds[1],
                "beside": [] if result.in_map_units(name) else list(result.known_score(name).beside),
            }
            for name, one in scores.items()
            if name in result.manifest["scores"]
        ],
        "partial": True,
        "table": [
            {**{name: getattr(one, name) for name in names}, "state": "reading"}
            for one in result.series
            if one.score in result.manifest["scores"]
        ],
        "failures": [],
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


Name = Annotated[str, AfterValidator(unquote)]
"""The name of a run in a path, of which it is one part."""
BINARY = "application/octet-stream"
HEADERS = {"cache-control": "no-store"}
REPORT_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; frame-ancestors 'self'"
"""A report may show itself and nothing else: no script, no request, no form."""


def add_answers(app: FastAPI, workspace: Workspace, token: str) -> None:
    """Add the routes that answer from run folders."""

    @app.get("/api/index")
    def index(request: Request, within: float = math.inf) -> Response:
        body = encoded({"version": __version__, "runs": workspace.runs.entries(within)})
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={**HEADERS, "etag": tag})
        return Response(body, headers={**HEADERS, "etag": tag}, media_type="application/json")

    @app.get("/api/runs/{name}")
    def run(name: Name, whole: bool = False) -> Response:
        found = workspace.run(name)
        if found.kind == "orbits":
            view = workspace.view(found)
            return as_json(workspace.meta(found) if view.complete else waiting(found, view))
        return as_json(study(found, workspace.runs) if found.kind == STUDY else audit(found, whole))

    @app.get("/api/runs/{name}/state")
    def state(name: Name) -> Response:
        return as_json(workspace.run(name).state())

    @app.get("/api/runs/{name}/verdict")
    def verdict(name: Name) -> Response:
        return as_json({"verdict": verdict_of(workspace.run(name))})

    @app.get("/api/runs/{name}/compare")
    def compare(name: Name, before: str) -> Response:
        return as_json(comparison(workspace.run(before), workspace.run(name)))

    @app.get("/api/runs/{name}/values")
    def values(name: Name, model: str, metric: str, reference: str = "truth") -> Response:
        return as_bytes(answers.values(workspace.orbits(name), model, metric, reference))

    @app.get("/api/runs/{name}/reduction")
    def reduction(name: Name, method: str, metric: str, reference: str = "truth") -> Response:
        return as_bytes(answers.reduction(workspace.orbits(name), method, metric, reference))

    @app.get("/api/runs/{name}/thumbnails")
    def thumbnails(name: Name) -> Response:
        return as_bytes(answers.thumbnails(workspace.orbits(name)))

    @app.get("/api/runs/{name}/samples/{sample}")
    def sample(name: Name, sample: int) -> Response:
        return as_bytes(answers.sample(workspace.orbits(name), sample, frames=not workspace.live(workspace.run(name))))

    @app.get("/api/runs/{name}/spread")
    def spread(name: Name, model: str, score: str, explainer: str = "") -> Response:
        with reading(workspace.run(name)) as result:
            return as_json(cases.spread(result, model, explainer, score))

    @app.get("/api/runs/{name}/spread.csv")
    def spread_csv(name: Name, model: str, score: str, explainer: str = "") -> Response:
        with reading(workspace.run(name)) as result:
            text = cases.as_csv(result, model, explainer, score)
        return Response(text, headers=HEADERS, media_type="text/csv; charset=utf-8")

    @app.get("/api/runs/{name}/cases")
    def listing(
        name: Name,
        model: str,
        score: str,
        explainer: str = "",
        order: str = "worst",
        only: str = "all",
        start: int = 0,
        count: int = 24,
        around: int | None = None,
    ) -> Response:
        with reading(workspace.run(name)) as result:
            found = cases.listing(result, model, explainer, score, order=order, only=only, start=start, count=count, around=around)
            return as_json(found)

    @app.get("/api/runs/{name}/cases/{sample}")
    def case(name: Name, sample: int, model: str, score: str) -> Response:
        with reading(workspace.run(name)) as result:
            return as_json(cases.case(result, model, score, sample))

    @app.get("/api/runs/{name}/cases/{sample}/explanation")
    def explanation(name: Name, sample: int, model: str, score: str, explainer: str) -> Response:
        with reading(workspace.run(name)) as result:
            return as_json(cases.explanation(result, model, explainer, score, sample))

    @app.get("/api/runs/{name}/report")
    def report(name: Name) -> Response:
        headers = {**HEADERS, "content-security-policy": REPORT_POLICY}
        found = workspace.run(name)

        def address(path: str) -> str | None:
            """The address of a run's report, by its path below the directory."""
            folder, file = posixpath.split(path)
            other = workspace.runs.get(escaped(folder)) if file in REPORTS else None
            return None if other is None else f"{report_path(other.id)}?key={key_of(token, report_path(other.id))}"

        place = found.folder.relative_to(workspace.runs.directory).as_posix()
        return Response(with_links(page(found), place, address), headers=headers, media_type="text/html; charset=utf-8")


def as_json(value: object) -> Response:
    """An answer as JSON; numbers that are not finite are null."""
    return Response(encoded(value), headers=HEADERS, media_type="application/json")


def as_bytes(data: bytes) -> Response:
    """An answer as bytes."""
    return Response(data, headers=HEADERS, media_type=BINARY)
