from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from own_loop import run
from veracity.app import turns
from veracity.app.turns import AT_ONCE, EACH, Turns


def request(client: str, number: int = 0, method: str = "GET", path: str = "/api/index") -> dict[str, Any]:
    headers = [(b"x-client", client.encode())] if client else []
    return {"type": "http", "method": method, "path": path, "headers": headers, "client": ("10.0.0.1", 1), "number": number}


class Server:
    """An application that answers a request once it is let; it remembers who began."""

    def __init__(self) -> None:
        self.began: list[tuple[str, int]] = []
        self.let = asyncio.Semaphore(0)
        self.turns = Turns(self.app)
        self.tasks: list[asyncio.Task[None]] = []

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began.append((dict(scope["headers"]).get(b"x-client", b"").decode(), scope["number"]))
        await self.let.acquire()
        await send({"type": "http.response.start"})

    async def ask(self, *requests: dict[str, Any]) -> None:
        async def receive() -> Message:
            return {"type": "http.request"}

        async def send(message: Message) -> None:
            pass

        self.tasks += [asyncio.create_task(self.turns(one, receive, send)) for one in requests]
        await settle()

    async def answer(self, many: int = 1) -> None:
        for _ in range(many):
            self.let.release()
        await settle()


async def settle() -> None:
    for _ in range(400):
        await asyncio.sleep(0)


def test_a_client_with_many_requests_waits_behind_one_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "REST", 0.0)

    async def work() -> list[tuple[str, int]]:
        server = Server()
        await server.ask(*(request("flood", number) for number in range(32)))
        assert len(server.began) == 1
        await server.ask(request("calm"))
        assert server.began[-1] == ("calm", 0), "it need not wait for 30 others"
        await server.answer(33)
        assert all(task.done() for task in server.tasks)
        assert (server.turns.under_way, server.turns.waiting, server.turns.last) == ({}, {}, {})
        return server.began

    began = run(work)
    assert [number for client, number in began if client == "flood"] == list(range(32)), "the oldest first"


def test_where_all_turns_are_taken_the_next_one_goes_to_whoever_has_fewest() -> None:
    async def work() -> None:
        server = Server()
        floods = [f"flood {number}" for number in range(AT_ONCE)]
        await server.ask(*(request(client, number) for client in floods for number in range(8)))
        assert len(server.began) == AT_ONCE
        await server.ask(request("calm"))
        assert len(server.began) == AT_ONCE
        await server.answer()
        assert server.began[-1] == ("calm", 0)
        await server.answer(8 * len(floods))

    run(work)


def test_a_client_that_goes_while_it_waits_holds_up_nobody() -> None:
    async def work() -> None:
        server = Server()
        await server.ask(*(request("one", number) for number in range(4)))
        server.tasks[2].cancel()
        server.tasks[0].cancel()
        await settle()
        assert [number for _, number in server.began] == [0, 1]
        await server.answer(2)
        assert (server.turns.under_way, server.turns.waiting, server.turns.last) == ({}, {}, {})

    run(work)


def test_pages_and_inputs_pass_and_clients_without_a_name_are_known_by_their_address() -> None:
    async def work() -> None:
        server = Server()
        await server.ask(*(request("", number) for number in range(9)))
        assert len(server.began) == 1
        await server.ask(request("", 10, path="/app.js"), request("", 11, method="POST"))
        assert [number for _, number in server.began] == [0, 10, 11]
        await server.answer(11)

    run(work)


def test_an_answer_that_takes_long_leaves_its_client_another_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LONG", 0.02)

    async def work() -> None:
        server = Server()
        await server.ask(*(request("one", number) for number in range(4)))
        assert len(server.began) == 1
        await asyncio.sleep(0.1)
        assert len(server.began) == EACH, "and no more of them, however long they take"
        await server.answer(4)
        assert len(server.began) == 4

    run(work)


def test_answers_of_models_take_turns_one_at_a_time_and_hold_up_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "REST", 0.0)

    async def work() -> list[tuple[str, int]]:
        server = Server()
        server.turns = Turns(Turns(server.app, models=True))
        await server.ask(*(request("flood", number, path=f"/api/runs/one{turns.WAITS}") for number in range(8)))
        await server.ask(request("calm", 9, path=f"/api/runs/one{turns.WAITS}"), request("other"))
        assert server.began == [("flood", 0), ("other", 0)]
        await server.answer(2)
        assert server.began[-1] == ("calm", 9)
        await server.answer(9)
        return server.began

    assert len(run(work)) == 10


@pytest.mark.parametrize("asks", ["nobody else", "another page", "a socket"])
def test_a_client_with_requests_waiting_rests_after_each_answer_while_others_ask(asks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LONGEST_REST", 0.05)
    monkeypatch.setattr(turns, "REST", 1e6)

    async def work() -> int:
        server = Server()
        if asks == "another page":
            await server.ask(request("calm"))
            await server.answer()
        if asks == "a socket":
            await server.ask(
                {
                    "type": "websocket",
                    "path": "/api/runs/one/live",
                    "headers": [],
                    "query_string": b"",
                    "client": ("10.0.0.1", 2),
                    "number": 0,
                }
            )
            await server.answer()
            server.turns.hear("socket of 10.0.0.1:2")
        server.began.clear()
        await server.ask(*(request("flood", number) for number in range(3)))
        await server.answer()
        found = len(server.began)
        await server.answer(2)
        await asyncio.sleep(0.2)
        assert len(server.began) == 3, "a rest ends"
        assert (server.turns.under_way, server.turns.waiting, server.turns.last, server.turns.rests) == ({}, {}, {}, {})
        return found

    assert run(work) == (2 if asks == "nobody else" else 1)


def test_a_socket_asks_from_its_message_to_its_answer_and_old_ones_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LATELY", 0.02)

    async def work() -> None:
        server = Server()
        kinds = iter(("websocket.connect", "websocket.receive", "websocket.disconnect"))

        async def receive() -> Message:
            return {"type": next(kinds)}

        async def send(message: Message) -> None:
            pass

        scope = {"query_string": b"token=t", "client": ("10.0.0.1", 2)}
        receiving, sending = server.turns.hearing(scope, receive, send)
        await receiving()
        assert not server.turns.others("flood"), "to connect is no question"
        await receiving()
        assert server.turns.others("flood")
        assert not server.turns.others("socket of 10.0.0.1:2")
        await asyncio.sleep(0.05)
        assert not server.turns.others("flood")
        await sending({"type": "websocket.send"})
        assert server.turns.others("flood"), "it waited for its answer until now"
        await asyncio.sleep(0.05)
        await receiving()
        server.turns.hear("flood")
        assert list(server.turns.heard) == ["flood"]

    run(work)


def test_a_page_and_its_own_socket_are_one_client() -> None:
    async def work() -> None:
        server = Server()

        async def receive() -> Message:
            return {"type": "websocket.receive"}

        async def send(message: Message) -> None:
            pass

        await server.turns.hearing({"query_string": b"client=page", "client": ("10.0.0.1", 2)}, receive, send)[0]()
        assert not server.turns.others("page")
        assert server.turns.others("another page")

    run(work)


def test_a_client_that_waits_for_a_long_answer_still_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LATELY", 0.02)

    async def work() -> None:
        server = Server()
        await server.ask(request("calm"))
        await asyncio.sleep(0.05)
        server.turns.hear("flood")
        assert server.turns.others("flood")
        await server.answer()
        assert not server.turns.others("flood")

    run(work)
