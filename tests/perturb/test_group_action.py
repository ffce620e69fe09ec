"""One gather, for every axis and every number of other axes."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veracity.core.errors import InputError, SpecError
from veracity.perturb import CyclicShift, Flips, Mirror, Permutations
from veracity.perturb.groups.base import flat_index, permute


def slow_permute(x, source, axes):
    """Entry by entry, on plain nested indices."""
    out = torch.empty_like(x)
    sizes = [x.shape[axis] for axis in axes]
    for row in range(len(x)):
        for place in torch.cartesian_prod(*[torch.arange(n) for n in x.shape[1:]]).reshape(-1, x.ndim - 1).tolist():
            flat = 0
            for axis, size in zip(axes, sizes, strict=True):
                flat = flat * size + place[axis]
            origin = list(place)
            value = int(source[row, flat])
            for axis, size in reversed(list(zip(axes, sizes, strict=True))):
                origin[axis] = value % size
                value //= size
            out[(row, *place)] = x[(row, *origin)]
    return out


@settings(max_examples=25, deadline=None)
@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=3), data=st.data())
def test_permute_against_a_loop_over_entries(shape, data):
    axes = tuple(data.draw(st.permutations(range(-len(shape), 0)))[: data.draw(st.integers(1, len(shape)))])
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    x = torch.rand(2, *shape, generator=generator)
    entries = torch.Size([x.shape[axis] for axis in axes]).numel()
    source = torch.rand(2, entries, generator=generator).argsort(dim=1)
    moved = permute(x, source, axes)
    assert torch.equal(moved, slow_permute(x, source, axes))
    assert moved.is_contiguous()


def test_flat_index_is_the_grid_in_reading_order():
    columns = [torch.arange(2)[None], torch.arange(3)[None], torch.arange(4)[None]]
    assert torch.equal(flat_index(columns), torch.arange(24)[None])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.bool])
def test_every_type_comes_back_as_it_was(dtype):
    x = torch.tensor([[0, 1, 1], [1, 0, 0]]).to(dtype)
    moved = Mirror().act(torch.tensor([[1], [0]]), x)
    assert moved.dtype == dtype
    assert moved.tolist() == torch.tensor([[1, 1, 0], [1, 0, 0]]).to(dtype).tolist()


@pytest.mark.parametrize("lead", [(), (1,), (3,), (2, 3)])
def test_any_number_of_leading_axes(lead):
    group, g = CyclicShift(axes=(-2, -1)), torch.tensor([[1, 0], [2, 3]])
    x = torch.rand(2, *lead, 4, 5)
    expected = torch.stack([x[0].roll((1, 0), (-2, -1)), x[1].roll((2, 3), (-2, -1))])
    assert torch.equal(group.act(g, x), expected)


def test_axes_in_the_middle():
    x = torch.rand(2, 5, 3)
    g = torch.tensor([[4], [2]])
    assert torch.equal(CyclicShift(axes=(-2,)).act(g, x), torch.stack([x[0].roll(4, -2), x[1].roll(2, -2)]))
    points = Permutations(axis=-2).fit(x.shape[1:])
    order = torch.tensor([[4, 3, 2, 1, 0], [1, 0, 2, 3, 4]])
    assert torch.equal(points.act(order, x), torch.stack([x[0][order[0]], x[1][order[1]]]))


def test_second_derivatives_pass_through():
    x = torch.rand(2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda v: CyclicShift().act(torch.tensor([[1], [3]]), v) ** 3, (x,))


def test_inputs_without_the_axes_are_refused():
    with pytest.raises(
        InputError, match=r"^CyclicShift\(axes=\(-2, -1\)\) needs inputs with at least 2 axes, but one sample has shape \(187,\)\.$"
    ):
        CyclicShift(axes=(-2, -1)).fit(torch.Size([187]))
    with pytest.raises(InputError, match="at least 2 axes"):
        Flips().act(torch.tensor([[1]]), torch.zeros(1, 187))
    with pytest.raises(InputError, match="at least 1 axis, but one sample has shape"):
        Mirror().fit(torch.Size([]))


@pytest.mark.parametrize("axes", [(), (0,), (1, -1), (-1, -1), (-1.0,), -1, "last"])
def test_axes_are_counted_from_the_end(axes):
    with pytest.raises(SpecError, match=r"must name different axes, counted from the end|must be a list of whole numbers"):
        CyclicShift(axes=axes).fit(torch.Size([3, 4]))


@dataclass(frozen=True, kw_only=True)
class Unfinished(CyclicShift):
    def source(self, elements, sizes):
        return super().source(elements, sizes).float()


def test_a_source_that_is_no_index_fails_loudly():
    with pytest.raises(RuntimeError):
        Unfinished().act(torch.tensor([[1]]), torch.zeros(1, 4))
