"""Direct products of spaces that act on the same input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, cast

import torch
from torch import Size, Tensor

from veracity.core.errors import SpecError
from veracity.core.inputs import Signals
from veracity.core.randomness import Draws
from veracity.core.registry import GROUPS
from veracity.core.settings import short_repr
from veracity.core.spaces import FiniteSpace, InputSpace, Representation
from veracity.perturb.groups.base import UNMOVED, FiniteGroup, Group, check_order, check_pairs, describe

PROBES = 16


class Weakest:
    """The representation of the factor with the weakest guarantee."""

    def __get__(self, product: Product | None, owner: type[Product]) -> Representation:
        """On the class, the strongest one."""
        strength = list(Representation)
        return strength[0] if product is None else max((factor.representation for factor in product.factors), key=strength.index)


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class Product(InputSpace):
    """The direct product of spaces whose actions commute, such as shifts along one axis and mirror images along another.

    Elements (N, p_1 + ... + p_k) hold the factors' columns side by side; the last factor acts first. `fit` returns a group if all
    factors are groups (and raises if their actions do not commute), and a finite space if all factors are finite.

    >>> both = Product(factors=({"name": "cyclic_shift", "axes": [-1]}, {"name": "mirror", "axis": -2})).fit(Size([2, 3]))
    >>> both.order
    6
    >>> both.act(torch.tensor([[1, 1]]), torch.tensor([[[1, 2, 3], [4, 5, 6]]]))
    tensor([[[6, 4, 5],
             [3, 1, 2]]])
    """

    role = "group"
    name = "product"
    representation = Weakest()

    factors: tuple[InputSpace, ...] = ()

    def fit(self, shape: Size) -> Self:
        """The product of the fitted factors: a group or a finite space if all factors are."""
        if not self.factors:
            raise SpecError(
                f"A product needs at least one factor, such as factors=(CyclicShift(), Mirror(axis=-2)), not {short_repr(self.factors)}."
            )
        fitted = tuple(factor.fit(shape) for factor in self.factors)
        kinds: list[type[Product]] = [Product, GroupProduct, FiniteProduct, FiniteGroupProduct]
        group, finite = (all(isinstance(factor, kind) for factor in fitted) for kind in (Group, FiniteSpace))
        if group:
            check_commute(fitted, shape)
        return cast(Self, kinds[group + 2 * finite](factors=fitted))

    @property
    def order(self) -> int | None:
        """The product of the factors' orders; None if one is infinite."""
        orders = [space.order for space in self.factors if space.order is not None]
        return math.prod(orders) if len(orders) == len(self.factors) else None

    @property
    def latents(self) -> int:
        """The factors' latents together."""
        return sum(space.latents for space in self.factors)

    def decode(self, latent: Tensor) -> Tensor:
        """Each factor decodes its own latents."""
        parts = torch.split(latent, [space.latents for space in self.factors], dim=1)
        return torch.cat([space.decode(part) for space, part in zip(self.factors, parts, strict=True)], dim=1)

    def split(self, elements: Tensor) -> list[Tensor]:
        """The elements of each factor, with its own columns and type."""
        samples = [space.decode(torch.zeros(1, space.latents)) for space in self.factors]
        parts = torch.split(elements, [sample.shape[1] for sample in samples], dim=1)
        return [part.to(sample.dtype) for part, sample in zip(parts, samples, strict=True)]

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """One factor after the other, the last one first."""
        return self.move(elements, Signals(x)).values

    def words(self, element: Tensor) -> str:
        """What each factor does, in the order in which they act; "" if a factor has no words.

        >>> Product(factors=("mirror", "sign_flip")).words(torch.tensor([1, 1]))
        'negated, mirrored along axis -1'
        """
        texts = [space.words(part[0]) for space, part in zip(self.factors, self.split(element[None]), strict=True)]
        return "" if "" in texts else ", ".join(text for text in reversed(texts) if text != UNMOVED) or UNMOVED

    def move(self, elements: Tensor, signals: Signals) -> Signals:
        """One factor after the other, the last one first."""
        check_pairs(self, elements, signals.values)
        for space, part in reversed(list(zip(self.factors, self.split(elements), strict=True))):
            signals = space.move(part, signals)
        return signals

    def check(self, x: Tensor) -> None:
        """Raise if these inputs make any factor meaningless."""
        for space in self.factors:
            space.check(x)


@dataclass(frozen=True, kw_only=True)
class FiniteProduct(Product, FiniteSpace):
    """A product of finite spaces."""

    factors: tuple[FiniteSpace, ...] = ()

    @property
    def order(self) -> int:
        """The product of the factors' orders."""
        return math.prod(space.order for space in self.factors)

    def enumerate(self) -> Tensor:
        """Every element once, (order, p)."""
        return self.unrank(torch.arange(check_order(self)))

    def unrank(self, index: Tensor) -> Tensor:
        """The factors' elements by the digits of the number; the last factor changes fastest."""
        check_order(self)
        digits = torch.unravel_index(index.long(), [space.order for space in self.factors])
        return torch.cat([space.unrank(digit) for space, digit in zip(self.factors, digits, strict=True)], dim=1)


@dataclass(frozen=True, kw_only=True)
class GroupProduct(Product, Group):
    """A product of groups."""

    factors: tuple[Group, ...] = ()

    def identity(self, n: int) -> Tensor:
        """Every factor's identity."""
        return torch.cat([group.identity(n) for group in self.factors], dim=1)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """Factor by factor."""
        pairs = zip(self.factors, self.split(g), self.split(h), strict=True)
        return torch.cat([group.compose(one, other) for group, one, other in pairs], dim=1)

    def inverse(self, g: Tensor) -> Tensor:
        """Factor by factor."""
        return torch.cat([group.inverse(part) for group, part in zip(self.factors, self.split(g), strict=True)], dim=1)


@dataclass(frozen=True, kw_only=True)
class FiniteGroupProduct(GroupProduct, FiniteProduct, FiniteGroup):
    """A product of finite groups."""

    factors: tuple[FiniteGroup, ...] = ()


def check_commute(groups: Sequence[InputSpace], shape: Size) -> None:
    """Raise if the actions of two factors do not commute; tried on some elements."""
    draws = Draws.of(0, torch.arange(PROBES))
    probe = torch.arange(math.prod(shape), dtype=torch.float64).reshape(1, *shape).expand(PROBES, *shape)
    for one, other in itertools.combinations(groups, 2):
        g = one.decode(draws.normal(one.latents, stream="first factor"))
        h = other.decode(draws.normal(other.latents, stream="second factor"))
        if not torch.allclose(one.act(g, other.act(h, probe)), other.act(h, one.act(g, probe))):
            raise SpecError(
                f"The product of {describe(one)} and {describe(other)} is not a direct product, since on inputs of shape "
                f"{tuple(shape)} it matters which acts first: choose groups that act on different axes."
            )
