from __future__ import annotations

import math

import pytest
import torch

from veracity.studies.distances import discs, moving, noisy, partings, spots


def test_a_spot_by_hand() -> None:
    found = spots(torch.tensor([2.0]), torch.tensor([1.0]), 5, 2.0)
    assert found.shape == (1, 1, 5, 5)
    assert found[0, 0, 2, 1] == 1.0
    assert found[0, 0, 4, 4].item() == pytest.approx(math.exp(-(4 + 9) / 8))


def test_a_disc_is_one_inside_and_zero_outside() -> None:
    found = discs(torch.tensor([10.0]), torch.tensor([10.0]), 21, 4.0)[0, 0]
    assert found[10, 6] == 0.5
    assert found[10, 7] == 1.0
    assert found[10, 5] == 0.0
    assert found.sum().item() == pytest.approx(math.pi * 16, rel=0.02)


@pytest.mark.parametrize("disc", [False, True])
@pytest.mark.parametrize("diagonal", [False, True])
def test_a_spot_goes_its_whole_way_and_keeps_its_mass(diagonal: bool, disc: bool) -> None:
    test = moving(32, 100, diagonal=diagonal, disc=disc)
    maps = test.others[:, 0, 0]
    assert test.others.shape == (100, 1, 1, 32, 32)
    assert torch.equal(test.first, test.others[0])
    mass = maps.sum(dim=(1, 2))
    assert (mass / mass.mean() - 1).abs().max() < 0.01
    line = torch.arange(32.0, dtype=torch.float64)
    columns = (maps.sum(dim=1) * line).sum(dim=1) / mass
    rows = (maps.sum(dim=2) * line).sum(dim=1) / mass
    assert columns[0] < 7
    assert columns[-1] > 24
    assert columns.diff().min() > 0.8 * columns.diff().mean()
    assert torch.allclose(rows, columns if diagonal else columns[:1].expand_as(rows), atol=0.03)


def test_noise_grows_as_the_level_says_and_comes_from_the_generator() -> None:
    state = torch.get_rng_state()
    one, same = (noisy(16, 5, 40, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one.others, same.others)
    assert not torch.equal(one.others, noisy(16, 5, 40, generator=torch.Generator().manual_seed(4)).others)
    assert (one.others - one.first).flatten(1).std(dim=1).tolist() == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0], rel=0.03)


def test_the_four_tests() -> None:
    found = partings(16, 10, 4, seed=1)
    assert [test.name for test in found] == ["spot", "spot, diagonal", "disc", "noise"]
    assert [tuple(test.others.shape[:2]) for test in found] == [(10, 1), (10, 1), (10, 1), (21, 4)]
