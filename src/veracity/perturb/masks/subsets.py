"""Masks that nobody ordered: a random subset of a sample's units, or all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.draws import Draws
from veracity.core.errors import InputError, SpecError
from veracity.core.spaces import FiniteSpace
from veracity.perturb.masks.base import Masks, PatchMasks


@dataclass(frozen=True, kw_only=True)
class RandomMasks(PatchMasks):
    """A random subset S of a sample's units, all subsets of its size as likely: the masked inputs of eq. 24.

    `size` counts the units of a subset if it is a whole number (224, say), or is their share of all (0.2, say). Units are
    single entries, or patches with all their channels. Elements (N, units) are True inside the subset.

    >>> masks = RandomMasks(size=2).fit(Size([4]))
    >>> masks.decode(torch.tensor([[0.3, -1.0, 2.0, 0.1]]))
    tensor([[False,  True, False,  True]])
    """

    name = "random_masks"
    reference = "Bhatt et al., Evaluating and aggregating feature-based model explanations, IJCAI 2020"

    size: int | float

    def fit(self, shape: Size) -> Self:
        """The subsets of samples of this shape, if there are that many units."""
        size, fitted = self.size, super().fit(shape)
        if isinstance(size, bool) or not isinstance(size, (int, float)) or not (0 < size < 1 or (isinstance(size, int) and size >= 1)):
            raise SpecError(f"The size of random masks must be a whole number, such as 224, or a share, such as 0.2, not {size!r}.")
        if size > fitted.units:
            raise InputError(
                f"Random masks of {size} units do not fit a sample of {fitted.units}: use a smaller size, or a share such as 0.2."
            )
        return fitted

    @property
    def count(self) -> int:
        """How many units a subset has: at least one."""
        return self.size if isinstance(self.size, int) else max(1, round(self.size * self.units))

    @property
    def latents(self) -> int:
        """One for each unit."""
        return self.units

    def drawn(self, draws: Draws) -> Tensor:
        """Random subsets; only the order of their latents counts, so that plain random words do."""
        return self.decode(draws.words(self.units, stream="walk"))

    def decode(self, latent: Tensor) -> Tensor:
        """The units with the smallest latents (N, units)."""
        chosen = latent.topk(self.count, dim=1, largest=False, sorted=False).indices
        return torch.zeros_like(latent, dtype=torch.bool).scatter_(1, chosen, True)


@dataclass(frozen=True, kw_only=True)
class FullMask(Masks, FiniteSpace):
    """Everything is masked: the whole sample gives way to the baseline. There is just this one element, (N, 1).

    >>> FullMask(baseline="white").fit(Size([3])).act(torch.tensor([[True]]), torch.tensor([[1.0, 2.0, 5.0]]))
    tensor([[5., 5., 5.]])
    """

    name = "full_mask"

    @property
    def order(self) -> int:
        """One."""
        return 1

    @property
    def units(self) -> int:
        """The sample as a whole."""
        return 1

    def unrank(self, index: Tensor) -> Tensor:
        """True, whatever the number."""
        return torch.ones(len(index), 1, dtype=torch.bool)

    def spread(self, masks: Tensor) -> Tensor:
        """The same for every entry."""
        return masks.expand(-1, self.known_shape.numel())
