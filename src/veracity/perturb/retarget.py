"""Another output to explain, while input and model stay."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.spaces import TargetSpace


@dataclass(frozen=True, kw_only=True)
class OtherClass(TargetSpace):
    """A random class other than the target, every other one as likely.

    Elements (N, 1) are numbers u between 0 and 1; of C classes, the target c becomes c + 1 + floor(u (C - 1)), modulo C.

    >>> OtherClass().retarget(torch.tensor([[0.0], [0.5], [0.99]]), torch.tensor([0, 0, 1]), classes=3)
    tensor([1, 2, 0])
    """

    name = "other_class"
    reference = "Sixt, Granz and Landgraf, When explanations lie: why many modified BP attributions fail, ICML 2020"

    @property
    def latents(self) -> int:
        """One."""
        return 1

    def decode(self, latent: Tensor) -> Tensor:
        """The latent's quantile, (N, 1)."""
        quantile: Tensor = torch.special.ndtr(latent.double())
        return quantile

    def retarget(self, elements: Tensor, targets: Tensor, classes: int) -> Tensor:
        """The other classes (N,)."""
        if classes < 2:
            raise InputError(
                f"Another class than the target needs at least 2 outputs, but the model has {classes}: leave out scores that ask for one."
            )
        step = (elements[:, 0].to(targets.device) * (classes - 1)).long().clamp_(0, classes - 2)
        return (targets + 1 + step) % classes
