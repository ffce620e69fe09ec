"""Cross-trained models in an audit: one model per fold of the data, trained without it, and asked about the samples of that fold.

Each is trained once, stored in the folder and found again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, Note, error_text
from veracity.core.inputs import Inputs
from veracity.core.models import as_device, device_of
from veracity.core.training import CrossTrained
from veracity.engine.crosstrain import artefacts
from veracity.engine.crosstrain.training import STEPS, FoldTraining
from veracity.engine.problem import AuditedModel, FoldPlace
from veracity.engine.progress import bar
from veracity.engine.resolve import Scores
from veracity.engine.store import RunFolder
from veracity.scores.stability import StabilityScore


@dataclass(frozen=True)
class FoldModels:
    """One model per fold, the fold (samples,) of each audited input, how each training went, and by what each model is known.

    A trained model is known by what it was trained from and by its weights; a given one by everything about it, "" here.
    """

    modules: tuple[nn.Module, ...]
    members: Tensor
    records: tuple[dict[str, Any], ...]
    fingerprints: tuple[str, ...] = ()


def train_folds(
    given: CrossTrained,
    inputs: Inputs,
    labels: Tensor | None,
    store: RunFolder,
    progress: bool = True,
    name: str = "model",
    look: Callable[[FoldModels], object] | None = None,
) -> FoldModels:
    """The models of all folds: given, found in the folder, or trained now and kept there, one after the other.

    `look` sees the first in the place of all, before the others are trained, and may raise.
    """
    training = FoldTraining(given, inputs, labels, name)
    if given.models:
        return given_models(training)
    modules: list[nn.Module] = []
    records = []
    training.where(store).files.sweep(artefacts.KIND)
    with bar(f"training {name}", training.k * STEPS, progress) as advance:
        for fold in range(training.k):
            model, facts = training.model(fold, store, modules, advance)
            modules.append(model)
            records.append({**training.sizes()[fold], **facts})
            advance(0, f"{name}: {fold + 1} of {training.k} folds")
            check_apart(name, modules)
            if fold == 0 and look is not None:
                look(models_of(training, [model] * training.k, training.sizes()))
    return models_of(training, modules, tuple(records))


def load_folds(
    given: CrossTrained, inputs: Inputs, labels: Tensor | None, store: RunFolder | None, name: str = "model"
) -> FoldModels | None:
    """The models of all folds, if there is a folder and they all lie in it; else untrained networks in their place, if those are known.

    Nothing is trained, and nothing is written.
    """
    training = FoldTraining(given, inputs, labels, name)
    if given.models:
        return given_models(training)
    network = training.network()
    if network is None:
        return None
    where = training.where(store) if store is not None and training.finished(store) else None
    stored = [] if where is None else [artefacts.load(where, key) for key in training.keys]
    revived = [None if one is None else artefacts.rebuild(one, network, training.inputs) for one in stored]
    whole = [model for model in revived if model is not None]
    if len(whole) == training.k:
        return models_of(training, whole, training.sizes())
    return models_of(training, [deepcopy(network) for _ in range(training.k)], training.sizes())


def missing_folds(given: CrossTrained, inputs: Inputs, labels: Tensor | None, store: RunFolder | None, name: str = "model") -> int:
    """How many folds are left to train."""
    training = FoldTraining(given, inputs, labels, name)
    if given.models:
        return 0
    where = None if store is None and given.folder is None else training.where(store or RunFolder(str(given.folder)))
    return training.k if where is None else sum(not artefacts.exists(where, key) for key in training.keys)


def given_models(training: FoldTraining) -> FoldModels:
    """Models that somebody trained; warns about identical models, whose explanations cannot differ."""
    classes = int(training.labels.max()) + 1
    for fold, model in enumerate(training.given.models):
        try:
            outputs = artefacts.probe_outputs(model, training.inputs)
        except InputError:
            raise
        except Exception as error:
            text = f"{error_text(error)[:200]}: give models of these inputs."
            raise InputError(f"Model '{training.name}': the model of fold {fold} fails on the inputs with {text}") from error
        if outputs.ndim != 2 or outputs.shape[1] < classes:
            shape = tuple(outputs.shape[1:])
            raise InputError(
                f"Model '{training.name}': the model of fold {fold} gives outputs of shape {shape} a sample, not one for each of "
                f"the {classes} classes."
            )
    hashes = [fingerprint.of_json(weights(model)) for model in training.given.models]
    if len(set(hashes)) < len(hashes):
        text = "two of the given models have the same weights, so that their explanations cannot differ."
        warnings.warn(f"{training.name} / folds: {text}", Note, stacklevel=4)
    return FoldModels(tuple(placed(one, training.given.device) for one in training.given.models), training.audited, training.sizes())


def models_of(training: FoldTraining, modules: list[nn.Module], records: tuple[dict[str, Any], ...]) -> FoldModels:
    """Models of all folds, each known by what it was trained from and by its weights."""
    known = [fingerprint.of_json([key, weights(model)]) for key, model in zip(training.keys, modules, strict=True)]
    return FoldModels(tuple(placed(one, training.given.device) for one in modules), training.audited, records, tuple(known))


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


APART = 0.03
"""How far apart the folds' accuracies may lie to be called comparable (section 4.1)."""

