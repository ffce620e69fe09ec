"""A validation part of the training data: which samples it holds, and when to stop because of it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from veracity.core.grouped import within
from veracity.core.inputs import Inputs


def held_out(labels: Tensor, share: float, seed: int) -> Tensor:
    """Which samples (N,) validate: about a share of every class, at least one of each, but never all of them.

    >>> held_out(torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 2]), share=0.25, seed=0).sum()
    tensor(2)
    """
    held = torch.zeros(len(labels), dtype=torch.bool)
    if share <= 0:
        return held
    here = labels.cpu()
    order = torch.randperm(len(here), generator=torch.Generator().manual_seed(seed))
    order = order[here[order].argsort(stable=True)]
    rank = torch.from_numpy(within(here[order].numpy()))
    count = here.bincount()
    wanted = torch.minimum((count * share).round().long().clamp(min=1), count - 1)
    held[order] = rank < wanted[here[order]]
    return held


@torch.no_grad()
def mean_loss(model: nn.Module, inputs: Inputs, labels: Tensor, rows: Tensor, batch: int = 500) -> float:
    """The mean cross-entropy over some samples, for a model in evaluation mode."""
    seen = inputs.adapt(model)
    total = 0.0
    for index in rows.to(labels.device).split(batch):
        outputs = inputs.take(index).to(labels.device).through(seen)
        total += float(cross_entropy(outputs.float(), labels[index], reduction="sum"))
    return total / len(rows)


class BestEpoch:
    """The weights of the epoch whose validation loss was lowest, and how many epochs ago it was.

    Epochs up to `after` do not count: early in a cycle the learning rate is high, and a loss that does not fall then says little.
    """

    def __init__(self, model: nn.Module, patience: int | None, after: int = 0) -> None:
        self.model, self.patience, self.after = model, patience, after
        self.loss, self.since = math.inf, 0
        self.state: dict[str, Tensor] = {}

    def hear(self, loss: float) -> bool:
        """Note one more epoch's validation loss; whether the patience is at its end."""
        self.after -= 1
        self.since += self.after < 0
        if loss < self.loss:
            self.loss, self.since = loss, 0
            self.state = {key: value.detach().clone() for key, value in self.model.state_dict().items()}
        return self.patience is not None and self.since >= self.patience

    def restore(self) -> None:
        """Give the model its best weights."""
        if self.state:
            self.model.load_state_dict(self.state)
