from __future__ import annotations

import pytest
import torch
from torch import Size

from veracity.demo import GlobalMax, GlobalMean, all_cnn, digits, flatten_cnn
from veracity.trainers.training import initialised


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


def test_the_digits_are_split_without_overlap_and_padded() -> None:
    (x, y), (x_test, y_test) = digits("train"), digits("test")
    assert len(x) + len(x_test) == 1797
    assert x_test.shape == (450, 1, 14, 14)
    assert len(y) == len(x)
    assert len(y_test) == len(x_test)
    assert float(x.max()) == 1.0
    border = torch.ones(14, 14, dtype=torch.bool)
    border[3:11, 3:11] = False
    assert not x_test[..., border].any()
    # Scikit-learn's first image is a zero, and every fourth is for testing.
    assert y_test[0] == 0