Models = Mapping[str, "nn.Module | CrossTrained"]


def every_module(models: Models, folds: Mapping[str, FoldModels]) -> Iterator[tuple[str, str, FoldPlace | None, nn.Module]]:
    """Every module with its own name, the name that it has in results, and its place among folds if it has one."""
    for label, model in models.items():
        if not isinstance(model, CrossTrained):
            yield label, label, None, model
            continue
        trained = folds[label]
        siblings = tuple(f"{label}, fold {fold}" for fold in range(len(trained.modules)))
        taken = next((name for name in siblings if name in models), None)
        if taken is not None:
            raise InputError(f"The name '{taken}' belongs to a fold of the model '{label}': call the other model something else.")
        for fold, (name, module) in enumerate(zip(siblings, trained.modules, strict=True)):
            yield name, label, FoldPlace(label, fold, siblings, (trained.members == fold).nonzero()[:, 0]), module


def with_fold_fingerprint(model: AuditedModel, place: FoldPlace | None, folds: Mapping[str, FoldModels]) -> AuditedModel:
    """A model under the hash that it is known by: of a fold that was trained here, what it was trained from and its weights."""
    hashes = () if place is None else folds[place.label].fingerprints
    return replace(model, fingerprint=hashes[place.fold]) if place is not None and hashes else model


def require_folds(name: str, trained: Mapping[str, FoldModels] | None) -> FoldModels:
    """The folds' models of a cross-trained one; raises where they are needed and nobody trained them."""
    if trained is None or name not in trained:
        raise InputError(
            f"The model '{name}' is cross-trained and not trained yet: pass CrossTrained(build=...), which makes its network, or a "
            "torch.nn.Module that is trained."
        )
    return trained[name]


def fold_records(
    models: Mapping[str, AuditedModel], folds: Mapping[str, FoldModels], accuracies: dict[str, float | None]
) -> tuple[dict[str, Any], ...]:
    """One record per fold with the accuracy on the audited samples that it was trained without; `accuracies` gets that of all."""
    found: list[dict[str, Any]] = []
    for label, trained in folds.items():
        right = total = 0
        for model in models.values():
            if model.place is None or model.place.label != label:
                continue
            here = None if model.correct is None else model.correct[model.place.samples]
            record = trained.records[model.place.fold]
            accuracy = None if here is None else float(here.float().mean())
            found.append({"model": label, **record, "samples": len(model.place.samples), "accuracy": accuracy})
            right, total = right + (0 if here is None else int(here.sum())), total + len(model.place.samples)
            accuracies[label] = None if here is None else right / total
    return tuple(found)


def accuracy_notes(records: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """What must be said of folds whose models are not equally good; warned about too."""
    notes = []
    for label in dict.fromkeys(record["model"] for record in records):
        own = [record for record in records if record["model"] == label and record["accuracy"] is not None]
        found = [record["accuracy"] for record in own]
        if found and max(found) - min(found) > APART:
            fewest = min(record["samples"] for record in own)
            text = (
                f"the folds' held-out accuracies go from {min(found):.3f} to {max(found):.3f}, more than {100 * APART:.0f} points apart, "
                f"and MeGe and ReCo take models for granted that are equally good (there are {fewest} samples a fold to tell)."
            )
            notes.append({"model": label, "explainer": "", "text": text})
            warnings.warn(f"{label} / folds: {text}", Note, stacklevel=4)
    return notes


def check_stability(scores: Scores, models: Models, labels: Tensor | None) -> None:
    """Raise if a score of stability is written wrongly, no model is cross-trained, or nobody knows the right answers."""
    stable = {name: score for name, score in scores.named.items() if isinstance(score, StabilityScore)}
    for score in stable.values():
        score.check()
    asked = list(stable)
    if asked and not any(isinstance(model, CrossTrained) for model in models.values()):
        raise InputError(
            f"The score '{asked[0]}' compares models that were trained without one fold each: pass models={{'name': "
            "CrossTrained(fit=...)}."
        )
    if asked and labels is None:
        raise InputError(f"The score '{asked[0]}' asks which models are right, which needs labels: pass Audit(targets=...).")


def on_device(model: CrossTrained, device: str) -> CrossTrained:
    """The same algorithm on a device: its models are audited there, and trained there if the trainer has a device to choose."""
    fit: Any = model.trainer() if model.fit is not None else None
    settable = is_dataclass(fit) and not isinstance(fit, type) and any(item.name == "device" for item in fields(fit))
    if settable and fit.device is None:
        fit = replace(fit, device=device)
    return replace(model, device=device, fit=fit)
