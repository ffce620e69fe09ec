"""Units of a mask: entries, or patches with all their channels."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Size

from veracity.core.errors import SpecError
from veracity.perturb import RandomOrderMasks
from veracity.perturb.masks import unit_count, unit_numbers, unit_sums


def literal_numbers(shape, patch):
    """Entry by entry: the row and the column of the patch that it lies in."""
    if patch == 1:
        return list(range(Size(shape).numel()))
    flat = []
    for entry in range(Size(shape).numel()):
        column = entry % shape[-1]
        row = entry // shape[-1] % shape[-2] if len(shape) > 2 else 0
        across = -(-shape[-1] // patch)
        flat.append(row // patch * across + column // patch)
    return flat


shapes = st.one_of(
    st.tuples(st.integers(1, 9)),
    st.tuples(st.integers(1, 3), st.integers(1, 9)),
    st.tuples(st.integers(1, 3), st.integers(1, 7), st.integers(1, 7)),
    st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 4), st.integers(1, 4)),
)


@given(shapes, st.integers(1, 5))
def test_units_are_those_of_a_literal_count(shape, patch):
    expected = literal_numbers(shape, patch)
    assert unit_numbers(Size(shape), patch).tolist() == expected
    assert unit_count(Size(shape), patch) == len(set(expected))


@given(shapes, st.integers(1, 5))
def test_sums_are_those_of_a_literal_sum(shape, patch):
    values = torch.arange(2 * Size(shape).numel(), dtype=torch.float64).reshape(2, *shape).square()
    numbers = literal_numbers(shape, patch)
    expected = torch.zeros(2, max(numbers) + 1, dtype=torch.float64)
    for row in range(2):
        for entry, unit in enumerate(numbers):
            expected[row, unit] += values[row].flatten()[entry]
    assert torch.equal(unit_sums(values, patch), expected)


def test_an_image_in_patches_by_hand():
    """Two channels of 3 x 5 in patches of 2: a grid of 2 x 3, smaller at the edges."""
    shape = Size((2, 3, 5))
    assert unit_numbers(shape, 2).reshape(shape)[1].tolist() == [[0, 0, 1, 1, 2], [0, 0, 1, 1, 2], [3, 3, 4, 4, 5]]
    assert unit_sums(torch.ones(1, 2, 3, 5), 2).tolist() == [[8, 8, 4, 4, 4, 2]]
    assert unit_sums(torch.ones(0, 2, 3, 5), 2).shape == (0, 6)


def test_patches_that_do_not_fit():
    RandomOrderMasks(patch=5).fit(Size((2, 3, 5)))
    with pytest.raises(
        SpecError,
        match=r"^The patch of the space 'random_order_masks' is 6, larger than the sample's positions \(3, 5\): use a smaller one\.$",
    ):
        RandomOrderMasks(patch=6).fit(Size((2, 3, 5)))
