"""PartitionSHAP: Owen values on a balanced binary tree over the features, all inputs at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Size, Tensor, nn

from veracity.core.explainers import Context, Cost
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Within
from veracity.explain.masking import Patched, baseline_row, masked_scores
from veracity.explain.passes import select

ENDS = 2  # the evaluations of the input and of the baseline
PER_SPLIT = 2  # the evaluations of one split
CHILDREN = 4  # the nodes that a split makes
AHEAD = {"cuda": 32}
"""How many nodes of an input are evaluated at once on a kind of device, where starting a call takes most of its time; elsewhere one."""

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]
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
    features. Values always add up to f(x) - f(baseline).

    On a GPU, which small calls leave idle, up to 32 nodes of an input that will probably be split are evaluated at once. Splits and values
    stay the same. `evaluations` counts those of nodes that are split; at most 31 more nodes per input are evaluated in vain.

    In a text a feature is a token or word, in a vector a number, in an image a
    square patch, row by row.
    """

    name = "partition_shap"
    reference = "Owen 1977; Lundberg and Lee 2017, arXiv:1705.07874; shap's PartitionExplainer"
    evaluations: Annotated[int, Within(least=4)] = 500

    def cost(self, shape: Size) -> Cost:
        """Two passes per split, one for the input and one for the baseline; without nodes that a GPU evaluates in vain."""
        return Cost(forward=ENDS + PER_SPLIT * min(splits(self.count(shape)), (self.evaluations - ENDS) // PER_SPLIT))

    def rows_at_once(self, shape: Size) -> int:
        """The evaluations of one split: which node is split next depends on them, and more are made at once only if there is room."""
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
        ahead = max(1, min(AHEAD.get(inputs.device.type, 1), context.batch // (PER_SPLIT * max(1, len(inputs)))))
        return self.spread(owen_values(score, counts, features, self.evaluations, ahead), index, inputs)


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

    @classmethod
    def join(cls, parts: Sequence[Nodes]) -> Nodes:
        """The nodes of all parts."""
        return cls(*(torch.cat([getattr(part, item.name) for part in parts]) for item in fields(cls)))

    def __len__(self) -> int:
        return len(self.row)

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
        return Nodes.join(
            [
                Nodes(self.row, self.low, self.middle, self.context, self.without, first, weight),
                Nodes(self.row, self.middle, self.high, self.context, self.without, second, weight),
                Nodes(self.row, self.low, self.middle, other, second, self.within, weight),
                Nodes(self.row, self.middle, self.high, one, first, self.within, weight),
            ]
        )

    def evaluated(self, score: Scores) -> Tensor:
        """The scores (2, K) with the first half of the features, and with the second."""
        return score(self.row.repeat(PER_SPLIT), torch.cat(self.halves())).reshape(PER_SPLIT, -1)


def within(low: Tensor, high: Tensor, features: int) -> Tensor:
    """Which of M features lie from `low` to `high`, (K, M).

    >>> within(torch.tensor([1]), torch.tensor([3]), 4)
    tensor([[False,  True,  True, False]])
    """
    place = torch.arange(features)
    return (place >= low[:, None]) & (place < high[:, None])


def owen_values(score: Scores, counts: Tensor, features: int, evaluations: int, ahead: int = 1) -> Tensor:
    """Owen values (N, M) of the first counts (N,) features of N inputs; the next splits of all inputs are evaluated together.

    Up to `ahead` nodes of an input are evaluated at once. At most `ahead` - 1 of them are not split in the end; values do not depend on it.

    >>> game = torch.tensor([1.0, 2.0, 4.0]).double()
    >>> owen_values(lambda rows, masks: masks.double() @ game, torch.tensor([3, 2]), 3, 500)
    tensor([[1., 2., 4.],
            [1., 2., 0.]], dtype=torch.float64)
    """
    rows, zero = torch.arange(len(counts)), torch.zeros_like(counts)
    nothing, everything = torch.zeros(len(counts), features, dtype=torch.bool), within(zero, counts, features)
    ends = score(rows.repeat(ENDS), torch.cat((nothing, everything))).reshape(ENDS, -1)
    nodes = Nodes(rows, zero, counts, nothing, ends[0], ends[1], torch.ones_like(ends[0]))
    values, budget = torch.zeros(len(counts), features, dtype=torch.float64), (evaluations - ENDS) // PER_SPLIT
    whole = torch.tensor([splits(size) for size in range(features + 1)])[counts] <= budget
    split_all(score, nodes[whole], values)
    if not bool(whole.all()):
        split_best(score, nodes[~whole], values, budget, ahead)
    return values


def split_all(score: Scores, nodes: Nodes, values: Tensor) -> None:
    """Split all nodes, their halves, and so on, and add what the leaves are worth to the values (N, M)."""
    while len(nodes):
        leaf = nodes.size <= 1
        ends, nodes = nodes[leaf], nodes[~leaf]
        share_out(values, ends.row, ends.low, ends.high, ends.value)
        if len(nodes):
            nodes = nodes.split(*nodes.evaluated(score))


def split_best(score: Scores, roots: Nodes, values: Tensor, budget: int, ahead: int) -> None:
    """Split the node of the largest value of each input, the oldest of equal ones, `budget` times; and add to the values (N, M)."""
    trees = Trees(roots, budget, ahead)
    while len(which := trees.wanted()):
        trees.evaluate(score, which)
        while trees.split():
            pass
    trees.share_out(values)


class Trees:
    """The nodes of N inputs in rows of a table (N, slots): the root, then four nodes per split, in the order of splits.

    At most `ahead` nodes of an input are evaluated and not split yet: the one that is split next, and those that may follow. Steps are few
    and small, which NumPy does faster than torch.
    """

    def __init__(self, roots: Nodes, budget: int, ahead: int) -> None:
        self.budget, self.ahead, self.features, rows, slots = budget, ahead, roots.context.shape[1], len(roots), 1 + CHILDREN * budget
        self.row, self.root = roots.row.numpy(), np.arange(rows) * slots
        self.low, self.high, self.parent = (np.zeros(rows * slots, dtype=np.int64) for _ in range(3))
        self.without, self.within, self.weight, self.first, self.second = (np.zeros(rows * slots) for _ in range(5))
        self.context = np.zeros((rows * slots, self.features), dtype=bool)  # of evaluated nodes
        self.known, self.gone = np.zeros(rows * slots, dtype=bool), np.zeros(rows * slots, dtype=bool)
        self.rank = np.full((rows, slots), -1.0)  # of nodes that may be split: the largest one comes first
        self.done = np.zeros(rows, dtype=np.int64)
        self.put(self.root, roots.low.numpy(), roots.high.numpy(), roots.without.numpy(), roots.within.numpy(), roots.weight.numpy())
        self.parent[self.root] = self.root

    def put(self, where: Indices, low: Indices, high: Indices, without: Floats, within: Floats, weight: Floats) -> None:
        """Write new nodes to these places."""
        self.low[where], self.high[where] = low, high
        self.without[where], self.within[where], self.weight[where] = without, within, weight
        size = np.abs(weight * (within - without))
        self.rank.reshape(-1)[where] = np.where(high - low > 1, np.where(np.isnan(size), np.inf, size), -1.0)

    def middle(self, which: Indices) -> Indices:
        """Where the second half of some nodes begins."""
        found: Indices = self.low[which] + (self.high[which] - self.low[which] + 1) // 2
        return found

    def best(self) -> Indices:
        """The node (N,) that each input splits next, the oldest of equal ones."""
        found: Indices = self.root + self.rank[:, : 1 + CHILDREN * int(self.done.max())].argmax(1)
        return found

    def wanted(self) -> Indices:
        """The nodes to evaluate now, as far as an input has splits left: the best one, and those that come next by their rank."""
        left = self.budget - self.done
        waiting = (self.known & ~self.gone).reshape(self.rank.shape).sum(1)
        rank = np.minimum(self.rank, np.finfo(float).max)
        rank.reshape(-1)[self.best()] = np.inf  # before equal ones
        values, places = (part.numpy() for part in torch.from_numpy(rank).topk(min(2 * self.ahead, rank.shape[1]), dim=1))
        nodes = self.root[:, None] + places
        chosen = (values >= 0) & (np.arange(values.shape[1]) < left[:, None]) & ~self.known[nodes]  # no others can be split in the end
        found: Indices = nodes[chosen & (chosen.cumsum(1) <= np.maximum(self.ahead - waiting, 1)[:, None])]
        return found

    def evaluate(self, score: Scores, which: Indices) -> None:
        """Score some nodes with one half of their features."""
        rows, slot = which // self.rank.shape[1], which % self.rank.shape[1]
        parent, kind = self.parent[which], (slot - 1) % CHILDREN
        middle = self.middle(parent)
        low = np.where(kind == 2, middle, self.low[parent])
        high = np.where(kind == 2, self.high[parent], middle)
        beside = span(low, np.where((slot > 0) & (kind >= 2), high, low), self.features)
        context = self.context[which] = self.context[parent] | beside
        middle = self.middle(which)
        halves = context | span(self.low[which], middle, self.features), context | span(middle, self.high[which], self.features)
        found = score(torch.from_numpy(self.row[rows]).repeat(PER_SPLIT), torch.from_numpy(np.concatenate(halves)))
        self.first[which], self.second[which] = found.reshape(PER_SPLIT, -1).numpy()
        self.known[which] = True

    def split(self) -> bool:
        """Split the best node of every input that has splits left and whose best node is evaluated; False if there is none."""
        best = self.best()
        ready = self.known[best] & (self.done < self.budget)
        now = best[ready]
        if not len(now):
            return False
        where = (self.root + CHILDREN * self.done + 1)[ready] + np.arange(CHILDREN)[:, None]
        low, middle, high = self.low[now], self.middle(now), self.high[now]
        without, within, first, second = self.without[now], self.within[now], self.first[now], self.second[now]
        self.rank.reshape(-1)[now], self.gone[now], self.parent[where] = -1.0, True, now
        edges = np.stack((low, middle, low, middle)), np.stack((middle, high, middle, high))
        scores = np.stack((without, without, second, first)), np.stack((first, second, within, within))
        self.put(where, *edges, *scores, np.broadcast_to(self.weight[now] / 2, where.shape))
        self.done += ready
        return True

    def share_out(self, values: Tensor) -> None:
        """Add what the nodes that were not split are worth: leaves, then the others, each in the order of splits."""
        rest = np.flatnonzero(~self.gone)
        rest = rest[np.argsort(self.high[rest] - self.low[rest] > 1, kind="stable")]
        rows, worth = self.row[rest // self.rank.shape[1]], self.weight[rest] * (self.within[rest] - self.without[rest])
        share_out(values, *map(torch.from_numpy, (rows, self.low[rest], self.high[rest], worth)))


def span(low: Indices, high: Indices, features: int) -> NDArray[np.bool_]:
    """The same as `within`."""
    place = np.arange(features)
    found: NDArray[np.bool_] = (place >= low[:, None]) & (place < high[:, None])
    return found


def share_out(values: Tensor, row: Tensor, low: Tensor, high: Tensor, worth: Tensor) -> None:
    """Add what nodes (K,) are worth to the values (N, M) of their features, in equal parts; NaN and infinity reach all of them."""
    size = high - low
    share, start = worth / size.clamp(min=1), size.cumsum(0) - size
    place = torch.arange(int(size.sum())) + (row * values.shape[1] + low - start).repeat_interleave(size)
    values.view(-1).index_add_(0, place, share.repeat_interleave(size))  # in the order of nodes
    strange = ~share.isfinite()
    values.index_add_(0, row[strange], torch.zeros(values.shape[1], dtype=values.dtype) * worth[strange, None])
