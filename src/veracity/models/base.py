"""What every adapter for a foreign model has in common, and how the right adapter is found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.models import View
from veracity.core.registry import MODELS
from veracity.core.targets import Outputs

HIDDEN = "last_hidden_state"
"""The entry of a network without a head, whose numbers are not scores of classes."""
OUTPUT_NAMES = ("logits", "scores", "out", "output", "predictions", "probabilities", HIDDEN)
"""Entries of a structured output that hold the scores, the most specific first."""


class ForeignModel(nn.Module, ABC):
    """A model of another library as a module that maps values (N, ...) to scores (N, ...).

    gradients  whether its scores can be differentiated in its inputs
    weights    whether it has torch parameters, which a score may perturb
    layers     whether its hidden layers can be watched
    outputs    what its scores are, where the library says so
    caveat     what readers must know about its scores, if these are not what they may expect
    most_rows  the most rows per call, if the usual number for its device does not suit it
    """

    name: ClassVar[str] = ""
    gradients: ClassVar[bool] = False
    weights: ClassVar[bool] = False
    layers: ClassVar[bool] = False
    outputs: Outputs | None = None
    caveat: str | None = None
    most_rows: ClassVar[int | None] = None

    @classmethod
    @abstractmethod
    def accepts(cls, value: Any) -> bool:
        """Whether this adapter is for such an object. It imports no library that the object does not come from."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What messages call the model, such as 'RandomForestClassifier'."""

    @abstractmethod
    def forward(self, values: Tensor, *structure: Tensor) -> Tensor:
        """Scores (N, ...) of a batch."""


class NumpyModel(ForeignModel, ABC):
    """A model on arrays. It has no gradients: asking for one raises an error that says what to use instead."""

    @abstractmethod
    def predict(self, values: NDArray[Any], *structure: NDArray[Any]) -> Any:
        """Scores of a batch, as an array or a list."""

    def forward(self, values: Tensor, *structure: Tensor) -> Tensor:
        """Scores (N, ...) on the device of the values."""
        arrays = [part.detach().cpu().numpy() for part in (values, *structure)]
        return self.scored(values, self.predict(*arrays))

    def scored(self, values: Tensor, answer: Any) -> Tensor:
        """An answer of `predict` as scores on the device of the values."""
        scores = as_scores(answer, self.title).to(values.device)
        if values.requires_grad and torch.is_grad_enabled():
            linked: Tensor = NoGradient.apply(values, scores, self.title)  # type: ignore[no-untyped-call]
            return linked
        return scores


class NoGradient(torch.autograd.Function):
    """Scores that raise an error when they are differentiated."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, scores: Tensor, title: str) -> Tensor:
        """The scores."""
        ctx.title = title
        return scores.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Raise."""
        raise InputError(
            f"{ctx.title} has no gradients: choose an explainer that only needs outputs, such as kernel_shap, lime, occlusion or "
            "an explainer of the shap library."
        )


def as_scores(scores: Any, title: str) -> Tensor:
    """Scores as a tensor: float64 stays, tensors keep their floating-point type, and all other numbers become float32.

    >>> as_scores([[0, 1]], "f")
    tensor([[0., 1.]])
    """
    if isinstance(scores, Tensor):
        return scores if scores.is_floating_point() else scores.float()
    array = np.asarray(scores)
    if array.dtype == object or array.dtype.kind not in "fiub":
        raise InputError(f"{title} returns {array.dtype} and not numbers: pass the method that returns scores, such as predict_proba.")
    return torch.from_numpy(np.array(array, dtype=np.float64 if array.dtype == np.float64 else np.float32))


