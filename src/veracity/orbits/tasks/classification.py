"""Classification along an orbit: no transform should change the class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.registry import TASKS
from veracity.core.targets import Outputs, class_numbers
from veracity.orbits.tasks.base import Metric, Task, as_float


def accuracy(output: Tensor, truth: Tensor) -> Tensor:
    """Whether the largest of the probabilities (R, C) is the true class (R,), 1 or 0; NaN where either is missing (a class below 0).

    >>> import torch
    >>> accuracy(torch.tensor([[0.2, 0.8], [0.6, 0.4]]), torch.tensor([1, -1]))
    tensor([1., nan])
    """
    right = (output.argmax(dim=1) == truth).to(output)
    return right.masked_fill((truth < 0) | output.isnan().any(dim=1), float("nan"))


def confidence(output: Tensor, truth: Tensor) -> Tensor:
    """The probability (R, C) of the true class (R,); NaN where there is none (a class below 0).

    >>> import torch
    >>> confidence(torch.tensor([[0.25, 0.75]]), torch.tensor([1]))
    tensor([0.7500])
    """
    found = output.gather(1, truth.long().clamp(min=0)[:, None]).squeeze(1)
    return found.masked_fill(truth < 0, float("nan"))


SCORES = "scores of classes, a tensor of shape (rows, classes)"
ACCURACY = Metric(name="accuracy", function=accuracy, consensus_label="agrees with the consensus", bounds=(0.0, 1.0))
CONFIDENCE = Metric(name="confidence", function=confidence, consensus_label="confidence in the consensus", bounds=(0.0, 1.0))


@TASKS.add
@dataclass(frozen=True, kw_only=True)
class Classification(Task):
    """Outputs are class probabilities (R, C), the truth class numbers (R,); nothing moves (invariance).

    `outputs` says what the model gives; left out, it is guessed from the first batch. The consensus is the mean of the
    probabilities, and its largest the class that takes the truth's place: class numbers are never averaged.

    >>> import torch
    >>> from veracity.perturb.groups.shifts import CyclicShift
    >>> outputs = torch.tensor([[[0.9, 0.1, 0.0], [0.0, 0.4, 0.6], [0.0, 0.4, 0.6]]])
    >>> found, _ = Classification().consensus(CyclicShift(sizes=(3,)), torch.arange(3)[:, None], outputs)
    >>> found, Classification().as_truth(found)
    (tensor([[0.3000, 0.3000, 0.4000]]), tensor([2]))
    """

    name = "classification"
    kind = "classification"

    classes: tuple[str, ...] = ()
    outputs: Outputs | None = None
    metrics: tuple[Metric, ...] = (ACCURACY, CONFIDENCE)

    def fit(self, raw: Any) -> Self:
        """Whether outputs are logits or probabilities, from the first batch."""
        return self if self.outputs else replace(self, outputs=Outputs.detect(scores(raw)))

    def read(self, raw: Any) -> Tensor:
        """Probabilities (R, C)."""
        given = scores(raw)
        found = (self.outputs or Outputs.detect(given)).read(given)
        if self.classes and found.shape[1] != len(self.classes):
            raise InputError(f"The model gives {found.shape[1]} classes, but {len(self.classes)} are named: pass classes=... to fit it.")
        return found

    def check(self, truth: Tensor, samples: int) -> Tensor:
        """Class numbers, int64 (samples,); -1 for a sample without one."""
        if not isinstance(truth, Tensor) or truth.shape != (samples,):
            what = f"{truth.dtype} {tuple(truth.shape)}" if isinstance(truth, Tensor) else type(truth).__name__
            raise InputError(f"The targets of a classification must be class numbers, one for each of {samples} samples, not {what}.")
        return class_numbers(truth, len(self.classes) or None, "the task", least=-1, fix="-1 stands for a sample without a class")

    def as_truth(self, consensus: Tensor) -> Tensor:
        """The class of the largest mean probability (B,), -1 where there is none."""
        return consensus.argmax(dim=1).masked_fill(consensus.isnan().any(dim=1), -1)

    def apart(self, a: Tensor, b: Tensor) -> Tensor:
        """Total variation of two distributions (R, C), sum |a - b| / 2: from 0 to 1."""
        return (a - b).abs().sum(dim=1) / 2.0


def scores(raw: Any) -> Tensor:
    """What a model gave, if it is scores of classes (R, C); one number per row is the score of yes, (R, 1)."""
    found = as_float(raw, SCORES)
    if found.ndim > 2:
        raise InputError(f"The model must give {SCORES}, not a tensor of shape {tuple(found.shape)}.")
    return found if found.ndim == 2 else found[:, None]
