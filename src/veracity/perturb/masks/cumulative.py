"""Masks that grow step by step, in the order of an explanation or in a random one."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.settings import Count
from veracity.core.spaces import FiniteSpace
from veracity.perturb.masks.base import PatchMasks
from veracity.perturb.masks.units import unit_sums


@dataclass(frozen=True, kw_only=True)
class CumulativeMasks(PatchMasks, ABC):
    """Units are masked in some order, more at each level, until all are.

    `features` is how many units each step masks (the last may mask fewer), one if nothing is said; `steps` alone divides
    all units into as many equal steps; both together stop after so many steps. With `insertion` everything starts masked
    and each step brings units back. `origin` adds a level before the first step.
    """

    features: Count | None = None
    steps: Count | None = None
    insertion: bool = False
    origin: bool = False

    @property
    def levels(self) -> int:
        """One for each step, and one for the origin where it is asked for."""
        whole = -(-self.units // (self.features or 1))
        return min(whole, self.steps or whole) + self.origin

    def count(self, level: Tensor) -> Tensor:
        """How many units have had their turn at each level (N,)."""
        step = level + (not self.origin)
        if self.features is None and self.steps is not None:
            return step * self.units // min(self.steps, self.units)
        return (step * (self.features or 1)).clamp(max=self.units)

    def reached(self, ranks: Tensor, count: Tensor) -> Tensor:
        """From each unit's place in the order (N, units) and the count (N, 1) to masks (N, units)."""
        return ranks >= count if self.insertion else ranks < count


@dataclass(frozen=True, kw_only=True)
class OrderedMasks(CumulativeMasks, FiniteSpace):
    """Units are masked in the order of the sample's own explanation, the most relevant first (section A.4.5, eq. 25, 26).

    A unit's relevance is the sum of the explanation over its entries; equals keep their order in the sample. `ascending`
    takes the least relevant first. Nothing is random: there is one element, (N, 1), at each level the number of units that
    have had their turn, and the explanation's order makes it a mask.

    >>> masks = OrderedMasks(features=2).fit(torch.Size([3]))
    >>> x = torch.zeros(1, 3)
    >>> order = masks.guide(x, torch.tensor([[0.1, 0.9, 0.5]]))
    >>> first = masks.at(masks.enumerate(), torch.tensor([0]))
    >>> masks.levels, masks.steer(first, order)
    (2, tensor([[False,  True,  True]]))
    """

    name = "ordered_masks"
    guided: ClassVar[bool] = True
    reference = "Bach et al., On pixel-wise explanations for non-linear classifier decisions, PLoS ONE 2015"

    ascending: bool = False

    @property
    def order(self) -> int:
        """One."""
        return 1

    def unrank(self, index: Tensor) -> Tensor:
        """Nothing has had its turn."""
        return torch.zeros(len(index), 1, dtype=torch.int64)

    def at(self, elements: Tensor, level: Tensor) -> Tensor:
        """How many units have had their turn, (N, 1)."""
        return self.count(level)[:, None]

    def guide(self, x: Tensor, explanation: Tensor | None) -> Tensor:
        """Each unit's place in the order of the explanation, (B, units)."""
        if explanation is None:
            raise InputError(f"The space '{self.name}' masks in the order of an explanation, and there is none: give explainers.")
        return places(unit_sums(like(explanation, x), self.patch), descending=not self.ascending)

    def steer(self, elements: Tensor, guide: Tensor) -> Tensor:
        """Masks over entries (N, d)."""
        return self.spread(self.reached(guide, elements.to(guide.device)))


@dataclass(frozen=True, kw_only=True)
class RandomOrderMasks(CumulativeMasks):
    """Units are masked in a random order, shared by all levels of a draw, so that a draw is one path (Assumption 3).

    Drawn elements (N, units) are each unit's place in the order; at a level they are masks.

    >>> masks = RandomOrderMasks(features=1).fit(torch.Size([3]))
    >>> order = masks.decode(torch.tensor([[0.3, -1.0, 2.0]]))
    >>> masks.at(order, torch.tensor([1]))
    tensor([[ True,  True, False]])
    """

    name = "random_order_masks"
    reference = "Hedström et al., Evaluating Interpretable Methods via Geometric Alignment of Functional Distortions (TMLR 2025)"

    @property
    def latents(self) -> int:
        """One for each unit."""
        return self.units

    def decode(self, latent: Tensor) -> Tensor:
        """Each unit's place in the order of the latents (N, units)."""
        return places(latent, descending=False)

    def at(self, elements: Tensor, level: Tensor) -> Tensor:
        """Masks over units (N, units)."""
        return self.reached(elements, self.count(level)[:, None])


def places(values: Tensor, *, descending: bool) -> Tensor:
    """The place of each entry in the order of its row, from 0; equals keep their order: (N, n) int32.

    >>> places(torch.tensor([[5.0, 7.0, 5.0]]), descending=True)
    tensor([[1, 0, 2]], dtype=torch.int32)
    """
    order = values.argsort(dim=1, descending=descending, stable=True)
    number = torch.arange(values.shape[1], dtype=torch.int32, device=values.device)
    return torch.empty_like(order, dtype=torch.int32).scatter_(1, order, number.expand_as(order))


def like(explanation: Tensor, x: Tensor) -> Tensor:
    """The explanation in the inputs' shape; one map for all channels counts for each of them."""
    fits = explanation.ndim == x.ndim and all(own in (1, other) for own, other in zip(explanation.shape[1:], x.shape[1:], strict=True))
    if not fits or len(explanation) != len(x):
        raise InputError(
            f"An explanation of shape {tuple(explanation.shape)} gives no order to inputs of shape {tuple(x.shape)}: masking by relevance "
            "needs explanations in the input's frame."
        )
    return explanation.expand_as(x)
