"""The web application: the page, the answers and a socket for live ones, all behind one guard; and the server that runs it.

uvicorn has no limit of its own for a client that connects and says nothing, that sends half a request, or that does not read its answer.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import quote, unquote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from veracity.app.answers import add_answers
from veracity.app.guard import LOCAL, Guard
from veracity.app.live import add_socket
from veracity.app.runs import Workspace
from veracity.app.sentences import as_sentence
from veracity.app.turns import Turns
from veracity.app.uploads import Refused
from veracity.core.errors import StoreError, VeracityError
from veracity.report.interactive.offline import bundled

FILES = {"/": ("index.html", "text/html"), "/app.js": ("app.js", "text/javascript"), "/app.css": ("app.css", "text/css")}
"""All that is served besides answers: the package's own files, by fixed names."""
UNCHANGED = " !\"#$&'()*+,:;<=>?@[]^_`{|}~"
"""What stands in a part of a path as it is."""
NOTHING = "There is nothing at this address: open the one that 'veracity app' printed."
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self' ws://{host}; "
    "frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""What the page may do: talk to this server and to nobody else."""


def create(workspace: Workspace, token: str, hosts: frozenset[str] = LOCAL) -> ASGIApp:
    """The application that serves the runs of a directory to clients that know the token."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        workspace.inference.close()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    for kind in (VeracityError, HTTPException, RequestValidationError, OSError, Exception):
        app.add_exception_handler(kind, error_response)
    for path, (name, media_type) in FILES.items():
        app.add_api_route(path, file_route(name, media_type), methods=["GET"])
    add_answers(app, workspace, token)
    add_socket(app, workspace)
    return Guard(app=Turns(Turns(by_segments(app), models=True)), token=token, hosts=hosts)


def by_segments(app: ASGIApp) -> ASGIApp:
    """The application, told which slashes of a path divide it and which belong to a run's name: those stay escaped."""

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope.get("raw_path"):
            parts = scope["raw_path"].decode("latin-1").partition("?")[0].split("/")
            scope = {**scope, "path": "/".join(quote(unquote(part), safe=UNCHANGED) for part in parts)}
        await app(scope, receive, send)

    return route


def file_route(name: str, media_type: str) -> Callable[[Request], Response]:
    """A route that serves one of the front end's files."""

    def serve(request: Request) -> Response:
        headers = {"content-security-policy": POLICY.format(host=request.headers["host"]), "cache-control": "no-cache"}
        return Response(bundled(name), headers=headers, media_type=f"{media_type}; charset=utf-8")

    return serve


async def error_response(request: Request, error: Exception) -> Response:
    """An error as one sentence: our own errors in their words, 404 for what there is not and 409 for what cannot be read."""
    if isinstance(error, Refused):
        status, text = error.status, str(error)
    elif isinstance(error, VeracityError):
        status, text = 409 if isinstance(error, StoreError) else 404, str(error)
    elif isinstance(error, HTTPException):
        allowed = (error.headers or {}).get("Allow", "GET")
        status, text = error.status_code, NOTHING if error.status_code == 404 else f"Only {allowed} is answered here."
    elif isinstance(error, RequestValidationError):
        names = ", ".join(str(part["loc"][-1]) for part in error.errors())
        status, text = 422, f"The address is incomplete, or a part of it has the wrong form: check {names}."
    elif isinstance(error, OSError):
        status, text = 409, f"A file of this run cannot be read ({error.strerror or error}): it may have been deleted meanwhile."
    else:
        status, text = 500, f"The server could not answer: {type(error).__name__}: {error}"
    return as_sentence(text, status, request.headers.get("accept", ""))


PATIENCE = 10.0
"""Seconds for which a connection may wait for its client."""
STEP = 1 << 16
"""Bytes that a client must send in that time while it sends a large request: the slowest lines that people have send more."""
INTERVAL = 0.5
"""Seconds between two looks at a connection."""
CONNECTIONS = 256
"""How many connections may be open; a further one replaces the one that has waited longest for its client."""
GRACE = 0.3
"""Seconds that answers under way get when the server shuts down."""


class TimedConnection(H11Protocol):
    """A connection that is closed once its client has kept it waiting for too long."""

    since = 0.0
    received = 0
    _seen: tuple[object, ...] = ()
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch; where there are too many connections, make room."""
        super().connection_made(transport)
        self.since = self.loop.time()
        waiting = [one for one in self.connections if isinstance(one, TimedConnection) and one is not self and one.waits]
        if len(self.connections) > CONNECTIONS and waiting:
            min(waiting, key=lambda one: one.since).transport.abort()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Count what arrives: a large upload moves."""
        self.received += len(data)
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Cut the connection of a client that is waited for; let an answer that is under way be finished."""
        if self.waits:
            self.transport.abort()
        else:
            super().shutdown()

    @property
    def waits(self) -> bool:
        """Whether it is the client's turn: to send the rest of a request, or to read on."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return not answering or self.cycle.more_body or self.flow.write_paused

    def _watch(self) -> None:
        """Cut the connection if nothing has moved for too long; a connection that became a socket is watched by its pings.

        Of what arrives, whole steps count, so that nobody keeps a connection by a byte now and then.
        """
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        seen = (self.cycle, self.waits, self.transport.get_write_buffer_size(), self.received // STEP)
        if not self.waits or seen != self._seen:
            self._seen, self.since = seen, self.loop.time()
        if self.loop.time() - self.since > PATIENCE:
            self.transport.abort()
            return
        self._timer = self.loop.call_later(INTERVAL, self._watch)


class GracefulServer(Server):
    """A server that says goodbye to its sockets before it ends: 1001, going away."""

    def __init__(self, config: Config, workspace: Workspace) -> None:
        super().__init__(config)
        self.workspace = workspace

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take nobody new, close the sockets, and give answers that are under way a moment; then cut off whatever is left.

        A page whose connection breaks waits for the next server; one that was told of an error would not.
        """
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        for server in self.servers:
            server.close()
        await self.workspace.dismiss()
        for connection in self._connections():
            connection.shutdown()
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=GRACE)
        for connection in self._connections():
            connection.transport.abort()
        self.workspace.inference.close()
        await super().shutdown(sockets)

    def _connections(self) -> list[TimedConnection]:
        """The connections that are open and did not become sockets."""
        return [one for one in self.server_state.connections if isinstance(one, TimedConnection)]
