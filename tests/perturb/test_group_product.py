import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veracity.core.errors import InputError, SpecError
from veracity.core.registry import GROUPS
from veracity.core.spaces import FiniteSpace, Representation
from veracity.perturb import CyclicShift, Dihedral, FiniteGroup, Flips, Group, Mirror, Permutations, Product, Redraw, Rotation, WindowShift
from veracity.testing import GroupConformance, SpaceConformance

IMAGES = torch.arange(8 * 2 * 15.0).reshape(8, 2, 3, 5)


class TestShiftsAndMirror(GroupConformance):
    def space(self):
        return Product(factors=(CyclicShift(axes=(-1,)), Mirror(axis=-2)))

    def inputs(self):
        return IMAGES


class TestByName(GroupConformance):
    def space(self):
        return GROUPS.build(
            {"name": "product", "factors": ["mirror", {"name": "permutations", "axis": -3}, {"name": "mirror", "axis": -2}]}
        )

    def inputs(self):
        return IMAGES


class TestNested(GroupConformance):
    def space(self):
        return Product(factors=(Product(factors=(CyclicShift(axes=(-1,)), CyclicShift(axes=(-2,)))), Mirror(axis=-3)))

    def inputs(self):
        return IMAGES


class TestSetOfTransforms(SpaceConformance):
    def space(self):
        return Product(factors=(WindowShift(margin=1), Mirror(axis=-1)))

    def inputs(self):
        return IMAGES


class TestWithAngles(GroupConformance):
    floor = 0.9
    tolerance = 1e-4

    def space(self):
        return Product(factors=(Permutations(axis=-3), Rotation()))

    def inputs(self):
        axis = torch.linspace(-1, 1, 24)
        bump = torch.exp(-((axis[:, None] - 0.2) ** 2 + axis**2) / 0.08)
        return torch.stack((bump, 2 * bump.T, -bump)).expand(8, -1, -1, -1)

    def assert_same_elements(self, one, other):
        assert torch.equal(one[:, :3], other[:, :3])
        apart = (one[:, 3] - other[:, 3] + math.pi).remainder(2 * math.pi) - math.pi
        assert float(apart.abs().max()) < 1e-12


def test_what_a_product_is_depends_on_its_factors():
    shape = torch.Size([3, 6, 6])
    finite_group = Product(factors=(CyclicShift(), Mirror(axis=-2))).fit(shape)
    assert isinstance(finite_group, FiniteGroup)
    assert finite_group.order == 12
    finite_set = Product(factors=(WindowShift(margin=1), Mirror(axis=-3))).fit(shape)
    assert isinstance(finite_set, FiniteSpace)
    assert not isinstance(finite_set, Group)
    assert finite_set.order == 18
    angles = Product(factors=(Rotation(), Mirror(axis=-3))).fit(shape)
    assert isinstance(angles, Group)
    assert not isinstance(angles, FiniteSpace)
    assert angles.order is None
    mixed = Product(factors=(Redraw(), WindowShift(margin=1))).fit(shape)
    assert not isinstance(mixed, (Group, FiniteSpace))
    assert mixed.order is None
    assert mixed.decode(torch.zeros(4, mixed.latents)).shape == (4, 2)


def test_the_weakest_factor_decides_the_representation():
    assert Product.representation is Representation.PERMUTATION
    assert Product(factors=(CyclicShift(), Mirror(axis=-2))).representation is Representation.PERMUTATION
    assert Product(factors=(Mirror(axis=-3), Rotation())).representation is Representation.APPROXIMATE


def test_elements_by_hand():
    group = Product(factors=(CyclicShift(axes=(-1,)), Mirror(axis=-2))).fit(torch.Size([2, 3]))
    assert group.enumerate().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]
    assert group.compose(torch.tensor([[2, 1]]), torch.tensor([[2, 1]])).tolist() == [[1, 0]]
    assert group.inverse(torch.tensor([[1, 1]])).tolist() == [[2, 1]]
    assert group.identity(1).tolist() == [[0, 0]]
    x = torch.tensor([[[1, 2, 3], [4, 5, 6]]])
    assert group.act(torch.tensor([[1, 1]]), x).tolist() == x.flip(-2).roll(1, -1).tolist()


