"""Targets: which number of the model's output is explained, fixed by the unperturbed input. Outputs: how to read probabilities."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core.component import Component
from veracity.core.errors import InputError
from veracity.core.models import LayerScores, View
from veracity.core.registry import TARGETS
from veracity.core.settings import short_repr

ONE_OUTPUT = "the single output is read as a logit, sigmoid(output); if it is not a logit, pass outputs='raw' or 'probabilities'."
SUMS_DIFFER = (
    "the outputs lie between 0 and 1 but do not sum to 1, and are read as probabilities; if they are logits, say so with outputs=..."
)


@dataclass(frozen=True, kw_only=True)
class Target(Component, ABC):
    """Turns a model into scores (N, K), and chooses one score per sample from those of the unperturbed inputs."""

    role = "target"

    @property
    def outputs(self) -> Outputs | None:
        """What the decisions are, if that follows from the target and not from the model."""
        return None

    def view(self, model: nn.Module) -> nn.Module:
        """The model as a module that returns scores (N, K)."""
        return model

    def decisions(self, model: nn.Module) -> nn.Module:
        """The model as a module that returns the scores of what it decides: (N, K), or (N, D, K) for D pixels or points per sample."""
        return model

    @abstractmethod
    def choose(self, scores: Tensor, labels: Tensor | None) -> Tensor:
        """The index of the explained score per sample, (N,)."""

    def choose_by(self, decisions: Tensor, scores: Tensor, labels: Tensor | None) -> Tensor:
        """The same for targets that look at all decisions of the unperturbed inputs; by default they look at the scores alone."""
        return self.choose(scores, labels)


@TARGETS.add
@dataclass(frozen=True, kw_only=True)
class Predicted(Target):
    """The class that the model predicts for the unperturbed input.

    A single output (N, 1) is explained as it is: the value of a regression, or the score of "yes", whichever side is predicted.
    Outputs per pixel are explained by `Segmentation()`, and those per token by `Token()`.
    """

    name = "predicted"

    def choose(self, scores: Tensor, labels: Tensor | None) -> Tensor:
        """The largest score."""
        return scores.argmax(dim=1)


@TARGETS.add
@dataclass(frozen=True, kw_only=True)
class Label(Target):
    """The true class of each sample, from the data."""

    name = "label"

    def choose(self, scores: Tensor, labels: Tensor | None) -> Tensor:
        """The labels, which must be class numbers."""
        if labels is None:
            raise InputError("The target 'label' needs targets: pass targets=... beside inputs=...")
        if scores.shape[1] == 1 and bool((labels != 0).any()):
            raise InputError(
                "The target 'label' chooses among classes, but the model has a single output: leave target=... out to explain it."
            )
        if labels.ndim == 2:
            raise InputError(
                f"The target 'label' needs one class per sample, but the targets have {labels.shape[1]} entries per sample: pass "
                "target='predicted' or a class number."
            )
        return class_numbers(labels.to(scores.device), scores.shape[1])


@TARGETS.add
@dataclass(frozen=True, kw_only=True)
class Class(Target):
    """The same class for every sample."""

    name = "class"
    index: int

    def choose(self, scores: Tensor, labels: Tensor | None) -> Tensor:
        """The given class."""
        return check_index(torch.full((len(scores),), self.index, device=scores.device), scores, "The target class")


@TARGETS.add
@dataclass(frozen=True, kw_only=True)
class Neuron(Target):
    """One unit of a layer, by its number in the flattened output."""

    name = "neuron"
    layer: str
    unit: int

    def view(self, model: nn.Module) -> nn.Module:
        """The model up to that layer."""
        return LayerScores(model, self.layer)

    def choose(self, scores: Tensor, labels: Tensor | None) -> Tensor:
        """The given unit."""
        return check_index(torch.full((len(scores),), self.unit, device=scores.device), scores, f"The unit of layer '{self.layer}'")


@TARGETS.add
@dataclass(frozen=True, kw_only=True)
class Channel(Target):
    """A channel's whole map F_c(x) in the output (N, channels, ...) of a layer: explained by its mean, compared as a whole.

    The scores (N, P) are the map in another orthonormal basis: the first one is the sum of its P entries over sqrt(P), so their
    distance is the distance of the maps. Scores that compare all outputs, such as `FastGEF(outputs="all")`, compare the map.

    axis  where the channels are: 1 for (N, channels, H, W), -1 for (N, tokens, channels)
    """

    name = "channel"
    reference = "Hedström et al., Evaluating interpretable methods via geometric alignment of functional distortions (TMLR 2025), A.1.2"
    layer: str
    channel: int
    axis: int = 1

    def view(self, model: nn.Module) -> nn.Module:
        """The model up to that layer, as the channel's map."""
        return ChannelScores(model, self.layer, self.channel, self.axis)

    def choose(self, scores: Tensor, labels: Tensor | None) -> Tensor:
        """The first score, in proportion to the mean of the map."""
        return torch.zeros(len(scores), dtype=torch.long, device=scores.device)


