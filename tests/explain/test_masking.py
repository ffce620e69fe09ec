from __future__ import annotations

import pytest
import torch
from torch import Size, nn

from veracity.core.errors import SpecError
from veracity.explain.lime import Lime
from veracity.explain.masking import (
    baseline_row,
    broadcast_channels,
    check_baseline,
    patch_count,
    patch_index,
    patch_map,
    patch_sums,
    spatial_shape,
)


@pytest.mark.parametrize(
    ("shape", "patch", "count"), [((1, 14, 14), 4, 16), ((3, 5, 7), 2, 12), ((2, 10), 4, 3), ((6,), 1, 6), ((2, 3, 4, 6), 2, 6)]
)
def test_patches_cover_every_position_once(shape: tuple[int, ...], patch: int, count: int) -> None:
    numbers = patch_index(Size(shape), patch)
    assert numbers.shape == spatial_shape(Size(shape))
    assert numbers.unique().tolist() == list(range(count))
    assert patch_count(Size(shape), patch) == count
    for axis in range(numbers.ndim):
        for number in range(count):
            along = (
                (numbers == number).any(tuple(other for other in range(numbers.ndim) if other != axis))
                if numbers.ndim > 1
                else numbers == number
            )
            assert along.sum() <= patch


def test_values_spread_and_sum() -> None:
    shape = Size((2, 2, 4))
    numbers = patch_index(shape, 2)
    maps = patch_map(torch.tensor([[1.0, 2.0]]), numbers, shape)
    assert maps.shape == (1, 2, 2, 4)
    assert maps[0, 1].tolist() == [[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]
    assert patch_sums(maps, numbers, 2).tolist() == [[8.0, 16.0]]


def test_maps_broadcast_over_the_channels() -> None:
    assert broadcast_channels(torch.zeros(5, 4, 6), Size((3, 4, 6))).shape == (5, 1, 4, 6)
    assert broadcast_channels(torch.zeros(5, 6), Size((6,))).shape == (5, 6)


def test_a_patch_larger_than_the_input_is_refused() -> None:
    inputs, targets = torch.zeros(1, 1, 6, 8), torch.zeros(1, dtype=torch.long)
    Lime(patch=8).check(nn.Identity(), inputs, targets)
    with pytest.raises(SpecError, match=r"patch of lime is 9, larger than the input's size \(6, 8\)"):
        Lime(patch=9).check(nn.Identity(), inputs, targets)


def test_a_baseline_takes_the_inputs_type_and_shape() -> None:
    inputs = torch.zeros(4, 2, 3, dtype=torch.float64)
    assert baseline_row(1.5, inputs).shape == (1, 2, 3)
    assert baseline_row(1.5, inputs).dtype == torch.float64
    assert baseline_row(torch.tensor([1.0, 2.0, 3.0]), inputs).tolist() == [[[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]]


def test_misfits_are_named() -> None:
    shape = torch.Size((2, 3))
    check_baseline("lime", 0.0, shape)
    check_baseline("lime", torch.zeros(1, 3), shape)
    for wrong in (torch.zeros(2), torch.zeros(4, 2, 3)):
        with pytest.raises(SpecError, match=r"The baseline of lime has shape .* one input has shape \(2, 3\)"):
            check_baseline("lime", wrong, shape)
