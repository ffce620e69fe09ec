"""Requests take turns: few are answered at once, and a client with many under way waits behind one with few."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

AT_ONCE = 4
"""How many requests are answered at once; more would only share the same cores."""
EACH = 2
"""How many of one client, the second one only if the first takes long, so that a flood of short ones leaves a core to others."""
LONG = 0.5
"""Seconds after which an answer takes long."""
REST = 3.0
"""A client with more requests waiting rests this many times as long as its last answer took, if others are asking too."""
LONGEST_REST = 0.1
"""Seconds of the longest such rest."""
LATELY = 1.0
"""Seconds for which a client counts as asking."""
WAITS = "/small/inputs"
"""How a path ends whose answer waits for the thread of the models. These take turns of their own, one at a time."""
LONGEST_NAME = 64
"""The longest name of a client, in characters."""


class Turns:
    """Lets requests for answers through, one client after the other.

    A client is what a page calls itself in the header X-Client, or else an address. What is no GET request of an answer passes. Answers
    of `models` and all others take turns apart from each other. All answers share one interpreter, also those over sockets. So a client
    that keeps requests waiting rests between answers while others ask, on the same kind of answers or over a socket. With answers of up
    to 30 ms it then has a quarter of the time: 1 part of an answer, `REST` parts of rest.
    """

    def __init__(self, app: ASGIApp, models: bool = False) -> None:
        self.app, self.models = app, models
        self.at_once = 1 if models else AT_ONCE
        self.under_way: dict[str, list[float]] = {}
        """When the answers began that are under way, by client."""
        self.waiting: dict[str, deque[asyncio.Future[float]]] = {}
        self.last: dict[str, float] = {}
        """When those clients had their last turn who have or want another one."""
        self.rests: dict[str, float] = {}
        """Until when clients rest."""
        self.heard: OrderedDict[str, float] = OrderedDict()
        """When each client last asked for something, the latest last; those of more than `LATELY` ago are forgotten."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer when it is the client's turn; the turn ends with the first byte, so that nobody waits for a slow reader."""
        if scope["type"] == "websocket":
            await self.app(scope, *self.hearing(scope, receive, send))
            return
        asks = scope["type"] == "http" and scope["method"] == "GET" and scope["path"].startswith("/api")
        if not asks or scope["path"].endswith(WAITS) is not self.models:
            await self.app(scope, receive, send)
            return
        client, answering = client_of(scope), True
        self.hear(client)
        began = await self.turn(client)

        def end() -> None:
            nonlocal answering
            if answering:
                answering = False
                self.end(client, began)

        async def sending(message: Message) -> None:
            end()
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            end()

    def hearing(self, scope: Scope, receive: Receive, send: Send) -> tuple[Receive, Send]:
        """The two ends of a socket: its client asks with each message, and asked until each answer."""
        client = client_of_socket(scope)

        async def receiving() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive":
                self.hear(client)
            return message

        async def sending(message: Message) -> None:
            if message["type"] == "websocket.send":
                self.hear(client)
            await send(message)

        return receiving, sending

    def hear(self, client: str) -> None:
        """Note that a client asks now."""
        now = time.monotonic()
        self.heard[client] = now
        self.heard.move_to_end(client)
        while next(iter(self.heard.values())) < now - LATELY:
            self.heard.popitem(last=False)

    def others(self, client: str) -> bool:
        """Whether anybody else has a turn, wants one, or has asked lately."""
        since = time.monotonic() - LATELY
        busy = (one for clients in (self.under_way, self.waiting) for one in clients)
        return any(one != client for one in busy) or any(one != client and at >= since for one, at in self.heard.items())

    async def turn(self, client: str) -> float:
        """Wait until it is the client's turn, and say when it began."""
        granted: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(client, deque()).append(granted)
        self._grant()
        try:
            return await granted
        except asyncio.CancelledError:
            if not granted.cancelled():
                self.end(client, granted.result())
            raise

    def end(self, client: str, began: float) -> None:
        """End the turn of the client that began then."""
        self.under_way[client].remove(began)
        if not self.under_way[client]:
            del self.under_way[client]
        if client in self.waiting and self.others(client):
            now = time.monotonic()
            rest = min(REST * (now - began), LONGEST_REST)
            self.rests[client] = now + rest
            asyncio.get_running_loop().call_later(rest, self._wake, client, now + rest)
        self._forget(client)
        self._grant()

    def _wake(self, client: str, until: float) -> None:
        """End a rest, unless a later one has begun."""
        if self.rests.get(client) == until:
            del self.rests[client]
            self._grant()

    def _forget(self, client: str) -> None:
        """Forget a client that has no turn and wants none."""
        if client not in self.under_way and client not in self.waiting:
            self.last.pop(client, None)
            self.rests.pop(client, None)

    def may(self, client: str) -> bool:
        """Whether a client may have a turn now."""
        began = self.under_way.get(client, [])
        return client not in self.rests and len(began) < EACH and all(time.monotonic() - one >= LONG for one in began)

    def _grant(self) -> None:
        """Give free turns to those whose last turn is the longest ago, and to those first who had none."""
        while sum(map(len, self.under_way.values())) < self.at_once:
            clients = [client for client in self.waiting if self.may(client)]
            if not clients:
                return
            client = min(clients, key=lambda one: self.last.get(one, 0.0))
            granted = self.waiting[client].popleft()
            if not self.waiting[client]:
                del self.waiting[client]
            if granted.cancelled():
                self._forget(client)
            else:
                began = self.last[client] = time.monotonic()
                granted.set_result(began)
                self.under_way.setdefault(client, []).append(began)
                asyncio.get_running_loop().call_later(LONG, self._grant)


def client_of(scope: Scope) -> str:
    """What a client calls itself, or its address."""
    address = scope.get("client") or ("",)
    return Headers(scope=scope).get("x-client", "")[:LONGEST_NAME] or str(address[0])


def client_of_socket(scope: Scope) -> str:
    """What the client of a socket calls itself in its address, since a browser sends no headers of its own there; or its place.

    >>> client_of_socket({"query_string": b"token=1&client=a7", "client": ("10.0.0.1", 80)})
    'a7'
    """
    named = parse_qs(scope["query_string"].decode("latin-1")).get("client", [""])[0]
    return named[:LONGEST_NAME] or "socket of {}:{}".format(*(scope.get("client") or ("", 0)))
