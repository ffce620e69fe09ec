from __future__ import annotations

import pytest
import torch
from torch import Size

from veracity.data.digits import digits
from veracity.zoo.fashion import IMAGE, NAMES, build, pretrained
from veracity.zoo.shift import GlobalMax, GlobalMean, all_cnn, flatten_cnn
from veracity.zoo.train import accuracy, initialised, random_shift, train


@pytest.mark.parametrize("pool", [GlobalMax(), GlobalMean()])
def test_circular_convolutions_and_a_global_pool_are_exactly_invariant(pool: torch.nn.Module) -> None:
    net = initialised(lambda: all_cnn((4, 8), 5, pool), seed=0)
    x = torch.rand(3, 1, 9, 7, generator=torch.Generator().manual_seed(0))
    outputs = torch.stack([net(x.roll((up, along), (-2, -1))) for up in range(9) for along in range(7)])
    assert torch.allclose(outputs, net(x).expand_as(outputs), atol=1e-6)


def test_flattening_is_not_invariant() -> None:
    net = initialised(lambda: flatten_cnn((4, 8), 5, Size((8, 8))), seed=0)
    x = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert not torch.allclose(net(x.roll(1, -1)), net(x), atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_the_fashion_networks_have_the_papers_sizes_and_load(name: str) -> None:
    net = pretrained(name)
    assert not net.training
    assert sum(parameter.numel() for parameter in net.parameters()) == (88_810 if name == "all-cnn" else 232_170)
    assert net(torch.zeros(1, 1, *IMAGE)).shape == (1, 10)
    assert not torch.equal(next(net.parameters()), next(build(name).parameters()))


def test_training_follows_from_its_seed_and_learns() -> None:
    x, y = (part[:300] for part in digits("train"))
    state = torch.get_rng_state()
    nets = [train(initialised(lambda: flatten_cnn((8,), 10, x.shape[-2:]), seed=1), x, y, epochs=20, batch=32, seed=2) for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True))
    assert accuracy(nets[0], x, y) > 0.9


def test_the_random_shift_is_a_roll_within_its_margin() -> None:
    x = torch.zeros(64, 1, 9, 9)
    x[:, 0, 4, 4] = 1.0
    moved = random_shift(2)(x, torch.Generator().manual_seed(0))
    where = moved.flatten(1).argmax(1)
    rows, columns = where // 9 - 4, where % 9 - 4
    assert moved.sum() == 64
    assert set(rows.tolist()) == set(columns.tolist()) == {-2, -1, 0, 1, 2}
