"""A data set whole: both of its splits, for cross-training, which makes its own."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def whole(load: Callable[[str], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The training split and then the test split of a loader, such as `whole(cifar10)`: inputs (N, ...) and labels (N,).

    >>> from veracity.demo import digits
    >>> images, labels = whole(digits)
    >>> images.shape, labels.bincount().sum()
    (torch.Size([1797, 1, 14, 14]), tensor(1797))
    """
    parts = [load(split) for split in ("train", "test")]
    inputs, labels = (torch.cat(part) for part in zip(*parts, strict=True))
    return inputs, labels
