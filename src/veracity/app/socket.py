"""The socket for dragging: questions in, packed answers out."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi import FastAPI, WebSocket
from starlette.websockets import WebSocketDisconnect

from veracity.app.live import Client
from veracity.app.runs import Opened
from veracity.core.errors import VeracityError
from veracity.report.interactive.packed import pack

CLIENTS = 128
"""How many sockets may be open at once."""


FULL = f"{CLIENTS} clients are connected already: close one of them."


TEXT = "A question is text, not bytes."


def add_socket(app: FastAPI, opened: Opened) -> None:
    """Add the socket that answers live."""

    @app.websocket("/api/runs/{number}/live")
    async def live(websocket: WebSocket, number: str) -> None:
        await websocket.accept()
        try:
            client = Client(await asyncio.to_thread(opened.answering, number))
        except VeracityError as error:
            await farewell(websocket, str(error))
            return
        if len(opened.sockets) >= CLIENTS:
            await farewell(websocket, FULL)
            return
        opened.sockets.add(websocket)
        attending = asyncio.create_task(client.attend(opened.inference, websocket.send_bytes))
        try:
            await listen(websocket, client)
        finally:
            opened.sockets.discard(websocket)
            attending.cancel()
            with suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError, OSError):
                await attending


async def listen(websocket: WebSocket, client: Client) -> None:
    """Hand every question to the client until the other side leaves."""
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        if message.get("text") is None:
            await farewell(websocket, TEXT)
            return
        client.ask(message["text"])


async def farewell(websocket: WebSocket, sentence: str) -> None:
    """Say why, and close."""
    await websocket.send_bytes(pack({"seq": None, "error": sentence}, {}))
    await websocket.close(1008)