class ChannelScores(LayerScores):
    """The map of one channel of a layer, in an orthonormal basis whose first vector is constant: (N, P)."""

    def __init__(self, model: nn.Module, layer: str, channel: int, axis: int) -> None:
        super().__init__(model, layer)
        self.channel, self.axis = channel, axis

    def read(self, output: Tensor) -> Tensor:
        """The channel of the layer's output (N, ...)."""
        if output.ndim < 2 or not (1 <= self.axis < output.ndim or 1 - output.ndim <= self.axis < 0):
            raise InputError(
                f"The layer '{self.layer}' gives an output of shape {tuple(output.shape[1:])} per sample, which has no axis {self.axis} of "
                "channels, counted with the samples as axis 0: pass another axis."
            )
        if not 0 <= self.channel < output.shape[self.axis]:
            raise InputError(
                f"The channel must lie between 0 and {output.shape[self.axis] - 1}, because the layer '{self.layer}' has "
                f"{output.shape[self.axis]} channels; found {self.channel}."
            )
        return with_mean_first(output.movedim(self.axis, 1)[:, self.channel].reshape(len(output), -1))


def with_mean_first(values: Tensor) -> Tensor:
    """Rows (N, P) reflected so that the first entry is their sum over sqrt(P); lengths and distances stay the same.

    The reflection exchanges the first axis with the constant direction.

    >>> with_mean_first(torch.tensor([[3.0, 5.0, 5.0, 3.0]]))
    tensor([[ 8.,  0.,  0., -2.]])
    """
    count = values.shape[1]
    if count == 1:
        return values
    normal = torch.full((count,), -(count**-0.5), dtype=values.dtype, device=values.device)
    normal[0] += 1.0
    return values - (values @ normal)[:, None] * (2.0 / normal.square().sum()) * normal


@TARGETS.add
@dataclass(frozen=True, kw_only=True)
class Custom(Target):
    """Any function of the model's output that returns one number per sample."""

    name = "custom"
    function: Callable[[Tensor], Tensor]

    def view(self, model: nn.Module) -> nn.Module:
        """The model followed by the function, as scores (N, 1)."""
        return OutputFunction(model, self.function)

    def choose(self, scores: Tensor, labels: Tensor | None) -> Tensor:
        """The only score."""
        return torch.zeros(len(scores), dtype=torch.long, device=scores.device)


