"""The routes under /api: each looks a run up by its name, which is one part of the path, and answers for it.

Orbit evaluations are answered by `report.interactive.answers`; here are the numbers of an audit, and reports.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import FastAPI, Query, Request, Response
from pydantic import AfterValidator

from veracity import __version__, report
from veracity.app.comparison import comparison
from veracity.app.figures import small_figure
from veracity.app.forms import How
from veracity.app.home import answer_in, facts, plain_text
from veracity.app.links import key_of, report_path, with_links
from veracity.app.runs import REPORTS, STUDY, Run, Runs, Workspace, escaped, stamp
from veracity.core.errors import InputError, SpecError, StoreError, VeracityError, unknown
from veracity.core.wording import number
from veracity.engine.store import RunFolder
from veracity.engine.store.files import Files
from veracity.engine.store.study import FINDINGS
from veracity.orbits import OrbitResult
from veracity.report.board import boards_of
from veracity.report.interactive import answers, cases, plane, selected
from veracity.report.interactive.packed import encoded
from veracity.report.interactive.thumbnails import INPUTS, check_samples, small_drawings
from veracity.report.orbit_answer import orbit_answer
from veracity.report.page import answer_of
from veracity.report.reading import comparable, read
from veracity.report.rows import chance_words, explanation_scores
from veracity.report.section import definition_of, score_words
from veracity.report.wording import title_of
from veracity.results import Result
from veracity.results.rows import Row
from veracity.results.selection import Numbers, Part, choices, read_part, select
from veracity.results.series import null_of
from veracity.studies.result import load

HELD = 8
"""How many audits' numbers are held at once."""
OPENED = 2
"""How many audits' measurements are held at once."""
LARGE = 50_000
"""The page of an audit with more samples opens before its table is derived."""
MANY = 4096
"""How many verdicts are held at once."""
SELECTED = 4
"""How many selections of samples of an audit are held at once."""
PARTS = 16
"""The most parts of a selection."""
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
        self.selected: dict[tuple[str, ...], Numbers] = {}

    def select(self, picks: Sequence[str]) -> Numbers | None:
        """The samples of a selection, given as texts of its parts; None without any part."""
        key = tuple(picks)
        if not key:
            return None
        if key not in self.selected:
            self.selected[key] = select(self.result, *read_parts(key))
            while len(self.selected) > SELECTED:
                self.selected.pop(next(iter(self.selected)))
        return self.selected[key]


@lru_cache(maxsize=OPENED)
def opened(folder: Path, stamp: tuple[int, ...]) -> Opened:
    """An audit, while its cells stay as they are."""
    return Opened(folder)


def read_parts(picks: Sequence[str]) -> list[Part]:
    """The parts of a selection from their texts; raises if there are too many."""
    if len(picks) > PARTS:
        raise InputError(f"A selection has at most {PARTS} parts, not {len(picks)}.")
    return [read_part(text) for text in picks]


@contextmanager
def reading(run: Run) -> Iterator[Result]:
    """An audit's measurements, for one request; raises if the run is no audit."""
    with chosen_in(run, ()) as (result, _):
        yield result


@contextmanager
def chosen_in(run: Run, picks: Sequence[str]) -> Iterator[tuple[Result, Numbers | None]]:
    """An audit's measurements, for one request, and the samples of a selection."""
    if run.kind != "audit":
        raise SpecError(f"The run '{run.path}' has no samples of an audit: it is one of the kind '{run.kind}'.")
    found = opened(run.folder, stamp(run.folder, *CHANGING))
    with found.lock:
        yield found.result, found.select(picks)


def scored(run: Run) -> Run:
    """A run that has scores of explanations; raises if it has none."""
    if run.kind != "audit":
        raise SpecError(f"The run '{run.path}' has no scores of explanations: it is one of the kind '{run.kind}'.")
    return run


