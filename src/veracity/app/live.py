"""Live answers over a socket: one thread for all clients, each client's newest question, one client after the other.

Each client has at most one question under way and one that waits. A newer question replaces the one that waits, so nothing piles up
and the last one is always answered.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from fastapi import FastAPI, WebSocket
from numpy.typing import NDArray
from starlette.websockets import WebSocketDisconnect

from veracity.core.errors import InputError, VeracityError, error_text
from veracity.report.interactive.packed import pack

if TYPE_CHECKING:
    from veracity.app.runs import Workspace

Answer = tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]
Answerer = Callable[[int, Sequence[float], str | None], Answer]
"""From a sample, a place along its orbit and an explainer's name to a header and arrays."""
FORM = 'A question is JSON such as {"seq": 1, "sample": 0, "at": [35.0], "explainer": null}.'


@dataclass(frozen=True, kw_only=True)
class Question:
    """Where a client wants to look."""

    seq: int
    sample: int
    at: tuple[float, ...]
    explainer: str | None = None


def question(text: str) -> Question:
    """A client's message as a question; raises with one sentence if it has another form.

    >>> question('{"seq": 4, "sample": 0, "at": [35]}')
    Question(seq=4, sample=0, at=(35.0,), explainer=None)
    """
    try:
        given = json.loads(text)
        whole = all(type(given[name]) is int for name in ("seq", "sample"))
        at = tuple(float(value) for value in given["at"] if type(value) in (int, float))
        explainer = given.get("explainer")
        sound = whole and len(at) == len(given["at"]) and all(map(math.isfinite, at)) and isinstance(explainer, str | None)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(FORM) from error
    if not sound:
        raise InputError(FORM)
    return Question(seq=given["seq"], sample=given["sample"], at=at, explainer=explainer)


def number(text: str) -> int | None:
    """The number of a message that may not be a question, if it can be read.

    >>> number('{"seq": 4}'), number('{"seq": "4"}'), number("{")
    (4, None, None)
    """
    try:
        seq = json.loads(text)["seq"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return seq if type(seq) is int else None


class Inference:
    """The thread in which models answer; those who ask take turns, since each client has at most one question under way."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="inference")

    async def run(self, work: Callable[[], bytes]) -> bytes:
        """The work's outcome, when its turn has come."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """Let the thread end."""
        self._thread.shutdown(wait=False, cancel_futures=True)


class Client:
    """One socket: its newest question, and the answers to it."""

    def __init__(self, answer_to: Answerer) -> None:
        self._answer_to = answer_to
        self._newest: deque[str] = deque(maxlen=1)
        self._asked = asyncio.Event()

    def ask(self, text: str) -> None:
        """Take the place of a question that waits."""
        self._newest.append(text)
        self._asked.set()

    async def attend(self, inference: Inference, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Answer until cancelled: what is asked meanwhile comes next, and of several questions only the newest."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            data = await inference.run(self.answer)
            if data:
                await send(data)

    def answer(self) -> bytes:
        """The packed answer to the newest question, or one sentence if it cannot be had; nothing if there is no question."""
        try:
            text = self._newest.pop()
        except IndexError:
            return b""
        started, seq = time.perf_counter(), None
        try:
            asked = question(text)
            seq = asked.seq
            header, arrays = self._answer_to(asked.sample, asked.at, asked.explainer)
            return pack({"seq": seq, "at": asked.at, **header, "seconds": time.perf_counter() - started}, arrays)
        except Exception as error:
            return pack({"seq": number(text) if seq is None else seq, "error": error_text(error)}, {})


CLIENTS = 128
"""How many sockets may be open at once."""
FULL = f"{CLIENTS} clients are connected already: close one of them."
TEXT = "A question is text, not bytes."


def add_socket(app: FastAPI, workspace: Workspace) -> None:
    """Add the socket that answers live."""

    @app.websocket("/api/runs/{name}/live")
    async def live(websocket: WebSocket, name: str) -> None:
        await websocket.accept()
        try:
            client = Client(await asyncio.to_thread(workspace.answerer, unquote(name)))
        except VeracityError as error:
            await refuse(websocket, str(error))
            return
        if len(workspace.sockets) >= CLIENTS:
            await refuse(websocket, FULL)
            return
        workspace.sockets.add(websocket)
        answers = asyncio.create_task(client.attend(workspace.inference, websocket.send_bytes))
        try:
            while (message := await websocket.receive())["type"] != "websocket.disconnect":
                if message.get("text") is None:
                    await refuse(websocket, TEXT)
                    return
                client.ask(message["text"])
        finally:
            workspace.sockets.discard(websocket)
            answers.cancel()
            with suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError, OSError):
                await answers


async def refuse(websocket: WebSocket, sentence: str) -> None:
    """Say why, and close."""
    await websocket.send_bytes(pack({"seq": None, "error": sentence}, {}))
    await websocket.close(1008)
