"""The sample masked by its own explanation: every position is kept as far as it is relevant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError
from veracity.core.spaces import FiniteSpace
from veracity.perturb.masks import PatchMasks, expand_explanation, filling, positions


@dataclass(frozen=True, kw_only=True)
class SaliencyMask(PatchMasks, FiniteSpace):
    """The sample times its own explanation, scaled to [0, 1]: x' = b + g (x - b), g = (e - min e) / (max e - min e).

    The relevance of a position is the sum of the explanation over its channels; in a table it is the sum over the columns of a feature.
    The `baseline` b is 0 in the papers. Elements (N, d) that `steer` returns are the gates g, and NaN if the explanation is constant, which
    says nothing about what to keep: `act` then leaves the sample as it is.

    >>> mask = SaliencyMask(baseline=0.0).fit(Size([3]))
    >>> x = torch.tensor([[2.0, 4.0, 6.0]])
    >>> mask.act(mask.steer(mask.enumerate(), mask.guide(x, torch.tensor([[-1.0, 1.0, 0.0]]))), x)
    tensor([[0., 4., 3.]])
    """

    name = "saliency_mask"
    by_explanation: ClassVar[bool] = True
    order = 1
    reference = "Chattopadhay et al., Grad-CAM++: generalized gradient-based visual explanations for deep networks (WACV 2018)"

    def fit(self, shape: Size) -> Self:
        """For samples of this shape, whose channels share their gates."""
        along, fitted = positions(shape).numel(), super().fit(shape)
        if along == shape.numel() or self.groups is not None:
            return fitted
        return replace(fitted, groups=torch.arange(along).expand(shape.numel() // along, along).flatten())

    def unrank(self, index: Tensor) -> Tensor:
        """Nothing is chosen, (N, 1)."""
        return torch.zeros(len(index), 1, dtype=torch.int64, device=index.device)

    def guide(self, x: Tensor, explanation: Tensor | None) -> Tensor:
        """The gate of each unit, (B, units)."""
        if explanation is None:
            raise InputError(f"The space '{self.name}' masks by an explanation, and there is none: give explainers.")
        relevance = self.unit_sums(expand_explanation(explanation, x)).double()
        low, high = relevance.amin(dim=1, keepdim=True), relevance.amax(dim=1, keepdim=True)
        return (relevance - low) / (high - low).masked_fill(high == low, torch.nan)

    def steer(self, elements: Tensor, guide: Tensor) -> Tensor:
        """The gate of each entry, (N, d)."""
        return self.spread(guide)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The inputs as far as their gates are open; as they are where a gate is NaN."""
        gates, base = elements.to(x).reshape(x.shape), filling(self.baseline, x)
        return torch.where(gates.isnan(), x, base + gates.nan_to_num(0.0) * (x - base))
