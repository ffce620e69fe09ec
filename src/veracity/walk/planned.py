"""The walker of every walk that knows beforehand what it will ask."""

from __future__ import annotations

import torch
from torch import Tensor

from veracity.core.walks import Ask
from veracity.walk.elements import Elements

ROWS = 4096
"""How many perturbations one ask holds at most, so that memory does not grow with the space."""


class Planned:
    """Asks for `draws` draws of each of `samples` samples, sample by sample, a bounded block at a time."""

    def __init__(self, samples: int, draws: int, elements: Elements) -> None:
        self.draws, self.elements = draws, elements
        self.next, self.total = 0, samples * draws

    def ask(self) -> Ask | None:
        """The next block of at most ROWS perturbations."""
        if self.next >= self.total:
            return None
        number = torch.arange(self.next, min(self.next + ROWS, self.total))
        self.next += len(number)
        row, draw = number // self.draws, number % self.draws
        return Ask(row, draw, self.elements(row, draw))

    def tell(self, values: Tensor) -> None:
        """Nothing depends on the values."""