def study(run: Run, runs: Runs) -> dict[str, Any]:
    """A folder of several runs: its report, or while there is none its progress, and its table once it is finished.

    `parts` are those of its runs that are here.
    """
    kind = "report" if run.report() is not None else "waiting"
    parts = [part for name in run.about["parts"] if (part := runs.get(runs.name(run.folder / name))) is not None]
    inner = [{"id": part.id, "name": part.path.rpartition("/")[2]} for part in parts]
    named = {"kind": kind, "words": facts(run.about)["words"], "title": run.title, "created": run.created}
    state = run.progress()
    whole = kind == "waiting" and state is not None and state.settled
    found: dict[str, Any] = {}
    with suppress(VeracityError, OSError):
        found = {"table": findings(run.folder, stamp(run.folder, FINDINGS))} if whole else {}
    return {**named, "state": run.state(), "rows": [], "parts": inner, **found}


@lru_cache(maxsize=MANY)
def findings(folder: Path, stamp: tuple[int, ...]) -> dict[str, Any]:
    """What a study without a report found, as a table, while its file stays as it is."""
    found = load(folder).table()
    return {"columns": list(found.columns), "rows": found.to_dict("records")}


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


def figure_of(run: Run) -> dict[str, Any] | None:
    """The main figure of a finished run in few numbers."""
    state = run.progress()
    return figure_in(run.folder, stamp(run.folder, *CHANGING, "orbits", FINDINGS)) if state is not None and state.settled else None


@lru_cache(maxsize=MANY)
def figure_in(folder: Path, stamp: tuple[int, ...]) -> dict[str, Any] | None:
    """The main figure of a folder, while its files stay as they are."""
    return small_figure(folder, RunFolder(str(folder)).manifest(None))


@lru_cache(maxsize=MANY)
def audit_words(folder: Path, stamp: tuple[int, ...]) -> str:
    """The answer of an audit, while its cells stay as they are."""
    return plain_text(" ".join(str(sentence) for paragraph in answer_of(Result(folder)) for sentence in paragraph))


@lru_cache(maxsize=MANY)
def words_of_score(folder: Path, score: str, stamp: tuple[int, ...]) -> dict[str, Any]:
    """What a score of an audit is, what it says, and which of its assumptions hold, while the audit's cells stay as they are."""
    result = Result(folder)
    if score not in result.manifest["scores"]:
        raise unknown("score of this run", score, list(result.manifest["scores"]))
    reading = read(result)
    if score not in explanation_scores(reading.rows):
        return {"definition": plain_text(definition_of(reading.score(score))), "settings": [], "answer": [], "assumptions": []}
    found = score_words(reading, score)
    answer = [plain_text(str(sentence)) for sentence in found.answer.sentences]
    return {
        "definition": plain_text(found.definition),
        "settings": [plain_text(text) for text in found.settings],
        "answer": answer,
        "assumptions": [{"text": plain_text(text), "fails": fails} for text, fails in found.assumptions],
    }


@lru_cache(maxsize=HELD)
def ranks_in(folder: Path, stamp: tuple[int, ...]) -> dict[str, Any]:
    """By model and score: each explainer's first and last possible rank by paired differences, among its kind; or why nobody is ranked."""
    return {
        board.model: {
            column.score: {
                "ranks": {
                    name: {"first": one.rank.first, "last": one.rank.last, "kind": one.row.frame}
                    for name, one in column.entries.items()
                    if one.rank is not None
                },
                "why": column.unranked,
            }
            for column in board.columns
        }
        for board in boards_of(Result(folder), "")
    }


@lru_cache(maxsize=MANY)
def orbit_words(folder: Path, stamp: tuple[int, ...]) -> str:
    """The verdict on an orbit evaluation, while its records stay as they are."""
    view = OrbitResult(folder)
    return plain_text(" ".join(orbit_answer(view))) if view.complete else ""


@lru_cache(maxsize=HELD)
def audit_numbers(folder: Path, stamp: tuple[int, ...]) -> dict[str, Any]:
    """What is derived from an audit's cells, while they stay as they are."""
    result = Result(folder)
    table = result.table().assign(chance=[beside_chance(result, row) for row in result.rows])
    return {**outline(result), "partial": False, "table": table, "failures": result.failures()}


