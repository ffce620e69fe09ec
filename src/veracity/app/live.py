"""Live answers over a socket: one thread for all clients, each client's newest question, one client after the other.

Each client has at most one question under way and one that waits. A newer question replaces the one that waits, so nothing piles up
and the last one is always answered. Slow models answer one after the other, each as soon as it has its output. Such an answer, and a
search of many steps, go to the end of the line after each step, and a newer question of the same client replaces what is left of them.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from fastapi import FastAPI, WebSocket
from numpy.typing import NDArray
from starlette.websockets import WebSocketDisconnect

from veracity.core.errors import InputError, VeracityError, error_text
from veracity.report.interactive.packed import pack

if TYPE_CHECKING:
    from veracity.app.runs import Workspace

T = TypeVar("T")
Answer = tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]
Steps = Generator[Answer | None, None, None]
"""An answer that takes long: parts of it, or None, whenever others may be answered first. A part after which others come has `last` False
in its header."""
Answerer = Callable[..., Answer | Steps]
"""From the parts of a question, in their order and without its number, to a header and arrays."""
FORM = 'A question is JSON such as {"seq": 1, "sample": 0, "at": [35.0], "explainer": null}.'
INPUT_FORM = 'A question about an input of your own is JSON such as {"seq": 1, "input": "…", "model": "net", "explainer": "", "score": ""}.'
DRAW_FORM = (
    'A question is JSON such as {"seq": 1, "sample": 0, "draw": 3, "model": "net", "explainer": "saliency", "score": "equivariance"}.'
)


@dataclass(frozen=True, kw_only=True)
class Question:
    """Where along an orbit a client wants to look."""

    seq: int
    sample: int
    at: tuple[float, ...]
    explainer: str | None = None

    @property
    def parts(self) -> tuple[Any, ...]:
        """What the models are asked."""
        return self.sample, self.at, self.explainer

    @property
    def echo(self) -> dict[str, Any]:
        """What the answer repeats."""
        return {"at": self.at}


@dataclass(frozen=True, kw_only=True)
class WorstQuestion:
    """Of which sample, and by which metric, a client wants to know the worst place of the orbit."""

    seq: int
    sample: int
    worst: str
    reference: str

    @property
    def parts(self) -> tuple[Any, ...]:
        """What the models are asked."""
        return (self,)

    @property
    def echo(self) -> dict[str, Any]:
        """What the answer repeats."""
        return {"metric": self.worst, "reference": self.reference}


@dataclass(frozen=True, kw_only=True)
class DrawQuestion:
    """Which draw of a sample of an audit a client wants to see."""

    seq: int
    sample: int
    draw: int
    model: str
    explainer: str
    score: str

    @property
    def parts(self) -> tuple[Any, ...]:
        """What the models are asked."""
        return self.sample, self.draw, self.model, self.explainer, self.score

    @property
    def echo(self) -> dict[str, Any]:
        """What the answer repeats; it names everything by itself."""
        return {}


@dataclass(frozen=True, kw_only=True)
class InputQuestion:
    """What a client wants to know about an input that it sent: the prediction of a model, the explanation by an explainer, or a score.

    Without an input, the question is what can be sent.
    """

    seq: int
    input: str
    model: str = ""
    explainer: str = ""
    score: str = ""

    @property
    def parts(self) -> tuple[Any, ...]:
        """What the models are asked."""
        return (self,)

    @property
    def echo(self) -> dict[str, Any]:
        """What the answer repeats."""
        return {"input_name": self.input}


Reading = Callable[[str], Question | WorstQuestion | DrawQuestion | InputQuestion]
"""From a client's message to its question."""


