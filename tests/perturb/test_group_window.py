import pytest
import torch

from veracity.core.errors import InputError, SpecError
from veracity.perturb import Group, WindowShift
from veracity.testing import SpaceConformance


def padded(count=3, channels=2, side=3, margin=2, fill=0.0):
    inner = 1 + torch.arange(1.0 * count * channels * side * side).reshape(count, channels, side, side)
    return torch.nn.functional.pad(inner, [margin] * 4, value=fill)


class TestWindowShift(SpaceConformance):
    def space(self):
        return WindowShift(margin=2)

    def inputs(self):
        return padded(count=6)


class TestSeries(SpaceConformance):
    def space(self):
        return WindowShift(margin=1, axes=(-1,))

    def inputs(self):
        return torch.arange(24.0).reshape(4, 6)


def test_it_is_a_set_and_not_a_group():
    space = WindowShift(margin=10)
    assert not isinstance(space, Group)
    assert space.order == 441
    elements = space.enumerate()
    assert elements[0].tolist() == [0, 0]
    assert sorted(map(tuple, elements.tolist())) == [(row, column) for row in range(-10, 11) for column in range(-10, 11)]


def test_shifting_moves_the_content_and_wraps_nothing_visible():
    """Against cutting the shifted window out of a wider padding."""
    x = padded(count=1)
    space = WindowShift(margin=2).fit(x.shape[1:])
    wide = torch.nn.functional.pad(x, [2] * 4)
    expected = torch.stack([wide[0, :, 2 - row : 9 - row, 2 - column : 9 - column] for row, column in space.enumerate().tolist()])
    moved = space.act(space.enumerate(), x.expand(25, -1, -1, -1))
    assert torch.equal(moved, expected)
    assert torch.equal(moved[7], x[0].roll(tuple(space.enumerate()[7].tolist()), (-2, -1)))


@pytest.mark.parametrize("fill", [0.0, -1.5])
def test_blank_margins_pass(fill):
    WindowShift(margin=2).check(padded(fill=fill))
    per_channel = padded(fill=fill) + torch.tensor([0.0, 5.0]).reshape(1, 2, 1, 1)
    WindowShift(margin=2).check(per_channel)
    WindowShift(margin=0).check(torch.rand(2, 1, 3, 3))


@pytest.mark.parametrize("place", [(0, 3), (3, 1), (6, 3), (3, 5)])
def test_visible_margins_are_refused(place):
    x = padded()
    x[(1, 0, *place)] = 7.0
    with pytest.raises(
        InputError, match=r"^WindowShift\(margin=2, axes=\(-2, -1\)\) would wrap visible content of 1 of 3 inputs.*pad the inputs by 2"
    ):
        WindowShift(margin=2).check(x)


def test_only_the_margin_must_be_blank():
    with pytest.raises(InputError, match="would wrap visible content of 3 of 3 inputs"):
        WindowShift(margin=3).check(padded(side=5))
    WindowShift(margin=1).check(padded())
    WindowShift(margin=1, axes=(-1,)).check(torch.tensor([[0.0, 3.0, 4.0, 0.0]]))


def test_inputs_shorter_than_the_padding_are_refused():
    with pytest.raises(InputError, match=r"longer than the padding on both sides, 20 entries, but one sample has shape \(1, 20, 28\)"):
        WindowShift(margin=10).fit(torch.Size([1, 20, 28]))
    with pytest.raises(InputError, match="at least 2 axes"):
        WindowShift(margin=10).fit(torch.Size([187]))
    with pytest.raises(SpecError, match="'margin' of group 'window_shift' must be a whole number of at least 0, not -1"):
        WindowShift(margin=-1)