class OutputFunction(View):
    """A model followed by a function that returns one number per sample."""

    def __init__(self, model: nn.Module, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__(model)
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        """Scores (N, 1)."""
        value: Tensor = self.function(self.model(*inputs))
        count = len(inputs[0])
        if value.shape not in {(count,), (count, 1)}:
            raise InputError(f"The target function must return one number per sample, ({count},), not {tuple(value.shape)}.")
        return value.reshape(-1, 1)


def check_index(index: Tensor, scores: Tensor, what: str) -> Tensor:
    """The index (N,); raises if an entry is out of range."""
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= scores.shape[1]:
        bad = low if low < 0 else high
        count = scores.shape[1]
        raise InputError(f"{what} must lie between 0 and {count - 1}, because the model has {count} outputs; found {bad}.")
    return index


def class_numbers(
    labels: Tensor, classes: int | None, whose: str = "the model", *, what: str = "target of sample", least: int = 0, fix: str = ""
) -> Tensor:
    """Labels (N,) as int64; raises at the first that is not a class number.

    `classes` is the number of classes of `whose`, if known. `least` is -1 if that stands for "no class".

    >>> class_numbers(torch.tensor([0, 2], dtype=torch.int16), 3)
    tensor([0, 2])
    """
    if labels.ndim != 1 or labels.is_complex():
        raise InputError(f"Class numbers are whole numbers, one per sample, not {labels.dtype} of shape {tuple(labels.shape)}.")
    if len(labels) == 0:
        return labels.long()
    value = labels.detach().cpu().double()
    wrong = (~((value >= least) & (value == value.floor()) & (value < (math.inf if classes is None else classes)))).nonzero()[:, 0]
    if len(wrong) == 0 and not labels.is_floating_point():
        return labels.long()
    first, count = int(wrong[0]) if len(wrong) else 0, f" ({len(wrong)} of {len(value)} name no class)" if len(wrong) > 1 else ""
    known = "class numbers are whole numbers from 0" if classes is None else f"{whose} has {classes} classes, numbered 0 to {classes - 1}"
    if len(wrong) == 0:
        fix = f"convert them from {str(labels.dtype).removeprefix('torch.')} with .long()"
    elif classes is not None and (float(value.min()), float(value.max())) == (1.0, float(classes)):
        fix = "if yours begin with 1, subtract 1"
    shown = f"{value[first]:g}" if len(wrong) else f"{value[first]:.1f}"
    raise InputError(f"The {what} {first} is {shown}, but {known}{count}{': ' + fix if fix else ''}.")


def as_target(value: Any) -> Target:
    """A target from an object, a name, a class number or a function."""
    if isinstance(value, Target):
        return value
    if isinstance(value, type) and issubclass(value, Target):
        return value()
    if isinstance(value, bool) or not (isinstance(value, (int, str, dict)) or callable(value)):
        raise InputError(f"A target is a Target, a name, a class number or a function, not {short_repr(value)}.")
    if isinstance(value, int):
        return Class(index=value)
    if callable(value):
        return Custom(function=value)
    built: Target = TARGETS.build(value)
    return built


class Outputs(Enum):
    """What the outputs of a model are."""

    LOGITS = "logits"
    PROBABILITIES = "probabilities"
    MULTILABEL = "multilabel"
    """One logit for each of several labels that do not exclude each other."""
    RAW = "raw"

    def read(self, output: Tensor) -> Tensor:
        """Probabilities (N, K), or the flattened outputs if they are raw; a single output is the probability of "yes".

        >>> Outputs.PROBABILITIES.read(torch.tensor([[0.25]]))
        tensor([[0.7500, 0.2500]])
        """
        output = output if output.ndim > 1 else output.unsqueeze(1)
        if self is Outputs.MULTILABEL:
            return torch.sigmoid(output).flatten(1)
        if self is not Outputs.RAW and output.shape[1] == 1:
            yes = torch.sigmoid(output) if self is Outputs.LOGITS else output
            return torch.cat((1 - yes, yes), dim=1).flatten(1)
        return (torch.softmax(output, dim=1) if self is Outputs.LOGITS else output).flatten(1)

    @staticmethod
    def detect(output: Tensor) -> Outputs:
        """Guess the kind: several numbers per sample in [0, 1] are probabilities, other (N, K) outputs are logits."""
        if output.ndim != 2:
            return Outputs.RAW
        unit = bool(((output >= 0) & (output <= 1)).all())
        return Outputs.PROBABILITIES if unit and output.shape[1] > 1 else Outputs.LOGITS

    def read_decisions(self, decisions: Tensor) -> Tensor:
        """Probabilities (N, K) from decisions (N, K), or their mean over D pixels or points from (N, D, K).

        >>> Outputs.PROBABILITIES.read_decisions(torch.tensor([[[1.0, 0.0], [0.5, 0.5]]]))
        tensor([[0.7500, 0.2500]])
        """
        if decisions.ndim == 2:
            return self.read(decisions)
        each = self.read(decisions.flatten(0, 1))
        return each.reshape(*decisions.shape[:2], each.shape[1]).mean(1)

    def doubt(self, output: Tensor) -> str | None:
        """A warning if outputs (N, K) could be of another kind than the one guessed.

        >>> Outputs.PROBABILITIES.doubt(torch.tensor([[0.3, 0.7]])) is None
        True
        """
        if self is Outputs.LOGITS and output.ndim == 2 and output.shape[1] == 1:
            return ONE_OUTPUT
        summed = output.ndim == 2 and bool(((output.double().sum(dim=1) - 1.0).abs() < 1e-3).all())
        return SUMS_DIFFER if self is Outputs.PROBABILITIES and not summed else None
