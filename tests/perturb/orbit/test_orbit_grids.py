"""Grids of rotations, crops, frame pairs and disks: every element where its coordinates say, the identity once."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veracity.core.errors import InputError, SpecError
from veracity.orbits import CropOrbit, DiskOrbit, FlowOrbit, GroupOrbit, Layout, RigidOrbit, RotationOrbit, ScaleOrbit
from veracity.perturb import CyclicShift, Rotations3D
from veracity.perturb.groups.rigid import RigidMotion
from veracity.perturb.groups.rotations import matrices

ORBITS = [
    (RotationOrbit(step=15.0), (1, 9, 9)),
    (ScaleOrbit(reach=1.0, step=0.25), (3, 9, 8)),
    (CropOrbit(window=6, reach=4, step=2), (2, 14, 15)),
    (FlowOrbit(), (2, 5, 5)),
    (RigidOrbit(reach=2, shift_step=1, angle_step=45.0), (2, 9, 11)),
    (DiskOrbit(plane="xz", step=30.0), (7, 3)),
    (GroupOrbit(space=CyclicShift(axes=(-2, -1))), (1, 3, 4)),
]


@pytest.mark.parametrize(("orbit", "shape"), ORBITS)
def test_every_orbit_keeps_its_word(orbit, shape):
    orbit = orbit.fit(torch.Size(shape))
    coordinates, elements = orbit.coordinates(), orbit.elements
    assert coordinates.dtype == torch.float64
    assert coordinates.shape == (len(elements), len(orbit.axes))
    assert torch.equal(orbit.locate(coordinates), elements)
    assert len(coordinates.unique(dim=0)) == len(elements)
    for number, axis in enumerate(orbit.axes):
        along = coordinates[:, number]
        assert (float(along.min()), float(along.max())) == (axis.low, axis.high)
        steps = along.unique().diff()
        assert torch.allclose(steps, torch.full_like(steps, axis.step))
        assert axis.period is None or axis.high + axis.step == pytest.approx(axis.low + axis.period)
    labels = [orbit.label(at) for at in coordinates]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize(("orbit", "shape"), ORBITS)
def test_the_identity_moves_nothing_and_is_there_once(orbit, shape):
    orbit = orbit.fit(torch.Size(shape))
    x = torch.rand(1, *shape, generator=torch.Generator().manual_seed(0))
    moved = orbit.space.act(orbit.elements, x.expand(len(orbit.elements), *shape))
    unmoved = x[0] if not isinstance(orbit, CropOrbit) else x[0, :, 4:10, 4:10]
    same = [torch.allclose(one, unmoved, atol=1e-6) for one in moved]
    assert [number for number, found in enumerate(same) if found] == [orbit.identity]


def test_rotations_stop_before_a_whole_turn_and_turn_as_quarter_turns_do():
    orbit = RotationOrbit(step=5.0)
    assert orbit.layout is Layout.POLAR
    assert orbit.coordinates().flatten().tolist() == [5.0 * number for number in range(72)]
    x = torch.rand(1, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    turned = orbit.space.act(orbit.locate(torch.tensor([[90.0], [-90.0], [450.0]])), x.expand(3, 1, 6, 6))
    expected = torch.stack([x[0].rot90(turns, (-2, -1)) for turns in (1, 3, 1)])
    assert torch.allclose(turned, expected, atol=1e-5)
    assert orbit.label(torch.tensor([35.0])) == "35°"


def test_angles_between_the_grid_are_found():
    assert RotationOrbit(step=90.0).locate(torch.tensor([[12.5]])).item() == pytest.approx(12.5 * math.pi / 180)


@pytest.mark.parametrize("step", [0, -5.0, 7.0, 361.0, True, "5"])
def test_steps_that_make_no_turn_are_refused(step):
    with pytest.raises(SpecError, match=r"divides 360|must be a number"):
        RotationOrbit(step=step).fit(torch.Size([1, 8, 8]))
    with pytest.raises(SpecError, match=r"divides 180|must be a number"):
        DiskOrbit(step=step).fit(torch.Size([8, 3]))


def test_a_zoom_is_a_power_of_two_and_may_lie_between_the_grid():
    orbit = ScaleOrbit()
    assert orbit.layout is Layout.LINE
    assert len(orbit.elements) == 17
    assert orbit.locate(torch.tensor([[1.5]])).exp().item() == pytest.approx(2**1.5)
    x = torch.rand(1, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    half = orbit.space.act(orbit.elements[:1], x)
    assert torch.allclose(half[0, 0, 1:3, 1:3], torch.nn.functional.avg_pool2d(x, 2)[0, 0], atol=1e-6)
    assert half[0, 0, 0].abs().sum() == 0


@pytest.mark.parametrize("step", [0.3, 2.0])
def test_a_zoom_must_reach_its_end(step):
    with pytest.raises(SpecError, match="multiple of the step"):
        ScaleOrbit(step=step).fit(torch.Size([1, 8, 8]))


def test_a_rigid_motion_is_a_rotation_and_then_a_shift_by_hand():
    """With a blank border, nothing leaves the frame on the way, and rolling rows and columns is a shift."""
    orbit = RigidOrbit(reach=3, shift_step=1, angle_step=30.0).fit(torch.Size([2, 15, 15]))
    assert orbit.layout is Layout.SLICES
    assert [axis.name for axis in orbit.axes] == ["dx", "dy", "angle"]
    x = torch.zeros(1, 2, 15, 15)
    x[..., 5:10, 5:10] = torch.rand(2, 5, 5, generator=torch.Generator().manual_seed(2))
    moved = orbit.space.act(orbit.elements, x.expand(len(orbit.elements), -1, -1, -1))
    turn = RotationOrbit(step=30.0)
    for number, (dx, dy, angle) in enumerate(orbit.coordinates().tolist()):
        turned = turn.space.act(turn.locate(torch.tensor([[angle]])), x)
        assert torch.allclose(moved[number], turned.roll((int(dy), int(dx)), (-2, -1))[0], atol=1e-5)
    assert orbit.locate(torch.tensor([[0.5, -9.0, 375.0]])).tolist() == [pytest.approx([math.pi / 12, 0.5, -3.0])]


def test_rigid_motions_compose_as_they_act():
    space = RigidMotion()
    draws = torch.rand(2, 20, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    g, h = draws * torch.tensor([2 * math.pi, 2.0, 2.0])
    undone = space.compose(g, space.inverse(g))
    assert torch.allclose(undone[:, 0].cos(), torch.ones(20).double())
    assert torch.allclose(undone[:, 1:], torch.zeros(20, 2).double(), atol=1e-9)
    rows, columns = torch.meshgrid(torch.arange(41.0), torch.arange(41.0), indexing="ij")
    smooth = torch.exp(-((rows - 17) ** 2 + (columns - 24) ** 2) / 60).double()[None, None].expand(20, 1, 41, 41)
    once, twice = space.act(space.compose(g, h), smooth), space.act(g, space.act(h, smooth))
    assert torch.allclose(once[..., 10:31, 10:31], twice[..., 10:31, 10:31], atol=0.02)


@pytest.mark.parametrize("settings", [{"reach": 3, "shift_step": 2}, {"angle_step": 7.0}, {"reach": 0}])
def test_rigid_grids_that_do_not_fit_are_refused(settings):
    with pytest.raises(SpecError, match=r"multiple of the step|divides 360|whole number of at least 1"):
        RigidOrbit(**settings).fit(torch.Size([1, 8, 8]))


def test_windows_lie_row_by_row():
    orbit = CropOrbit()
    assert orbit.layout is Layout.HEATMAP
    assert [axis.name for axis in orbit.axes] == ["dx", "dy"]
    grid = orbit.coordinates().reshape(32, 32, 2)
    assert grid[0, 0].tolist() == [-64.0, -64.0]
    assert grid[0, 1].tolist() == [-60.0, -64.0]
    assert grid[31, 31].tolist() == [60.0, 60.0]
    assert orbit.coordinates()[orbit.identity].tolist() == [0.0, 0.0]
    assert orbit.locate(torch.tensor([[3.4, -99.0]])).tolist() == [[3, -64]]
    assert orbit.label(torch.tensor([-4.0, 8.0])) == "(-4, 8) px"


@pytest.mark.parametrize("settings", [{"reach": 6, "step": 4}, {"reach": 0}, {"step": 0}, {"reach": 2.5}])
def test_reaches_that_are_no_multiple_of_the_step_are_refused(settings):
    with pytest.raises(SpecError, match=r"multiple of the step|whole number of at least 1"):
        CropOrbit(**{"window": 4, "reach": 4, "step": 2, **settings}).fit(torch.Size([1, 64, 64]))


def test_pairs_of_frames_have_sixteen_transforms():
    """Against rot90, flip and swapping the frames, one by one."""
    orbit = FlowOrbit().fit(torch.Size([2, 4, 4]))
    assert orbit.layout is Layout.TILES
    pair = torch.arange(32.0).reshape(2, 4, 4)
    moved = orbit.space.act(orbit.elements, pair.expand(16, 2, 4, 4))
    for (turn, mirrored, backwards), found in zip(orbit.coordinates().long().tolist(), moved, strict=True):
        expected = pair.flip(-1) if mirrored else pair
        expected = expected.rot90(turn, (-2, -1))
        assert torch.equal(found, expected.flip(0) if backwards else expected)
    assert orbit.label(torch.tensor([0.0, 0.0, 0.0])) == "as it is"
    assert orbit.locate(torch.tensor([[4.2, 0.6, -3.0]])).tolist() == [[0, 4]]


@pytest.mark.parametrize("shape", [(2, 4, 5), (3, 4, 4), (4, 4), (2, 2, 4, 4)])
def test_other_inputs_than_pairs_of_square_frames_are_refused(shape):
    with pytest.raises(InputError, match="pairs of square frames"):
        FlowOrbit().fit(torch.Size(shape))


@pytest.mark.parametrize(("plane", "basis"), [("xy", (0, 1)), ("xz", (0, 2)), ("yz", (1, 2))])
def test_disks_turn_about_the_stated_axis_by_the_stated_angle(plane, basis):
    """The axis stays where it is, and the matrix's trace is 1 + 2 cos(angle)."""
    orbit = DiskOrbit(plane=plane, step=45.0)
    assert orbit.layout is Layout.DISK
    direction, angle = orbit.coordinates().deg2rad().unbind(dim=1)
    turned = matrices(orbit.elements)
    axes = torch.zeros(len(turned), 3, dtype=torch.float64)
    axes[:, basis[0]], axes[:, basis[1]] = direction.cos(), direction.sin()
    assert torch.allclose((turned @ axes[:, :, None])[..., 0], axes, atol=1e-12)
    assert torch.allclose(turned.diagonal(dim1=1, dim2=2).sum(dim=1), 1 + 2 * angle.cos(), atol=1e-12)
    # by the right hand: the part of M - M' along the axis is positive below 180 degrees
    twist = torch.stack((turned[:, 2, 1] - turned[:, 1, 2], turned[:, 0, 2] - turned[:, 2, 0], turned[:, 1, 0] - turned[:, 0, 1]), dim=1)
    assert torch.allclose((twist * axes).sum(dim=1), 2 * angle.sin(), atol=1e-12)


