"""Zooms by interpolation: factors that multiply, whose action is only close to a group's."""

import math

import pytest
import torch

from veracity.core.errors import InputError
from veracity.perturb.groups import Scaling, floor
from veracity.testing import GroupConformance


def bump(side=48, width=0.12):
    """A Gaussian bump about the centre, which stays inside the frame when it is enlarged twice."""
    axis = torch.linspace(-1, 1, side)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    return torch.exp(-((x - 0.05) ** 2 + y**2) / (2 * width**2))[None, None]


class TestScaling(GroupConformance):
    floor = 0.99
    tolerance = 1e-4

    def space(self):
        return Scaling(reach=0.5)

    def inputs(self):
        return bump().expand(8, 2, -1, -1)

    def assert_same_elements(self, one, other):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(6, 6), (5, 8)])
@pytest.mark.parametrize("factor", [0.6, 1.0, 1.7])
def test_against_a_loop_over_pixels(shape, factor):
    """Each pixel moved back towards the centre by hand, and read between its four neighbours, zero outside."""
    height, width = shape
    x = torch.rand(1, 1, height, width, generator=torch.Generator().manual_seed(0))
    expected = torch.zeros(height, width)
    for row in range(height):
        for column in range(width):
            at = [(place - (size - 1) / 2) / factor + (size - 1) / 2 for place, size in ((row, height), (column, width))]
            for i in (math.floor(at[0]), math.floor(at[0]) + 1):
                for j in (math.floor(at[1]), math.floor(at[1]) + 1):
                    if 0 <= i < height and 0 <= j < width:
                        expected[row, column] += x[0, 0, i, j] * (1 - abs(at[0] - i)) * (1 - abs(at[1] - j))
    moved = Scaling().act(torch.tensor([[math.log(factor)]]), x)
    torch.testing.assert_close(moved[0, 0], expected, rtol=0, atol=1e-5)


def test_draws_stay_within_reach_and_are_even_in_the_logarithm():
    latent = torch.special.ndtri(torch.linspace(0.01, 0.99, 99, dtype=torch.float64))[:, None]
    factors = Scaling(reach=1.0).decode(latent).exp()
    assert 0.5 < float(factors.min()) < float(factors.max()) < 2.0
    assert float(factors.median()) == pytest.approx(1.0)


def test_the_floor_says_what_enlarging_loses():
    x = torch.rand(1, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    lost = floor(Scaling(), x, torch.tensor([[math.log(2.0)]]), lambda a, b: torch.cosine_similarity(a.flatten(1), b.flatten(1)))
    assert float(lost) < 0.8


def test_images_have_rows_and_columns():
    with pytest.raises(InputError):
        Scaling().fit(torch.Size([5]))
