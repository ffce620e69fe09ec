"""The part of a sample that an explanation marks, removed or kept alone: gates are multiplied by a mask from the explanation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.settings import Portion
from veracity.core.spaces import FiniteSpace, GuidedSpace, Representation
from veracity.perturb.masks import ranks

REMOVED, KEPT = 0, 1
"""The levels."""


@dataclass(frozen=True, kw_only=True)
class ExplainedPart(GuidedSpace, FiniteSpace):
    """Gates (N, U) are multiplied by 1 - m at level 0, which removes what is explained, and by m at level 1, which keeps it alone.

    m is 1 for the `top` gates with the largest relevance, a number or a share of those that exist, at least one, and else 0; of equal
    gates the first ones are taken. With top=None, m is the explanation itself, which must lie between 0 and 1; other rows become NaN.

    >>> part = ExplainedPart(top=1)
    >>> guide = part.guide(torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor([[0.2, 0.7, 0.0]]))
    >>> removed, kept = (part.steer(torch.tensor([[level]]), guide) for level in (REMOVED, KEPT))
    >>> removed, kept
    (tensor([[1., 0., 1.]]), tensor([[0., 1., 0.]]))
    """

    name = "explained_part"
    by_explanation: ClassVar[bool] = True
    moves_frame = False
    representation = Representation.APPROXIMATE
    order = 1
    levels = 2

    top: Portion | None = 0.25

    def unrank(self, index: Tensor) -> Tensor:
        """Level 0, (N, 1)."""
        return torch.zeros(len(index), 1, dtype=torch.int64, device=index.device)

    def at(self, elements: Tensor, level: Tensor) -> Tensor:
        """The level, (N, 1)."""
        return level.to(elements.device)[:, None]

    def guide(self, x: Tensor, explanation: Tensor | None) -> Tensor:
        """m (B, U) of each sample; the gates of a whole sample are 1 where they exist."""
        if explanation is None or explanation.shape != x.shape:
            raise InputError(f"The space '{self.name}' needs an explanation with one number for each gate of a sample.")
        exists = x != 0
        if self.top is None:
            inside = ((explanation >= 0) & (explanation <= 1)).flatten(1).all(dim=1, keepdim=True)
            return torch.where(inside, explanation, torch.nan).to(x)
        place = ranks(explanation.masked_fill(~exists, -torch.inf), descending=True)
        return ((place < self.count(exists)[:, None]) & exists).to(x)

    def count(self, exists: Tensor) -> Tensor:
        """How many gates are marked (B,), of those that exist (B, U)."""
        own = exists.sum(dim=1)
        return own.clamp(max=self.top) if isinstance(self.top, int) else (own * (self.top or 1.0)).round().long().clamp(min=1)

    def steer(self, elements: Tensor, guide: Tensor) -> Tensor:
        """What gates are multiplied by, (N, U)."""
        return torch.where(elements.to(guide.device) == KEPT, guide, 1.0 - guide)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The gates times the mask."""
        return x * elements.to(x)
