"""Perturbations that replace the sample by another, the explained output by another, or only the explainer's random numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.spaces import Countable, InputSpace, SampleSpace, TargetSpace, check_known


@dataclass(frozen=True, kw_only=True)
class OtherSample(Countable, SampleSpace):
    """Each sample is replaced by another one of the data set, with its own target.

    Elements (N, 1) are offsets from 1 to size - 1: sample s is replaced by sample (s + offset) modulo `size`, the number of
    samples.

    >>> others = OtherSample().among(4, "content")
    >>> others.order, others.instead_of(torch.tensor([2, 2, 2]), others.enumerate())
    (3, tensor([3, 0, 1]))
    """

    name = "others"
    reference = "Dasgupta, Frost and Moshkovitz, Framework for evaluating faithfulness of local explanations, ICML 2022"

    size: int | None = None
    content: str = ""

    def among(self, size: int, content: str) -> Self:
        """The space for a data set of `size` samples; `content` is a hash of samples and targets."""
        if size < 2:
            raise InputError(f"Putting another sample in the place of one needs at least 2 samples, not {size}: pass more inputs.")
        return replace(self, size=size, content=content)

    @property
    def known_size(self) -> int:
        """The number of samples; raises before `among`."""
        return check_known(self, self.size, "how many samples there are", "among(size, content)")

    @property
    def order(self) -> int:
        """All samples but one."""
        return self.known_size - 1

    def unrank(self, index: Tensor) -> Tensor:
        """Offsets (N, 1), from 1."""
        return index.long()[:, None] + 1

    def instead_of(self, samples: Tensor, elements: Tensor) -> Tensor:
        """Indices (N,) of the substituted samples."""
        return (samples + elements[:, 0].to(samples)) % self.known_size


@dataclass(frozen=True, kw_only=True)
class OtherClass(TargetSpace):
    """A random class other than the target, all equally likely.

    Elements (N, 1) are numbers u between 0 and 1; of C classes, the target c becomes c + 1 + floor(u (C - 1)), modulo C.

    >>> OtherClass().retarget(torch.tensor([[0.0], [0.5], [0.99]]), torch.tensor([0, 0, 1]), classes=3)
    tensor([1, 2, 0])
    """

    name = "other_class"
    reference = "Sixt, Granz and Landgraf, When explanations lie: why many modified BP attributions fail, ICML 2020"
    latents = 1

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


@dataclass(frozen=True, kw_only=True)
class Redraw(InputSpace):
    """Only the explainer's own random numbers change: the null of every other space.

    >>> Redraw().decode(torch.zeros(3, 0)).shape
    torch.Size([3, 0])
    """

    name = "redraw"
    moves_frame = False
    latents = 0

    def decode(self, latent: Tensor) -> Tensor:
        """Empty elements, (N, 0)."""
        return torch.zeros(len(latent), 0, dtype=torch.int64, device=latent.device)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The signals themselves."""
        return x
