from __future__ import annotations

import pytest
import torch
from torch import Tensor

from veracity.core.inputs import TokenInputs
from veracity.trainers.training import initialised
from veracity_papers.zoo.symmetry import BAG


def tokens(dtype: torch.dtype) -> Tensor:
    ids = torch.randint(-1, 1000, (4, 128), generator=torch.Generator().manual_seed(0))
    return TokenInputs(ids, 1000).take(torch.arange(4)).values.to(dtype)


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_the_order_of_tokens_does_not_matter_and_which_they_are_does(trained: bool, dtype: torch.dtype, tolerance: float) -> None:
    net = (BAG.pretrained() if trained else initialised(BAG.build, seed=0).eval()).to(dtype)
    x = tokens(dtype)
    for seed in range(5):
        order = torch.randperm(128, generator=torch.Generator().manual_seed(seed))
        assert torch.allclose(net(x[:, order]), net(x), rtol=0, atol=tolerance)
    assert not torch.allclose(net(x.roll(1, 2)), net(x), atol=1e-2)


def test_it_is_a_function_of_counts() -> None:
    net = BAG.pretrained()
    x = tokens(torch.float32)
    counts = x.sum(dim=1)
    expected = net.linear2(torch.relu(net.linear1(counts)))
    assert torch.allclose(net(x), expected)
    assert torch.equal(counts.sum(dim=1), (x.sum(dim=2) > 0).sum(dim=1).float())
