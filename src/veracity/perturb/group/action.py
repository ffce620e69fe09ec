"""Actions that only move entries about: one gather, whatever the element."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.spaces import InputSpace, Representation
from veracity.perturb.group.base import describe, paired


@dataclass(frozen=True, kw_only=True)
class PermutationAction(InputSpace, ABC):
    """A permutation representation (Definition D.2): (rho[g] x)_i = x_pi(i) over the entries of some axes.

    A subclass says which `axes` (a field with a default, or a property) and gives pi as `source`; the rest is one
    gather, for any number of other axes before, between or after them.
    """

    role = "group"
    representation = Representation.PERMUTATION

    @property
    @abstractmethod
    def axes(self) -> tuple[int, ...]:
        """The axes whose entries move, counted from the end: -1 is the last."""

    @abstractmethod
    def source(self, elements: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """Where each entry comes from: flat indices (N, d) over axes of these sizes, on the elements' device."""

    def fit(self, shape: Size) -> Self:
        """The same space, if one sample has these axes."""
        lengths(self, shape, self.axes)
        return self

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """N elements (N, p) move the entries of N signals (N, ...)."""
        paired(self, elements, x)
        sizes = lengths(self, x.shape[1:], self.axes)
        return permute(x, self.source(elements.to(x.device), sizes), self.axes)


def permute(x: Tensor, source: Tensor, axes: Sequence[int]) -> Tensor:
    """Signals (N, ...) with the entries of some axes taken from `source` (N, d), flat over those axes.

    >>> permute(torch.tensor([[10, 20, 30]]), torch.tensor([[2, 0, 1]]), (-1,))
    tensor([[30, 10, 20]])
    """
    axes, last = tuple(axes), tuple(range(-len(axes), 0))
    moved = x.movedim(axes, last)
    flat = moved.reshape(len(x), math.prod(moved.shape[1 : x.ndim - len(axes)]), source.shape[1])
    taken = flat.gather(2, source[:, None, :].expand_as(flat))
    return taken.reshape(moved.shape).movedim(last, axes).contiguous()


def flat_index(columns: Sequence[Tensor]) -> Tensor:
    """Flat indices (N, n_1 ... n_k) over a grid, from one index (N, n_a) for each of its axes.

    >>> flat_index([torch.tensor([[1, 0]]), torch.tensor([[2, 1, 0]])])
    tensor([[5, 4, 3, 2, 1, 0]])
    """
    flat = columns[0]
    for column in columns[1:]:
        flat = (flat[:, :, None] * column.shape[1] + column[:, None, :]).flatten(1)
    return flat


def lengths(space: InputSpace, shape: Size, axes: Sequence[int]) -> tuple[int, ...]:
    """How long these axes of one sample are; raises if it does not have them."""
    if not isinstance(axes, (tuple, list)) or not axes or len(set(axes)) < len(axes) or not all(isinstance(a, int) and a < 0 for a in axes):
        raise SpecError(f"{describe(space)} must name different axes, counted from the end: (-1,) is the last one, (-2, -1) an image's.")
    need = -min(axes)
    if len(shape) < need:
        count = "1 axis" if need == 1 else f"{need} axes"
        raise InputError(f"{describe(space)} needs inputs with at least {count}, but one sample has shape {tuple(shape)}.")
    return tuple(shape[axis] for axis in axes)


def same_sizes(space: InputSpace, own: tuple[int, ...] | None, sizes: tuple[int, ...]) -> None:
    """Raise if a space made for one size is used on another."""
    if own is not None and tuple(own) != sizes:
        raise InputError(f"{describe(space)} was made for sizes {tuple(own)}, but the signals measure {sizes} along its axes.")


def steps(size: int, like: Tensor) -> Tensor:
    """0, 1, ... size - 1 on the device of another tensor."""
    return torch.arange(size, device=like.device)
