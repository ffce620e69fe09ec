"""Model passes over (row, item) pairs: full batches, never more than fit, never one row at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil

import torch
from torch import Tensor, nn

Structure = tuple[Tensor, ...]

Terms = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From rows (R,) and items (R,) to points (R, ...) and the weights that multiply the gradients there."""


def pick(scores: Tensor, targets: Tensor) -> Tensor:
    """The score of each row that its target names: (R, K), (R,) -> (R,).

    >>> pick(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 0]))
    tensor([2., 3.])
    """
    return scores.gather(1, targets.to(scores.device).reshape(-1, 1).expand(len(scores), 1)).squeeze(1)


def at(structure: Structure, rows: Tensor | slice) -> Structure:
    """The structure of some rows."""
    return tuple(part[rows] for part in structure)


def scores(model: nn.Module, points: Tensor, targets: Tensor, structure: Structure = ()) -> Tensor:
    """The explained score of each point, (R,), without a graph."""
    with torch.no_grad():
        return pick(model(points, *structure), targets)


def gradients(model: nn.Module, points: Tensor, targets: Tensor, structure: Structure = ()) -> Tensor:
    """The gradient of each point's score in that point, (R, ...), leaving the parameters' own gradients alone."""
    leaf = points.detach().requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(pick(model(leaf.clone(), *structure), targets).sum(), leaf)
    return gradient


def pairs(rows: int, items: int, batch: int, device: torch.device | str = "cpu") -> Iterator[tuple[Tensor, Tensor]]:
    """Every (row, item) once, at most `batch` at a time, items outermost: two index tensors (R,).

    >>> [(row.tolist(), item.tolist()) for row, item in pairs(2, 2, 3)]
    [([0, 1, 0], [0, 0, 1]), ([1], [1])]
    """
    for low in range(0, rows * items, batch):
        index = torch.arange(low, min(low + batch, rows * items), device=device)
        yield index % rows, index // rows


def mean_of(term: Callable[[Tensor, Tensor], Tensor], like: Tensor, items: int, batch: int) -> Tensor:
    """The mean over items of `term(row, item)`, (R, ...), for each row of `like`: (N, ...)."""
    total = torch.zeros_like(like)
    for row, item in pairs(len(like), items, batch, like.device):
        total.index_add_(0, row, term(row, item))
    return total / items


def mean_gradient(model: nn.Module, x: Tensor, targets: Tensor, terms: Terms, items: int, batch: int, structure: Structure = ()) -> Tensor:
    """The mean over items of w ⊙ ∇f(p), with the points p and weights w of `terms`: (N, ...)."""

    def term(row: Tensor, item: Tensor) -> Tensor:
        points, weights = terms(row, item)
        return weights * gradients(model, points, targets[row], at(structure, row))

    return mean_of(term, x, items, batch)


def table_of(term: Callable[[Tensor, Tensor], Tensor], rows: int, items: int, batch: int, device: torch.device) -> Tensor:
    """All values of `term(row, item)`, (R,), as one table (rows, items)."""
    values = [term(row, item) for row, item in pairs(rows, items, batch, device)]
    return torch.cat(values).reshape(items, rows).T


def by_rows(
    function: Callable[[Tensor, Tensor, Structure], Tensor], inputs: Tensor, targets: Tensor, rows: int, structure: Structure = ()
) -> Tensor:
    """`function(inputs, targets, structure)` on at most `rows` rows at a time, put together again."""
    parts = [slice(low, low + rows) for low in range(0, len(inputs), rows)]
    return torch.cat([function(inputs[part], targets[part], at(structure, part)) for part in parts])


def tile(rows: int, items: int, batch: int) -> tuple[int, int]:
    """How many rows, and how many items of each, make the fewest calls of at most `batch` model rows.

    >>> tile(rows=32, items=50, batch=256), tile(rows=51, items=50, batch=100), tile(rows=5, items=50, batch=1)
    ((32, 8), (4, 25), (1, 1))
    """

    def calls(count: int) -> int:
        return ceil(rows / count) * ceil(items / min(items, batch // count))

    best = min(range(1, min(rows, batch) + 1), key=lambda count: (calls(count), -count))
    return best, min(items, batch // best)
