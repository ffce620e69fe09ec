import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veracity.core.errors import InputError
from veracity.perturb import Dihedral, Flips, Mirror, Rotations
from veracity.testing import GroupConformance

SQUARES = torch.arange(8 * 2 * 25.0).reshape(8, 2, 5, 5)
OBLONGS = torch.arange(8 * 2 * 12.0).reshape(8, 2, 3, 4)


class TestDihedral(GroupConformance):
    def space(self):
        return Dihedral()

    def inputs(self):
        return SQUARES


class TestDihedralChannelsLast(GroupConformance):
    def space(self):
        return Dihedral(axes=(-3, -2))

    def inputs(self):
        return SQUARES.movedim(1, -1)


class TestRotations(GroupConformance):
    def space(self):
        return Rotations()

    def inputs(self):
        return SQUARES


class TestFlips(GroupConformance):
    def space(self):
        return Flips()

    def inputs(self):
        return OBLONGS


class TestMirror(GroupConformance):
    def space(self):
        return Mirror(axis=-2)

    def inputs(self):
        return OBLONGS


@pytest.mark.parametrize("side", [1, 2, 5, 6])
def test_d4_against_rot90_and_flip(side):
    x = torch.arange(2.0 * side * side).reshape(1, 2, side, side)
    moved = Dihedral().act(Dihedral().enumerate(), x.expand(8, -1, -1, -1))
    expected = [image.rot90(turns, (-2, -1)) for image in (x[0], x[0].flip(-1)) for turns in range(4)]
    assert torch.equal(moved, torch.stack(expected))
    assert torch.equal(Rotations().act(Rotations().enumerate(), x.expand(4, -1, -1, -1)), torch.stack(expected[:4]))


def test_flips_and_mirrors_against_flip():
    x = OBLONGS[:1]
    moved = Flips().act(Flips().enumerate(), x.expand(4, -1, -1, -1))
    assert torch.equal(moved, torch.stack([x[0], x[0].flip(-1), x[0].flip(-2), x[0].flip(-2, -1)]))
    assert torch.equal(Mirror(axis=-3).act(torch.tensor([[1]]), x), x.flip(-3))
    assert torch.equal(Mirror(axis=-3).act(torch.tensor([[0]]), x), x)


def test_orders_and_the_klein_group():
    assert (Dihedral().order, Rotations().order, Flips().order, Mirror().order) == (8, 4, 4, 2)
    flips = Flips().enumerate()
    assert Flips().compose(flips, flips).tolist() == [[0]] * 4
    three_axes = Flips(axes=(-3, -2, -1))
    assert three_axes.order == 8
    assert torch.equal(three_axes.act(torch.tensor([[6]]), OBLONGS[:1]), OBLONGS[:1].flip(-3, -2))


def test_d4_does_not_commute():
    turn, mirror = torch.tensor([[1]]), torch.tensor([[4]])
    assert Dihedral().compose(turn, mirror).tolist() == [[5]]
    assert Dihedral().compose(mirror, turn).tolist() == [[7]]


@settings(max_examples=40, deadline=None)
@given(group=st.sampled_from([Dihedral(), Rotations(), Flips(), Mirror(), Mirror(axis=-2)]), side=st.integers(1, 6), data=st.data())
def test_axioms_and_homomorphism(group, side, data):
    g, h, k = (torch.tensor([[data.draw(st.integers(0, group.order - 1))]]) for _ in range(3))
    x = torch.arange(3.0 * side * side).reshape(1, 3, side, side)
    assert torch.equal(group.act(group.compose(g, h), x), group.act(g, group.act(h, x)))
    assert torch.equal(group.compose(group.compose(g, h), k), group.compose(g, group.compose(h, k)))
    assert torch.equal(group.compose(group.inverse(g), g), group.identity(1))
    assert torch.equal(group.compose(g, group.inverse(g)), group.identity(1))
    assert torch.equal(group.compose(group.identity(1), g), g)


@pytest.mark.parametrize("group", [Dihedral(), Rotations()])
def test_turns_need_squares(group):
    with pytest.raises(
        InputError, match=rf"^{type(group).__name__}.* needs square inputs, but the signals measure \(28, 32\) along its axes\.$"
    ):
        group.fit(torch.Size([1, 28, 32]))
    with pytest.raises(InputError, match="square"):
        group.act(torch.tensor([[1]]), torch.zeros(1, 1, 3, 4))
    assert group.fit(torch.Size([1, 28, 28])) == group


def test_mirrors_do_not():
    assert Flips().fit(torch.Size([1, 28, 32])) == Flips()
    assert Mirror(axis=-2).fit(torch.Size([28, 32])) == Mirror(axis=-2)
