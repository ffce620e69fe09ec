from __future__ import annotations

import torch

from veracity.core.randomness import Draws
from veracity.core.walks import Ask
from veracity.perturb import Redraw
from veracity.walk.record import Record, RecordedSearch


def ask_of(rows: list[int], first: int = 0) -> Ask:
    row = torch.tensor(rows)
    draw = torch.arange(first, first + len(rows))
    return Ask(row, draw, torch.zeros_like(row), draw[:, None].float() * 10)


def test_the_worst_so_far_with_what_was_seen_there() -> None:
    record = Record(3)
    record.see(ask_of([0, 0, 2, 2]), torch.tensor([1.0, 3.0, torch.nan, -2.0]), torch.tensor([[10.0], [11.0], [12.0], [13.0]]))
    record.see(ask_of([0, 0], first=4), torch.tensor([2.0, 3.0]), torch.tensor([[14.0], [15.0]]))
    ask, merit = record.worst()
    assert ask.row.tolist() == [0, 2]
    assert merit.tolist() == [3.0, -2.0]
    assert ask.draw.tolist() == [1, 3]
    assert ask.element.tolist() == [[10.0], [30.0]]
    assert record.evaluations.tolist() == [4, 0, 2]
    assert record.undefined.tolist() == [0, 0, 1]
    assert record.seen is not None
    assert record.seen[:, 0].nan_to_num(-1.0).tolist() == [11.0, -1.0, 13.0]


def test_lines_are_kept_as_they_were() -> None:
    record = Record(2)
    record.see(ask_of([0, 1]), torch.tensor([1.0, torch.nan]), torch.tensor([[5.0, 6.0], [7.0, 8.0]]))
    record.mark(torch.tensor([0, 1]), 0, width=torch.tensor([0.5, 0.25]))
    record.see(ask_of([1], first=2), torch.tensor([9.0]), torch.tensor([[3.0, 4.0]]))
    record.mark(torch.tensor([1]), 1)
    trace = record.trace()
    assert trace.row.tolist() == [0, 1, 1]
    assert trace.level.tolist() == [0, 0, 1]
    assert trace.draw.tolist() == [0, 0, 0]
    found = {name: value.nan_to_num(-1.0).tolist() for name, value in trace.quantities.items()}
    assert found == {
        "merit": [1.0, -1.0, 9.0],
        "seen0": [5.0, -1.0, 3.0],
        "seen1": [6.0, -1.0, 4.0],
        "evaluations": [1.0, 1.0, 2.0],
        "undefined": [0.0, 1.0, 1.0],
        "width": [0.5, 0.25, -1.0],
    }


def test_what_was_told_may_change_afterwards() -> None:
    record, seen, merit = Record(1), torch.ones(1, 1), torch.ones(1)
    ask = ask_of([0])
    record.see(ask, merit, seen)
    record.mark(torch.tensor([0]), 0)
    ask.element.zero_().add_(99.0)
    seen.zero_()
    merit.zero_()
    assert record.worst()[0].element.item() == 0.0
    assert record.trace().quantities["seen0"].item() == 1.0


def test_nothing_seen_is_nothing_found() -> None:
    assert len(Record(4).worst()[0]) == 0


def test_the_random_numbers_of_the_next_evaluations() -> None:
    search = RecordedSearch(Redraw(), torch.tensor([5, 7, 2]), seed=3, device=torch.device("cpu"))
    search.record.evaluations[1] = 10
    draws = search.next_draws(torch.tensor([1, 2]), 2)
    assert draws.sample.tolist() == [7, 7, 2, 2]
    assert draws.draw.tolist() == [10, 11, 0, 1]
    alone = Draws(3, torch.tensor([7]), torch.tensor([11])).words(4, "s")
    assert torch.equal(draws.words(4, "s")[1:2], alone)
