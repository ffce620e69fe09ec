from __future__ import annotations

import torch

from veracity.core.measures import Direction
from veracity.core.walks import Ask
from veracity.engine.perturbation.base import Worst


def test_the_worst_of_a_stream_is_the_worst_of_all() -> None:
    generator = torch.Generator().manual_seed(0)
    row, value = torch.randint(0, 6, (200,), generator=generator), torch.rand(200, generator=generator)
    value[::7] = torch.nan
    after, element = torch.rand(200, 3, generator=generator), torch.arange(200)[:, None]
    for direction, better in ((Direction.HIGHER, min), (Direction.LOWER, max)):
        worst = Worst(6, direction, torch.device("cpu"))
        for part in (slice(0, 50), slice(50, 51), slice(51, 200)):
            worst.see(Ask(row[part], torch.arange(200)[part], torch.zeros(200)[part], element[part]), value[part], after[part])
        for sample in range(6):
            mine = [(float(value[i]), i) for i in range(200) if row[i] == sample and not value[i].isnan()]
            expected, where = better(mine, key=lambda pair: pair[0])
            assert float(worst.value[sample] * worst.sign) == torch.tensor(expected, dtype=torch.float64)
            assert worst.draw[sample] == where
            assert worst.after is not None
            assert torch.equal(worst.after[sample], after[where])
        order = worst.value[worst.rows()]
        assert len(order) == 4
        assert torch.equal(order, worst.value.sort().values[:4])


def test_undefined_values_are_not_the_worst() -> None:
    worst = Worst(2, Direction.HIGHER, torch.device("cpu"))
    ask = Ask(torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([0, 0]), torch.zeros(2, 1))
    worst.see(ask, torch.tensor([torch.nan, 0.3]), torch.ones(2, 1))
    assert worst.rows().tolist() == [1, 0]
    assert worst.value.isfinite().tolist() == [False, True]
