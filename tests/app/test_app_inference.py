from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from veracity.app.live import Answer, Client, Inference, question
from veracity.core.errors import InputError
from veracity.report.interactive.packed import unpack


class Slow:
    """A model that answers when it is let; it remembers whom it answered."""

    def __init__(self) -> None:
        self.begun, self.let = threading.Semaphore(0), threading.Semaphore(0)
        self.asked: list[tuple[str, int]] = []

    def of(self, name: str) -> object:
        def answer(sample: int, at: Sequence[float], explainer: str | None) -> Answer:
            self.asked.append((name, sample))
            self.begun.release()
            assert self.let.acquire(timeout=10)
            return {"name": name}, {"input": np.zeros((2, 2), dtype=np.uint8)}

        return answer


async def begun(slow: Slow) -> None:
    assert await asyncio.to_thread(slow.begun.acquire, True, 10)


def asked(seq: int) -> str:
    return f'{{"seq": {seq}, "sample": {seq}, "at": [0]}}'


def test_of_fifty_questions_the_first_and_the_last_are_answered() -> None:
    async def drag() -> list[int]:
        slow, inference, answers = Slow(), Inference(), asyncio.Queue[bytes]()
        client = Client(slow.of("one"))  # type: ignore[arg-type]
        attending = asyncio.create_task(client.attend(inference, answers.put))
        client.ask(asked(1))
        await begun(slow)
        for seq in range(2, 51):
            client.ask(asked(seq))
            await asyncio.sleep(0)
        for _ in range(3):
            slow.let.release()
        found = [await asyncio.wait_for(answers.get(), 10) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert answers.empty()
        attending.cancel()
        inference.close()
        return [unpack(data)[0]["seq"] for data in found]

    assert asyncio.run(drag()) == [1, 50]


def test_clients_take_turns_whoever_asks_more() -> None:
    async def drag() -> list[tuple[str, int]]:
        slow, inference, answers = Slow(), Inference(), asyncio.Queue[bytes]()
        clients = {name: Client(slow.of(name)) for name in ("busy", "calm")}  # type: ignore[arg-type]
        tasks = [asyncio.create_task(client.attend(inference, answers.put)) for client in clients.values()]
        clients["busy"].ask(asked(1))
        await begun(slow)
        for seq in (2, 3, 4):
            clients["busy"].ask(asked(seq))
        clients["calm"].ask(asked(1))
        for _ in range(5):
            await asyncio.sleep(0)
        slow.let.release()
        await begun(slow)
        clients["busy"].ask(asked(5))
        slow.let.release()
        await begun(slow)
        slow.let.release()
        for _ in range(3):
            await asyncio.wait_for(answers.get(), 10)
        for task in tasks:
            task.cancel()
        inference.close()
        return slow.asked

    assert asyncio.run(drag()) == [("busy", 1), ("calm", 1), ("busy", 5)]


def test_a_question_that_cannot_be_packed_is_a_sentence() -> None:
    client = Client(lambda sample, at, explainer: ({}, {"input": np.array(["a"])}))
    client.ask(asked(4))
    header, _ = unpack(client.answer())
    assert header["seq"] == 4
    assert "error" in header
    assert client.answer() == b"", "a question is answered once"


@pytest.mark.parametrize(
    ("text", "seq"),
    [
        ('{"seq": 7}', 7),
        ('{"seq": 7, "sample": "0", "at": [0]}', 7),
        ('{"seq": true}', None),
        ('{"seq": 1.5}', None),
        ("[7]", None),
        ("{", None),
    ],
)
def test_a_wrong_question_is_answered_under_its_number_where_it_has_one(text: str, seq: int | None) -> None:
    client = Client(lambda sample, at, explainer: ({}, {}))
    client.ask(text)
    header, _ = unpack(client.answer())
    assert (header["seq"], "A question is JSON" in header["error"]) == (seq, True)


@pytest.mark.parametrize("text", ['{"seq": true, "sample": 0, "at": []}', '{"seq": 1, "sample": 0.5, "at": []}', '"seq"', "null", ""])
def test_a_question_has_whole_numbers(text: str) -> None:
    with pytest.raises(InputError, match="A question is JSON such as"):
        question(text)
