"""Trained models as files: their weights, and what they answered to a few inputs, by which they are known again.

Cross-training: one model for each fold of the data, trained without it, once; kept in the folder and found again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, Note, error_text
from veracity.core.inputs import Inputs
from veracity.core.models import as_device, device_of
from veracity.core.training import CrossTrained
from veracity.engine.crosstrain import artefacts
from veracity.engine.crosstrain.training import STEPS, Course
from veracity.engine.progress import bar
from veracity.engine.store import RunFolder


@dataclass(frozen=True)
class Trained:
    """One model a fold, the fold (samples,) of each audited input, how each training went, and by what each model is known.

    A trained model is known by what it was trained from and by its weights; a given one by everything about it, "" here.
    """

    modules: tuple[nn.Module, ...]
    members: Tensor
    records: tuple[dict[str, Any], ...]
    fingerprints: tuple[str, ...] = ()


def trained_folds(
    given: CrossTrained,
    inputs: Inputs,
    labels: Tensor | None,
    store: RunFolder,
    progress: bool = True,
    name: str = "model",
    look: Callable[[Trained], object] | None = None,
) -> Trained:
    """The models of all folds: given, found in the folder, or trained now and kept there, one after the other.

    `look` sees the first in the place of all, before the others are trained, and may raise.
    """
    course = Course(given, inputs, labels, name)
    if given.models:
        return as_given(course)
    modules: list[nn.Module] = []
    records = []
    course.where(store).files.sweep(artefacts.KIND)
    with bar(f"training {name}", course.k * STEPS, progress) as advance:
        for fold in range(course.k):
            model, facts = course.model(fold, store, modules, advance)
            modules.append(model)
            records.append({**course.sizes()[fold], **facts})
            advance(0, f"{name}: {fold + 1} of {course.k} folds")
            check_apart(name, modules)
            if fold == 0 and look is not None:
                look(gathered(course, [model] * course.k, course.sizes()))
    return gathered(course, modules, tuple(records))


def found_folds(given: CrossTrained, inputs: Inputs, labels: Tensor | None, store: RunFolder | None, name: str = "model") -> Trained | None:
    """The models of all folds, if there is a folder and they all lie in it; else untrained networks in their place, if those are known.

    Nothing is trained, and nothing is written.
    """
    course = Course(given, inputs, labels, name)
    if given.models:
        return as_given(course)
    network = course.network()
    if network is None:
        return None
    where = course.where(store) if store is not None and course.finished(store) else None
    stored = [] if where is None else [artefacts.found(where, key) for key in course.keys]
    revived = [None if one is None else artefacts.revived(one, network, course.inputs) for one in stored]
    whole = [model for model in revived if model is not None]
    if len(whole) == course.k:
        return gathered(course, whole, course.sizes())
    return gathered(course, [deepcopy(network) for _ in range(course.k)], course.sizes())


def finished_folds(given: CrossTrained, inputs: Inputs, labels: Tensor | None, store: RunFolder, name: str = "model") -> bool:
    """Whether there is nothing left to train."""
    return bool(given.models) or Course(given, inputs, labels, name).finished(store)


def missing_folds(given: CrossTrained, inputs: Inputs, labels: Tensor | None, store: RunFolder | None, name: str = "model") -> int:
    """How many folds are left to train."""
    course = Course(given, inputs, labels, name)
    if given.models:
        return 0
    where = None if store is None and given.folder is None else course.where(store or RunFolder(str(given.folder)))
    return course.k if where is None else sum(not artefacts.exists(where, key) for key in course.keys)


def as_given(course: Course) -> Trained:
    """Models that somebody trained; two that are the same are told, since their explanations cannot differ."""
    classes = int(course.labels.max()) + 1
    for fold, model in enumerate(course.given.models):
        try:
            outputs = artefacts.answers(model, course.inputs)
        except InputError:
            raise
        except Exception as error:
            text = f"{error_text(error)[:200]}: give models of these inputs."
            raise InputError(f"Model '{course.name}': the model of fold {fold} fails on the inputs with {text}") from error
        if outputs.ndim != 2 or outputs.shape[1] < classes:
            shape = tuple(outputs.shape[1:])
            raise InputError(
                f"Model '{course.name}': the model of fold {fold} gives outputs of shape {shape} a sample, not one for each of "
                f"the {classes} classes."
            )
    hashes = [fingerprint.of_json(weights(model)) for model in course.given.models]
    if len(set(hashes)) < len(hashes):
        text = "two of the given models have the same weights, so that their explanations cannot differ."
        warnings.warn(f"{course.name} / folds: {text}", Note, stacklevel=4)
    return Trained(tuple(placed(one, course.given.device) for one in course.given.models), course.audited, course.sizes())


def gathered(course: Course, modules: list[nn.Module], records: tuple[dict[str, Any], ...]) -> Trained:
    """Models of all folds, each known by what it was trained from and by its weights."""
    known = [fingerprint.of_json([key, weights(model)]) for key, model in zip(course.keys, modules, strict=True)]
    return Trained(tuple(placed(one, course.given.device) for one in modules), course.audited, records, tuple(known))


def weights(model: nn.Module) -> list[str]:
    """A hash of every weight and buffer."""
    return [fingerprint.of_tensor(value) for value in model.state_dict().values() if isinstance(value, Tensor)]


def check_apart(name: str, models: list[nn.Module]) -> None:
    """Raise if two folds gave the very same weights: then the training does not depend on its data."""
    hashes = [fingerprint.of_json(weights(model)) for model in models]
    for number, one in enumerate(hashes):
        if one in hashes[:number]:
            first = hashes.index(one)
            same = "the same model object" if models[first] is models[number] else "the same weights"
            raise InputError(
                f"Model '{name}': fit gives {same} for folds {first} and {number}, whatever it is trained on: it must build and train "
                "a new one."
            )


def placed(model: nn.Module, device: str | None) -> nn.Module:
    """The model on a device, copied there if it is elsewhere."""
    if device is None or device_of(model) == as_device(device):
        return model
    return deepcopy(model).to(as_device(device))
