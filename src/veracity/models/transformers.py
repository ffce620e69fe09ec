"""Models, pipelines and folders of `transformers`: a pipeline or a folder holds a model and its tokenizer."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from veracity.core.errors import InputError, missing_extra
from veracity.core.models import View, unwrap
from veracity.core.registry import MODELS
from veracity.core.settings import short_repr

LIBRARY = "transformers."
LONGEST = 200
"""Paths up to this many letters are shown whole."""
CLASSIFIER = "ForSequenceClassification"
"""How the classes of text classifiers end."""
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.tiktoken")
"""Files that hold the words of a tokenizer: without one, transformers makes a tokenizer that knows none."""


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


class Loaded(NamedTuple):
    """What a folder holds, by the names that a pipeline uses."""

    model: Any
    tokenizer: Any


@MODELS.add
class FolderModel(PipelineModel):
    """A text classifier in a folder on disk: the path of what `save_pretrained` wrote for the model and its tokenizer.

    Nothing is downloaded, no code from the folder runs, and weights that the folder lacks are never made up.
    """

    name = "folder"

    def __init__(self, folder: str | Path) -> None:
        super().__init__(load_classifier(folder))

    @classmethod
    def accepts(cls, value: Any) -> bool:
        """A path, except that of an ONNX file."""
        return isinstance(value, (str, Path)) and not str(value).lower().endswith(".onnx")


@contextmanager
def without_bars() -> Iterator[None]:
    """Hide the progress bars of `transformers` meanwhile; its setting, and that of its hub, are then as they were."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    from transformers.utils import logging

    shown, hidden_in_hub = logging.is_progress_bar_enabled(), are_progress_bars_disabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an environment variable may fix the hub's setting
        logging.disable_progress_bar()
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if shown:
                logging.enable_progress_bar()
            (disable_progress_bars if hidden_in_hub else enable_progress_bars)()


def load_classifier(folder: str | Path) -> Loaded:
    """The classifier and the tokenizer in a folder; raises if one is missing, or the model is of another kind."""
    shown, kind = short_repr(str(folder)), classifier_class(folder)
    if not any(Path(folder).glob("*.safetensors")):
        raise InputError(f"The folder {shown} has no weights in safetensors: write them with model.save_pretrained(folder).")
    if not any(next(Path(folder).glob(name), None) for name in VOCABULARIES):
        raise InputError(f"The folder {shown} has no tokenizer: write it there with tokenizer.save_pretrained(folder).")
    try:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
    except ImportError as error:
        raise missing_extra("transformers", "text") from error
    local = {"local_files_only": True, "trust_remote_code": False}
    try:
        with without_bars():
            tokenizer = AutoTokenizer.from_pretrained(str(folder), **local)
            model, found = AutoModelForSequenceClassification.from_pretrained(
                str(folder), **local, use_safetensors=True, output_loading_info=True
            )
    except Exception as error:
        why = " ".join(str(error).split())[:160]
        raise InputError(f"The folder {shown} cannot be loaded as a {kind} ({why}): write it again with save_pretrained.") from error
    absent = sorted(found["missing_keys"])
    if absent:
        raise InputError(
            f"The weights in {shown} lack {len(absent)} parameters of a {kind}, such as {absent[0]}, which would be random: pass the "
            "folder of the trained classifier."
        )
    for part in (model.config, tokenizer, *model.modules()):
        if hasattr(part, "name_or_path"):
            part.name_or_path = ""  # the folder's place is not part of the model
    tokenizer.init_kwargs.pop("name_or_path", None)
    return Loaded(model.eval(), tokenizer)


def classifier_class(folder: str | Path) -> str:
    """The class of the classifier that a folder's config.json names; raises if there is none."""
    whole, config = str(folder), Path(folder) / "config.json"
    shown = f"'{whole}'" if len(whole) <= LONGEST else short_repr(whole)
    if not os.path.exists(folder):  # unlike Path.exists, it takes names that no file can have
        raise InputError(f"There is no folder {shown}: pass the path of one on disk that holds config.json, weights and a tokenizer.")
    if not os.path.isdir(folder):
        raise InputError(
            f"{shown} is a file, and no model by itself: pass the folder of a text classifier, the path of an ONNX file, or the network."
        )
    if not config.is_file():
        raise InputError(f"The folder {shown} has no config.json: pass a folder that model.save_pretrained wrote.")
    try:
        named = json.loads(config.read_text(encoding="utf-8")).get("architectures") or ["an unnamed class"]
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(f"The config.json in {shown} cannot be read: write it again with model.save_pretrained(folder).") from error
    kind = str(named[0])
    if not kind.endswith(CLASSIFIER):
        raise InputError(
            f"The folder {shown} holds {kind}, and a folder must hold a text classifier (...{CLASSIFIER}): load it with transformers, "
            "and pass the model."
        )
    return kind
