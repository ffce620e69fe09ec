"""How concentrated an explanation is, per sample: from its magnitudes or from the histogram of its values."""

from __future__ import annotations

import torch
from torch import Tensor

from veracity.core.errors import InputError, SpecError
from veracity.measure.rows import unit_scale


def complexity(e: Tensor) -> Tensor:
    """The entropy of the shares that features have in an explanation, in nats; a single feature has 0, n equal ones log n.

    -sum p log p with p = |e| / sum |e|, from (N, ...) to (N,). A zero map has no shares: NaN.

    >>> complexity(torch.tensor([[1.0, -1.0, 0.0, 2.0]]))
    tensor([1.0397], dtype=torch.float64)

    Reference: Bhatt, Weller and Moura, Evaluating and aggregating feature-based model explanations (IJCAI 2020).
    """
    size = unit_scale(as_rows(e).abs())
    return entropy(size / size.sum(dim=1, keepdim=True))


def sparseness(e: Tensor) -> Tensor:
    """The Gini index of an explanation's magnitudes: 0 if all are equal, 1 - 1/n if only one of n is not zero.

    sum_i (2 i - n - 1) a_i / (n sum a) over the magnitudes a = |e| in ascending order, i = 1 ... n; from (N, ...) to (N,). It
    does not depend on the map's scale. A zero map has no index: NaN.

    >>> sparseness(torch.tensor([[1.0, -1.0, 0.0, 2.0]]))
    tensor([0.3750], dtype=torch.float64)

    Reference: Chalasani et al., Concise explanations of neural networks using adversarial training (ICML 2020).
    """
    size = unit_scale(as_rows(e).abs()).sort(dim=1).values
    n = size.shape[1]
    weight = 2.0 * torch.arange(1, n + 1, dtype=size.dtype, device=size.device) - (n + 1)
    return (size * weight).sum(dim=1) / (n * size.sum(dim=1))


def discrete_entropy(e: Tensor, bins: int = 100) -> Tensor:
    """The entropy of the histogram of an explanation's values, in nats: from 0 for a constant map to log(bins).

    -sum p log p with p the share of values in each of `bins` equal bins from the sample's smallest to its largest value, each
    closed on the left, the last one on both sides; from (N, ...) to (N,). Values keep their sign. NaN if a value is not
    finite.

    >>> discrete_entropy(torch.tensor([[0.0, 0.1, 0.6, 1.0]]), bins=4)
    tensor([1.0397], dtype=torch.float64)

    Reference: Hedström et al., A fresh look at sanity checks for saliency maps (2024).
    """
    if bins < 1:
        raise SpecError(f"A histogram needs at least one bin, not {bins}.")
    x = as_rows(e)
    low, high = x.amin(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)
    step = torch.arange(1, bins, dtype=x.dtype, device=x.device)
    place = torch.searchsorted(low + step * ((high - low) / bins), x, right=True)
    place = place.where(high > low, 0)
    counts = torch.zeros(len(x), bins, dtype=x.dtype, device=x.device).scatter_add_(1, place, torch.ones_like(x))
    return entropy(counts / x.shape[1]).masked_fill(~x.isfinite().all(dim=1), float("nan"))


def entropy(shares: Tensor) -> Tensor:
    """-sum p log p of shares (N, n), with 0 log 0 = 0."""
    terms: Tensor = torch.special.entr(shares)
    return terms.sum(dim=1)


def as_rows(e: Tensor) -> Tensor:
    """Explanations (N, ...) as float64 rows (N, n); raises if they are empty."""
    if e.ndim < 2 or e.shape[1:].numel() == 0:
        raise InputError(f"Explanations must have the shape (samples, ...) with at least one entry per sample, not {tuple(e.shape)}.")
    return e.double().flatten(1)