def as_model(name: str, value: Any) -> nn.Module:
    """A model as a module: a module as it is, anything else through the first adapter that accepts it."""
    if isinstance(value, nn.Module):
        return value
    for adapter in sorted(MODELS.values(), key=lambda one: getattr(one, "last", False)):
        if adapter.accepts(value):
            adapted: nn.Module = adapter(value)
            return adapted
    if isinstance(value, type):
        raise InputError(f"Model '{name}' is the class {value.__name__}: pass an object of it that was trained or fitted.")
    raise InputError(
        f"Model '{name}' has the type {type(value).__name__}, which no adapter takes: pass a torch.nn.Module, a function on arrays, a "
        "scikit-learn estimator, an XGBoost or LightGBM model, an ONNX file, a transformers pipeline or the folder of a text classifier."
    )


class Converted(View):
    """A model whose values are converted to the floating-point type of its weights."""

    def __init__(self, model: nn.Module, kind: torch.dtype) -> None:
        super().__init__(model)
        self.kind = kind

    def forward(self, values: Tensor, *structure: Tensor) -> Any:
        """The model's output."""
        return self.model(values.to(self.kind), *structure)


class ReadableOutput(View):
    """A module that returns a dict, a tuple or an object with `.logits`, reduced to its tensor of scores."""

    def __init__(self, model: nn.Module, key: str | int) -> None:
        super().__init__(model)
        self.key = key

    def forward(self, *inputs: Tensor) -> Tensor:
        """The scores."""
        return self.entry(self.model(*inputs))

    def entry(self, output: Any) -> Tensor:
        """The scores in an output."""
        return entry_of(output, self.key)


class OneColumn(View):
    """A module that returns one number per row, (N,), as scores (N, 1)."""

    def forward(self, *inputs: Tensor) -> Tensor:
        """The scores (N, 1)."""
        scores: Tensor = self.model(*inputs).reshape(-1, 1)
        if len(scores) != len(inputs[0]):
            raise InputError(f"The model returns {len(scores)} numbers for {len(inputs[0])} inputs: let it return one for each input.")
        return scores


def readable_output(model: nn.Module, output: Any) -> tuple[nn.Module, Any]:
    """The module, as a view that returns scores (N, ...), and the scores in its output for one row.

    The scores are the entry of a dict, a tuple or an object that holds them. Something else is returned as it is.

    >>> class Net(nn.Module):
    ...     def forward(self, x):
    ...         return {"loss": x.sum(), "logits": 2 * x}
    >>> net = Net()
    >>> view, scores = readable_output(net, net(torch.ones(1, 2)))
    >>> view(torch.ones(1, 2)), scores
    (tensor([[2., 2.]]), tensor([[2., 2.]]))
    """
    if isinstance(output, Tensor):
        return (OneColumn(model), output.reshape(-1, 1)) if output.shape in ((1,), ()) else (model, output)
    key = scores_key(output)
    if key is None:
        return model, output
    view = ReadableOutput(model, key)
    return readable_output(view, view.entry(output))


def scores_in(output: Any) -> Any:
    """The scores in an output, by the rule of `readable_output`; an output that does not tell is returned as it is.

    >>> scores_in({"loss": torch.zeros(()), "logits": torch.ones(1, 2)})
    tensor([[1., 1.]])
    """
    key = None if isinstance(output, Tensor) else scores_key(output)
    return output if key is None else entry_of(output, key)


def entry_of(output: Any, key: str | int) -> Tensor:
    """One entry of a structured output, by its name or place."""
    entry: Tensor = getattr(output, key) if isinstance(key, str) and hasattr(output, key) else output[key]
    return entry


def scores_key(output: Any) -> str | int | None:
    """The name or place of the scores in a structured output; None if that is not clear."""
    for key in OUTPUT_NAMES:
        if isinstance(getattr(output, key, None), Tensor) or (isinstance(output, Mapping) and isinstance(output.get(key), Tensor)):
            return key
    parts: list[tuple[str | int, Any]] = []
    if isinstance(output, Mapping):
        parts = list(output.items())
    elif isinstance(output, Sequence):
        parts = list(enumerate(output))
    tensors = [key for key, part in parts if isinstance(part, Tensor) and part.is_floating_point() and part.ndim > 0]
    return tensors[0] if len(tensors) == 1 or (tensors and isinstance(output, Sequence)) else None
