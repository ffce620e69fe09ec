"""The routes under /api: each looks a run up by its number and gives what the interface's answers say."""

from __future__ import annotations

from fastapi import FastAPI, Response

from veracity import __version__
from veracity.app import audits
from veracity.app.opened import Opened
from veracity.report.interactive import answers
from veracity.report.interactive.plain import encoded

BINARY = "application/octet-stream"
HEADERS = {"cache-control": "no-store"}
REPORT = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; frame-ancestors 'self'"
"""A report may show itself and nothing else: no script, no request, no form."""


def add_answers(app: FastAPI, opened: Opened) -> None:
    """Add the routes that answer from run folders."""

    @app.get("/api/index")
    def index() -> Response:
        return as_json({"version": __version__, "runs": [run.entry() for run in opened.runs.all()]})

    @app.get("/api/runs/{number}")
    def run(number: str) -> Response:
        found = opened.run(number)
        if found.kind == "orbits":
            view = opened.view(found)
            return as_json(opened.meta(found) if view.complete else audits.waiting(found, view))
        return as_json(audits.study(found) if found.kind == "report" else audits.audit(found))

    @app.get("/api/runs/{number}/state")
    def state(number: str) -> Response:
        return as_json(opened.run(number).state())

    @app.get("/api/runs/{number}/values")
    def values(number: str, model: str, metric: str, reference: str = "truth") -> Response:
        return as_bytes(answers.values(opened.orbits(number), model, metric, reference))

    @app.get("/api/runs/{number}/reduction")
    def reduction(number: str, method: str, metric: str, reference: str = "truth") -> Response:
        return as_bytes(answers.reduction(opened.orbits(number), method, metric, reference))

    @app.get("/api/runs/{number}/thumbnails")
    def thumbnails(number: str) -> Response:
        return as_bytes(answers.thumbnails(opened.orbits(number)))

    @app.get("/api/runs/{number}/samples/{sample}")
    def sample(number: str, sample: int) -> Response:
        return as_bytes(answers.sample(opened.orbits(number), sample, frames=not opened.live(opened.run(number))))

    @app.get("/api/runs/{number}/report")
    def report(number: str) -> Response:
        headers = {**HEADERS, "content-security-policy": REPORT}
        return Response(audits.page(opened.run(number)), headers=headers, media_type="text/html; charset=utf-8")


def as_json(value: object) -> Response:
    """An answer as JSON; numbers that are not finite are null."""
    return Response(encoded(value), headers=HEADERS, media_type="application/json")


def as_bytes(data: bytes) -> Response:
    """An answer as bytes."""
    return Response(data, headers=HEADERS, media_type=BINARY)
