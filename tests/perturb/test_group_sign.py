import torch

from veracity.perturb import SignFlip
from veracity.testing import GroupConformance


class TestSignFlip(GroupConformance):
    def space(self):
        return SignFlip()

    def inputs(self):
        return torch.arange(8 * 12.0).reshape(8, 3, 4) - 40


def test_an_even_function_keeps_it():
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    g = torch.tensor([[0], [1], [1], [0], [1]])
    assert torch.equal(SignFlip().act(g, x).square(), x.square())
    assert torch.equal(SignFlip().act(g, x)[1], -x[1])
