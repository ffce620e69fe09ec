"""Perturbations that leave the input as it is: another sample in its place, another output to explain, or only new random numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.spaces import Countable, InputSpace, SampleSpace, TargetSpace


@dataclass(frozen=True, kw_only=True)
class OtherSample(Countable, SampleSpace):
    """Each sample gives way to another one of the same data set, with that one's own target; never to itself.

    Elements (N, 1) are offsets from 1 to size - 1: sample s gives way to sample (s + offset) modulo `size`, the number of
    samples.

    >>> import torch
    >>> others = OtherSample().among(4, "content")
    >>> others.order, others.instead_of(torch.tensor([2, 2, 2]), others.enumerate())
    (3, tensor([3, 0, 1]))
    """

    name = "others"
    reference = "Dasgupta, Frost and Moshkovitz, Framework for evaluating faithfulness of local explanations, ICML 2022"

    size: int | None = None
    content: str = ""

    def among(self, size: int, content: str) -> Self:
        """The space over a data set of so many samples, and of this content."""
        if size < 2:
            raise InputError(f"Putting another sample in the place of one needs at least 2 samples, not {size}: pass more inputs.")
        return replace(self, size=size, content=content)

    @property
    def known_size(self) -> int:
        """How many samples there are, once that is known."""
        if self.size is None:
            raise SpecError(f"The space '{self.name}' does not know how many samples there are yet: call among(size, content).")
        return self.size

    @property
    def order(self) -> int:
        """All samples but one."""
        return self.known_size - 1

    def unrank(self, index: Tensor) -> Tensor:
        """Offsets (N, 1), from 1."""
        return index.long()[:, None] + 1

    def instead_of(self, samples: Tensor, elements: Tensor) -> Tensor:
        """The numbers of the samples (N,) that take the place of these."""
        return (samples + elements[:, 0].to(samples)) % self.known_size


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
