"""Training examples, the concepts that they show, and the checkpoints of models."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.graphs import GraphGates, GraphInputs
from veracity.core.inputs import Inputs, whole
from veracity.core.settings import short_repr
from veracity.core.training import Checkpoint, Training, check_checkpoint
from veracity.engine.resolve.inputs import as_tensor, class_places, training_frame
from veracity.inputs.convert import as_inputs
from veracity.inputs.tables import table_of


def as_training(training: Any, concepts: Any, classes: Sequence[Any] | None = None, inputs: Inputs | None = None) -> Training | None:
    """Training examples and their labels as a pair or a Training, with the concepts that they show.

    A table is coded like the table of the audited `inputs`, and graphs get gates if those have any.
    """
    if concepts is not None and not isinstance(concepts, Mapping):
        raise InputError(f"The concepts are {{'name': which training examples show it}}, not {type(concepts).__name__}.")
    if training is None:
        if concepts:
            raise InputError("Concepts need examples to learn them from: pass training=(inputs, labels) beside concepts=...")
        return None
    found = training if isinstance(training, Training) else from_pair(training, classes)
    table, frame = None if inputs is None else table_of(inputs), training_frame(training)
    if table is not None and frame is not None:
        found = replace(found, inputs=table.like(frame, "training set"))
    if isinstance(gates := whole(inputs), GraphGates) and isinstance(found.inputs, GraphInputs):
        found = replace(found, inputs=type(gates)(found.inputs))
    given = {**found.concepts, **(concepts or {})}
    return replace(found, concepts={name: as_concept(name, one, found) for name, one in given.items()})


def from_pair(training: Any, classes: Sequence[Any] | None = None) -> Training:
    """Training examples from (inputs, labels); `classes` as in `as_labels`."""
    if not isinstance(training, Sequence) or isinstance(training, str) or len(training) != 2:
        raise InputError(f"The training set is a pair (inputs, labels) or a Training, not {type(training).__name__}.")
    inputs = as_inputs(training[0])
    labels = as_tensor(class_places(training[1], classes), "training labels")
    if labels is None:
        raise InputError("The training set needs labels: pass training=(inputs, labels).")
    whole = labels.cpu() if labels.is_floating_point() and not bool((labels == labels.round()).all()) else labels.cpu().long()
    return Training(inputs, whole)


def as_concept(name: str, given: Any, training: Training) -> Tensor:
    """Which training examples show a concept, from labels, a mask, or a function of (examples, labels)."""
    size = training.inputs.size()
    wanted = (
        f"The concept '{name}' is a set of labels (whole numbers), a function of (examples, labels), or one True or False for each of "
        f"the {size} training examples, not "
    )
    if isinstance(given, (set, frozenset)):
        if not all(isinstance(label, int) and not isinstance(label, bool) for label in given):
            raise InputError(f"{wanted}{short_repr(given)}.")
        mask = torch.isin(training.labels, torch.tensor(sorted(given), dtype=torch.long))
    else:
        found = concept_mask(name, given, training) if callable(given) else given
        try:
            mask = torch.as_tensor(found)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{wanted}{type(found).__name__}.") from error
    if mask.shape != (size,) or mask.dtype is not torch.bool:
        raise InputError(f"{wanted}{mask.dtype} of shape {tuple(mask.shape)}.")
    if not mask.any() or mask.all():
        which = "No" if not mask.any() else "Every"
        raise InputError(f"{which} training example shows the concept '{name}': examples with and without it are needed.")
    return mask.cpu()


def concept_mask(name: str, function: Callable[[Any, Tensor], Any], training: Training) -> Any:
    """The result of a concept's function for all examples; it gets their values, or Signals if they have structure."""
    signals = training.inputs.take(torch.arange(training.inputs.size()))
    try:
        return function(signals if signals.structure else signals.values, training.labels)
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
        raise InputError(f"The function of concept '{name}' failed with {type(error).__name__}: {reason}") from error


def as_checkpoints(checkpoints: Any, modules: Mapping[str, nn.Module]) -> dict[str, tuple[Checkpoint, ...]]:
    """Checkpoints by model, each of which must fit it."""
    if checkpoints is not None and not isinstance(checkpoints, Mapping):
        raise InputError(f"The checkpoints are {{'model': [state_dict, ...]}}, not {type(checkpoints).__name__}.")
    given = dict(checkpoints or {})
    for name, listed in given.items():
        if name not in modules:
            raise InputError(f"There are checkpoints for a model '{name}' that is not audited; the models are {', '.join(modules)}.")
        if isinstance(listed, (str, Mapping)) or not isinstance(listed, Sequence):
            raise InputError(f"The checkpoints of model '{name}' are a list, such as [state_dict, ...], not {type(listed).__name__}.")
        rated = [isinstance(one, Checkpoint) or (isinstance(one, (tuple, list)) and len(one) == 2) for one in listed]
        if any(rated) and not all(rated):
            raise InputError(f"Some checkpoints of model '{name}' have a learning rate and some have none: give all of them one, or none.")
    found = {name: tuple(as_checkpoint(one) for one in listed) for name, listed in given.items()}
    for name, checked in found.items():
        for number, one in enumerate(checked):
            check_checkpoint(name, number, one, modules[name])
    return found


def as_checkpoint(given: Any) -> Checkpoint:
    """A checkpoint from a state dict, a file of one, or either with its learning rate."""
    if isinstance(given, Checkpoint):
        return given
    if isinstance(given, (tuple, list)) and len(given) == 2:
        if isinstance(given[1], bool) or not isinstance(given[1], (int, float)) or not given[1] >= 0:
            raise InputError(f"A checkpoint's learning rate is a number of at least 0, not {short_repr(given[1])}.")
        return replace(as_checkpoint(given[0]), rate=float(given[1]))
    state = state_from(Path(given)) if isinstance(given, (str, Path)) else given
    inner = [value for value in state.values() if isinstance(value, Mapping)] if isinstance(state, Mapping) else []
    named = next((part for part in inner if part and all(isinstance(value, Tensor) for value in part.values())), None)
    state = state if named is None else named
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise InputError(f"A checkpoint is a state dict, a file of one, or (state dict, learning rate), not {type(state).__name__}.")
    return Checkpoint({str(key): value.detach() for key, value in state.items()})


def state_from(path: Path) -> Any:
    """What a safetensors file holds, or one of torch's that holds nothing but tensors."""
    if not path.exists():
        raise InputError(f"There is no checkpoint {path}.")
    try:
        return load_file(path) if path.suffix == ".safetensors" else torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(f"The checkpoint {path} holds pickled Python objects: save the weights alone, model.state_dict().") from error
    except Exception as error:
        raise InputError(f"The checkpoint {path} cannot be read as weights: {' '.join(str(error).split())[:120]}") from error
