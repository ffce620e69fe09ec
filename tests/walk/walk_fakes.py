"""Small spaces that walks are tested on, and a loop that plays the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from veracity.core.spaces import FiniteSpace, Space
from veracity.core.walks import Ask, Walker


@dataclass(frozen=True, kw_only=True)
class Ring(FiniteSpace):
    """Whole numbers below `size`, in hundreds so that a number is not its rank."""

    name = "ring"
    size: int

    @property
    def order(self) -> int:
        return self.size

    def unrank(self, index: Tensor) -> Tensor:
        return 100 * index[:, None]

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        return x + elements


@dataclass(frozen=True, kw_only=True)
class SharedRing(Ring):
    """A ring whose draws are the same for every sample."""

    nested: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Line(Space):
    """The latents themselves, `width` of them."""

    name = "line"
    width: int = 2

    @property
    def latents(self) -> int:
        return self.width

    def decode(self, latent: Tensor) -> Tensor:
        return latent


def play(walker: Walker, objective: Callable[[Ask], Tensor] | None = None) -> Ask:
    """Ask and tell to the end; everything that was asked."""
    asked = []
    while (ask := walker.ask()) is not None:
        assert 0 < len(ask) <= 4096
        assert len(ask.row) == len(ask.draw) == len(ask.element)
        asked.append(ask)
        walker.tell(objective(ask) if objective else torch.zeros(len(ask)))
    assert walker.ask() is None
    return Ask(*(torch.cat([getattr(ask, part) for ask in asked]) for part in ("row", "draw", "level", "element")))


def by_draw(samples: Tensor, asked: Ask) -> dict[tuple[int, int], list[float]]:
    """The element of every (sample number, draw)."""
    keys = zip(samples[asked.row].tolist(), asked.draw.tolist(), strict=True)
    return dict(zip(keys, asked.element.tolist(), strict=True))
