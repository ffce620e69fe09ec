from __future__ import annotations

import torch

from veracity.demo import digits, flatten_cnn
from veracity.trainers.training import accuracy, initialised, random_shift, train


def test_training_follows_from_its_seed_and_learns() -> None:
    x, y = (part[:300] for part in digits("train"))
    state = torch.get_rng_state()
    one, two, longer = (
        train(initialised(lambda: flatten_cnn((8,), 10, x.shape[-2:]), seed=1), x, y, epochs=epochs, batch=32, seed=2)
        for epochs in (2, 2, 15)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert accuracy(longer, x, y) > 0.9


def test_the_random_shift_is_a_roll_within_its_margin() -> None:
    x = torch.zeros(64, 1, 9, 9)
    x[:, 0, 4, 4] = 1.0
    moved = random_shift(2)(x, torch.Generator().manual_seed(0))
    where = moved.flatten(1).argmax(1)
    rows, columns = where // 9 - 4, where % 9 - 4
    assert moved.sum() == 64
    assert set(rows.tolist()) == set(columns.tolist()) == {-2, -1, 0, 1, 2}
