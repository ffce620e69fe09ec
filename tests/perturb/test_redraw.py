import torch

from veracity.perturb import Redraw
from veracity.testing import SpaceConformance


class TestRedraw(SpaceConformance):
    def space(self):
        return Redraw()

    def inputs(self):
        return torch.arange(24.0).reshape(3, 1, 8)


def test_redraw_moves_nothing():
    x = torch.arange(6.0).reshape(2, 3)
    space = Redraw()
    elements = space.decode(torch.zeros(2, space.latents))
    assert elements.shape == (2, 0)
    assert elements.dtype == torch.int64
    assert space.order is None
    assert torch.equal(space.act(elements, x), x)
