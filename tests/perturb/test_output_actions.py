"""phi~: outputs that stay, move with the input, shift against the window, or turn with the frames."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veracity.core.errors import InputError, SpecError
from veracity.orbits import AsInput, Fixed, FlowOrbit, ShiftedBoxes, TurnedField
from veracity.perturb import Crop, CyclicShift, Dihedral, Permutations, Rotation, Rotations, WindowShift

PAIRS = FlowOrbit()


def fields(count, side=5, seed=0):
    return torch.randn(count, 2, side, side, generator=torch.Generator().manual_seed(seed))


def test_classes_stay():
    y = torch.tensor([3, 1])
    assert Fixed().act(Rotation(), torch.rand(2, 1), y) is y
    assert Fixed().undo(Rotation(), torch.rand(2, 1), y) is y


def test_what_lives_in_the_inputs_frame_moves_along_and_back():
    orders = Permutations(axis=-2).fit(torch.Size([4, 3]))
    g = torch.tensor([[2, 0, 3, 1]])
    y = torch.arange(4.0).reshape(1, 4, 1)
    moved = AsInput().act(orders, g, y)
    assert moved.flatten().tolist() == [2.0, 0.0, 3.0, 1.0]
    assert torch.equal(AsInput().undo(orders, g, moved), y)


def test_shifts_within_a_window_are_undone_though_they_are_no_group():
    space, y = WindowShift(margin=2, axes=(-1,)), torch.arange(9.0)[None]
    assert torch.equal(AsInput().undo(space, torch.tensor([[2]]), AsInput().act(space, torch.tensor([[2]]), y)), y)
    with pytest.raises(SpecError, match="not a group"):
        AsInput().undo(Crop(window=4, reach=2), torch.tensor([[1, 1]]), torch.rand(1, 1, 4, 4))


@settings(max_examples=40, deadline=None)
@given(st.integers(-3, 3), st.integers(-3, 3))
def test_boxes_keep_what_they_enclose(dx, dy):
    """A bright rectangle of a scene, found again in the moved window by its moved box."""
    scene = torch.zeros(1, 1, 16, 16)
    scene[:, :, 7:9, 6:9] = 1.0  # rows 7-8, columns 6-8; the unmoved window begins at 3
    space, g = Crop(window=10, reach=3), torch.tensor([[dx, dy]])
    box = torch.tensor([[[3.0, 4.0, 6.0, 6.0, 0.5, 2.0], [float("nan")] * 6]])
    x0, y0, x1, y1 = ShiftedBoxes().act(space, g, box)[0, 0, :4].long().tolist()
    window = space.act(g, scene)[0, 0]
    assert window[y0:y1, x0:x1].sum() == window.sum() == 6.0
    back = ShiftedBoxes().undo(space, g, ShiftedBoxes().act(space, g, box))
    assert torch.equal(back.nan_to_num(-1.0), box.nan_to_num(-1.0))


@pytest.mark.parametrize("axes", [(-2, -1), (-1, -2)])
def test_boxes_go_along_where_the_content_is_rolled(axes):
    image = torch.zeros(1, 12, 12)
    image[:, 4:6, 5:8] = 1.0
    space, g = WindowShift(margin=3, axes=axes), torch.tensor([[1, -2]])
    x0, y0, x1, y1 = ShiftedBoxes().act(space, g, torch.tensor([[[5.0, 4.0, 8.0, 6.0]]]))[0, 0].long().tolist()
    assert space.act(g, image)[0, y0:y1, x0:x1].sum() == 6.0


def test_boxes_under_other_spaces_or_of_other_shapes_are_refused():
    with pytest.raises(SpecError, match="Boxes shift with"):
        ShiftedBoxes().act(CyclicShift(), torch.tensor([[1]]), torch.rand(1, 1, 6))
    with pytest.raises(InputError, match="x0 y0 x1 y1 first"):
        ShiftedBoxes().act(Crop(window=4, reach=1), torch.tensor([[1, 1]]), torch.rand(1, 6))


def test_all_compositions_of_turns_mirrors_and_reversal_hold_on_fields():
    """phi~(g h) = phi~(g) phi~(h) for all 16 x 16."""
    space, action = PAIRS.space, TurnedField()
    g, h = PAIRS.elements.repeat_interleave(16, dim=0), PAIRS.elements.repeat(16, 1)
    y = fields(256)
    assert torch.equal(action.act(space, space.compose(g, h), y), action.act(space, g, action.act(space, h, y)))
    assert torch.equal(action.undo(space, g, action.act(space, g, y)), y)
    moved = action.act(space, PAIRS.elements, fields(1).expand(16, 2, 5, 5))
    assert len(moved.flatten(1).unique(dim=0)) == 16


def test_a_turned_analytic_field_is_the_field_of_the_turned_coordinates():
    """v'(p) = M v(M^-1 p), where M is read off from where the action puts each pixel."""
    side = 5
    line = torch.arange(side, dtype=torch.float64) - (side - 1) / 2
    rows, columns = torch.meshgrid(line, line, indexing="ij")
    places = torch.stack((columns, rows))  # (2, H, W): right and down, from the centre

    def field(p):
        return torch.stack((0.3 * p[0] - p[1] ** 2 + 1.0, p[0] * p[1] + 2.0 * p[0]))

    for element in range(8):
        g = torch.tensor([[element]])
        came_from = torch.stack([Dihedral().act(g, part[None])[0] for part in places])
        here, there = places.flatten(1), came_from.flatten(1)  # there = M^-1 here
        back = torch.linalg.lstsq(here.T, there.T).solution.T
        assert torch.allclose(back @ here, there)
        expected = torch.einsum("ij,jhw->ihw", torch.linalg.inv(back), field(came_from))
        assert torch.allclose(TurnedField().act(Dihedral(), g, field(places)[None])[0], expected)


