"""Ranks with exact ties, Spearman's rank correlation, and distances made of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import torch
from torch import Tensor

from veracity.core.measures import Direction, measure
from veracity.measure.rows import check_pair

CPU_ENTRIES, GPU_ENTRIES = 2**18, 2**24
"""Entries that are ranked at once. Few on a CPU, so their copies stay in its cache."""
SHORT_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def average_ranks(x: Tensor) -> Tensor:
    """The rank of every entry in its row, from 1; tied entries share the mean of their ranks.

    From (N, D) to float64 (N, D). The ranks of rows with NaN are meaningless.

    >>> average_ranks(torch.tensor([[0.5, 0.1, 0.5, 0.9]]))
    tensor([[2.5000, 1.0000, 2.5000, 4.0000]], dtype=torch.float64)
    """
    return (doubled_ranks(x) + (x.shape[1] + 1)) / 2.0


@measure("spearman", direction=Direction.HIGHER, range=(-1.0, 1.0), reference="Spearman 1904")
def spearman(a: Tensor, b: Tensor) -> Tensor:
    """The correlation of the entries' ranks, with exact ties.

    rho(a, b) = r(rank a, rank b) with average ranks, from (N, ...) and (N, ...) to (N,). A constant explanation has no
    ranks: NaN. Sums are of whole numbers and exact up to 200,000 entries, so a pair's value does not depend on its batch.

    >>> spearman(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[1.0, 3.0, 2.0, 9.0]]))
    tensor([0.8000], dtype=torch.float64)
    """
    check_pair(a, b)
    known = [known_ranks(a), known_ranks(b)]
    found: list[Tensor] = []
    for part in chunks(a):
        u, v = (ranks_of_rows(x[part]) if ranks is None else ranks[part] for x, ranks in zip((a, b), known, strict=True))
        lengths = (torch.linalg.vecdot(u, u) * torch.linalg.vecdot(v, v)).sqrt()
        correlation: Tensor = torch.linalg.vecdot(u, v) / lengths
        found.append(correlation.clamp(-1.0, 1.0))
    return torch.cat(found) if found else a.new_zeros(0, dtype=torch.float64)


def chunks(x: Tensor) -> list[slice]:
    """Rows of (N, ...) that are ranked at once."""
    count = max(1, (CPU_ENTRIES if x.device.type == "cpu" else GPU_ENTRIES) // max(1, x[:1].numel()))
    return [slice(start, start + count) for start in range(0, len(x), count)]


class FixedMaps:
    """Maps (N, ...) that are compared with many others, and their ranks once they are known."""

    def __init__(self, maps: Tensor) -> None:
        self.maps, self.ranks = maps, None if 8 * maps.numel() > MOST_BYTES else torch.empty(0)

    def known(self) -> Tensor | None:
        """The ranks (N, D); None if they would take too much memory."""
        if self.ranks is not None and len(self.ranks) < len(self.maps):
            self.ranks = torch.cat([ranks_of_rows(self.maps[part]) for part in chunks(self.maps)])
        return self.ranks


FIXED: ContextVar[FixedMaps | None] = ContextVar("fixed", default=None)
MOST_BYTES = 1 << 30
"""The most bytes of ranks that are kept."""


@contextmanager
def ranked_once(maps: Tensor | None) -> Iterator[None]:
    """Rank these maps at most once within this block, in which nobody may write into them."""
    token = FIXED.set(None if maps is None else FixedMaps(maps))
    try:
        yield
    finally:
        FIXED.reset(token)


def known_ranks(x: Tensor) -> Tensor | None:
    """The ranks (N, D) of maps that are ranked once; None for all others."""
    fixed = FIXED.get()
    return fixed.known() if fixed is not None and fixed.maps is x and len(x) else None


def ranks_of_rows(x: Tensor) -> Tensor:
    """The doubled ranks of (N, ...) as (N, D); the first one is NaN in a row that holds NaN, so that its sums are NaN."""
    flat = x.flatten(1)
    ranks = doubled_ranks(flat)
    if flat.numel():
        ranks[:, 0] = torch.where(flat.amax(dim=1).isnan(), torch.nan, ranks[:, 0])
    return ranks


def doubled_ranks(x: Tensor) -> Tensor:
    """Twice the distance of every entry's average rank from the row's mean rank: whole numbers (N, D) as float64.

    2 rank - (D + 1), so each row sums to zero.
    """
    entries, order = sort_rows(x)
    width = x.shape[1]
    first_of_tie = torch.ones(x.shape, dtype=torch.bool, device=x.device)
    torch.ne(entries[:, 1:], entries[:, :-1], out=first_of_tie[:, 1:])
    place = torch.arange(width, dtype=torch.int32, device=x.device).expand(x.shape)
    if x.device.type == "cpu" and bool(first_of_tie.all()):  # elsewhere the CPU would wait for the answer
        shared = 2 * place + (1 - width)
    else:
        last_of_tie = torch.ones_like(first_of_tie)
        last_of_tie[:, :-1] = first_of_tie[:, 1:]
        first = place.where(first_of_tie, 0).cummax(dim=1).values
        last = place.where(last_of_tie, width - 1).flip(1).cummin(dim=1).values.flip(1)
        shared = first + last + (1 - width)
    return torch.empty(x.shape, dtype=torch.float64, device=x.device).scatter_(1, order, shared.double())


def sorted_rows(x: Tensor) -> Tensor:
    """Rows (N, D) in ascending order, NaN last; NumPy sorts numbers without their positions several times as fast as torch.

    >>> sorted_rows(torch.tensor([[0.5, 0.1, 0.9]]))
    tensor([[0.1000, 0.5000, 0.9000]])
    """
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        return x.sort(dim=1).values
    return torch.from_numpy(np.sort(x.detach().numpy(), axis=1))


def sort_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (N, D) in ascending order, or whole numbers with the same order and ties, and the positions they come from.

    For short floats on a CPU, value and position are sorted as one whole number: NumPy does that faster than torch sorts pairs.
    """
    if x.device.type != "cpu" or x.dtype not in SHORT_FLOATS:
        ordered = x.sort(dim=1)
        return ordered.values, ordered.indices
    bits = (x.detach().float() + 0.0).numpy().view(np.int32)
    keys = (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)
    keys <<= 32
    keys |= np.arange(x.shape[1])
    keys.sort(axis=1)
    both = torch.from_numpy(keys)
    return both >> 32, both & 0xFFFFFFFF


