"""Models and pipelines of `transformers`: a pipeline holds a model and its tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.models import View, unwrap
from veracity.core.registry import MODELS
from veracity.inputs.text import TextInputs

LIBRARY = "transformers."


@MODELS.add
class PipelineModel(View):
    """The model of a `pipeline("text-classification")`, or of another pipeline with a torch model. `tokenizer` is the pipeline's."""

    name = "pipeline"
    gradients = weights = layers = True
    outputs = None

    def __init__(self, pipeline: Any) -> None:
        if not isinstance(pipeline.model, nn.Module):
            raise InputError(f"The model of the {type(pipeline).__name__} is no torch module: load it with framework='pt'.")
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


def tokenizer_of(model: Any) -> Any:
    """The tokenizer that comes with a model: that of a pipeline, else None."""
    if PipelineModel.accepts(model):
        return model.tokenizer
    while isinstance(model, View):
        if isinstance(model, PipelineModel):
            return model.tokenizer
        model = model.model
    return None


def is_text(inputs: Any) -> bool:
    """Whether inputs are texts: a list of strings, or what a tokenizer returned for them."""
    if isinstance(inputs, Mapping) or hasattr(inputs, "input_ids"):
        return "input_ids" in inputs
    listed = isinstance(inputs, (list, tuple)) or type(inputs).__name__ in ("Series", "ndarray", "Column")
    return listed and len(inputs) > 0 and all(isinstance(one, str) for one in inputs)


def texts_for(model: Any, texts: Any, tokenizer: Any = None) -> TextInputs:
    """The inputs of a text model: from strings with the tokenizer of its pipeline, or from what a tokenizer returned.

    `model` is a pipeline, an adapted one, or a model that finds its word embedding by get_input_embeddings().
    """
    found = tokenizer_of(model) if tokenizer is None else tokenizer
    if isinstance(texts, Mapping) or hasattr(texts, "input_ids"):
        return TextInputs.of_encoding(texts, found)
    if isinstance(texts, Tensor):
        inner = unwrap(model) if isinstance(model, nn.Module) else getattr(model, "model", None)
        if not hasattr(inner, "get_input_embeddings"):
            raise InputError(
                "Token numbers go to a model that has get_input_embeddings(): for one-hot rows pass TokenInputs(ids, vocabulary)."
            )
        return TextInputs.of_encoding(texts, found)
    if found is None:
        raise InputError("Texts need the tokenizer of the model: pass inputs=TextInputs(texts, tokenizer), or a pipeline as the model.")
    listed: Sequence[str] = list(texts)
    return TextInputs(listed, found, removal=removal_for(found))


def removal_for(tokenizer: Any) -> Any:
    """What a gate of 0 does with this tokenizer: a token is replaced by the mask token if there is one, else by the padding."""
    return "replace" if getattr(tokenizer, "mask_token_id", None) is not None else "blank"
