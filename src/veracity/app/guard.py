"""How long a client may keep the server waiting, and how the server ends.

uvicorn has no limit of its own for a client that connects and says nothing, that sends half a request, or that does not read its answer.

Who may ask: the right token, the machine's own name, and pages of this server alone.

A page elsewhere can make a browser send requests here, and a name that it owns can be made to lead here (DNS rebinding). The first
is known by its Origin, the second by its Host, and neither knows the token.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from veracity.app.runs import Opened
from veracity.report.interactive.packed import encoded

PATIENCE = 10.0
"""Seconds for which a connection may wait for its client."""
LOOK = 0.5
"""Seconds between two looks at a connection."""
CONNECTIONS = 256
"""How many connections may be open; one more takes the place of the one that has waited longest for its client."""


class Prompt(H11Protocol):
    """A connection that is cut once its client has kept it waiting for too long."""

    since = 0.0
    _seen: tuple[object, ...] = ()
    _next: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch; where there are too many connections, make room."""
        super().connection_made(transport)
        self.since = self.loop.time()
        waiting = [one for one in self.connections if isinstance(one, Prompt) and one is not self and one.waits]
        if len(self.connections) > CONNECTIONS and waiting:
            min(waiting, key=lambda one: one.since).transport.abort()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Watch no longer."""
        if self._next is not None:
            self._next.cancel()
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

    def _look(self) -> None:
        """Cut the connection if nothing has moved for too long; a connection that became a socket is watched by its pings."""
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        seen = (self.cycle, self.waits, self.transport.get_write_buffer_size())
        if not self.waits or seen != self._seen:
            self._seen, self.since = seen, self.loop.time()
        if self.loop.time() - self.since > PATIENCE:
            self.transport.abort()
            return
        self._next = self.loop.call_later(LOOK, self._look)


class EndingServer(Server):
    """A server that says goodbye to its sockets before it ends: 1001, going away."""

    def __init__(self, config: Config, opened: Opened) -> None:
        super().__init__(config)
        self.opened = opened

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take nobody new, close the sockets, then whatever else there is."""
        for server in self.servers:
            server.close()
        await self.opened.dismiss()
        await super().shutdown(sockets)


LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
NAMED = re.compile(r"(\[[0-9a-f:.]+\]|[0-9a-z._-]+)(:[0-9]{1,5})?")
REFUSED = {
    400: "This address is not served here: open the address that 'veracity app' printed.",
    401: "The token is missing or wrong: open the address that 'veracity app' printed.",
    403: "A page of another origin asked: open the address that 'veracity app' printed.",
}
"""What is said to who may not ask, by the status."""
HEADERS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cross-origin-resource-policy": "same-origin"}
"""What goes with every answer."""


def names(host: str) -> frozenset[str]:
    """The names under which a server that listens at `host` may be asked for; any address where it listens at all of them.

    An address cannot be rebound, only a name can.

    >>> sorted(names("127.0.0.1"))
    ['127.0.0.1', '::1', 'localhost']
    """
    if host in LOCAL:
        return LOCAL
    own = {socket.gethostname().lower(), socket.getfqdn().lower()}
    return LOCAL | own | ({"*"} if host in ("0.0.0.0", "::", "") else {host.lower()})


def named(host: str) -> str:
    """The name in a Host header, without its port; "" if it is none.

    >>> named("LocalHost:8000"), named("[::1]:80"), named("evil.example/;x")
    ('localhost', '::1', '')
    """
    found = NAMED.fullmatch(host.lower())
    return found[1].strip("[]") if found else ""


def numeric(name: str) -> bool:
    """Whether a name is an address.

    >>> numeric("10.0.0.7"), numeric("evil.example")
    (True, False)
    """
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Refuses what does not come from this server's own page; what stays under /api needs the token."""

    app: ASGIApp
    token: str
    hosts: frozenset[str] = LOCAL

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request or a socket through, or refuse it with a sentence."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        status = self.refusal(scope)
        if status is None:
            await self.app(scope, receive, with_headers(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 4000 + status, "reason": REFUSED[status]})
        else:
            body = encoded({"error": REFUSED[status]})
            headers = {**HEADERS, "cache-control": "no-store"}
            await Response(body, status, headers, "application/json")(scope, receive, send)

    def refusal(self, scope: Scope) -> int | None:
        """The status with which to refuse, or None."""
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        name = named(hosts[0]) if len(hosts) == 1 else ""
        if not (name in self.hosts or ("*" in self.hosts and numeric(name))):
            return 400
        own = ("https" if scope["scheme"] in ("https", "wss") else "http") + f"://{hosts[0]}"
        if any(origin.lower() != own.lower() for origin in origins):
            return 403
        inside = scope["type"] == "websocket" or scope["path"].startswith("/api")
        return 401 if inside and not self.known(headers, scope["query_string"]) else None

    def known(self, headers: Mapping[str, str], query: bytes) -> bool:
        """Whether a request brings the token, in its header or in its address."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = parse_qs(query.decode("latin-1")).get("token", [""])[0]
        return hmac.compare_digest(given.encode(), self.token.encode())


def with_headers(send: Send) -> Send:
    """A sender that adds what goes with every answer."""

    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = message.get("headers", ())
            message = {**message, "headers": [*given, *((name.encode(), value.encode()) for name, value in HEADERS.items())]}
        await send(message)

    return adding