@pytest.mark.parametrize("flow", [(2, -1), (0, 3), (-2, -2)])
def test_the_moved_flow_carries_the_moved_first_frame_to_the_second(flow):
    """Frames that roll by (u, v): for every element the moved field warps frame one exactly onto frame two."""
    u, v = flow
    first = torch.rand(8, 8, generator=torch.Generator().manual_seed(3))
    pair = torch.stack((first, first.roll((v, u), (0, 1))))
    moved = PAIRS.space.act(PAIRS.elements, pair.expand(16, 2, 8, 8))
    field = torch.tensor([float(u), float(v)]).reshape(1, 2, 1, 1).expand(16, 2, 8, 8)
    turned = TurnedField().act(PAIRS.space, PAIRS.elements, field)
    for (one, two), there in zip(moved, turned, strict=True):
        across, down = (int(part[0, 0]) for part in there)
        assert torch.equal(one.roll((down, across), (0, 1)), two)


def test_a_quarter_turn_by_hand():
    field = torch.zeros(1, 2, 3, 3)
    field[0, :, 0, 2] = torch.tensor([5.0, 7.0])  # top right: 5 to the right, 7 down
    turned = TurnedField().act(Rotations(), torch.tensor([[1]]), field)
    assert turned[0, :, 0, 0].tolist() == [7.0, -5.0]  # top left: 7 to the right, 5 up
    assert turned.abs().sum() == 12.0


def test_reversal_negates_and_leaves_pixels_where_they_are():
    y = fields(1)
    assert torch.equal(TurnedField().act(PAIRS.space, torch.tensor([[1, 0]]), y), -y)


def test_what_does_not_turn_fields_is_refused():
    with pytest.raises(SpecError, match="D4 and time reversal alone, not under CyclicShift"):
        TurnedField().act(CyclicShift(), torch.tensor([[1]]), fields(1))
    with pytest.raises(InputError, match="u to the right and v down, not"):
        TurnedField().act(Dihedral(), torch.tensor([[1]]), torch.rand(1, 3, 4, 4))
