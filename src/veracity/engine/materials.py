"""From what users give for training examples, concepts and checkpoints to what explainers get."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import Explainer, Need
from veracity.core.inputs import Inputs, Signals
from veracity.core.training import Checkpoint, Training, check_fits
from veracity.engine.resolve import as_inputs, as_labels

MISSING = {
    Need.TRAINING: "training examples: pass Audit(training=(inputs, labels))",
    Need.CONCEPTS: "concepts: pass Audit(training=(inputs, labels), concepts={'name': {labels that show it}})",
    Need.CHECKPOINTS: "the model's checkpoints: pass Audit(checkpoints={'model': [state_dict, ...]})",
}


def as_training(training: Any, concepts: Mapping[str, Any] | None) -> Training | None:
    """Training examples and their labels as a pair or a Training, with the concepts that they show."""
    if training is None:
        if concepts:
            raise InputError("Concepts need examples to learn them from: pass training=(inputs, labels) beside concepts=...")
        return None
    if not isinstance(training, Training):
        if not isinstance(training, Sequence) or len(training) != 2:
            raise InputError(f"The training set is a pair (inputs, labels) or a Training, not {type(training).__name__}.")
        inputs = as_inputs(training[0])
        labels = as_labels(training[1], inputs.size())
        if labels is None:
            raise InputError("The training set needs labels: pass training=(inputs, labels).")
        training = Training(inputs, labels.long())
    found: Training = training
    given = {**found.concepts, **(concepts or {})}
    return replace(found, concepts={name: as_concept(name, one, found) for name, one in given.items()})


def as_concept(name: str, given: Any, training: Training) -> Tensor:
    """Which training examples show a concept, from labels, a mask, or a function of (examples, labels)."""
    size = training.inputs.size()
    if isinstance(given, (set, frozenset)):
        mask = torch.isin(training.labels, torch.tensor(sorted(given)))
    elif callable(given):
        mask = torch.cat([shown(name, given, training.inputs, training.labels, part) for part in torch.arange(size).split(256)])
    else:
        mask = torch.as_tensor(given)
    if mask.shape != (size,) or mask.dtype is not torch.bool:
        raise InputError(
            f"The concept '{name}' is a set of labels, a function of (examples, labels), or one True or False for each of the {size} "
            f"training examples, not {mask.dtype} of shape {tuple(mask.shape)}."
        )
    if not mask.any() or mask.all():
        which = "No" if not mask.any() else "Every"
        raise InputError(f"{which} training example shows the concept '{name}': examples with and without it are needed.")
    return mask


def shown(name: str, function: Callable[[Any, Tensor], Any], inputs: Inputs, labels: Tensor, part: Tensor) -> Tensor:
    """A concept's function on some examples; it gets their values, or Signals where there is structure."""
    signals: Signals = inputs.take(part)
    found = torch.as_tensor(function(signals if signals.structure else signals.values, labels[part]))
    if found.shape != part.shape:
        raise InputError(f"The function of concept '{name}' must return one True or False an example, not shape {tuple(found.shape)}.")
    return found.cpu().bool()


def as_checkpoints(checkpoints: Mapping[str, Sequence[Any]] | None, modules: Mapping[str, nn.Module]) -> dict[str, tuple[Checkpoint, ...]]:
    """Checkpoints by model, each of which must fit it."""
    given = dict(checkpoints or {})
    for name in given:
        if name not in modules:
            raise InputError(f"There are checkpoints for a model '{name}' that is not audited; the models are {', '.join(modules)}.")
    found = {name: tuple(as_checkpoint(one) for one in listed) for name, listed in given.items()}
    for name, listed in found.items():
        for number, one in enumerate(listed):
            check_fits(name, number, one, modules[name])
    return found


def as_checkpoint(given: Any) -> Checkpoint:
    """A checkpoint from a state dict, a file of one, or either with its learning rate."""
    if isinstance(given, Checkpoint):
        return given
    if isinstance(given, tuple) and len(given) == 2:
        return replace(as_checkpoint(given[0]), rate=float(given[1]))
    if isinstance(given, (str, Path)):
        return Checkpoint(state_from(Path(given)))
    if not isinstance(given, Mapping) or not all(isinstance(value, Tensor) for value in given.values()):
        raise InputError(f"A checkpoint is a state dict, a file of one, or (state dict, learning rate), not {type(given).__name__}.")
    return Checkpoint({key: value.detach() for key, value in given.items()})


def state_from(path: Path) -> dict[str, Tensor]:
    """Weights from a safetensors file, or from one of torch's that holds nothing but tensors."""
    if not path.exists():
        raise InputError(f"There is no checkpoint {path}.")
    if path.suffix == ".safetensors":
        return load_file(path)
    try:
        loaded: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise InputError(f"The checkpoint {path} cannot be read as weights: {' '.join(str(error).split())[:120]}") from error
    return loaded


def check_needs(
    explainers: Mapping[str, Explainer], training: Training | None, checkpoints: Mapping[str, Any], models: Sequence[str]
) -> None:
    """Raise if an explainer lacks something that only the audit can bring."""
    for label, explainer in explainers.items():
        for need in sorted(explainer.needs, key=lambda one: one.value):
            here = {
                Need.TRAINING: training is not None,
                Need.CONCEPTS: training is not None and bool(training.concepts),
                Need.CHECKPOINTS: all(checkpoints.get(name) for name in models),
            }[need]
            if not here:
                raise SpecError(f"{label} needs {MISSING[need]}.")
