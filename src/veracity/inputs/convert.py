"""From what people have to a data set: arrays, tables, lists, datasets of torch and Hugging Face, dicts of arrays, graphs."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.graphs import GraphInputs
from veracity.core.inputs import FLOATS, Inputs, TensorInputs, check_readable
from veracity.inputs.labels import METHODS, split_labels
from veracity.inputs.several import SeveralInputs, in_order
from veracity.inputs.tables import TableInputs
from veracity.inputs.text import TextInputs

ENCODE = "encode it as numbers first, or pass texts as TextInputs(texts, tokenizer)"


def as_inputs(given: Any) -> Inputs:
    """The data set of anything that holds samples. Labels beside them are left out, and a note says so."""
    return from_samples(split_labels(given).samples)


def from_samples(given: Any) -> Inputs:
    """The data set of samples without labels."""
    if isinstance(given, (Tensor, np.ndarray)):
        return from_array(given)
    if all(hasattr(given, name) for name in METHODS):
        found: Inputs = given
        return found
    if isinstance(given, pd.DataFrame):
        return TableInputs(given)
    if hasattr(given, "to_data_list") or (isinstance(given, (list, tuple)) and given and hasattr(given[0], "edge_index")):
        return GraphInputs.of(given)
    if isinstance(given, pd.Series):
        raise InputError("The inputs are one column of a table: pass a DataFrame, such as frame[['age']].")
    if isinstance(given, (array, pd.Index)):
        what = f"{type(given).__module__.split('.')[0]}.{type(given).__name__}"
        raise InputError(f"The inputs have the type {what}, which has no rows: pass an array of shape (samples, ...).")
    if isinstance(given, Mapping):
        return from_parts(given)
    if isinstance(given, tuple) and given and all(isinstance(part, (Tensor, np.ndarray)) for part in given):
        return from_parts(in_order(given))
    if isinstance(given, (list, tuple)):
        return from_list(given)
    raise InputError(
        f"The inputs must be an array, a DataFrame, a list of samples, a dict of arrays, a dataset, graphs or an Inputs, not "
        f"{type(given).__name__}."
    )


def from_array(given: Tensor | np.ndarray[Any, Any]) -> Inputs:
    """Samples in one array; images of type uint8 need a scaling, which the user must give."""
    values = as_number_tensor(given, "inputs", ENCODE)
    if values.dtype is torch.uint8 and values.ndim > 2:
        raise InputError(
            "The inputs are images of type uint8, whose scaling is not known: pass ImageInputs(images), which divides by 255, or "
            "ImageInputs(images, Scaling(mean=..., std=...))."
        )
    whole = isinstance(given, np.ndarray) and values.ndim == 2 and values.dtype not in FLOATS and not values.is_complex()
    return TensorInputs(values.double() if whole else values)


def from_parts(parts: Mapping[str, Any]) -> Inputs:
    """Samples of several arrays by name."""
    named = {str(name): as_number_tensor(part, f"part '{name}'", ENCODE) for name, part in parts.items()}
    if "input_ids" in named:
        return TextInputs.of_encoding(named)
    return SeveralInputs(named)


def from_list(given: Sequence[Any]) -> Inputs:
    """A list of samples: arrays of one shape, or dicts of arrays."""
    if not given:
        raise InputError("There are no inputs: the list is empty.")
    refuse_text(given, "inputs", ENCODE)
    if isinstance(given[0], Mapping):
        return from_parts(stack_parts(given))
    return from_array(stack(given))


def stack(samples: Sequence[Any]) -> Tensor:
    """Samples of one shape in one tensor."""
    parts = [as_number_tensor(sample, "inputs", ENCODE) for sample in samples]
    other = next((number for number, part in enumerate(parts) if part.shape != parts[0].shape), None)
    if other is not None:
        raise InputError(
            f"The samples of the list differ in shape: sample 0 has {tuple(parts[0].shape)}, sample {other} has "
            f"{tuple(parts[other].shape)}: bring them to one shape."
        )
    return torch.stack(parts)


def stack_parts(samples: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """Dicts of arrays as a dict of stacked arrays."""
    return {name: stack([sample[name] for sample in samples]) for name in samples[0] if not isinstance(samples[0][name], str)}


def as_number_tensor(value: Any, what: str, encode: str) -> Tensor:
    """A detached tensor; raises on text and other things that are not numbers."""
    given = value.to_numpy() if hasattr(value, "to_numpy") else value
    if isinstance(given, np.ndarray) and (min(given.strides, default=0) < 0 or not given.flags.writeable):
        given = given.copy()
    try:
        found = torch.as_tensor(given).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        refuse_text(given, what, encode)
        kind = f"an array of type {given.dtype}" if isinstance(given, np.ndarray) else type(value).__name__
        raise InputError(f"The {what} must be a tensor or an array of numbers, not {kind}: convert them to numbers first.") from error
    check_readable(found, what)
    return found


def refuse_text(value: Any, what: str, encode: str) -> None:
    """Raise if there is a word among the values of an array, a list or a table."""
    try:
        leaves = np.asarray(value, dtype=object).ravel()
    except (TypeError, ValueError, RuntimeError):
        return
    word = next((one for one in leaves if isinstance(one, (str, bytes))), None)
    if word is not None:
        raise InputError(f"There is text in the {what}, such as {str(word)[:40]!r}: {encode}.")