def test_a_disk_lists_the_identity_once_and_no_whole_turn():
    coordinates = DiskOrbit(step=15.0).coordinates()
    assert len(coordinates) == 1 + 24 * 12 - 12
    assert (coordinates[:, 1] == 0).sum() == 1
    assert coordinates[:, 0].max() == 345.0
    assert coordinates[1].tolist() == [0.0, 15.0]
    assert coordinates[12].tolist() == [0.0, 180.0]


def test_opposite_points_of_the_rim_are_the_same_rotation():
    there, opposite = matrices(DiskOrbit().locate(torch.tensor([[30.0, 180.0], [210.0, 180.0]])))
    assert torch.allclose(there, opposite, atol=1e-12)


@pytest.mark.parametrize("step", [15.0, 45.0, 180.0])
def test_a_disk_lists_no_rotation_twice(step):
    """Two quaternions q and r are one rotation where |q . r| = 1; the rim's opposite half is what would be."""
    orbit = DiskOrbit(step=step)
    same = (orbit.elements @ orbit.elements.T).abs() > 1 - 1e-9
    assert torch.equal(same, torch.eye(len(same), dtype=torch.bool))
    rim = orbit.coordinates()[orbit.coordinates()[:, 1] == 180.0, 0]
    assert rim.tolist() == [number * step for number in range(round(180 / step))]


def test_unknown_planes_are_refused():
    with pytest.raises(SpecError, match="one of the planes xy, xz, yz, not 'zx'"):
        DiskOrbit(plane="zx").fit(torch.Size([5, 3]))


@settings(max_examples=30, deadline=None)
@given(st.floats(-720, 720), st.floats(0, 180))
def test_any_point_of_the_disk_is_a_rotation(direction, angle):
    found = DiskOrbit(plane="yz").locate(torch.tensor([[direction, angle]], dtype=torch.float64))
    assert found.norm().item() == pytest.approx(1.0)
    cloud = torch.rand(1, 4, 3, dtype=torch.float64)
    turned = Rotations3D().act(found, cloud)
    assert torch.allclose(turned.norm(dim=2), cloud.norm(dim=2))
