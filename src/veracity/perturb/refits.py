"""Refits: fitted estimators have no weights to perturb, so they are fitted again on training data that are worse and worse."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.models import unwrap
from veracity.core.randomness import Draws
from veracity.core.registry import SPACES
from veracity.core.settings import Count
from veracity.core.spaces import Space, check_level
from veracity.perturb.weights.copies import generator


@SPACES.add
@dataclass(frozen=True, kw_only=True)
class Refits(Space):
    """Copies of an estimator, fitted again while a growing share of the training rows is replaced: level z of Z replaces a share z / Z.

    A replaced row becomes a random row of the training set, drawn with replacement. With `shuffle` the labels of the replaced rows are
    also exchanged among them, so that at the last level rows say nothing about labels; without it the last level is a bootstrap sample.
    All levels of a copy replace rows in the same order, by the same rows: a copy is a path. A copy depends on (seed, draw, level)
    alone. Elements (N, 2) are the number of the copy and its level; all samples share the copies.

    >>> rows, labels = Refits(steps=2).data_of(0, 0, seed=0, labels=torch.tensor([0, 0, 1, 1]))
    >>> len(rows), int((rows != torch.arange(4)).sum()) <= 2
    (4, True)
    """

    name = "refits"
    nested = False
    latents = 0

    steps: Count = 5
    shuffle: bool = True
    data: str | None = field(default=None, metadata={"unset": True})

    @property
    def levels(self) -> int:
        """Z."""
        return self.steps

    def decode(self, latent: Tensor) -> Tensor:
        """Empty elements (N, 0), because the walk numbers the copies."""
        return torch.zeros(len(latent), 0, dtype=torch.int64, device=latent.device)

    def sample(self, draws: Draws) -> Tensor:
        """The numbers of the copies, (N, 1)."""
        return draws.draw.reshape(-1, 1).long()

    def at(self, elements: Tensor, level: Tensor) -> Tensor:
        """The numbers of the copies with their levels, (N, 2)."""
        return torch.cat((elements, level.reshape(-1, 1).to(elements)), dim=1)

    def of(self, model: nn.Module, training: str | None) -> Self:
        """The space for a model and the hash of its training set; raises if the model cannot be fitted again."""
        estimator = getattr(unwrap(model), "estimator", None)
        if not callable(getattr(estimator, "fit", None)) or not callable(getattr(estimator, "get_params", None)):
            title = getattr(unwrap(model), "title", type(unwrap(model)).__name__)
            raise InputError(
                f"{title} is no estimator that can be fitted again: refits need one with fit(x, y), such as those of scikit-learn; "
                "for networks use fast_gef."
            )
        if training is None:
            raise InputError("Refits need the training set of the estimator: pass Audit(training=(x, y)).")
        return replace(self, data=training)

    def data_of(self, draw: int, level: int, seed: int, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The training rows (n,) of a copy, and their labels (n,). Every label that occurs keeps at least one row."""
        count, random = len(labels), generator("refits", seed, draw)
        order = torch.randperm(count, generator=random)
        other = torch.randint(count, (count,), generator=random)
        replaced = order[: max(1, round(count * (check_level(self, level) + 1) / self.steps))]
        rows = torch.arange(count)
        rows[replaced] = other[replaced]
        if not labels.is_floating_point():
            known, numbers = labels.unique(return_inverse=True)
            held = torch.bincount(numbers[rows], minlength=len(known))
            places = iter(replaced.tolist())
            for lost in (held == 0).nonzero()[:, 0].tolist():
                place = next(one for one in places if held[numbers[rows[one]]] > 1)  # it leaves its own label another row
                held[numbers[rows[place]]] -= 1
                rows[place] = int((numbers == lost).nonzero()[0])
                held[lost] += 1
        found = labels[rows]
        if self.shuffle:
            found = found.clone()
            found[replaced] = found[replaced[torch.randperm(len(replaced), generator=random)]]
        return rows, found


def refit(estimator: Any, x: Any, y: Any) -> Any:
    """A new estimator with the same settings, fitted to x and y; the given one stays as it is."""
    from sklearn.base import clone

    return clone(estimator).fit(x, y)
