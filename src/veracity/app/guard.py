"""Who may ask: clients with the right token, under the machine's own name, from pages of this server alone.

A page elsewhere can make a browser send requests here, and its owner can make a domain name point here (DNS rebinding). The Origin header
gives away the first, the Host header the second, and neither knows the token. The report of a run may be asked for by its own key as well
(see links.py). A refusal is JSON, and a page for a browser that opens an address.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from veracity.app.links import key_of
from veracity.app.sentences import as_sentence

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[0-9a-z._-]+)(:[0-9]{1,5})?")
REFUSED = {
    400: "This address is not served here: open the address that 'veracity app' printed.",
    401: "The token is missing or wrong: open the address that 'veracity app' printed.",
    403: "A page of another origin asked: open the address that 'veracity app' printed.",
}
"""What a client that may not ask is told, by the status."""
HEADERS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cross-origin-resource-policy": "same-origin"}
"""What goes with every answer."""


def allowed_hosts(host: str) -> frozenset[str]:
    """The names under which a server that listens at `host` may be asked for; any address where it listens at all of them.

    An address cannot be rebound, only a name can.

    >>> sorted(allowed_hosts("127.0.0.1"))
    ['127.0.0.1', '::1', 'localhost']
    """
    if host in LOCAL:
        return LOCAL
    own = {socket.gethostname().lower(), socket.getfqdn().lower()}
    return LOCAL | own | ({"*"} if host in ("0.0.0.0", "::", "") else {host.lower()})


def host_name(host: str) -> str:
    """The name in a Host header, without its port; "" if it is not valid.

    >>> host_name("LocalHost:8000"), host_name("[::1]:80"), host_name("evil.example/;x")
    ('localhost', '::1', '')
    """
    found = HOST.fullmatch(host.lower())
    return found[1].strip("[]") if found else ""


def is_address(name: str) -> bool:
    """Whether a name is an address.

    >>> is_address("10.0.0.7"), is_address("evil.example")
    (True, False)
    """
    with suppress(ValueError):
        return bool(ipaddress.ip_address(name))
    return False


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
            await as_sentence(REFUSED[status], status, Headers(scope=scope).get("accept", ""), HEADERS)(scope, receive, send)

    def refusal(self, scope: Scope) -> int | None:
        """The status with which to refuse, or None."""
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        name = host_name(hosts[0]) if len(hosts) == 1 else ""
        if not (name in self.hosts or ("*" in self.hosts and is_address(name))):
            return 400
        own = ("https" if scope["scheme"] in ("https", "wss") else "http") + f"://{hosts[0]}"
        if any(origin.lower() != own.lower() for origin in origins):
            return 403
        inside = scope["type"] == "websocket" or scope["path"].startswith("/api")
        known = not inside or self.known(headers, scope["query_string"]) or self.opened(scope)
        return None if known else 401

    def known(self, headers: Mapping[str, str], query: bytes) -> bool:
        """Whether a request brings the token, in its header or in its address."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = parse_qs(query.decode("latin-1")).get("token", [""])[0]
        return hmac.compare_digest(given.encode(), self.token.encode())

    def opened(self, scope: Scope) -> bool:
        """Whether a request brings the key of its own path."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])[0]
        path = scope.get("raw_path") or b""
        return scope["type"] == "http" and hmac.compare_digest(given.encode(), key_of(self.token, path.decode("latin-1")).encode())


def with_headers(send: Send) -> Send:
    """A sender that adds what goes with every answer."""

    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = message.get("headers", ())
            message = {**message, "headers": [*given, *((name.encode(), value.encode()) for name, value in HEADERS.items())]}
        await send(message)

    return adding
