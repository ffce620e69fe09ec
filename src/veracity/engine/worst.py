"""Keeps, while the values stream by, the perturbation that hurts each sample most."""

from __future__ import annotations

import torch
from torch import Tensor

from veracity.core.measures import Direction
from veracity.core.walks import Ask

KEEP = 4


class Worst:
    """Per sample of a block: the worst value so far, its draw and element, and what was read there."""

    def __init__(self, samples: int, direction: Direction) -> None:
        self.sign = 1.0 if direction is Direction.HIGHER else -1.0
        self.value = torch.full((samples,), torch.inf, dtype=torch.float64)
        self.draw = torch.zeros(samples, dtype=torch.long)
        self.element: Tensor | None = None
        self.after: Tensor | None = None

    def see(self, ask: Ask, values: Tensor, after: Tensor) -> None:
        """Take in R values (on the CPU) of perturbations, and what was read there (R, ...)."""
        badness = torch.where(values.isnan(), torch.inf, values.double() * self.sign)
        lowest = self.value.clone().scatter_reduce_(0, ask.row, badness, reduce="amin")
        hits = ((badness == lowest[ask.row]) & (badness < self.value[ask.row])).nonzero()[:, 0].flip(0)
        if len(hits) == 0:
            return
        rows = ask.row[hits]
        if self.element is None or self.after is None:
            self.element = torch.zeros(len(self.value), ask.element.shape[1], dtype=ask.element.dtype)
            self.after = torch.zeros(len(self.value), *after.shape[1:], dtype=after.dtype, device=after.device)
        unique = torch.full((len(self.value),), -1, dtype=torch.long).scatter_(0, rows, hits)
        rows = (unique >= 0).nonzero()[:, 0]
        hits = unique[rows]
        self.value[rows], self.draw[rows], self.element[rows] = badness[hits], ask.draw[hits], ask.element[hits]
        self.after[rows.to(after.device)] = after[hits.to(after.device)]

    def rows(self) -> Tensor:
        """The few samples with the worst values, worst first."""
        order = self.value.argsort(stable=True)[:KEEP]
        return order[self.value[order].isfinite()]