def beside_chance(result: Result, row: Row) -> str:
    """Whether a row is not shown to do better than chance, in words, with chance where it is not what its random control got."""
    compared = comparable(row, result.known_score(row.score))
    said = chance_words(compared)
    known = said and math.isfinite(compared.random_control) and compared.chance != compared.random_control
    return f"{said} ({number(compared.chance)})" if known else said


def outline(result: Result) -> dict[str, Any]:
    """What an audit is about, by its manifest alone: rows are named, and have no numbers."""
    names = ("model", "explainer", "score", "control")
    scores = {one.score: one for one in result.series}
    models = list(result.manifest["models"])
    return {
        "kind": "audit",
        "models": models,
        "explainers": list(dict.fromkeys(one.explainer for one in result.series if one.explainer)),
        "nulls": {one.explainer: null_of(one) for one in result.series if one.explainer and not one.control},
        "symmetry": str(result.manifest.get("symmetry") or ""),
        "samples": result.manifest["data"]["samples"],
        "confidence": result.confidence,
        "choices": {model: choices(result, model) for model in models},
        "scores": [
            {
                **score_entry(name, one.direction.value, in_map_units=result.in_map_units(name)),
                "low": one.bounds[0],
                "high": one.bounds[1],
                "pooled": result.pools(name),
                "of_sample": of_sample(result, name),
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


def of_sample(result: Result, score: str) -> dict[str, str] | None:
    """What the value of one sample is, and its better direction, where that is not the score itself."""
    own = result.known_score(score).of_sample
    return None if own is None else {"title": f"{title_of(score)}: {own[0]}", "direction": "" if own[1] is None else own[1].value}


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
Picks = Annotated[list[str], Query(alias="pick", default_factory=list)]
"""The parts of a selection of samples, as texts."""
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
        if found.kind == STUDY:
            return as_json(study(found, workspace.runs))
        return as_json({**audit(found, whole), **workspace.draws(found)})

    @app.get("/api/runs/{name}/state")
    def state(name: Name) -> Response:
        return as_json(workspace.run(name).state())

    @app.get("/api/runs/{name}/verdict")
    def verdict(name: Name) -> Response:
        found = workspace.run(name)
        return as_json({"verdict": verdict_of(found), "figure": figure_of(found)})

    @app.get("/api/runs/{name}/words")
    def words(name: Name, score: str) -> Response:
        found = scored(workspace.run(name))
        return as_json(words_of_score(found.folder, score, stamp(found.folder, *CHANGING)))

    @app.get("/api/runs/{name}/ranks")
    def ranks(name: Name) -> Response:
        found = scored(workspace.run(name))
        return as_json(ranks_in(found.folder, stamp(found.folder, *CHANGING)))

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
    def sample(name: Name, sample: int, frames: bool = False) -> Response:
        moved = frames or not workspace.live(workspace.run(name))
        return as_bytes(answers.sample(workspace.orbits(name), sample, frames=moved))

    @app.get("/api/runs/{name}/spread")
    def spread(name: Name, picks: Picks, model: str, score: str, explainer: str = "") -> Response:
        with chosen_in(workspace.run(name), picks) as (result, chosen):
            return as_json(cases.spread(result, model, explainer, score, chosen))

    @app.get("/api/runs/{name}/spread.csv")
    def spread_csv(name: Name, picks: Picks, model: str, score: str, explainer: str = "") -> Response:
        with chosen_in(workspace.run(name), picks) as (result, chosen):
            return as_csv(cases.as_csv(result, model, explainer, score, chosen))

    @app.get("/api/runs/{name}/cases")
    def listing(
        name: Name,
        picks: Picks,
        model: str,
        score: str,
        explainer: str = "",
        order: str = "worst",
        by: str = "",
        only: str = "all",
        start: int = 0,
        count: int = 24,
        around: int | None = None,
    ) -> Response:
        asked: dict[str, Any] = {"order": order, "by": by, "only": only, "start": start, "count": count, "around": around}
        with chosen_in(workspace.run(name), picks) as (result, chosen):
            return as_json(cases.listing(result, model, explainer, score, chosen=chosen, **asked))

    @app.get("/api/runs/{name}/cases/{sample}")
    def case(name: Name, picks: Picks, sample: int, model: str, score: str) -> Response:
        with chosen_in(workspace.run(name), picks) as (result, chosen):
            return as_json(cases.case(result, model, score, sample, chosen))

    @app.get("/api/runs/{name}/plane")
    def scatter(name: Name, picks: Picks, model: str, x: str, y: str, explainer: str = "") -> Response:
        with chosen_in(workspace.run(name), picks) as (result, chosen):
            return as_json(plane.points(result, model, explainer, x, y, chosen))

    @app.get("/api/runs/{name}/selection")
    def selection(name: Name, picks: Picks) -> Response:
        with chosen_in(workspace.run(name), picks) as (result, chosen):
            return as_json(selected.about(result, read_parts(picks), every(result, chosen)))

    @app.get("/api/runs/{name}/selection/values")
    def selection_values(name: Name, picks: Picks, model: str, score: str) -> Response:
        run, found = workspace.run(name), []
        with reading(run) as result:
            explainers = [one.explainer for one in result.series if (one.model, one.score) == (model, score)]
        for explainer in explainers:  # others may ask in between
            with chosen_in(run, picks) as (result, chosen):
                found.append(selected.value(result, model, explainer, score, every(result, chosen)))
        return as_json(found)

    @app.get("/api/runs/{name}/selection.csv")
    def selection_csv(name: Name, picks: Picks, model: str, explainer: str = "") -> Response:
        with chosen_in(workspace.run(name), picks) as (result, chosen):
            return as_csv(selected.as_csv(result, model, explainer, every(result, chosen)))

    @app.get("/api/runs/{name}/small")
    def small(name: Name, sample: Annotated[list[int], Query()], model: str, explainer: str = "", kind: str = "inputs") -> Response:
        with reading(workspace.run(name)) as result:
            return as_json(small_drawings(result, model, explainer, sample, kind))

    @app.get("/api/runs/{name}/small/inputs")
    async def small_inputs(name: Name, sample: Annotated[list[int], Query()], model: str) -> Response:
        def work() -> bytes:
            run = workspace.run(name)
            with reading(run) as result:
                check_samples(result, sample)
            given = workspace.inputs(run, model, sample)
            with reading(run) as result:
                return encoded(small_drawings(result, model, "", sample, INPUTS, given))

        return Response(await workspace.inference.run(work), headers=HEADERS, media_type="application/json")

    @app.get("/api/runs/{name}/cases/{sample}/explanation")
    def explanation(name: Name, sample: int, model: str, score: str, explainer: str) -> Response:
        with reading(workspace.run(name)) as result:
            return as_json(cases.explanation(result, model, explainer, score, sample))

    @app.post("/api/runs/{name}/inputs")
    async def give(
        request: Request,
        name: Name,
        size: str = "refuse",
        invert: bool = False,
        pixels: str = "",
        mean: str = "",
        std: str = "",
        label: int | None = None,
    ) -> Response:
        found = await asyncio.to_thread(workspace.audited, name)
        data = await workspace.uploads.receive(request)
        how = How(size=size, invert=invert, pixels=pixels, mean=mean, std=std, label=label)
        return as_json({"input": workspace.uploads.hold(found.folder, data, how)})

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


def every(result: Result, chosen: Numbers | None) -> Numbers:
    """The chosen samples; all of them if there is no selection."""
    return select(result) if chosen is None else chosen


def as_csv(text: str) -> Response:
    """An answer as CSV."""
    return Response(text, headers=HEADERS, media_type="text/csv; charset=utf-8")


def as_bytes(data: bytes) -> Response:
    """An answer as bytes."""
    return Response(data, headers=HEADERS, media_type=BINARY)
