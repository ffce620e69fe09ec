"""Start the interface, say where it is, open the browser, and stay until interrupted.

The web framework is imported when a server is made, so that its absence is one sentence.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from veracity.app.address import keep, kept, new_token, token_in
from veracity.core.errors import InputError, StoreError, missing_extra, warn
from veracity.engine.store.folder import OURS, RUN
from veracity.engine.store.manifest import MANIFEST
from veracity.engine.store.search import run_folders

if TYPE_CHECKING:
    from uvicorn import Server

    from veracity.app.application import GracefulServer
    from veracity.app.runs import Find
    from veracity.audit import Audit
    from veracity.orbits import OrbitEvaluation

LARGEST = 64 * 1024
"""The largest message that a client may send, in bytes."""
QUEUED = 4
"""How many messages of a client may wait unread."""

INTERVAL = 0.1
"""Seconds between two looks at whether to stop."""
TRIED = 20
"""How many ports are tried for a folder that has none yet."""
KEEP_ALIVE = 5
"""Seconds for which a connection stays open between two requests."""
ENDING = 1.0
"""Seconds that a model gets to break off its answer before we say that it takes longer."""
ENOUGH = 0.7
"""Seconds after which a server that does not shut down is left behind."""


def serve(
    evaluation: OrbitEvaluation | Audit,
    folder: str | Path,
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    token_file: str | Path | None = None,
    open_browser: bool = True,
    announce: Callable[[str], object] | None = None,
) -> None:
    """Measure what a folder does not hold yet of an orbit evaluation or an audit, then open the interface with its models live.

    It ends when the process is interrupted. `announce` gets the address, which is printed by default. Without a port it is that of last
    time; 0 means a free one. The token is that of last time too, or the one in `token_file`.
    """
    check_own_folder(folder)
    evaluation.run(folder)
    at, token = usual_address(folder, port=port, host=host, token_file=token_file)
    server, listening, address = make_server(folder, evaluation=evaluation, port=at, host=host, token=token)
    told_and_served(server, listening, address, open_browser, announce)
    if not server.workspace.inference.idle(ENDING):
        warn("A model is still computing an answer, and Python ends after it. Press Ctrl+C again to end it now.")


def check_own_folder(folder: str | Path) -> None:
    """Raise if a folder holds runs and is none itself; whatever else it may hold, the run says."""
    place = Path(folder)
    if "://" in str(folder) or not place.is_dir() or any(os.path.lexists(place / name) for name in (MANIFEST, RUN)):
        return
    inside = sorted(one for one in run_folders(place, lambda found: False) if one.relative_to(place).parts[0] not in OURS)
    if inside:
        raise StoreError(f"{place} holds runs and is none itself: pass the run's own folder, such as {inside[0]}.")


def show(
    folder: str | Path,
    *,
    evaluation: OrbitEvaluation | Audit | None = None,
    find: Find | None = None,
    port: int | None = None,
    host: str = "127.0.0.1",
    token_file: str | Path | None = None,
    open_browser: bool = True,
    announce: Callable[[str], object] | None = None,
) -> bool:
    """Open the interface of a run folder, or of a folder that holds several, until the process is interrupted; whether it was.

    `evaluation` made the run in this folder; `find` finds the audits behind runs, so that any draw of a sample can be computed.
    """
    at, token = usual_address(folder, port=port, host=host, token_file=token_file)
    server, listening, address = make_server(folder, evaluation=evaluation, find=find, port=at, host=host, token=token)
    return told_and_served(server, listening, address, open_browser, announce)


def told_and_served(
    server: GracefulServer, listening: socket.socket, address: str, open_browser: bool, announce: Callable[[str], object] | None
) -> bool:
    """Say where a server is and let it serve until the process is interrupted; whether it was."""
    accept_interrupts()
    with closing(listening):
        (announce or announce_address)(address)
        if open_browser:
            Thread(target=webbrowser.open, args=[address], daemon=True).start()
        return stay(server, listening)


def accept_interrupts() -> None:
    """Let Ctrl+C end the server even where SIGINT is ignored, as a shell starts the background jobs of a script."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def usual_address(folder: str | Path, *, port: int | None, host: str, token_file: str | Path | None) -> tuple[int, str]:
    """The port and the token to serve a folder with: what was given, or else those of last time, which are kept for the next.

    A token that travels between machines in plain text is never used twice, unless a file holds it.
    """
    usual, known = kept(folder)
    given = None if token_file is None else token_in(token_file)
    token = given or (usual.token if host in ("127.0.0.1", "localhost", "::1") else new_token())
    if not os.path.isdir(folder):
        return port or 0, token
    if port is not None:
        keep(usual)
        return port, token
    for at in (usual.port, *(() if known else range(usual.port + 1, usual.port + TRIED))):
        with suppress(InputError):
            listen_at(host, at).close()
            keep(replace(usual, port=at))
            return at, token
    if known:
        warn(f"The port {usual.port} of last time is taken, so that pages which are open already do not find this server.")
    return 0, token


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
        while not ended.wait(INTERVAL):
            pass
    except KeyboardInterrupt:
        server.should_exit = True
        ended.wait(ENOUGH)
        return True
    return False


def make_server(
    folder: str | Path,
    *,
    evaluation: OrbitEvaluation | Audit | None = None,
    find: Find | None = None,
    port: int = 0,
    host: str = "127.0.0.1",
    token: str | None = None,
) -> tuple[GracefulServer, socket.socket, str]:
    """A server that has not started yet, the socket that it listens on, and the address to open."""
    try:
        import fastapi
        import uvicorn
        import websockets
    except ImportError as error:
        raise missing_extra(error.name or "fastapi", "app") from error
    del fastapi, websockets
    from veracity.app.application import GracefulServer, TimedConnection, create
    from veracity.app.guard import allowed_hosts
    from veracity.app.runs import Runs, Workspace

    secret = token or new_token()
    workspace = Workspace(Runs(folder), evaluation, find)
    listening = listen_at(host, port)
    settings: dict[str, Any] = {
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "ws_max_size": LARGEST,
        "ws_max_queue": QUEUED,
        "ws_per_message_deflate": False,
        "http": TimedConnection,
        "timeout_keep_alive": KEEP_ALIVE,
        "timeout_graceful_shutdown": 0,
    }
    server = GracefulServer(uvicorn.Config(create(workspace, secret, allowed_hosts(host)), **settings), workspace)
    shown = "127.0.0.1" if host in ("0.0.0.0", "") else f"[{'::1' if host == '::' else host}]" if ":" in host else host
    return server, listening, f"http://{shown}:{listening.getsockname()[1]}/?token={secret}"


def listen_at(host: str, port: int) -> socket.socket:
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
        raise InputError(f"The interface cannot listen at {host}:{port} ({why}): choose another --port, or 0 for a free one.") from error
    return listening


def announce_address(address: str) -> None:
    """Say where the interface is."""
    from rich.console import Console

    Console().print(f"{address}\nPress Ctrl+C to stop.", soft_wrap=True, highlight=False, markup=False)
