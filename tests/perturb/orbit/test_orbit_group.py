"""Orbits of any group: all elements where there are few, drawn ones where there are many."""

import pytest
import torch

from veracity.core.errors import SpecError
from veracity.orbits import CropOrbit, GroupOrbit, Layout
from veracity.perturb import (
    CyclicShift,
    Dihedral,
    FullMask,
    GaussianNoise,
    NodePermutations,
    OtherSample,
    Permutations,
    Rotation,
    Rotations3D,
    WindowShift,
)


def orbit_of(space, shape, **settings):
    return GroupOrbit(space=space, **settings).fit(torch.Size(shape))


def test_shifts_along_two_axes_are_a_heat_map_of_columns_and_rows():
    orbit = orbit_of(CyclicShift(axes=(-2, -1)), (1, 3, 5))
    assert orbit.layout is Layout.HEATMAP
    assert [(axis.name, axis.period) for axis in orbit.axes] == [("dx", 5.0), ("dy", 3.0)]
    x = torch.arange(15.0).reshape(1, 1, 3, 5)
    moved = orbit.space.act(orbit.elements, x.expand(15, 1, 3, 5))
    for (dx, dy), found in zip(orbit.coordinates().long().tolist(), moved, strict=True):
        assert torch.equal(found, x[0].roll((dy, dx), (-2, -1)))
    assert orbit.locate(torch.tensor([[6.0, -1.0]])).tolist() == [[2, 1]]
    assert orbit.label(torch.tensor([1.0, 2.0])) == "(1, 2) px"


def test_the_order_of_a_shifts_axes_does_not_matter():
    one, other = (orbit_of(CyclicShift(axes=axes), (1, 3, 5)) for axes in ((-2, -1), (-1, -2)))
    x = torch.rand(1, 1, 3, 5).expand(15, 1, 3, 5)
    assert torch.equal(one.coordinates(), other.coordinates())
    assert torch.equal(one.space.act(one.elements, x), other.space.act(other.elements, x))


def test_windows_shift_both_ways():
    line = orbit_of(WindowShift(margin=2, axes=(-1,)), (1, 9))
    assert line.layout is Layout.LINE
    assert line.axes[0].name == "shift"
    assert line.elements.flatten().tolist() == [-2, -1, 0, 1, 2]
    assert line.identity == 2
    assert line.locate(torch.tensor([[-7.0], [1.2]])).flatten().tolist() == [-2, 1]
    plane = orbit_of(WindowShift(margin=1), (1, 9, 9))
    assert plane.layout is Layout.HEATMAP
    assert plane.identity == 4
    assert sorted(map(tuple, plane.elements.tolist())) == sorted(map(tuple, WindowShift(margin=1).enumerate().tolist()))


def test_other_finite_groups_are_numbered_as_they_count():
    orbit = orbit_of(Dihedral(), (1, 4, 4))
    assert orbit.layout is Layout.LINE
    assert torch.equal(orbit.elements, Dihedral().enumerate())
    assert orbit.identity == 0
    assert orbit.axes[0].high == 7.0
    assert orbit.label(torch.tensor([3.0])) == "turned by 270°"
    assert orbit.locate(torch.tensor([[2.6], [99.0]])).flatten().tolist() == [3, 7]


@pytest.mark.parametrize(("space", "shape"), [(Rotation(), (1, 5, 5)), (Rotations3D(), (6, 3)), (Permutations(axis=-2), (40, 3))])
def test_large_groups_are_drawn_from_the_seed_with_the_identity_first(space, shape):
    orbit = orbit_of(space, shape, draws=9)
    again, other = orbit_of(space, shape, draws=9), orbit_of(space, shape, draws=9, seed=1)
    state = torch.get_rng_state()
    assert len(orbit.elements) == 9
    assert torch.equal(orbit.elements[:1], orbit.space.identity(1))
    assert torch.equal(orbit.elements, again.elements)
    assert not torch.equal(orbit.elements[1:], other.elements[1:])
    assert torch.equal(torch.get_rng_state(), state)
    assert len(orbit.elements.unique(dim=0)) == 9


def test_most_decides_between_all_and_some():
    assert len(orbit_of(Permutations(axis=-1), (5,), most=120).elements) == 120
    assert len(orbit_of(Permutations(axis=-1), (5,), most=119, draws=7).elements) == 7
    drawn = orbit_of(CyclicShift(axes=(-2, -1)), (1, 9, 9), most=80, draws=5)
    assert drawn.layout is Layout.LINE
    assert drawn.elements[0].tolist() == [0, 0]
    window = orbit_of(WindowShift(margin=3), (1, 9, 9), most=40, draws=5)
    assert window.elements[0].tolist() == [0, 0]
    assert window.elements.shape == (5, 2)


def test_graphs_move_with_their_structure():
    orbit = orbit_of(NodePermutations(), (3, 2))
    mask, edges = torch.tensor([[True, True, False]]).expand(6, 3), torch.tensor([[[0, 1]]]).expand(6, 1, 2)
    moved = orbit.space.carry(orbit.elements, (mask, edges))
    assert len(orbit.elements) == 6
    assert moved[0].sum(dim=1).tolist() == [2] * 6


@pytest.mark.parametrize("space", [GaussianNoise(sigma=0.1), FullMask(), OtherSample(), 4, CropOrbit()])
def test_what_does_not_move_inputs_is_refused(space):
    with pytest.raises(SpecError, match=r"needs a group or a finite space|'space' of orbit 'group_orbit' must be an InputSpace"):
        orbit_of(space, (1, 8, 8))


@pytest.mark.parametrize("settings", [{"draws": 0}, {"most": 2.5}, {"draws": True}])
def test_counts_are_whole_numbers(settings):
    with pytest.raises(SpecError, match="must be a whole number of at least 1"):
        orbit_of(Dihedral(), (1, 4, 4), **settings)


def test_an_orbit_that_was_not_fitted_says_so():
    with pytest.raises(SpecError, match="call fit"):
        _ = GroupOrbit(space=CyclicShift()).elements


def test_an_orbit_can_be_written_down():
    assert orbit_of(Dihedral(), (1, 4, 4)).spec() == {
        "name": "group_orbit",
        "space": {"name": "d4", "axes": [-2, -1]},
        "most": 4096,
        "draws": 64,
        "seed": 0,
    }


def test_elements_are_called_by_what_they_do():
    square = orbit_of("d4", (1, 4, 4))
    assert [square.label(at) for at in square.coordinates()][3:6] == ["turned by 270°", "mirrored", "mirrored, turned by 90°"]
    both = orbit_of({"name": "product", "factors": ["mirror", "sign_flip"]}, (1, 4))
    assert [both.label(at) for at in both.coordinates()] == [
        "as it is",
        "negated",
        "mirrored along axis -1",
        "negated, mirrored along axis -1",
    ]
    assert orbit_of(Permutations(axis=-1), (3,)).label(torch.tensor([2.0])) == "element 2"


def test_words_fit_what_is_done():
    x = torch.arange(9.0).reshape(1, 3, 3)
    group = Dihedral().fit(torch.Size([3, 3]))
    named = {group.words(element): group.act(element[None], x)[0] for element in group.enumerate()}
    assert torch.equal(named["mirrored, turned by 90°"], x[0].fliplr().rot90())


def test_an_unknown_group_by_name_is_one_sentence():
    with pytest.raises(SpecError, match=r"Unknown group 'd5'\. Did you mean 'd4'"):
        GroupOrbit(space="d5")
