"""Wrong labels: a share of a training set's labels replaced by other classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from veracity.core.component import Component
from veracity.core.errors import InputError, SpecError
from veracity.perturb.weights.copies import generator


def wrong_labels(labels: Tensor, share: float, seed: int) -> Tensor:
    """Labels (N,) of which exactly round(share N) are wrong: another of the classes that occur, each as likely.

    Which labels are wrong, and what they become, belong to the seed: a larger share keeps the wrong labels of a smaller one
    and adds to them.

    >>> labels = torch.arange(4).repeat(5)
    >>> [int((wrong_labels(labels, share, seed=0) != labels).sum()) for share in (0.05, 0.10, 0.30)]
    [1, 2, 6]
    """
    check_labels(labels)
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise SpecError(f"The share of wrong labels must be a number between 0 and 1, such as 0.1, not {share!r}.")
    classes, index = torch.unique(labels.cpu(), return_inverse=True)
    own = generator("wrong labels", seed)
    place = torch.randperm(len(labels), generator=own)
    step = torch.randint(1, len(classes), (len(labels),), generator=own)
    wrong = classes[(index + step) % len(classes)].to(labels.device)
    return torch.where(place.to(labels.device) < round(share * len(labels)), wrong, labels)


@dataclass(frozen=True, kw_only=True)
class WrongLabels(Component):
    """Training on labels of which a share is wrong, uniformly among the other classes.

    >>> labels = torch.arange(10)
    >>> int((WrongLabels().of(labels, 0.30, seed=0) != labels).sum())
    3
    """

    name = "wrong_labels"
    reference = "Fel et al., How good is your explanation? Algorithmic stability measures, WACV 2022, section 4.2"

    def of(self, labels: Tensor, share: float, seed: int) -> Tensor:
        """The labels (N,) with this share of them wrong."""
        return wrong_labels(labels, share, seed)


def check_labels(labels: Any) -> None:
    """Raise unless these are whole numbers (N,) of at least two classes."""
    if not isinstance(labels, Tensor) or labels.ndim != 1 or labels.is_floating_point() or labels.is_complex():
        what = f"{labels.dtype} {tuple(labels.shape)}" if isinstance(labels, Tensor) else type(labels).__name__
        raise InputError(f"Labels that can be made wrong are whole numbers, one a sample, not {what}.")
    if len(torch.unique(labels)) < 2:
        raise InputError("Labels can only be made wrong where there are at least two classes: these are all the same.")
