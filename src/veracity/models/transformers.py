"""Models and pipelines of `transformers`: a pipeline holds a model and its tokenizer."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.models import View, unwrap
from veracity.core.registry import MODELS

LIBRARY = "transformers."


def config_classes(model: nn.Module) -> list[str] | None:
    """The names of the classes in the configuration of a `transformers` model, in their order; None if it has none."""
    names = getattr(getattr(unwrap(model), "config", None), "id2label", None)
    if not isinstance(names, dict) or set(names) != set(range(len(names))):
        return None
    return [str(names[number]) for number in range(len(names))] or None


@MODELS.add
class PipelineModel(View):
    """The model of a `pipeline("text-classification")`, or of another pipeline with a torch model. `tokenizer` is the pipeline's."""

    name = "pipeline"
    gradients = weights = layers = True
    outputs = None

    def __init__(self, pipeline: Any) -> None:
        if not isinstance(pipeline.model, nn.Module):
            raise InputError(f"The model of the {type(pipeline).__name__} is not a torch module: load it with framework='pt'.")
        super().__init__(pipeline.model)
        self.tokenizer = getattr(pipeline, "tokenizer", None)

    @classmethod
    def accepts(cls, value: Any) -> bool:
        """Pipelines, by the names of their classes."""
        return any(kind.__module__.startswith(LIBRARY) and kind.__name__ == "Pipeline" for kind in type(value).__mro__)

    @property
    def title(self) -> str:
        """The class of the model."""
        return type(self.model).__name__

    def forward(self, *inputs: Tensor, **named: Tensor) -> Any:
        """What the model returns."""
        return self.model(*inputs, **named)
