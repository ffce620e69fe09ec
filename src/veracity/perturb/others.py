"""Another sample of the data set in the place of each one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from torch import Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.spaces import FiniteSpace


@dataclass(frozen=True, kw_only=True)
class Others(FiniteSpace):
    """Each sample gives way to another one of the same data set, with that one's own target; never to itself.

    Elements (N, 1) are offsets from 1 to size - 1: sample s gives way to sample (s + offset) modulo `size`, the number of
    samples. There is no transform of the input in it, so that it cannot act on inputs alone.

    >>> import torch
    >>> others = Others().among(4, "content")
    >>> others.order, others.instead_of(torch.tensor([2, 2, 2]), others.enumerate())
    (3, tensor([3, 0, 1]))
    """

    name = "others"
    reference = "Dasgupta, Frost and Moshkovitz, Framework for evaluating faithfulness of local explanations, ICML 2022"
    moves_frame = False
    exchanges: ClassVar[bool] = True

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

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """Impossible: whoever walks this space takes the other samples from the data set."""
        raise SpecError(
            f"The space '{self.name}' puts other samples in place and transforms none: take them by instead_of(samples, elements)."
        )
