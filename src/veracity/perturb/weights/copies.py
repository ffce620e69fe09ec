"""Copies of a model with other weights, by name; the model itself is never touched."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from veracity.core.errors import InputError
from veracity.core.spaces import WeightSpace

Pairs = Sequence[tuple[int, int]]
"""The copies that are wanted, each as (draw, level)."""


@dataclass(frozen=True, kw_only=True)
class ModelCopies(WeightSpace, ABC):
    """Copies of a model that are made from (seed, draw, level) alone, many at a time.

    Parameters change, biases too; buffers, such as a batch normalisation's running means, stay unless a space names them.
    """

    @abstractmethod
    def copies(self, model: nn.Module, pairs: Pairs, seed: int) -> dict[str, Tensor]:
        """The parameters and buffers that any of the copies changes, by name, each stacked (copies, ...)."""

    def perturbed(self, model: nn.Module, draw: int, level: int, seed: int) -> dict[str, Tensor]:
        """The parameters of one copy by name."""
        return {name: values[0] for name, values in self.copies(model, [(draw, level)], seed).items()}


MOST_BYTES, MOST_ROWS = 64 << 20, 2048
"""The most bytes of weights or explanations, and the most rows, that copies observed together take."""


class ScratchModel:
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
        return max(1, min(MOST_BYTES // max(size, 1), MOST_ROWS // max(len(x), 1), MOST_BYTES // max(6 * x.nbytes, 1)))

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


def stack(space: WeightSpace, model: nn.Module, pairs: Pairs, seed: int) -> dict[str, Tensor]:
    """Several copies at once, for torch.func.functional_call under vmap: changed parameters by name, each (copies, ...).

    A parameter that only some copies change is there for all of them; one that none changes is left out.

    >>> from veracity.perturb import ParameterScaling
    >>> space = ParameterScaling(sigma=0.1, steps=2)
    >>> {name: tuple(value.shape) for name, value in stack(space, nn.Linear(3, 2), [(0, 0), (0, 1), (1, 0)], seed=0).items()}
    {'bias': (3, 2), 'weight': (3, 2, 3)}
    """
    if isinstance(space, ModelCopies):
        return space.copies(model, pairs, seed)
    return stacked(parameters_of(model), [space.perturbed(model, draw, level, seed) for draw, level in pairs])


def stacked(parameters: dict[str, Tensor], copies: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Copies that each name what they change, stacked; where one does not name a parameter, it is the model's own."""
    changed = [name for name in parameters if any(name in copy for copy in copies)]
    return {name: torch.stack([copy.get(name, parameters[name]) for copy in copies]) for name in changed}


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, without its gradient, in the order of the names; raises if there is none that could change."""
    found = dict(sorted(model.named_parameters()))
    for name, value in found.items():
        if is_lazy(value) or value.is_meta:
            what = "has no shape yet (a lazy layer)" if is_lazy(value) else "has no values (it is on the meta device)"
            raise InputError(f"The parameter '{name}' {what}, so that it cannot be perturbed: run the model once, or load its weights.")
    kept = {name: value.detach() for name, value in found.items() if value.is_floating_point() and value.numel() > 0}
    if not kept:
        raise InputError(
            f"The model {type(model).__name__} has no parameters, so that its weights cannot be perturbed: leave out the scores that "
            "do so, or pass a model whose weights are nn.Parameters."
        )
    return kept


def key(*parts: int | str) -> int:
    """A seed below 2^63 that belongs to these numbers and words, the same in every process.

    >>> key(0, 1, "noise") == key(0, 1, "noise"), key(0, 1, "noise") == key(0, 2, "noise")
    (True, False)
    """
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1


def generator(*parts: int | str) -> torch.Generator:
    """A generator of its own, on the CPU, for these numbers and words."""
    return torch.Generator().manual_seed(key(*parts))
