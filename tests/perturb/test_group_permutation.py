import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veracity.core.errors import InputError, SpecError
from veracity.perturb import Permutations
from veracity.testing import GroupConformance


class TestPointCloud(GroupConformance):
    def space(self):
        return Permutations(axis=-2)

    def inputs(self):
        return torch.arange(8 * 15.0).reshape(8, 5, 3)


class TestManyPoints(GroupConformance):
    def space(self):
        return Permutations(axis=-1)

    def inputs(self):
        return torch.arange(8 * 50.0).reshape(8, 50)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6])
def test_unrank_is_the_lexicographic_order(n):
    group = Permutations(size=n)
    assert group.order == math.factorial(n)
    assert group.enumerate().tolist() == [list(order) for order in itertools.permutations(range(n))]


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 9), data=st.data())
def test_axioms_and_homomorphism(n, data):
    group = Permutations(axis=-2).fit(torch.Size([n, 2]))
    g, h, k = (torch.tensor([data.draw(st.permutations(range(n)))]) for _ in range(3))
    x = torch.arange(2.0 * n).reshape(1, n, 2)
    assert torch.equal(group.act(g, x)[0], x[0][g[0]])
    assert torch.equal(group.act(group.compose(g, h), x), group.act(g, group.act(h, x)))
    assert torch.equal(group.compose(group.compose(g, h), k), group.compose(g, group.compose(h, k)))
    assert torch.equal(group.compose(group.inverse(g), g), group.identity(1))
    assert torch.equal(group.compose(g, group.inverse(g)), group.identity(1))
    assert torch.equal(group.compose(group.identity(1), g), g)


def test_twelve_entries_can_be_numbered():
    """The last number reverses the set, and a Lehmer code worked by hand: 11! is the first order that starts with 1."""
    group = Permutations(size=12)
    last, second = group.unrank(torch.tensor([group.order - 1, math.factorial(11)])).tolist()
    assert last == list(range(11, -1, -1))
    assert second == [1, 0, *range(2, 12)]


def test_larger_sets_are_drawn_and_not_numbered():
    group = Permutations(size=50)
    assert group.order == math.factorial(50)
    assert group.latents == 50
    drawn = group.decode(torch.linspace(1, -1, 50)[None])
    assert drawn.tolist() == [list(range(49, -1, -1))]
    for number in (lambda: group.unrank(torch.tensor([0])), group.enumerate):
        with pytest.raises(SpecError, match=r"^Permutations\(size=50\) has too many elements to number .*: draw them at random instead\.$"):
            number()


def test_a_set_of_another_size_is_refused():
    group = Permutations().fit(torch.Size([3]))
    with pytest.raises(InputError, match=r"made for sizes \(3,\), but the signals measure \(4,\)"):
        group.act(group.identity(1), torch.zeros(1, 4))
    with pytest.raises(InputError, match=r"made for sizes \(3,\)"):
        group.fit(torch.Size([4]))


def test_the_axis_must_be_named_where_several_could_be_meant():
    with pytest.raises(InputError, match=r"axis=-2 \(40 entries\) or axis=-1 \(3 entries\)") as caught:
        Permutations().fit(torch.Size([40, 3]))
    assert "\n" not in str(caught.value)
    assert Permutations(axis=-1).fit(torch.Size([40, 3])).size == 3


@pytest.mark.parametrize(("shape", "axis"), [((7,), -1), ((1, 7), -1), ((7, 1), -2), ((1, 1), -1)])
def test_the_only_axis_with_entries_is_found(shape, axis):
    fitted = Permutations().fit(torch.Size(shape))
    assert (fitted.axis, fitted.size) == (axis, shape[axis])
    x = torch.arange(float(math.prod(shape))).reshape(1, *shape)
    order = torch.arange(fitted.size).flip(0)[None]
    assert fitted.act(order, x).flatten().tolist() == x.flatten().flip(0).tolist()