@measure("rank_distance", direction=Direction.LOWER, range=(0.0, 1.0), reference="Fel et al. 2022, section 4.1")
def rank_distance(a: Tensor, b: Tensor) -> Tensor:
    """One minus the magnitude of Spearman's rank correlation, for which an inverted map is equal.

    1 - |rho(a, b)|, from (N, ...) and (N, ...) to (N,). A constant explanation has no ranks: NaN.

    >>> a = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    >>> rank_distance(a, torch.tensor([[1.0, 3.0, 2.0, 9.0]])), rank_distance(a, -a)
    (tensor([0.2000], dtype=torch.float64), tensor([0.], dtype=torch.float64))
    """
    return 1.0 - spearman(a, b).abs()


@measure("signed_rank_distance", direction=Direction.LOWER, range=(0.0, 2.0), reference="Spearman 1904")
def signed_rank_distance(a: Tensor, b: Tensor) -> Tensor:
    """One minus Spearman's rank correlation, which is largest for an inverted map.

    1 - rho(a, b), from (N, ...) and (N, ...) to (N,). A constant explanation has no ranks: NaN.

    >>> a = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    >>> signed_rank_distance(a, -a)
    tensor([2.], dtype=torch.float64)
    """
    return 1.0 - spearman(a, b)


@measure("root_rank_distance", direction=Direction.LOWER, range=(0.0, 1.0), reference="Fel et al. 2022, as public code has it")
def root_rank_distance(a: Tensor, b: Tensor) -> Tensor:
    """The root of one minus the magnitude of Spearman's rank correlation, which spreads similar maps more than different ones.

    sqrt(1 - |rho(a, b)|), from (N, ...) and (N, ...) to (N,). A constant explanation has no ranks: NaN.

    >>> root_rank_distance(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[1.0, 3.0, 2.0, 9.0]]))
    tensor([0.4472], dtype=torch.float64)
    """
    return rank_distance(a, b).sqrt()
