"""Windows cut out of a larger scene: a shift that shows real pixels at every edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError
from veracity.core.settings import Count, Whole
from veracity.core.spaces import FiniteSpace
from veracity.perturb.group.action import lengths
from veracity.perturb.group.base import describe, paired


@dataclass(frozen=True, kw_only=True)
class Crop(FiniteSpace):
    """A square window of a scene, moved from its centre by (dx, dy) whole pixels: (N, C, H, W) -> (N, C, window, window).

    (rho[dx, dy] x)_(i, j) = x_(i + top + dy, j + left + dx), where the centred window begins at top = (H - window) // 2 and
    left = (W - window) // 2. Elements (N, 2) lie in [-reach, reach]^2. It cuts, so that it is no group.

    >>> scene = torch.arange(16.0).reshape(1, 1, 4, 4)
    >>> Crop(window=2, reach=1).act(torch.tensor([[1, 0]]), scene)
    tensor([[[[ 6.,  7.],
              [10., 11.]]]])
    """

    name = "crop"
    reference = "Zhao et al., Evaluating machine learning models with NERO, section 3.1 and Figure 7"

    window: Count = 128
    reach: Whole = 64

    def fit(self, shape: Size) -> Self:
        """The same windows, if scenes of this shape hold all of them."""
        need = self.window + 2 * self.reach
        if min(lengths(self, shape, (-2, -1))) < need:
            raise InputError(
                f"{describe(self)} needs scenes of at least {need} x {need} pixels, but one sample has shape {tuple(shape)}: "
                "give larger scenes or choose a smaller reach."
            )
        return self

    @property
    def order(self) -> int:
        """(2 reach + 1)^2."""
        return (2 * self.reach + 1) ** 2

    def unrank(self, index: Tensor) -> Tensor:
        """The number's digits as (dx, dy), dx turning fastest, read as 0 ... reach, -reach ... -1: number 0 is the centre."""
        span = 2 * self.reach + 1
        rows, columns = torch.unravel_index(index.long(), (span, span))
        return (torch.stack((columns, rows), dim=1) + self.reach).remainder(span) - self.reach

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """N windows of N scenes."""
        paired(self, elements, x)
        height, width = lengths(self, x.shape[1:], (-2, -1))
        inside = torch.arange(self.window, device=x.device)
        across, down = elements.to(x.device).unbind(dim=1)
        rows = inside + (down + (height - self.window) // 2)[:, None]
        columns = inside + (across + (width - self.window) // 2)[:, None]
        if len(x) and (min(int(rows.min()), int(columns.min())) < 0 or int(rows.max()) >= height or int(columns.max()) >= width):
            raise InputError(f"{describe(self)} was asked for a window outside of scenes of shape {tuple(x.shape[1:])}: shift it by less.")
        flat = (rows[:, :, None] * width + columns[:, None, :]).flatten(1)
        scenes = x.reshape(len(x), -1, height * width)
        cut = scenes.gather(2, flat[:, None, :].expand(-1, scenes.shape[1], -1))
        return cut.reshape(*x.shape[:-2], self.window, self.window)
