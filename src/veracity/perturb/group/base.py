"""What a group is: elements that compose, undo each other, and act on inputs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from veracity.core.component import Component
from veracity.core.errors import InputError, SpecError
from veracity.core.spaces import FiniteSpace, InputSpace

MOST_NUMBERED = math.factorial(12)
UNMOVED = "as it is"
"""What the identity does, in words."""


@dataclass(frozen=True, kw_only=True)
class Group(InputSpace, ABC):
    """Transforms that compose and undo each other: rho[g h] = rho[g] rho[h] (section 2.1).

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
        """What undoes g, row by row."""


@dataclass(frozen=True, kw_only=True)
class FiniteGroup(Group, FiniteSpace, ABC):
    """A group that can be counted out; unless a subclass says otherwise its elements are the numbers (N, 1) below `order`, 0 the identity.

    With that default a group of one's own needs four methods: `order`, `compose`, `inverse` and `act`.
    """

    def unrank(self, index: Tensor) -> Tensor:
        """The number itself, (N, 1)."""
        return index.long()[:, None]

    def identity(self, n: int) -> Tensor:
        """Number 0, n times."""
        return self.unrank(torch.zeros(n, dtype=torch.int64))


def floor(space: Group, x: Tensor, elements: Tensor, measure: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """How well an action undoes itself, s[g^-1 g x, x] per row (N,): what no explanation can be expected to beat.

    Exact actions give the measure of identical signals; interpolation loses detail, and whatever leaves the frame.
    """
    return measure(space.act(space.inverse(elements), space.act(elements, x)), x)


def describe(component: Component) -> str:
    """A component as one would write it, without the settings that are still open."""
    given = ((item.name, getattr(component, item.name)) for item in fields(component))
    return f"{type(component).__name__}({', '.join(f'{key}={value!r}' for key, value in given if value is not None)})"


def known(space: InputSpace, size: object) -> None:
    """Raise unless the space was fitted to its inputs."""
    if size is None:
        raise SpecError(f"{describe(space)} does not know the inputs' size yet: call fit(shape) with one sample's shape.")


def numbered(space: FiniteSpace) -> int:
    """The order, if elements can be numbered at all."""
    if space.order > MOST_NUMBERED:
        digits = math.floor(math.log10(space.order)) + 1
        raise SpecError(f"{describe(space)} has too many elements to number (a count of {digits} digits): draw them at random instead.")
    return space.order


def paired(space: InputSpace, elements: Tensor, x: Tensor) -> None:
    """Raise unless there is one element for each signal."""
    if elements.ndim != 2 or len(elements) != len(x):
        expected, got = f"({len(x)}, p)", tuple(elements.shape)
        raise InputError(f"{describe(space)} needs one element for each of {len(x)} inputs, shape {expected}, but got shape {got}.")
