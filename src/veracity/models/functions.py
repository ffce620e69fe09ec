"""Any function on arrays or tensors as a model."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from veracity.core.registry import MODELS
from veracity.models.base import NumpyModel, as_scores


class Answer(Enum):
    """What a function takes, and whether gradients pass through it."""

    DIFFERENTIABLE = "tensors, with gradients"
    TENSORS = "tensors"
    ARRAYS = "arrays"


ANSWERS: WeakKeyDictionary[FunctionModel, Answer] = WeakKeyDictionary()
"""What functions take. It is known after the first call, and not part of the model, whose key must not change with use."""


@MODELS.add
class FunctionModel(NumpyModel):
    """A function from a batch (N, ...) to scores (N,) or (N, K), on tensors or on NumPy arrays.

    A function that takes tensors and returns a tensor keeps its gradients.

    >>> import numpy as np
    >>> FunctionModel(lambda x: np.tanh(np.asarray(x)).sum(1))(torch.zeros(2, 3))
    tensor([0., 0.])
    """

    name = "function"
    last = True

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    @classmethod
    def accepts(cls, value: Any) -> bool:
        """Anything callable except a class."""
        return callable(value) and not isinstance(value, type)

    @property
    def gradients(self) -> bool:  # type: ignore[override]
        """Whether the function has kept gradients; known after its first call."""
        return ANSWERS.get(self) is Answer.DIFFERENTIABLE

    @property
    def title(self) -> str:
        """The function's name."""
        return f"The function '{getattr(self.function, '__name__', type(self.function).__name__).strip('<>')}'"

    @property
    def input_names(self) -> tuple[str, ...] | None:
        """The names of the function's parameters; None if it takes any number of them."""
        known = [] if self.signature is None else list(self.signature.parameters.values())
        return (
            None
            if self.signature is None or any(one.kind is one.VAR_POSITIONAL for one in known)
            else tuple(one.name for one in known if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD))
        )

    @property
    def signature(self) -> inspect.Signature | None:
        """The parameters of the function; None if it does not tell."""
        try:
            return inspect.signature(self.function)
        except (TypeError, ValueError):
            return None

    def predict(self, *arrays: Any, **named: Any) -> Any:
        """The function's answer to arrays."""
        return self.function(*arrays, **named)

    def forward(self, *parts: Tensor, **named: Tensor) -> Tensor:
        """The function's answer to tensors if it keeps gradients or takes nothing else, else to arrays."""
        if self not in ANSWERS:
            ANSWERS[self] = self.probe(*(part[:1] for part in parts), **{name: part[:1] for name, part in named.items()})
        if ANSWERS[self] is Answer.ARRAYS:
            given = [*parts, *named.values()]
            answer = self.predict(*map(as_array, parts), **{name: as_array(part) for name, part in named.items()})
            return self.scored(next((part for part in given if part.requires_grad), given[0]), answer)
        scores = self.function(*parts, **named)
        return scores if not isinstance(scores, Tensor) else as_scores(scores, self.title)  # the caller reads dicts

    def probe(self, *parts: Tensor, **named: Tensor) -> Answer:
        """How the function answers one row."""
        with warnings.catch_warnings(), torch.enable_grad():
            warnings.simplefilter("ignore")
            try:
                answer = self.function(*map(as_leaf, parts), **{name: as_leaf(part) for name, part in named.items()})
                if isinstance(answer, Tensor) and answer.requires_grad:
                    return Answer.DIFFERENTIABLE
            except Exception:  # it may want arrays
                pass
            try:
                self.predict(*map(as_array, parts), **{name: as_array(part) for name, part in named.items()})
            except Exception:  # it may want tensors without a gradient; if not, its own error is shown by the call that follows
                return Answer.TENSORS
        return Answer.ARRAYS


def as_leaf(part: Tensor) -> Tensor:
    """A copy that gradients can be asked for, if it holds floating-point numbers."""
    return part.detach().clone().requires_grad_() if part.is_floating_point() else part


def as_array(part: Tensor) -> Any:
    """A tensor as an array."""
    return part.detach().cpu().numpy()
