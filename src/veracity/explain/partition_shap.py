"""PartitionSHAP: Owen values on a balanced binary tree over the features, all inputs at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated

import torch
from torch import Size, Tensor, nn

from veracity.core.explainers import Context, Cost
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Within
from veracity.explain.masking import Patched, baseline_row, masked_scores
from veracity.explain.passes import select

ENDS = 2  # the evaluations of the input and of the baseline
PER_SPLIT = 2  # the evaluations of one split

Scores = Callable[[Tensor, Tensor], Tensor]
"""From rows (R,) and masks (R, M) to the scores of the masked rows, (R,) float64 on the CPU."""


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class PartitionShap(Patched):
    """Owen values of the features in the game v(S) = f(x with the features outside S at the baseline).

    The features, in their order, are the leaves of a balanced binary tree. The value of a leaf is its mean contribution over all
    orders in which the features of every node come one after the other. A node is split in two with the other half absent and
    present, by two evaluations; the node with the largest weighted value comes first. This ends when only leaves are left, or when
    `evaluations` are spent, two of them on the input and the baseline. A node that was not split shares its value equally among its
    features. Values always add up to f(x) - f(baseline). In a text a feature is a token or word, in a vector a number, in an image a
    square patch, row by row.
    """

    name = "partition_shap"
    reference = "Owen 1977; Lundberg and Lee 2017, arXiv:1705.07874; shap's PartitionExplainer"
    evaluations: Annotated[int, Within(least=4)] = 500

    def cost(self, shape: Size) -> Cost:
        """Two passes per split, one for the input and one for the baseline."""
        return Cost(forward=ENDS + PER_SPLIT * min(splits(self.count(shape)), (self.evaluations - ENDS) // PER_SPLIT))

    def rows_at_once(self, shape: Size) -> int:
        """The evaluations of one split: which node is split next depends on them."""
        return PER_SPLIT

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        index, baseline = self.index(inputs.shape[1:]), baseline_row(self.baseline, inputs)
        features = int(index.max()) + 1

        def score(rows: Tensor, masks: Tensor) -> Tensor:
            found = []
            for part in torch.arange(len(rows)).split(context.batch):
                own = rows[part].to(inputs.device)
                settings = (baseline, index, context.batch, masks[part, None], select(context.structure, own))
                found.append(masked_scores(model, inputs[own], targets[own], *settings)[:, 0])
            return torch.cat(found)

        counts = torch.full((len(inputs),), features) if context.present is None else context.present.flatten(1).sum(1).cpu()
        return self.spread(owen_values(score, counts, features, self.evaluations), index, inputs)


@cache
def splits(features: int) -> int:
    """How many splits it takes until there are only leaves: every half is split with the other half absent and present.

    >>> [splits(features) for features in (1, 2, 3, 4, 8)]
    [0, 1, 3, 5, 21]
    """
    if features <= 1:
        return 0
    half = -(-features // 2)
    return 1 + 2 * splits(half) + 2 * splits(features - half)


@dataclass(frozen=True)
class Nodes:
    """K nodes: the features from `low` to `high` of an input, beside a context (K, M), and the scores without and with them."""

    row: Tensor
    low: Tensor
    high: Tensor
    context: Tensor
    without: Tensor
    within: Tensor
    weight: Tensor

    def __getitem__(self, which: Tensor) -> Nodes:
        return Nodes(*(getattr(self, item.name)[which] for item in fields(self)))

    def __add__(self, other: Nodes) -> Nodes:
        return Nodes(*(torch.cat((getattr(self, item.name), getattr(other, item.name))) for item in fields(self)))

    @property
    def size(self) -> Tensor:
        """The number of features."""
        return self.high - self.low

    @property
    def middle(self) -> Tensor:
        """Where the second half begins; the first one is larger if the number of features is odd."""
        return self.low + (self.size + 1) // 2

    @property
    def value(self) -> Tensor:
        """The weighted difference that the features make."""
        return self.weight * (self.within - self.without)

    def beside(self, low: Tensor, high: Tensor) -> Tensor:
        """The contexts with some more features, (K, M)."""
        return self.context | within(low, high, self.context.shape[1])

    def halves(self) -> tuple[Tensor, Tensor]:
        """The contexts with the first half of the features, and with the second."""
        return self.beside(self.low, self.middle), self.beside(self.middle, self.high)

    def split(self, first: Tensor, second: Tensor) -> Nodes:
        """Every half with the other half absent and present; `first` and `second` (K,) are the scores with one half."""
        weight, (one, other) = self.weight / 2, self.halves()
        return (
            Nodes(self.row, self.low, self.middle, self.context, self.without, first, weight)
            + Nodes(self.row, self.middle, self.high, self.context, self.without, second, weight)
            + Nodes(self.row, self.low, self.middle, other, second, self.within, weight)
            + Nodes(self.row, self.middle, self.high, one, first, self.within, weight)
        )

    def next(self, left: Tensor, work: Tensor) -> Tensor:
        """Which nodes to split now, (K,), with left (N,) splits left: all nodes of an input if all that is below them can be split
        too (`work` is the number of splits by size), else the one with the largest value, the oldest of equal ones."""
        rows, size = len(left), self.value.abs().nan_to_num(nan=torch.inf)
        every = torch.zeros_like(left).index_add_(0, self.row, work[self.size]) <= left
        best = torch.zeros(rows, dtype=size.dtype).scatter_reduce_(0, self.row, size, "amax")
        number = torch.arange(len(size))
        largest = torch.where(size == best[self.row], number, len(size))
        oldest = torch.full((rows,), len(size)).scatter_reduce_(0, self.row, largest, "amin")
        return every[self.row] | ((number == oldest[self.row]) & (left > 0)[self.row])


def within(low: Tensor, high: Tensor, features: int) -> Tensor:
    """Which of M features lie from `low` to `high`, (K, M).

    >>> within(torch.tensor([1]), torch.tensor([3]), 4)
    tensor([[False,  True,  True, False]])
    """
    place = torch.arange(features)
    return (place >= low[:, None]) & (place < high[:, None])


def owen_values(score: Scores, counts: Tensor, features: int, evaluations: int) -> Tensor:
    """Owen values (N, M) of the first counts (N,) features of N inputs; the next splits of all inputs are evaluated together.

    >>> game = torch.tensor([1.0, 2.0, 4.0]).double()
    >>> owen_values(lambda rows, masks: masks.double() @ game, torch.tensor([3, 2]), 3, 500)
    tensor([[1., 2., 4.],
            [1., 2., 0.]], dtype=torch.float64)
    """
    rows, zero = torch.arange(len(counts)), torch.zeros_like(counts)
    nothing, everything = torch.zeros(len(counts), features, dtype=torch.bool), within(zero, counts, features)
    ends = score(rows.repeat(ENDS), torch.cat((nothing, everything))).reshape(ENDS, -1)
    nodes = Nodes(rows, zero, counts, nothing, ends[0], ends[1], torch.ones_like(ends[0]))
    values, left = torch.zeros(len(counts), features, dtype=torch.float64), torch.full_like(counts, (evaluations - ENDS) // PER_SPLIT)
    work = torch.tensor([splits(size) for size in range(features + 1)])
    while True:
        done = nodes.size <= 1
        share_out(values, nodes[done])
        nodes = nodes[~done]
        chosen = nodes.next(left, work)
        if not chosen.any():
            share_out(values, nodes)
            return values
        now, nodes = nodes[chosen], nodes[~chosen]
        left.index_add_(0, now.row, -torch.ones_like(now.row))
        found = score(now.row.repeat(PER_SPLIT), torch.cat(now.halves())).reshape(PER_SPLIT, -1)
        nodes = nodes + now.split(found[0], found[1])


def share_out(values: Tensor, nodes: Nodes) -> None:
    """Add the value of each node to those (N, M) of its features, in equal parts."""
    shares = within(nodes.low, nodes.high, values.shape[1]) * (nodes.value / nodes.size.clamp(min=1)).unsqueeze(1)
    values.index_add_(0, nodes.row, shares)
