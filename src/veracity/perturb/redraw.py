"""The perturbation that moves nothing: what changes is the explainer's own randomness."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.spaces import InputSpace


@dataclass(frozen=True, kw_only=True)
class Redraw(InputSpace):
    """Nothing moves; only the explainer's own random numbers change, which is the null of every other space.

    >>> Redraw().decode(torch.zeros(3, 0)).shape
    torch.Size([3, 0])
    """

    name = "redraw"
    moves_frame = False

    @property
    def latents(self) -> int:
        """None: an element holds no numbers."""
        return 0

    def decode(self, latent: Tensor) -> Tensor:
        """Empty elements, (N, 0)."""
        return torch.zeros(len(latent), 0, dtype=torch.int64)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The signals as they are."""
        return x
