"""What every mask does: some entries of a sample give way to a baseline."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError, SpecError, unknown
from veracity.core.settings import Count
from veracity.core.spaces import InputSpace, Representation
from veracity.perturb.masks.units import check_patch, unit_count, unit_numbers

BASELINES = ("black", "mean", "white")


@dataclass(frozen=True, kw_only=True)
class Masks(InputSpace, ABC):
    """Some entries of a sample give way to the `baseline`, the others stay: x'_i = m_i b(x) + (1 - m_i) x_i.

    The baseline is "black" (the sample's own smallest value), "white" (its largest), "mean" (its mean) or a number. Made
    concrete, elements are masks (N, d) over a sample's d entries, True where the baseline is put; `act` takes masks over
    units (N, units) too.
    """

    moves_frame = False
    representation = Representation.APPROXIMATE

    baseline: float | str = "black"
    shape: tuple[int, ...] | None = None

    def fit(self, shape: Size) -> Self:
        """The masks of samples of this shape."""
        check_baseline(self.name, self.baseline)
        if self.shape not in (None, tuple(shape)):
            raise InputError(f"These {self.name} were made for samples of shape {self.shape}, but one sample has shape {tuple(shape)}.")
        return replace(self, shape=tuple(shape))

    @property
    def known_shape(self) -> Size:
        """One sample's shape, once it is known."""
        if self.shape is None:
            raise SpecError(f"The space '{self.name}' does not know the inputs' shape yet: call fit(shape) with one sample's shape.")
        return Size(self.shape)

    @property
    @abstractmethod
    def units(self) -> int:
        """How many units there are to mask."""

    @abstractmethod
    def spread(self, masks: Tensor) -> Tensor:
        """Masks over units (N, units) as masks over entries (N, d)."""

    def guide(self, x: Tensor, explanation: Tensor | None) -> Tensor:
        """Nothing, (B, 1), but masks over units are still to be made masks over entries."""
        return x.new_zeros(len(x), 1)

    def steer(self, elements: Tensor, guide: Tensor) -> Tensor:
        """Masks over entries (N, d)."""
        return self.spread(elements)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The inputs with the baseline wherever the mask is True."""
        if elements.dtype != torch.bool:
            raise InputError(
                f"The space '{self.name}' acts by masks of True and False, not by {elements.dtype}: use at(...) and steer(...)."
            )
        masks = self.spread(elements) if elements.shape[1:] == (self.units,) else elements
        needed = (len(x), math.prod(x.shape[1:]))
        if masks.shape != needed:
            raise InputError(
                f"Inputs of shape {tuple(x.shape)} need masks of shape {needed}, but the space '{self.name}' got {tuple(masks.shape)}."
            )
        return torch.where(masks.to(x.device).reshape(x.shape), filling(self.baseline, x), x)


@dataclass(frozen=True, kw_only=True)
class PatchMasks(Masks, ABC):
    """Masks over single entries, or over square patches of `patch` positions a side with all their channels."""

    patch: Count = 1

    def fit(self, shape: Size) -> Self:
        """The masks of samples of this shape."""
        check_patch(f"the space '{self.name}'", self.patch, shape)
        return super().fit(shape)

    @property
    def units(self) -> int:
        """The number of entries, or of patches."""
        return unit_count(self.known_shape, self.patch)

    def spread(self, masks: Tensor) -> Tensor:
        """Every entry as its unit."""
        return masks if self.patch == 1 else masks[:, unit_numbers(self.known_shape, self.patch).to(masks.device)]


def filling(baseline: float | str, x: Tensor) -> Tensor:
    """The value that stands for "nothing there" in each sample, as it broadcasts against x (N, ...).

    >>> filling("black", torch.tensor([[1.0, 2.0], [3.0, 5.0]])).flatten()
    tensor([1., 3.])
    """
    if not isinstance(baseline, str):
        return torch.as_tensor(baseline, dtype=x.dtype, device=x.device)
    flat = x.flatten(1)
    value = flat.mean(dim=1) if baseline == "mean" else flat.amin(dim=1) if baseline == "black" else flat.amax(dim=1)
    return value.reshape(-1, *[1] * (x.ndim - 1))


def check_baseline(name: str, baseline: float | str) -> None:
    """Raise unless the baseline is one of the words or a finite number."""
    if isinstance(baseline, str):
        if baseline not in BASELINES:
            raise unknown(f"baseline of the space '{name}'", baseline, BASELINES)
    elif isinstance(baseline, bool) or not isinstance(baseline, (int, float)) or not math.isfinite(baseline):
        raise SpecError(f"The baseline of the space '{name}' must be a number, 'black', 'white' or 'mean', not {baseline!r}.")
