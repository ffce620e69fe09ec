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
    """Asks for `draws` draws of each of `samples` samples, each at every level, a bounded block at a time.

    Sample by sample; where draws are shared by all samples, draw by draw and level by level, so that what belongs to one
    copy of a model comes together.
    """

    def __init__(self, space: Space, samples: int, draws: int, elements: Elements, rows: int | None = None) -> None:
        most = rows_for(space) if rows is None else rows
        self.space, self.samples, self.draws, self.elements = space, samples, draws, elements
        self.rows = most if space.nested else max(samples, most // max(samples, 1) * samples)
        self.next, self.total = 0, samples * draws * space.levels

    def ask(self) -> Ask | None:
        """The next block of perturbations."""
        if self.next >= self.total:
            return None
        number = torch.arange(self.next, min(self.next + self.rows, self.total))
        self.next += len(number)
        levels = self.space.levels
        if self.space.nested:
            drawn, level = number // levels, number % levels
            row, draw = drawn // self.draws, drawn % self.draws
        else:
            row, copy = number % self.samples, number // self.samples
            draw, level = copy // levels, copy % levels
            drawn = row * self.draws + draw
        once, back = torch.unique(drawn, return_inverse=True)
        element = self.elements(once // self.draws, once % self.draws)
        return Ask(row, draw, level, self.space.at(element if levels == 1 and self.space.nested else element[back], level))

    def tell(self, values: Tensor) -> None:
        """Nothing depends on the values."""
