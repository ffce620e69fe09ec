"""How long a client may keep the server waiting, and how the server ends.

uvicorn has no limit of its own for a client that connects and says nothing, that sends half a request, or that does not read its answer.
"""

from __future__ import annotations

import asyncio
import socket

from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from veracity.app.opened import Opened

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