def test_the_last_factor_of_a_set_acts_first():
    space = Product(factors=(WindowShift(margin=1, axes=(-1,)), Mirror(axis=-1))).fit(torch.Size([4]))
    x = torch.tensor([[1, 2, 3, 4]])
    assert space.act(torch.tensor([[1, 1]]), x).tolist() == x.flip(-1).roll(1, -1).tolist() == [[1, 4, 3, 2]]


@settings(max_examples=30, deadline=None)
@given(height=st.integers(1, 5), width=st.integers(1, 5), flipped=st.booleans(), data=st.data())
def test_axioms_and_homomorphism(height, width, flipped, data):
    factors = (CyclicShift(axes=(-1,)), Permutations(axis=-2), Mirror(axis=-3))
    group = Product(factors=factors[::-1] if flipped else factors).fit(torch.Size([2, height, width]))
    assert group.order == width * math.factorial(height) * 2
    g, h, k = group.unrank(torch.tensor(data.draw(st.lists(st.integers(0, group.order - 1), min_size=3, max_size=3))))[:, None]
    x = torch.arange(2.0 * height * width).reshape(1, 2, height, width)
    assert torch.equal(group.act(group.compose(g, h), x), group.act(g, group.act(h, x)))
    assert torch.equal(group.compose(group.compose(g, h), k), group.compose(g, group.compose(h, k)))
    assert torch.equal(group.compose(g, group.inverse(g)), group.identity(1))
    assert torch.equal(group.compose(group.identity(1), g), g)


@pytest.mark.parametrize(
    "factors",
    [
        (CyclicShift(axes=(-1,)), Mirror(axis=-1)),
        (Dihedral(), Flips()),
        (Rotation(), Mirror(axis=-1)),
        (Mirror(axis=-3), CyclicShift(axes=(-2, -1)), Dihedral()),
    ],
)
def test_groups_that_do_not_commute_are_refused(factors):
    with pytest.raises(SpecError, match=r"is not a direct product, since on inputs of shape \(2, 5, 5\) it matters which acts first"):
        Product(factors=factors).fit(torch.Size([2, 5, 5]))


def test_factors_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="at least 2 axes"):
        Product(factors=(CyclicShift(), Mirror(axis=-2))).fit(torch.Size([187]))
    with pytest.raises(SpecError, match="at least one factor"):
        Product().fit(torch.Size([187]))
    with pytest.raises(SpecError, match="Did you mean 'mirror'"):
        GROUPS.build({"name": "product", "factors": [{"name": "miror"}]}).fit(torch.Size([187]))


def test_every_factor_checks_the_inputs():
    space = Product(factors=(Mirror(axis=-1), WindowShift(margin=1)))
    space.check(torch.nn.functional.pad(torch.rand(2, 3, 3), [1] * 4))
    with pytest.raises(InputError, match="would wrap visible content of 2 of 2 inputs"):
        space.check(torch.rand(2, 5, 5))


def test_large_products_are_drawn_and_not_numbered():
    group = Product(factors=(Permutations(axis=-1), Mirror(axis=-2))).fit(torch.Size([2, 30]))
    assert group.order == 2 * math.factorial(30)
    assert group.decode(torch.zeros(2, group.latents)).shape == (2, 31)
    for number in (lambda: group.unrank(torch.tensor([0])), group.enumerate):
        with pytest.raises(SpecError, match="too many elements to number"):
            number()


def test_a_product_is_written_down_and_built_again():
    group = Product(factors=(CyclicShift(axes=(-1,)), Mirror(axis=-2))).fit(torch.Size([2, 3]))
    spec = group.spec()
    assert spec == {
        "name": "product",
        "factors": [{"name": "cyclic_shift", "axes": [-1], "sizes": [3]}, {"name": "mirror", "axis": -2}],
    }
    assert GROUPS.build(spec).fit(torch.Size([2, 3])) == group
