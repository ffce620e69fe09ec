"""Distances by rank: how differently two explanations order what they explain with."""

from __future__ import annotations

from torch import Tensor

from veracity.core.measures import Direction, measure
from veracity.measure.rank import spearman


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
