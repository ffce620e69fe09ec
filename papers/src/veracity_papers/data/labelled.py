"""Samples with their labels and concepts; a whole data set for cross-training, which makes its own splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.inputs import Inputs, TensorInputs
from veracity.core.training import Checkpoint, Training


@dataclass(frozen=True)
class Labelled:
    """Inputs of N samples, their labels (N,), and for each concept which samples show it (N,).

    >>> data = Labelled(TensorInputs(torch.eye(3)), torch.tensor([0, 1, 1]), {"odd": torch.tensor([False, True, True])})
    >>> len(data), data[torch.tensor([2])].labels, data[torch.tensor([0])].concepts["odd"]
    (3, tensor([1]), tensor([False]))
    """

    inputs: Inputs
    labels: Tensor
    concepts: Mapping[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, data: tuple[Tensor, Tensor]) -> Labelled:
        """Tensors (N, ...) with their labels (N,)."""
        return cls(TensorInputs(data[0]), data[1])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: Tensor | slice) -> Labelled:
        """Some of the samples, in the order given."""
        inputs: Any = self.inputs
        held = {item.name: getattr(inputs, item.name) for item in fields(inputs)}
        taken = {name: value[rows] for name, value in held.items() if isinstance(value, Tensor)}
        return Labelled(replace(inputs, **taken), self.labels[rows], {name: mask[rows] for name, mask in self.concepts.items()})

    def some(self, count: int, seed: int = 0) -> Labelled:
        """`count` samples drawn without replacement from a seed; all of them, in a random order, if there are no more."""
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        return self[order[:count]]

    def training(self, checkpoints: tuple[Checkpoint, ...] = ()) -> Training:
        """The samples as what a model learnt from."""
        return Training(self.inputs, self.labels, self.concepts, checkpoints)


def check_split(split: str, known: tuple[str, ...] = ("train", "test")) -> str:
    """The split's name, if it is one."""
    if split not in known:
        raise InputError(f"There is no split '{split}': choose {' or '.join(known)}.")
    return split


def both_splits(load: Callable[[str], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The training split and then the test split of a loader, such as `both_splits(cifar10)`: inputs (N, ...) and labels (N,).

    >>> from veracity.demo import digits
    >>> images, labels = both_splits(digits)
    >>> images.shape, labels.bincount().sum()
    (torch.Size([1797, 1, 14, 14]), tensor(1797))
    """
    parts = [load(split) for split in ("train", "test")]
    inputs, labels = (torch.cat(part) for part in zip(*parts, strict=True))
    return inputs, labels
