"""Groups: elements that compose, have inverses, and act on inputs; and actions that permute the entries of an input."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.component import Component
from veracity.core.errors import InputError, SpecError
from veracity.core.spaces import FiniteSpace, InputSpace, Representation

MOST_NUMBERED = math.factorial(12)
UNMOVED = "as it is"
"""The identity in words."""


@dataclass(frozen=True, kw_only=True)
class Group(InputSpace, ABC):
    """Transforms that compose and have inverses: rho[g h] = rho[g] rho[h] (section 2.1).

    Elements are rows (N, p), and every operation takes N of them at once.
    """

    role = "group"

    @abstractmethod
    def identity(self, n: int) -> Tensor:
        """The element that moves nothing, n times: (n, p)."""

    @abstractmethod
    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """g after h, row by row: act(compose(g, h), x) == act(g, act(h, x))."""

    @abstractmethod
    def inverse(self, g: Tensor) -> Tensor:
        """The inverse of g, row by row."""


@dataclass(frozen=True, kw_only=True)
class FiniteGroup(Group, FiniteSpace, ABC):
    """A group with finitely many elements. By default these are the numbers (N, 1) below `order`, and 0 is the identity.

    A group of your own then needs `order`, `compose`, `inverse` and `act`.
    """

    def unrank(self, index: Tensor) -> Tensor:
        """The number itself, (N, 1)."""
        return index.long()[:, None]

    def identity(self, n: int) -> Tensor:
        """Number 0, n times."""
        return self.unrank(torch.zeros(n, dtype=torch.int64))


def floor(space: Group, x: Tensor, elements: Tensor, measure: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """How well an action undoes itself, s[g^-1 g x, x] per row (N,): a limit that no explanation can be expected to exceed.

    For exact actions this is the measure of identical signals. Interpolation loses detail and whatever leaves the frame.
    """
    return measure(space.act(space.inverse(elements), space.act(elements, x)), x)


def describe(component: Component) -> str:
    """A component as it is written in code, without the settings that are None."""
    given = ((item.name, getattr(component, item.name)) for item in fields(component))
    return f"{type(component).__name__}({', '.join(f'{key}={value!r}' for key, value in given if value is not None)})"


def check_order(space: FiniteSpace) -> int:
    """The order of the space; raises if there are too many elements to number."""
    if space.order > MOST_NUMBERED:
        digits = math.floor(math.log10(space.order)) + 1
        raise SpecError(f"{describe(space)} has too many elements to number (a count of {digits} digits): draw them at random instead.")
    return space.order


def check_pairs(space: InputSpace, elements: Tensor, x: Tensor) -> None:
    """Raise unless there is one element per signal."""
    if elements.ndim != 2 or len(elements) != len(x):
        expected, got = f"({len(x)}, p)", tuple(elements.shape)
        raise InputError(f"{describe(space)} needs one element for each of {len(x)} inputs, shape {expected}, but got shape {got}.")


@dataclass(frozen=True, kw_only=True)
class PermutationAction(InputSpace, ABC):
    """A permutation representation (Definition D.2): (rho[g] x)_i = x_pi(i) over the entries of some axes.

    A subclass names the `axes` (a field with a default, or a property) and gives pi as `source`. There may be other axes before,
    between and after them.
    """

    role = "group"
    representation = Representation.PERMUTATION

    @property
    @abstractmethod
    def axes(self) -> tuple[int, ...]:
        """The axes whose entries move, counted from the end: -1 is the last."""

    @abstractmethod
    def source(self, elements: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """The source of each entry: flat indices (N, d) over axes of these sizes, on the elements' device."""

    def fit(self, shape: Size) -> Self:
        """The same space, if one sample has these axes."""
        lengths(self, shape, self.axes)
        return self

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """N elements (N, p) move the entries of N signals (N, ...)."""
        check_pairs(self, elements, x)
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
    """The lengths of these axes of one sample; raises if it does not have them."""
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
