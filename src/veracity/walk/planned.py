"""The walker of every walk that knows beforehand what it will ask."""

from __future__ import annotations

import torch
from torch import Tensor

from veracity.core.spaces import Space
from veracity.core.walks import Ask
from veracity.walk.elements import Elements

ROWS = 4096
"""How many perturbations one ask holds at most, so that memory does not grow with the space."""

NUMBERS = 2**22
"""How many random numbers the perturbations of one ask are made from at most."""


def rows_for(space: Space) -> int:
    """How many perturbations of a space one ask holds.

    >>> from veracity.perturb import Permutations
    >>> rows_for(Permutations(size=4)), rows_for(Permutations(size=2**12))
    (4096, 1024)
    """
    return max(1, min(ROWS, NUMBERS // max(1, space.latents)))


class Planned:
    """Asks for `draws` draws of each of `samples` samples, sample by sample, a bounded block at a time."""

    def __init__(self, samples: int, draws: int, elements: Elements, rows: int = ROWS) -> None:
        self.draws, self.elements, self.rows = draws, elements, rows
        self.next, self.total = 0, samples * draws

    def ask(self) -> Ask | None:
        """The next block of perturbations."""
        if self.next >= self.total:
            return None
        number = torch.arange(self.next, min(self.next + self.rows, self.total))
        self.next += len(number)
        row, draw = number // self.draws, number % self.draws
        return Ask(row, draw, self.elements(row, draw))

    def tell(self, values: Tensor) -> None:
        """Nothing depends on the values."""
