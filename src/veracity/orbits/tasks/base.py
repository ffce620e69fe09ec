"""What a task is along an orbit: how outputs are read, moved, averaged and compared, and by which metrics they are judged."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import MethodType
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from veracity.core.component import Component, encode_callable
from veracity.core.errors import InputError, SpecError, VeracityError, error_text, unknown
from veracity.core.fingerprint.origin import in_this_package
from veracity.core.measures import Direction
from veracity.core.settings import short_repr
from veracity.core.spaces import InputSpace
from veracity.perturb.output_actions import Fixed, OutputAction


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A named number for how good outputs (R, ...) are against the truth (R, ...), one per row; undefined is NaN.

    One's own is made from any function: Metric(name="entropy", function=entropy, direction="lower", bounds=(0.0, 2.3), unit="nat").
    """

    name: str
    function: Callable[[Tensor, Tensor], Tensor]
    label: str = ""
    consensus_label: str = ""
    direction: Direction = Direction.HIGHER
    bounds: tuple[float, float] = (-math.inf, math.inf)
    unit: str = ""

    def __post_init__(self) -> None:
        """A direction may be given by its name; raises unless there is a function to call."""
        if not callable(self.function):
            raise SpecError(f"The metric '{self.name}' needs a function of outputs and truth, not {short_repr(self.function)}.")
        given: Any = self.direction
        known = {name: one for one in Direction for name in (one, one.value)}
        if given not in known:
            raise unknown(f"direction of the metric '{self.name}'", str(given), [one.value for one in Direction])
        object.__setattr__(self, "direction", known[given])

    @property
    def title(self) -> str:
        """What people call it."""
        return self.label or self.name.replace("_", " ")

    @property
    def consensus_title(self) -> str:
        """What people call it if outputs are compared with the consensus: not right or wrong, but alike or not.

        >>> Metric(name="end_point", function=torch.dist).consensus_title
        'end point against the consensus'
        """
        return self.consensus_label or f"{self.title} against the consensus"

    def measure(self, output: Tensor, truth: Tensor) -> Tensor:
        """The metric of every row, float32 (R,); raises if the function gives anything but one number per row."""
        try:
            found = self.function(output, truth)
        except (VeracityError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            shapes = f"{tuple(output.shape)} and truth {tuple(truth.shape)}"
            raise InputError(f"The metric '{self.name}' failed for outputs {shapes} with {error_text(error)}") from error
        if not isinstance(found, Tensor) or found.shape != (len(output),):
            what = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(f"The metric '{self.name}' must give one number per row, of shape ({len(output)},), not {what}.")
        return found.float()

    def spec(self) -> dict[str, Any]:
        """The metric as plain data: where its function lives, and a hash of its code where that is not the package's."""
        function = encode_callable(self.function)
        if in_this_package(self.function) and not (
            getattr(self.function, "__closure__", None) or isinstance(self.function, (partial, MethodType))
        ):
            function = {"import": function["import"]}
        return {"name": self.name, "direction": self.direction.value, "function": function}


@dataclass(frozen=True, kw_only=True)
class Task(Component, ABC):
    """From what a model gives to tensors, and from tensors to consensus, distances and metrics.

    Rows are (sample, element) pairs: outputs (R, ...), truth (R, ...). The output of the moved input h(phi(g, x)) is judged
    against the moved truth phi~(g, y), or against the moved consensus.
    """

    role = "task"
    kind: ClassVar[str] = "regression"
    """What the interface draws of outputs: of a regression, and by default, the metrics alone."""
    reference = "Zhao et al., Evaluating machine learning models with NERO, Figure 2 and equation (1)"

    metrics: tuple[Metric, ...] = ()

    @property
    def action(self) -> OutputAction:
        """How outputs should move along: here not at all."""
        return Fixed()

    def fit(self, raw: Any) -> Self:
        """The task for a model that returned this for its first batch: what it has to guess is fixed from then on."""
        return self

    @abstractmethod
    def read(self, raw: Any) -> Tensor:
        """What a model gave for R rows, as one float32 tensor (R, ...)."""

    @abstractmethod
    def check(self, truth: Tensor, samples: int) -> Tensor:
        """The truth of this many samples, as a tensor (samples, ...); raises if it has the wrong form."""

    def truth(self, space: InputSpace, elements: Tensor, y: Tensor) -> Tensor:
        """phi~(g, y): what is true of the moved inputs, (R, ...)."""
        return self.action.act(space, elements, y)

    def undo(self, space: InputSpace, elements: Tensor, output: Tensor) -> Tensor:
        """phi~(g^-1, h(phi(g, x))): outputs (R, ...) back in the frame of the unmoved input."""
        return self.action.undo(space, elements, output)

    def consensus(self, space: InputSpace, elements: Tensor, outputs: Tensor, truth: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The mean over the orbit of outputs (B, K, ...) at K elements (K, p), undone, (B, ...), and how many of the K were missing, (B,)
        (equation 1).

        The consensus needs no truth; a task may use `truth` (B, ...) to choose the object that a sample is about.
        """
        undone = self.undo(space, elements.repeat(len(outputs), 1), outputs.flatten(0, 1))
        return orbit_mean(undone.reshape(*outputs.shape[:2], *undone.shape[1:]))

    def as_truth(self, consensus: Tensor) -> Tensor:
        """The consensus (B, ...) in the form of the truth y, so that `truth` can move it."""
        return consensus

    def distance(self, space: InputSpace, elements: Tensor, output: Tensor, unmoved: Tensor) -> Tensor:
        """How far the outputs of moved inputs (R, ...) lie from those of the unmoved ones (R, ...), (R,): what the equivariance gap
        averages. Outputs are undone, then compared.
        """
        return self.apart(self.undo(space, elements, output), unmoved)

    @abstractmethod
    def apart(self, a: Tensor, b: Tensor) -> Tensor:
        """How far outputs (R, ...) lie from others in the same frame (R, ...), (R,)."""

    def whole(self, space: InputSpace, elements: Tensor, y: Tensor) -> Tensor:
        """Where the moved truth has lost nothing, bool (R,): here everywhere."""
        return torch.ones(len(elements), dtype=torch.bool, device=y.device)


def orbit_mean(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """The mean over the orbit of outputs (B, K, ...) that hold no NaN, (B, ...), and how many do, int64 (B,).

    >>> found, missing = orbit_mean(torch.tensor([[[1.0], [3.0], [float("nan")]]]))
    >>> found.tolist(), missing.tolist()
    ([[2.0]], [1])
    """
    missing = outputs.flatten(2).isnan().any(dim=2) if outputs.ndim > 2 else outputs.isnan()
    count = (~missing).sum(dim=1)
    kept = outputs if not missing.any() else outputs.masked_fill(missing.reshape(*missing.shape, *[1] * (outputs.ndim - 2)), 0.0)
    mean = kept.sum(dim=1) / count.reshape(-1, *[1] * (outputs.ndim - 2))
    return mean, missing.sum(dim=1)


def as_float(raw: Any, what: str) -> Tensor:
    """What a model returned, as detached float32; raises unless it is a tensor with rows of real numbers."""
    if not isinstance(raw, Tensor) or raw.ndim == 0 or 0 in raw.shape[1:]:
        given = f"a tensor of shape {tuple(raw.shape)}" if isinstance(raw, Tensor) else type(raw).__name__
        raise InputError(f"The model must give {what}, not {given}.")
    if raw.is_complex() or raw.layout is not torch.strided or raw.is_quantized:
        given = "complex numbers" if raw.is_complex() else "a quantised tensor" if raw.is_quantized else "a sparse tensor"
        raise InputError(f"The model must give {what}, not {given}.")
    return raw.detach().float()
