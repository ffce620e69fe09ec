"""The interface over HTTP: the page, the answers, and a socket for live ones, all behind one guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from veracity.app.answering import add_answers
from veracity.app.dragging import add_socket
from veracity.app.guard import LOCAL, Guard
from veracity.app.opened import Opened
from veracity.core.errors import StoreError, VeracityError
from veracity.report.interactive.bundle import bundled
from veracity.report.interactive.plain import encoded

FILES = {"/": ("index.html", "text/html"), "/app.js": ("app.js", "text/javascript"), "/app.css": ("app.css", "text/css")}
"""All that is served besides answers: the package's own files, by fixed names."""
NOTHING = "There is nothing at this address: open the one that 'veracity app' printed."
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self' ws://{host}; "
    "frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""What the page may do: talk to this server and to nobody else."""


def create(opened: Opened, token: str, hosts: frozenset[str] = LOCAL) -> ASGIApp:
    """The application that serves the runs of a directory to who knows the token."""

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        yield
        opened.close()

    app = FastAPI(lifespan=living, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(VeracityError, sentence)
    app.add_exception_handler(HTTPException, nothing)
    app.add_exception_handler(RequestValidationError, incomplete)
    app.add_exception_handler(Exception, broken)
    for path, (name, kind) in FILES.items():
        app.add_api_route(path, file(name, kind), methods=["GET"])
    add_answers(app, opened)
    add_socket(app, opened)
    return Guard(app=app, token=token, hosts=hosts)


def file(name: str, kind: str) -> Callable[[Request], Response]:
    """A route that serves one of the front end's files."""

    def serve(request: Request) -> Response:
        headers = {"content-security-policy": POLICY.format(host=request.headers["host"]), "cache-control": "no-cache"}
        return Response(bundled(name), headers=headers, media_type=f"{kind}; charset=utf-8")

    return serve


async def sentence(request: Request, error: Exception) -> Response:
    """Our own errors in their own words: what there is not is 404, what cannot be read 409."""
    return said(409 if isinstance(error, StoreError) else 404, str(error))


async def nothing(request: Request, error: Exception) -> Response:
    """Whatever else was asked for."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    return said(status, NOTHING if status == 404 else "Only GET is answered here.")


async def incomplete(request: Request, error: Exception) -> Response:
    """A question that lacks a part, or holds a wrong one."""
    parts = error.errors() if isinstance(error, RequestValidationError) else ()
    names = ", ".join(str(part["loc"][-1]) for part in parts)
    return said(422, f"The address is not complete, or something in it is not what it should be: see to {names}.")


async def broken(request: Request, error: Exception) -> Response:
    """Whatever else went wrong; the server's own log has the rest."""
    return said(500, f"The server could not answer: {type(error).__name__}: {error}")


def said(status: int, text: str) -> Response:
    """One sentence as an answer."""
    return Response(encoded({"error": text}), status, {"cache-control": "no-store"}, "application/json")
