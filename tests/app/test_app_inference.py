from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from own_loop import run
from veracity.app.live import Answer, Client, Inference, Steps, question
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

    assert run(drag) == [1, 50]


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

    assert run(drag) == [("busy", 1), ("calm", 1), ("busy", 5)]


def test_a_search_lets_others_answer_between_its_steps_and_a_newer_one_replaces_it() -> None:
    async def drag() -> tuple[list[str], list[int]]:
        let, done = threading.Semaphore(0), list[str]()

        def search(sample: int, at: Sequence[float], explainer: str | None) -> Steps:
            for step in range(3):
                assert let.acquire(timeout=10)
                done.append(f"search {sample}, step {step}")
                yield None
            yield {}, {}

        def place(sample: int, at: Sequence[float], explainer: str | None) -> Answer:
            done.append(f"place {sample}")
            return {}, {}

        inference, answers = Inference(), asyncio.Queue[bytes]()
        searcher, dragger = Client(search), Client(place)
        tasks = [asyncio.create_task(client.attend(inference, answers.put)) for client in (searcher, dragger)]
        searcher.ask(asked(1))
        await asyncio.sleep(0)
        dragger.ask(asked(2))
        await asyncio.sleep(0)
        let.release()
        found = [unpack(await asyncio.wait_for(answers.get(), 10))[0]["seq"]]
        searcher.ask(asked(3))
        for _ in range(5):
            let.release()
        found.append(unpack(await asyncio.wait_for(answers.get(), 10))[0]["seq"])
        for task in tasks:
            task.cancel()
        inference.close()
        return done, found

    done, found = run(drag)
    assert found == [2, 3]
    assert done[:2] == ["search 1, step 0", "place 2"], "the place is answered before the second step"
    assert "search 1, step 2" not in done, "the first search is given up"
    assert done[-3:] == [f"search 3, step {step}" for step in range(3)]


def test_an_answer_comes_in_parts_and_a_newer_question_replaces_the_rest() -> None:
    async def drag() -> list[tuple[int, str, bool]]:
        let = threading.Semaphore(0)

        def models(sample: int, at: Sequence[float], explainer: str | None) -> Steps:
            for name in ("fast", "slow"):
                assert let.acquire(timeout=10)
                yield {"name": name, "last": name == "slow"}, {}

        inference, answers = Inference(), asyncio.Queue[bytes]()
        client = Client(models)
        attending = asyncio.create_task(client.attend(inference, answers.put))
        client.ask(asked(1))
        let.release()
        found = [await asyncio.wait_for(answers.get(), 10)]
        client.ask(asked(2))
        for _ in range(4):
            let.release()
        found += [await asyncio.wait_for(answers.get(), 10) for _ in range(3)]
        attending.cancel()
        inference.close()
        headers = [unpack(data)[0] for data in found]
        return [(header["seq"], header["name"], header["last"]) for header in headers]

    parts = run(drag)
    assert parts[0] == (1, "fast", False)
    assert parts[-2:] == [(2, "fast", False), (2, "slow", True)]
    assert parts[1] == (1, "slow", True), "this step was under way when the newer question came"


def test_a_question_that_cannot_be_packed_is_a_sentence() -> None:
    client = Client(lambda sample, at, explainer: ({}, {"input": np.array(["a"])}))
    client.ask(asked(4))
    data, last = next(client.answer())
    header, _ = unpack(data)
    assert (header["seq"], last) == (4, True)
    assert "error" in header
    assert list(client.answer()) == [], "a question is answered once"


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
    header, _ = unpack(next(client.answer())[0])
    assert (header["seq"], "A question is JSON" in header["error"]) == (seq, True)


@pytest.mark.parametrize("text", ['{"seq": true, "sample": 0, "at": []}', '{"seq": 1, "sample": 0.5, "at": []}', '"seq"', "null", ""])
def test_a_question_has_whole_numbers(text: str) -> None:
    with pytest.raises(InputError, match="A question is JSON such as"):
        question(text)