def audit_question(text: str) -> DrawQuestion | InputQuestion:
    """A client's message about an audit as a question: about an input that it sent, or about a draw of a sample.

    >>> audit_question('{"seq": 4, "input": "a1", "model": "net", "explainer": "lime", "score": ""}').parts[0].explainer
    'lime'
    """
    try:
        given = json.loads(text)
        names = [name for name in ("input", "model", "explainer", "score") if name in given]
        about_input = "input" in names
        if about_input and type(given["seq"]) is int and all(type(given[name]) is str for name in names):
            return InputQuestion(seq=given["seq"], **{name: given[name] for name in names})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(DRAW_FORM) from error
    if about_input:
        raise InputError(INPUT_FORM)
    return draw_question(text)


def draw_question(text: str) -> DrawQuestion:
    """A client's message as a question about a draw; raises with one sentence if it has another form.

    >>> draw_question('{"seq": 4, "sample": 0, "draw": 2, "model": "net", "explainer": "lime", "score": "symmetry"}').parts
    (0, 2, 'net', 'lime', 'symmetry')
    """
    try:
        given = json.loads(text)
        sound = all(type(given[name]) is int for name in ("seq", "sample", "draw"))
        sound = sound and all(type(given[name]) is str for name in ("model", "explainer", "score"))
        if sound:
            return DrawQuestion(**{name: given[name] for name in ("seq", "sample", "draw", "model", "explainer", "score")})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(DRAW_FORM) from error
    raise InputError(DRAW_FORM)


def orbit_question(text: str) -> Question | WorstQuestion:
    """A client's message about an orbit as a question: about a place, or about where the worst one is.

    >>> orbit_question('{"seq": 4, "sample": 0, "worst": "confidence", "reference": "truth"}').echo
    {'metric': 'confidence', 'reference': 'truth'}
    """
    try:
        given = json.loads(text)
        if isinstance(given, dict) and "worst" in given:
            whole = all(type(given[name]) is int for name in ("seq", "sample"))
            if whole and all(type(given[name]) is str for name in ("worst", "reference")):
                return WorstQuestion(**{name: given[name] for name in ("seq", "sample", "worst", "reference")})
    except (ValueError, KeyError, RecursionError) as error:
        raise InputError(FORM) from error
    return question(text)


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
        self._idle = Event()
        self._idle.set()

    async def run(self, work: Callable[[], T]) -> T:
        """The work's outcome, when its turn has come."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    def _work(self, work: Callable[[], T]) -> T:
        """Do the work, and know meanwhile that the thread is not idle."""
        self._idle.clear()
        try:
            return work()
        finally:
            self._idle.set()

    def idle(self, seconds: float) -> bool:
        """Whether no answer is computed, or its end came within so many seconds."""
        return self._idle.wait(seconds)

    def close(self) -> None:
        """Let the thread end after the step that it computes, for which the process waits: no model is left half restored."""
        self._thread.shutdown(wait=False, cancel_futures=True)


class Client:
    """One socket: its newest question, and the answers to it."""

    def __init__(self, answer_to: Answerer, read: Reading = question) -> None:
        self._answer_to, self._read = answer_to, read
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
            steps, last = self.answer(), False
            while not last:
                data, last = await inference.run(partial(next, steps, (b"", True)))
                if data:
                    await send(data)
                if self._newest:
                    break

    def answer(self) -> Iterator[tuple[bytes, bool]]:
        """The packed answer to the newest question, in one or more parts, or one sentence if it cannot be had; nothing without a question.

        Beside each part is whether it is the last one. A step without an answer is an empty part.
        """
        try:
            text = self._newest.pop()
        except IndexError:
            return
        started, seq = time.perf_counter(), None
        try:
            asked = self._read(text)
            seq = asked.seq
            found = self._answer_to(*asked.parts)
            for part in found if isinstance(found, Generator) else (found,):
                if part is None:
                    yield b"", False
                    continue
                header, arrays = part
                packed = pack({"seq": seq, **asked.echo, **header, "seconds": time.perf_counter() - started}, arrays)
                yield packed, header.get("last", True)
                started = time.perf_counter()
        except Exception as error:
            yield pack({"seq": number(text) if seq is None else seq, "error": error_text(error)}, {}), True


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
            client = Client(*await asyncio.to_thread(workspace.answerer, unquote(name)))
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
