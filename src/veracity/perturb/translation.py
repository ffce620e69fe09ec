"""Translations that leave the image: what moves out is lost, and a baseline comes in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError, unknown
from veracity.core.settings import Count
from veracity.core.spaces import FiniteSpace, Representation, check_known
from veracity.perturb.masks import BASELINES, filling


@dataclass(frozen=True, kw_only=True)
class Translation(FiniteSpace):
    """A sample is moved along its last axis by whole positions; places that become free get the `baseline`.

    There are `steps` distances, or all that there are, evenly spaced from the width to the left to the width to the right, without 0.
    Elements (N, 1) are distances, positive to the right.

    >>> space = Translation(steps=6, baseline=0.0).fit(Size([1, 3]))
    >>> space.enumerate().flatten().tolist(), space.act(torch.tensor([[1]]), torch.tensor([[[1.0, 2.0, 3.0]]]))
    ([-3, -2, -1, 1, 2, 3], tensor([[[0., 1., 2.]]]))
    """

    name = "translation"
    moves_frame = False
    representation = Representation.APPROXIMATE

    steps: Count = 28
    baseline: float | str = "black"
    width: int | None = None

    def fit(self, shape: Size) -> Self:
        """The translations of samples of this shape; raises if they have no positions."""
        if len(shape) < 2:
            raise InputError(
                f"The space '{self.name}' moves positions, which inputs of shape {tuple(shape)} do not have: use it for images (C, H, W) "
                "or series (C, T)."
            )
        if isinstance(self.baseline, str) and self.baseline not in BASELINES:
            raise unknown(f"baseline of the space '{self.name}'", self.baseline, BASELINES)
        return replace(self, width=shape[-1])

    @property
    def distances(self) -> Tensor:
        """Every distance, in order."""
        width = check_known(self, self.width, "the inputs' width")
        every = torch.cat((torch.arange(-width, 0), torch.arange(1, width + 1)))
        if self.steps >= len(every):
            return every
        return every[torch.linspace(0, len(every) - 1, self.steps, dtype=torch.float64).round().long()]

    @property
    def order(self) -> int:
        """The number of distances."""
        return len(self.distances)

    def unrank(self, index: Tensor) -> Tensor:
        """Distances (N, 1)."""
        return self.distances.to(index.device)[index][:, None]

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The moved samples."""
        width = x.shape[-1]
        source = torch.arange(width, device=x.device) - elements.to(x.device)[:, :1]
        shape = (len(x), *[1] * (x.ndim - 2), width)
        inside = ((source >= 0) & (source < width)).reshape(shape)
        moved = x.gather(-1, source.clamp(0, width - 1).reshape(shape).expand_as(x))
        return torch.where(inside, moved, filling(self.baseline, x))
