"""Explanations on one scale, so that distances between them can be compared."""

from __future__ import annotations

from torch import Tensor


def normalised(e: Tensor) -> Tensor:
    """Each sample's explanation divided by the root of its mean square, so that the mean square is 1.

    e / sqrt(mean e^2), from (N, ...) to (N, ...); equation (21) of the GEF paper, over everything that belongs to the
    sample and nothing else. A zero map stays zero.

    >>> import torch
    >>> normalised(torch.tensor([[3.0, -3.0, 0.0, 0.0]]))
    tensor([[ 1.4142, -1.4142,  0.0000,  0.0000]])

    Reference: Binder et al., Shortcomings of top-down randomization-based sanity checks for evaluations of deep neural
    network explanations (CVPR 2023), appendix.
    """
    entries = e.reshape(len(e), -1)
    if entries.shape[1] == 0:
        return e
    largest = entries.abs().amax(dim=1, keepdim=True)
    entries = entries / largest.where(largest != 0, 1.0)
    root = entries.double().square().mean(dim=1, keepdim=True).sqrt().to(entries.dtype)
    return (entries / root.where(root != 0, 1.0)).reshape(e.shape)
