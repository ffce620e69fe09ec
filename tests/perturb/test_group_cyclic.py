import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veracity.core.errors import InputError
from veracity.perturb import CyclicShift
from veracity.testing import GroupConformance


class TestSeries(GroupConformance):
    def space(self):
        return CyclicShift(axes=(-1,))

    def inputs(self):
        return torch.arange(8 * 2 * 11.0).reshape(8, 2, 11)


class TestImages(GroupConformance):
    def space(self):
        return CyclicShift(axes=(-2, -1))

    def inputs(self):
        return torch.arange(8 * 3 * 20.0).reshape(8, 3, 4, 5)


class TestAxisInTheMiddle(GroupConformance):
    def space(self):
        return CyclicShift(axes=(-2,))

    def inputs(self):
        return torch.arange(8 * 15.0).reshape(8, 5, 3)


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(1, 7), min_size=1, max_size=3), data=st.data())
def test_axioms_homomorphism_and_roll(sizes, data):
    """Any number of axes of any length: the axioms, rho[g h] = rho[g] rho[h], and torch.roll as the oracle."""
    axes = tuple(range(-len(sizes), 0))
    group = CyclicShift(axes=axes).fit(torch.Size([2, *sizes]))
    g, h, k = group.unrank(torch.tensor(data.draw(st.lists(st.integers(0, group.order - 1), min_size=3, max_size=3))))[:, None]
    x = torch.arange(2.0 * group.order).reshape(1, 2, *sizes)
    assert torch.equal(group.act(g, x), x.roll(tuple(g[0].tolist()), axes))
    assert torch.equal(group.act(group.compose(g, h), x), group.act(g, group.act(h, x)))
    assert torch.equal(group.compose(group.compose(g, h), k), group.compose(g, group.compose(h, k)))
    assert torch.equal(group.compose(g, group.inverse(g)), group.identity(1))
    assert torch.equal(group.compose(g, group.identity(1)), g)


def test_the_whole_group_in_one_call():
    """187 shifts of an ECG, all at once, against one roll each."""
    group = CyclicShift().fit(torch.Size([1, 187]))
    assert group.order == 187
    x = torch.rand(1, 1, 187, generator=torch.Generator().manual_seed(0))
    moved = group.act(group.enumerate(), x.expand(187, -1, -1))
    assert torch.equal(moved, torch.stack([x[0].roll(shift, -1) for shift in range(187)]))


def test_axes_in_another_order():
    group = CyclicShift(axes=(-1, -2))
    x = torch.rand(1, 3, 4)
    assert torch.equal(group.act(torch.tensor([[3, 1]]), x), x.roll((3, 1), (-1, -2)))


def test_unrank_turns_the_last_axis_fastest():
    group = CyclicShift(axes=(-2, -1), sizes=(2, 3))
    assert group.enumerate().tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]


def test_a_group_of_another_size_is_refused():
    group = CyclicShift().fit(torch.Size([5]))
    with pytest.raises(InputError, match=r"made for sizes \(5,\), but the signals measure \(6,\)"):
        group.act(torch.tensor([[1]]), torch.zeros(1, 6))
    with pytest.raises(InputError, match=r"made for sizes \(5,\)"):
        group.fit(torch.Size([6]))
