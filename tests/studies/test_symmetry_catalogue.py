"""Which symmetries are tried on inputs of which shape."""

import pytest
import torch

from veracity.core.inputs import Signals
from veracity.perturb import CyclicShift, Mirror, NodePermutations, Permutations, SignFlip, WindowShift
from veracity.studies.symmetry_scan import blank_margin, catalogue, moves


def names(*shape, **settings):
    return [(space.name, getattr(space, "axes", None)) for space in catalogue(torch.Size(shape), **settings)]


def test_images():
    both, rows, columns = (-2, -1), (-2,), (-1,)
    every = [
        *[("cyclic_shift", both), ("d4", both), ("c4", both), ("flips", both), ("so2", None), ("cyclic_shift", columns)],
        *[("mirror", columns), ("cyclic_shift", rows), ("mirror", rows), ("permutations", (-3,)), ("sign_flip", None)],
    ]
    assert names(3, 8, 8) == every
    assert names(1, 8, 8) == [entry for entry in every if entry[0] != "permutations"]
    assert names(3, 8, 6) == [entry for entry in every if entry[0] not in ("d4", "c4")]
    assert ("window_shift", both) in names(3, 8, 6, margin=2)


def test_series_sets_and_points():
    series = names(1, 187)
    assert series == [("cyclic_shift", (-1,)), ("mirror", (-1,)), ("permutations", (-1,)), ("sign_flip", None)]
    assert ("permutations", (-2,)) in names(2, 187)
    points = {name for name, _ in names(50, 3)}
    assert points == {"cyclic_shift", "mirror", "permutations", "so3", "cube_rotations", "sign_flip"}
    assert "so3" not in {name for name, _ in names(50, 4)}
    assert {"d4", "so2"} <= {name for name, _ in names(8, 8)}
    assert names(5) == [("cyclic_shift", (-1,)), ("mirror", (-1,)), ("permutations", (-1,)), ("sign_flip", None)]
    assert ("window_shift", (-1,)) in names(1, 20, margin=3)


def test_graphs_move_as_graphs_only():
    spaces = catalogue(torch.Size([6, 4]), structured=True)
    assert spaces == [NodePermutations(size=6), Permutations(axis=-1, size=4), SignFlip()]
    assert "so3" in [space.name for space in catalogue(torch.Size([6, 3]), structured=True)]


@pytest.mark.parametrize("shape", [(5,), (1, 12), (4, 3), (6, 6), (1, 5, 5), (3, 6, 4), (2, 3, 4, 5)])
def test_everything_in_it_acts(shape):
    """Each is fitted, counted, not trivial, and moves inputs with different entries."""
    x = torch.randn(16, *shape, generator=torch.Generator().manual_seed(0))
    for space in catalogue(torch.Size(shape)):
        assert space.fit(x.shape[1:]) == space
        assert space.order is None or space.order > 1
        assert moves(space, Signals(x))


def test_what_does_not_move_is_seen():
    grey = torch.randn(16, 1, 4, 4, generator=torch.Generator().manual_seed(0)).expand(-1, 3, -1, -1)
    assert not moves(Permutations(axis=-3, size=3), Signals(grey))
    assert moves(Mirror(), Signals(grey))
    alike = Signals(torch.ones(8, 4, 2), (torch.ones(8, 4, dtype=torch.bool), torch.tensor([[[0, 1], [1, 2]]]).expand(8, 2, 2)))
    assert moves(NodePermutations(size=4), alike)
    assert not moves(CyclicShift(axes=(-2,), sizes=(4,)), Signals(alike.values))


@pytest.mark.parametrize(("top", "left"), [(2, 3), (3, 2), (2, 2)])
def test_margins_of_images_are_those_that_window_shifts_accept(top, left):
    x = torch.full((4, 2, 11, 12), 0.5)
    x[:, :, top:8, left:9] = torch.rand(4, 2, 8 - top, 9 - left, generator=torch.Generator().manual_seed(0)) + 1
    margin = blank_margin(x)
    assert margin == 2
    WindowShift(margin=margin).fit(x.shape[1:]).check(x)
    with pytest.raises(Exception, match="would wrap visible content"):
        WindowShift(margin=margin + 1).fit(x.shape[1:]).check(x)


def test_margins_elsewhere():
    series = torch.zeros(3, 1, 20)
    series[:, :, 5:12] = 1.0
    assert blank_margin(series) == 5
    series[2, 0, 19] = 1.0
    assert blank_margin(series) == 0
    assert blank_margin(torch.zeros(2, 1, 6, 6)) == 0
    assert blank_margin(torch.tensor([[0.0, 1.0, 0.0]])) == 1
