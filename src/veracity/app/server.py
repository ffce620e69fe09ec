"""The interface over HTTP: the page, the answers, and a socket for live ones, all behind one guard.

Start the server, say where it is, open the browser, and stay until told to stop.
"""

from __future__ import annotations

import errno
import secrets
import socket
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from veracity.app.answers import add_answers
from veracity.app.guard import LOCAL, Guard
from veracity.app.runs import Opened
from veracity.app.socket import add_socket
from veracity.core.errors import InputError, StoreError, VeracityError, missing_extra
from veracity.report.interactive.offline import bundled
from veracity.report.interactive.packed import encoded

if TYPE_CHECKING:
    from uvicorn import Server

    from veracity.orbits import OrbitEvaluation


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


LARGEST = 64 * 1024
"""The largest message that a client may send, in bytes."""
QUEUED = 4
"""How many messages of a client wait unread before it is held back."""

LOOK = 0.1
"""Seconds between two looks at whether to stop."""
KEPT = 5
"""Seconds for which a connection stays open between two requests."""
GRACE = 1
"""Seconds for answers that are under way when the server ends."""
ENOUGH = 1.4
"""Seconds after which an ending server is left behind."""


def serve(
    evaluation: OrbitEvaluation,
    folder: str | Path,
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    open_browser: bool = True,
    said: Callable[[str], object] | None = None,
) -> None:
    """Measure what a folder does not hold yet of an orbit evaluation, then open the interface with its models live.

    It ends when the process is interrupted. `said` is told where it is, which is printed otherwise; port 0 is a free one.
    """
    evaluation.run(folder)
    show(folder, evaluation=evaluation, port=port, host=host, open_browser=open_browser, said=said)


def show(
    folder: str | Path,
    *,
    evaluation: OrbitEvaluation | None = None,
    port: int = 0,
    host: str = "127.0.0.1",
    open_browser: bool = True,
    said: Callable[[str], object] | None = None,
) -> bool:
    """Open the interface of a run folder, or of a folder that holds several, until the process is interrupted; whether it was."""
    server, listening, address = prepared(folder, evaluation=evaluation, port=port, host=host)
    (said or told)(address)
    if open_browser:
        Thread(target=webbrowser.open, args=[address], daemon=True).start()
    with closing(listening):
        return stay(server, listening)


def stay(server: Server, listening: socket.socket) -> bool:
    """Serve until interrupted, and say whether it was; in a thread, so that it works beside an event loop, as in a notebook.

    It waits for an event, since an interrupt in `Thread.join` makes Python 3.11 take the thread for ended.
    """
    ended = Event()

    def run() -> None:
        try:
            server.run(sockets=[listening])
        finally:
            ended.set()

    Thread(target=run, daemon=True).start()
    try:
        while not ended.wait(LOOK):
            pass
    except KeyboardInterrupt:
        server.should_exit = True
        ended.wait(ENOUGH)
        return True
    return False


def prepared(
    folder: str | Path, *, evaluation: OrbitEvaluation | None = None, port: int = 0, host: str = "127.0.0.1", token: str | None = None
) -> tuple[Server, socket.socket, str]:
    """A server that has not started yet, the socket that it listens on, and the address to open."""
    try:
        import fastapi
        import uvicorn
        import websockets
    except ImportError as error:
        raise missing_extra(error.name or "fastapi", "app") from error
    del fastapi, websockets
    from veracity.app.guard import EndingServer, Prompt, names
    from veracity.app.runs import Opened, Runs

    pass

    secret = token or secrets.token_urlsafe(24)
    opened = Opened(Runs(folder), evaluation)
    listening = bound(host, port)
    settings: dict[str, Any] = {
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "ws_max_size": LARGEST,
        "ws_max_queue": QUEUED,
        "ws_per_message_deflate": False,
        "http": Prompt,
        "timeout_keep_alive": KEPT,
        "timeout_graceful_shutdown": GRACE,
    }
    server = EndingServer(uvicorn.Config(create(opened, secret, names(host)), **settings), opened)
    shown = "127.0.0.1" if host in ("0.0.0.0", "") else f"[{'::1' if host == '::' else host}]" if ":" in host else host
    return server, listening, f"http://{shown}:{listening.getsockname()[1]}/?token={secret}"


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens at a host and port from now on, so that no client comes too early; port 0 is a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except (OSError, OverflowError, UnicodeError) as error:
        listening.close()
        why = getattr(error, "strerror", None) or error
        unknown = isinstance(error, (socket.gaierror, UnicodeError)) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL
        if unknown:
            raise InputError(f"The interface cannot listen at the host '{host}' ({why}): choose another --host, or none.") from error
        raise InputError(f"The interface cannot listen at {host}:{port} ({why}): choose another --port, or none for a free one.") from error
    return listening


def told(address: str) -> None:
    """Say where the interface is."""
    from rich.console import Console

    Console().print(f"{address}\nPress Ctrl+C to stop.", soft_wrap=True, highlight=False, markup=False)
