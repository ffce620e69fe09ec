from __future__ import annotations

import pytest
import torch

from veracity_papers.zoo.fashion import IMAGE, NAMES, build, pretrained


@pytest.mark.parametrize("name", NAMES)
def test_the_fashion_networks_have_the_papers_sizes_and_load(name: str) -> None:
    net = pretrained(name)
    assert not net.training
    assert sum(parameter.numel() for parameter in net.parameters()) == (88_810 if name == "all-cnn" else 232_170)
    assert net(torch.zeros(1, 1, *IMAGE)).shape == (1, 10)
    assert not torch.equal(next(net.parameters()), next(build(name).parameters()))
