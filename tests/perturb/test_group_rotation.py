"""SO(2) by interpolation: a group of angles whose action is only close to one."""

import math

import pytest
import torch

from veracity.core.errors import InputError
from veracity.core.spaces import FiniteSpace
from veracity.perturb import Rotation, floor
from veracity.testing import GroupConformance

TURN = 2 * math.pi
SMOOTH_FLOOR = 0.9997


def blobs(side=32, width=0.2):
    """Two Gaussian bumps inside the frame, one negative."""
    axis = torch.linspace(-1, 1, side)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    bump = torch.exp(-((x - 0.25) ** 2 + (y + 0.1) ** 2) / (2 * width**2))
    dent = torch.exp(-((x + 0.3) ** 2 + (y - 0.2) ** 2) / (2 * width**2))
    return (bump - 0.6 * dent)[None, None]


def cosine(a, b):
    return torch.cosine_similarity(a.flatten(1), b.flatten(1))


def angles(count=90):
    return torch.linspace(0, TURN, count + 1, dtype=torch.float64)[:-1, None]


class TestRotation(GroupConformance):
    floor = SMOOTH_FLOOR
    tolerance = 1e-4

    def space(self):
        return Rotation()

    def inputs(self):
        return blobs().expand(8, 2, -1, -1)

    def assert_same_elements(self, one, other):
        """Equal up to whole turns."""
        apart = (one - other + math.pi).remainder(TURN) - math.pi
        torch.testing.assert_close(apart, torch.zeros_like(apart), rtol=0, atol=1e-12)


def test_quarter_turns_are_exact():
    x = torch.rand(4, 3, 9, 9, generator=torch.Generator().manual_seed(0))
    moved = Rotation().act(angles(4), x)
    expected = torch.stack([image.rot90(turns, (-2, -1)) for turns, image in enumerate(x)])
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", [(6, 6), (5, 8)])
def test_against_a_loop_over_pixels(shape):
    """Each pixel turned back about the centre by hand, and read between its four neighbours, zero outside."""
    height, width = shape
    x = torch.rand(1, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    angle = 0.7
    expected = torch.zeros_like(x)
    for row in range(height):
        for column in range(width):
            right, up = column - (width - 1) / 2, (height - 1) / 2 - row
            back_right = right * math.cos(angle) + up * math.sin(angle)
            back_up = -right * math.sin(angle) + up * math.cos(angle)
            i, j = (height - 1) / 2 - back_up, (width - 1) / 2 + back_right
            for near_i in (math.floor(i), math.floor(i) + 1):
                for near_j in (math.floor(j), math.floor(j) + 1):
                    if 0 <= near_i < height and 0 <= near_j < width:
                        expected[0, row, column] += (1 - abs(i - near_i)) * (1 - abs(j - near_j)) * x[0, near_i, near_j]
    moved = Rotation().act(torch.tensor([[angle]], dtype=torch.float64), x)
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-12)


def test_the_floor_of_a_smooth_image_and_of_noise():
    """Smooth: at least .9997 at every angle. White noise: between .70 and .85 away from quarter turns."""
    g = angles()
    smooth = floor(Rotation(), blobs().expand(len(g), -1, -1, -1), g, cosine)
    assert float(smooth.min()) >= SMOOTH_FLOOR
    noise = torch.randn(1, 1, 32, 32, generator=torch.Generator().manual_seed(2)).expand(len(g), -1, -1, -1)
    rough = floor(Rotation(), noise, g, cosine)
    between = (g[:, 0].remainder(TURN / 4) - TURN / 8).abs() < TURN / 16
    assert 0.70 < float(rough[between].min()) <= float(rough[between].max()) < 0.85
    assert float(rough[0]) > 0.99999


@pytest.mark.parametrize(("width", "expected"), [(0.1, 0.9951), (0.2, SMOOTH_FLOOR)])
def test_composition_holds_within_the_floor(width, expected):
    """Two interpolations in turn lose no more than there and back again."""
    group, g = Rotation(), angles()
    h = 0.37 * g.flip(0)
    x = blobs(width=width).expand(len(g), -1, -1, -1)
    lowest = float(floor(group, x, g, cosine).min())
    assert lowest >= expected
    at_once, in_turn = group.act(group.compose(g, h), x), group.act(g, group.act(h, x))
    assert float(cosine(at_once, in_turn).min()) >= lowest - 1e-4


def test_angles():
    group = Rotation()
    assert not isinstance(group, FiniteSpace)
    assert group.order is None
    assert group.decode(torch.tensor([[0.0]])).tolist() == [[math.pi]]
    extreme = group.decode(torch.tensor([[-40.0], [40.0]]))
    assert extreme.dtype == torch.float64
    assert extreme.tolist() == [[0.0], [0.0]]
    composed = group.compose(torch.tensor([[3.0]], dtype=torch.float64), torch.tensor([[4.0]], dtype=torch.float64))
    assert composed.item() == pytest.approx(7 - TURN)


def test_inputs_without_rows_and_columns_are_refused():
    with pytest.raises(InputError, match=r"^Rotation\(\) needs inputs with at least 2 axes, but one sample has shape \(187,\)\.$"):
        Rotation().fit(torch.Size([187]))
