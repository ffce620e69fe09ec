"""The data of an audit: samples, labels, and the rows that say what usual values are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from veracity.core.errors import InputError, warn
from veracity.core.inputs import Inputs, TensorInputs
from veracity.core.models import unwrap, weight_type
from veracity.core.training import CrossTrained, Training
from veracity.inputs.convert import as_number_tensor, from_samples
from veracity.inputs.datasets import DatasetInputs
from veracity.inputs.several import SeveralInputs
from veracity.inputs.tables import TableInputs, table_of
from veracity.inputs.text import is_text, meant_as_text, texts_for, tokenizer_of
from veracity.models.base import ForeignModel
from veracity.models.transformers import config_classes

USUAL = 10_000
"""How many training rows say what usual values are."""
NUMBER = "pass numbers, and for a class its place among the model's outputs, from 0"


def as_data(inputs: Any, models: Mapping[str, nn.Module | CrossTrained], training: Any = None, reference: Any = None) -> Inputs:
    """The data set, in the floating-point type of the models' weights if they all have one. A note says what was converted.

    A table also knows the levels of categories that only occur in the training set or in the reference set.
    """
    first = next((model for model in models.values() if isinstance(model, nn.Module)), None)
    tokens = isinstance(inputs, Tensor) and inputs.ndim == 2 and inputs.dtype is torch.int64
    read = is_text(inputs) or (tokens and first is not None and hasattr(unwrap(first), "get_input_embeddings"))
    read = read or (first is not None and meant_as_text(inputs, tokenizer_of(first)))
    found = texts_for(first, inputs) if first is not None and read else from_samples(inputs)
    for given, what in ((training_frame(training), "training set"), (reference, "reference")):
        if isinstance(found, TableInputs) and isinstance(given, pd.DataFrame):
            found = found.with_levels(given, what)
    kinds = {weight_type(model) if isinstance(model, nn.Module) else None for model in models.values()}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None or not isinstance(found, (TensorInputs, SeveralInputs, DatasetInputs)):
        return found
    types = (
        [part.dtype for part in found.parts.values() if part.is_floating_point()]
        if isinstance(found, SeveralInputs)
        else [found.tensor.dtype if isinstance(found, TensorInputs) else found.dtype]
    )
    other = next((one for one in types if one is not kind), None)
    if other is None:
        return found
    before, after = (str(one).removeprefix("torch.") for one in (other, kind))
    warn(f"The inputs are {before} and were converted to {after}, the type of the model's weights.")
    return TensorInputs(found.tensor.to(kind)) if isinstance(found, TensorInputs) else found.to(kind)


def training_frame(training: Any) -> pd.DataFrame | None:
    """The examples of a training set if they are a DataFrame."""
    given = training.inputs if isinstance(training, Training) else training[0] if isinstance(training, (tuple, list)) and training else None
    frame = getattr(given, "frame", given)
    return frame if isinstance(frame, pd.DataFrame) else None


def as_tensor(value: Any, what: str) -> Tensor | None:
    """A tensor from an array, a list, a table or a tensor."""
    return None if value is None else as_number_tensor(value, what, NUMBER)


def as_reference(value: Any, inputs: Inputs) -> Tensor | None:
    """The reference set as a tensor; a DataFrame beside a table is coded like the table. Raises if it has another shape."""
    table = table_of(inputs)
    found = table.encode(value) if table is not None and isinstance(value, pd.DataFrame) else as_tensor(value, "reference")
    if found is not None and (found.ndim == 0 or len(found) == 0 or found.shape[1:] != inputs.shape):
        wanted = ", ".join(map(str, ("samples", *inputs.shape)))
        raise InputError(f"The reference has the shape {tuple(found.shape)}, but the inputs need ({wanted}): pass samples like the inputs.")
    return found


def usual_rows(training: Training | None, inputs: Inputs) -> Tensor | None:
    """Training rows that say what usual values of a table's columns are; None if there is no training set of such rows."""
    if training is None or len(inputs.shape) != 1 or training.inputs.shape != inputs.shape:
        return None
    return training.inputs.take(torch.arange(min(training.inputs.size(), USUAL))).values


def as_labels(targets: Any, size: int, classes: Sequence[Any] | None = None) -> Tensor | None:
    """Labels on the CPU: one per sample, one for each of its labels (N, K), or a map of them (N, H, W).

    `classes` are the labels that a classifier was fitted on, if they are not 0, 1, ...
    """
    found = as_tensor(class_places(targets, classes), "targets")
    if found is None:
        return None
    labels = found.cpu()
    if labels.ndim < 1 or len(labels) != size:
        raise InputError(f"The targets must have one entry for each of the {size} inputs, not the shape {tuple(labels.shape)}.")
    return labels


def class_places(labels: Any, classes: Sequence[Any] | None) -> Any:
    """Labels as class numbers from 0; unchanged if there are no classes or no labels."""
    if classes is None or labels is None:
        return labels
    place = {label: number for number, label in enumerate(classes)}
    given = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels).ravel().tolist()
    unseen = next((label for label in given if label not in place), None)
    if unseen is not None:
        known = ", ".join(map(str, classes))[:200]
        raise InputError(f"The target {unseen!r} is not one of the classes that the model was fitted on: {known}.")
    return [place[label] for label in given]


def class_names(models: Mapping[str, nn.Module | CrossTrained], labels: Any = None) -> list[Any] | None:
    """The labels of the models' outputs if the models name them, agree, and do not just count from 0.

    A model of `transformers` also takes class numbers: its names count only if the given labels are texts.
    """
    found = [getattr(model, "classes", None) if isinstance(model, ForeignModel) else None for model in models.values()]
    if is_text(labels):
        configured = [config_classes(model) if isinstance(model, nn.Module) else None for model in models.values()]
        found = [own if own is not None else names for own, names in zip(found, configured, strict=True)]
    if not found or found[0] is None or any(one != found[0] for one in found):
        return None
    names: list[Any] = list(found[0])
    return None if names == list(range(len(names))) else names


def named_labels(labels: Tensor, names: Sequence[Any] | None) -> Any:
    """Class numbers as the labels that `as_labels` takes for them."""
    return labels if names is None else [names[number] for number in labels.tolist()]
