"""Copies of a model with other weights: made from their numbers a few at a time, the original never touched."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from veracity.core.spaces import WeightSpace
from veracity.perturb.weights.copies import stack

BYTES = 64 << 20
ROWS = 2048

Pairs = Sequence[tuple[int, int]]
"""Copies, each as (draw, level)."""


class Copies:
    """A scratch copy of a model that takes on the weights of any element of a weight space."""

    def __init__(self, model: nn.Module, seed: int) -> None:
        self.model, self.seed = model, seed
        self.scratch = deepcopy(model)
        self.own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        self.held = {**dict(self.scratch.named_parameters()), **dict(self.scratch.named_buffers())}
        self.changed: set[str] = set()

    def at_once(self, x: Tensor) -> int:
        """How many copies are made, and observed on these samples, at once: weights, rows and explanations are bounded.

        An explanation is as large as its input, and is compared in twice the precision, with what it came from.
        """
        size = sum(value.nbytes for value in self.own.values())
        return max(1, min(BYTES // max(size, 1), ROWS // max(len(x), 1), BYTES // max(6 * x.nbytes, 1)))

    @torch.no_grad()
    def weights(self, space: WeightSpace, pairs: Pairs) -> dict[str, Tensor]:
        """What the copies' parameters and buffers become, by name, each (copies, ...)."""
        return stack(space, self.model, pairs, self.seed)

    @torch.no_grad()
    def become(self, weights: dict[str, Tensor], number: int) -> nn.Module:
        """The scratch copy with the weights of one of the copies; what they leave alone is the model's own."""
        for name in self.changed - set(weights):
            self.held[name].copy_(self.own[name])
        for name, values in weights.items():
            self.held[name].copy_(values[number])
        self.changed = set(weights)
        return self.scratch
