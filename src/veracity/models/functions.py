"""Any function on arrays or tensors as a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.registry import MODELS
from veracity.models.base import NumpyModel, as_scores

ON_TENSORS: WeakKeyDictionary[FunctionModel, bool] = WeakKeyDictionary()
"""Which functions take tensors. It is known after the first call, and not part of the model, whose key must not change with use."""


@MODELS.add
class FunctionModel(NumpyModel):
    """A function from a batch (N, ...) to scores (N,) or (N, K), on tensors or on NumPy arrays.

    A function that takes tensors and returns a tensor keeps its gradients.

    >>> import torch
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
        """Anything that can be called, but for classes."""
        return callable(value) and not isinstance(value, type)

    @property
    def title(self) -> str:
        """The function's name."""
        return f"the function '{getattr(self.function, '__name__', type(self.function).__name__)}'"

    def predict(self, values: Any, *structure: Any) -> Any:
        """The function's answer to arrays."""
        return self.function(values, *structure)

    def forward(self, values: Tensor, *structure: Tensor) -> Tensor:
        """The function's answer to tensors if it gives a tensor, else to arrays."""
        if ON_TENSORS.get(self, True):
            refusal: Exception | None = None
            try:
                answer = self.function(values, *structure)
            except Exception as error:
                answer, refusal = None, error
            if isinstance(answer, Tensor):
                ON_TENSORS[self] = True
                return as_scores(answer, self.title)
            if ON_TENSORS.get(self) and refusal is not None:
                raise refusal
        try:
            scores = super().forward(values, *structure)
        except InputError:
            raise
        ON_TENSORS[self] = False
        return scores
