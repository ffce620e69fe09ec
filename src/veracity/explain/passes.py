"""Model passes in full batches: over rows, and over (row, item) pairs such as (input, noise draw)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

Structure = tuple[Tensor, ...]

RowFunction = Callable[[Tensor, Tensor, Structure], Tensor]
"""From inputs, targets and structure of R rows to values (R, ...)."""

Terms = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From rows (R,) and items (R,) to points (R, ...) and the weights of the gradients at these points."""


def pick(scores: Tensor, targets: Tensor) -> Tensor:
    """The score that each row's target names: (R, K), (R,) -> (R,).

    >>> pick(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 0]))
    tensor([2., 3.])
    """
    return scores.gather(1, targets.to(scores.device).reshape(-1, 1).expand(len(scores), 1)).squeeze(1)


def select(structure: Structure, rows: Tensor | slice) -> Structure:
    """The structure of some rows."""
    return tuple(part[rows] for part in structure)


def scores(model: nn.Module, points: Tensor, targets: Tensor, structure: Structure = ()) -> Tensor:
    """The target's score at each point, (R,), without a graph."""
    with torch.no_grad():
        return pick(model(points, *structure), targets)


def gradients(model: nn.Module, points: Tensor, targets: Tensor, structure: Structure = ()) -> Tensor:
    """The gradient of each point's score in that point, (R, ...). The parameters' own gradients stay untouched."""
    leaf = points.detach().requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(pick(model(leaf.clone(), *structure), targets).sum(), leaf)
    return gradient


def in_batches(function: RowFunction, inputs: Tensor, targets: Tensor, rows: int, structure: Structure = ()) -> Tensor:
    """`function(inputs, targets, structure)` on at most `rows` rows at a time, concatenated."""
    parts = [slice(low, low + rows) for low in range(0, len(inputs), rows)]
    return torch.cat([function(inputs[part], targets[part], select(structure, part)) for part in parts])


def pairs(rows: int, items: int, batch: int, device: torch.device | str = "cpu") -> Iterator[tuple[Tensor, Tensor]]:
    """Every (row, item) once, at most `batch` at a time, items outermost: two index tensors (R,).

    >>> [(row.tolist(), item.tolist()) for row, item in pairs(2, 2, 3)]
    [([0, 1, 0], [0, 0, 1]), ([1], [1])]
    """
    for low in range(0, rows * items, batch):
        index = torch.arange(low, min(low + batch, rows * items), device=device)
        yield index % rows, index // rows


def sum_over_items(term: Callable[[Tensor, Tensor], Tensor], like: Tensor, items: int, batch: int) -> Tensor:
    """The sum over items of `term(row, item)`, (R, ...), for each row of `like`: (N, ...), in float32 or wider.

    Terms are added in a fixed order: a GPU's index_add_ does not keep one, and its sums change from run to run.
    """
    wide = torch.promote_types(like.dtype, torch.float32)
    count, total, start = len(like), torch.zeros_like(like, dtype=wide), 0
    for row, item in pairs(count, items, batch, like.device):
        found = term(row, item).to(wide)
        while len(found):
            whole = len(found) // count * count if start == 0 else 0
            size = whole or min(count - start, len(found))
            if whole:
                total += found[:size].reshape(-1, *like.shape).sum(0)
            else:
                total[start : start + size] += found[:size]
            found, start = found[size:], (start + size) % count
    return total


def mean_over_items(term: Callable[[Tensor, Tensor], Tensor], like: Tensor, items: int, batch: int) -> Tensor:
    """The mean over items of `term(row, item)`, (R, ...), for each row of `like`: (N, ...)."""
    return sum_over_items(term, like, items, batch) / items


def value_table(term: Callable[[Tensor, Tensor], Tensor], rows: int, items: int, batch: int, device: torch.device) -> Tensor:
    """The values of `term(row, item)`, (R,), as one table (rows, items)."""
    values = [term(row, item) for row, item in pairs(rows, items, batch, device)]
    return torch.cat(values).reshape(items, rows).T


@contextmanager
def hooks(handles: Iterable[RemovableHandle]) -> Iterator[None]:
    """Hooks on modules, removed at the end."""
    with ExitStack() as stack:
        for handle in handles:
            stack.callback(handle.remove)
        yield
