from __future__ import annotations

import pytest
import torch
from torch import Size

from veracity.core.errors import SpecError
from veracity.explain.patches import check_patch, over_channels, patch_count, patch_numbers, space_of, spread_over, sums_over


@pytest.mark.parametrize(
    ("shape", "patch", "count"), [((1, 14, 14), 4, 16), ((3, 5, 7), 2, 12), ((2, 10), 4, 3), ((6,), 1, 6), ((2, 3, 4, 6), 2, 6)]
)
def test_patches_cover_every_position_once(shape: tuple[int, ...], patch: int, count: int) -> None:
    numbers = patch_numbers(Size(shape), patch)
    assert numbers.shape == space_of(Size(shape))
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
    numbers = patch_numbers(shape, 2)
    maps = spread_over(torch.tensor([[1.0, 2.0]]), numbers, shape)
    assert maps.shape == (1, 2, 2, 4)
    assert maps[0, 1].tolist() == [[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]
    assert sums_over(maps, numbers, 2).tolist() == [[8.0, 16.0]]


def test_maps_broadcast_over_the_channels() -> None:
    assert over_channels(torch.zeros(5, 4, 6), Size((3, 4, 6))).shape == (5, 1, 4, 6)
    assert over_channels(torch.zeros(5, 6), Size((6,))).shape == (5, 6)


def test_a_patch_larger_than_the_input_is_refused() -> None:
    check_patch("lime", 8, Size((1, 6, 8)))
    with pytest.raises(SpecError, match=r"patch of lime is 9, larger than the input's positions \(6, 8\)"):
        check_patch("lime", 9, Size((1, 6, 8)))
