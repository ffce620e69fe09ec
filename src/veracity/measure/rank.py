"""Ranks, with ties counted exactly, and the correlation of ranks.

Distances by rank: how differently two explanations order what they explain with.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from veracity.core.measures import Direction, measure
from veracity.measure.rows import alike

CHUNK, LARGE = 2**18, 2**24
"""Entries that are ranked at once: few on a CPU, so that their copies stay in its cache; many elsewhere."""
SHORT = (torch.float16, torch.bfloat16, torch.float32)


def average_ranks(x: Tensor) -> Tensor:
    """The rank of every entry in its row, from 1; tied entries share the mean of the ranks that they take up together.

    From (N, D) to float64 (N, D). Rows with NaN have no ranks that mean anything.

    >>> average_ranks(torch.tensor([[0.5, 0.1, 0.5, 0.9]]))
    tensor([[2.5000, 1.0000, 2.5000, 4.0000]], dtype=torch.float64)
    """
    return (doubled_ranks(x) + (x.shape[1] + 1)) / 2.0


@measure("spearman", direction=Direction.HIGHER, range=(-1.0, 1.0), reference="Spearman 1904")
def spearman(a: Tensor, b: Tensor) -> Tensor:
    """The correlation of the entries' ranks, with ties counted exactly.

    rho(a, b) = r(rank a, rank b) with average ranks, from (N, ...) and (N, ...) to (N,). A constant explanation ranks
    nothing: NaN. Sums are of whole numbers, and exact up to 200,000 entries: a pair has one value, to the last digit, in
    whatever batch it stands.

    >>> spearman(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[1.0, 3.0, 2.0, 9.0]]))
    tensor([0.8000], dtype=torch.float64)
    """
    a, b = (x.flatten(1) for x in alike(a, b))
    some = max(1, (CHUNK if a.device.type == "cpu" else LARGE) // a.shape[1])
    return torch.cat([rho(first, second) for first, second in zip(a.split(some), b.split(some), strict=True)])


def rho(a: Tensor, b: Tensor) -> Tensor:
    """The correlation of ranks of rows (N, D) and (N, D), all at once."""
    undefined = a.isnan().any(dim=1) | b.isnan().any(dim=1)
    u, v = doubled_ranks(a), doubled_ranks(b)
    lengths = (torch.linalg.vecdot(u, u) * torch.linalg.vecdot(v, v)).sqrt()
    found: Tensor = torch.linalg.vecdot(u, v) / lengths
    return found.clamp(-1.0, 1.0).masked_fill(undefined, float("nan"))


def doubled_ranks(x: Tensor) -> Tensor:
    """Twice the distance of every entry's average rank from the row's mean rank: whole numbers (N, D) as float64.

    2 rank - (D + 1), so that each row sums to zero.
    """
    entries, order = in_order(x)
    width = x.shape[1]
    fresh = torch.ones(x.shape, dtype=torch.bool, device=x.device)
    torch.ne(entries[:, 1:], entries[:, :-1], out=fresh[:, 1:])
    place = torch.arange(width, dtype=torch.int32, device=x.device).expand(x.shape)
    if bool(fresh.all()):
        shared = 2 * place + (1 - width)
    else:
        final = torch.ones_like(fresh)
        final[:, :-1] = fresh[:, 1:]
        first = place.where(fresh, 0).cummax(dim=1).values
        last = place.where(final, width - 1).flip(1).cummin(dim=1).values.flip(1)
        shared = first + last + (1 - width)
    return torch.empty(x.shape, dtype=torch.float64, device=x.device).scatter_(1, order, shared.double())


def in_order(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (N, D) in rising order, or numbers that tie and rise as they do, and the places they come from.

    Of short floats on a CPU, value and place are sorted as one whole number, which NumPy does faster than torch sorts pairs.
    """
    if x.device.type != "cpu" or x.dtype not in SHORT:
        found = x.sort(dim=1)
        return found.values, found.indices
    bits = (x.detach().float() + 0.0).numpy().view(np.int32)
    keys = (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)
    keys <<= 32
    keys |= np.arange(x.shape[1])
    keys.sort(axis=1)
    both = torch.from_numpy(keys)
    return both >> 32, both & 0xFFFFFFFF


@measure("rank_distance", direction=Direction.LOWER, range=(0.0, 1.0), reference="Fel et al. 2022, section 4.1")
def rank_distance(a: Tensor, b: Tensor) -> Tensor:
    """One minus the magnitude of Spearman's rank correlation, which calls an inverted map equal.

    1 - |rho(a, b)|, from (N, ...) and (N, ...) to (N,). A constant explanation ranks nothing: NaN.

    >>> import torch
    >>> a = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    >>> rank_distance(a, torch.tensor([[1.0, 3.0, 2.0, 9.0]])), rank_distance(a, -a)
    (tensor([0.2000], dtype=torch.float64), tensor([0.], dtype=torch.float64))
    """
    return 1.0 - spearman(a, b).abs()


@measure("signed_rank_distance", direction=Direction.LOWER, range=(0.0, 2.0), reference="Spearman 1904")
def signed_rank_distance(a: Tensor, b: Tensor) -> Tensor:
    """One minus Spearman's rank correlation, which is furthest for an inverted map.

    1 - rho(a, b), from (N, ...) and (N, ...) to (N,). A constant explanation ranks nothing: NaN.

    >>> import torch
    >>> a = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    >>> signed_rank_distance(a, -a)
    tensor([2.], dtype=torch.float64)
    """
    return 1.0 - spearman(a, b)


@measure("root_rank_distance", direction=Direction.LOWER, range=(0.0, 1.0), reference="Fel et al. 2022, as public code has it")
def root_rank_distance(a: Tensor, b: Tensor) -> Tensor:
    """The root of one minus the magnitude of Spearman's rank correlation, which tells near maps apart more than far ones.

    sqrt(1 - |rho(a, b)|), from (N, ...) and (N, ...) to (N,). A constant explanation ranks nothing: NaN.

    >>> import torch
    >>> root_rank_distance(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[1.0, 3.0, 2.0, 9.0]]))
    tensor([0.4472], dtype=torch.float64)
    """
    return rank_distance(a, b).sqrt()
