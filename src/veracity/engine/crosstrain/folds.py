"""The models of a cross-trained model, one per fold of the data: how they are stored, and their place in an audit.

Each model was trained without its fold, and is audited on the samples of that fold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, warn
from veracity.core.inputs import Inputs
from veracity.core.models import as_device, device_of, evaluating, weight_type
from veracity.core.training import CrossTrained
from veracity.engine.problem import AuditedModel, FoldPlace
from veracity.engine.resolve import Scores
from veracity.engine.store import RunFolder
from veracity.models import Converted, readable_output
from veracity.scores.stability import StabilityScore

MODELS = "models"
WEIGHTS, FACTS, PROBE = "weights.", "facts.", "probe"
PROBED = 8
"""On how many inputs a stored model is compared with the trained one."""
APART = 0.03
"""How far apart the folds' accuracies may lie to be called comparable (section 4.1)."""

Models = Mapping[str, "nn.Module | CrossTrained"]


@dataclass(frozen=True)
class FoldModels:
    """One model per fold, the fold (samples,) of each audited input, how each training went, and by what each model is known.

    A trained model is known by what it was trained from and by its weights; a given one by everything about it, "" here.
    """

    modules: tuple[nn.Module, ...]
    members: Tensor
    records: tuple[dict[str, Any], ...]
    fingerprints: tuple[str, ...] = ()


def save_model(store: RunFolder, key: str, model: nn.Module, inputs: Inputs, facts: Mapping[str, float]) -> None:
    """Store the weights and buffers of a trained model, its outputs for the first inputs, and facts about its training."""
    state = model.state_dict()
    odd = next((name for name, value in state.items() if not isinstance(value, Tensor)), None)
    if odd is not None:
        raise InputError(f"The state_dict of the model holds '{odd}', which is no tensor and cannot be stored: make it a buffer.")
    tensors = {f"{WEIGHTS}{name}": value for name, value in state.items()}
    known = {f"{FACTS}{name}": torch.tensor(value, dtype=torch.float64) for name, value in facts.items()}
    store.write_tensors(MODELS, key, {**tensors, **known, PROBE: probe_outputs(model, inputs)})


def stored_facts(stored: Mapping[str, Tensor]) -> dict[str, float]:
    """The facts about the training of a stored model."""
    return {name.removeprefix(FACTS): float(value) for name, value in stored.items() if name.startswith(FACTS)}


def rebuild_model(stored: dict[str, Tensor], network: nn.Module, inputs: Inputs) -> nn.Module | None:
    """A copy of the network with stored weights, in their own precision; None unless its outputs are those of the trained model.

    They are not if a network keeps more than its state_dict, such as a mean in a plain attribute.
    """
    model = deepcopy(network)
    state = {name.removeprefix(WEIGHTS): value for name, value in stored.items() if name.startswith(WEIGHTS)}
    try:
        model.load_state_dict(state, assign=True)
        now = probe_outputs(model, inputs)
    except (RuntimeError, InputError):
        return None
    before = stored[PROBE]
    same = before.shape == now.shape and torch.allclose(before, now, rtol=1e-3, atol=1e-4 * float(before.abs().max()))
    return model.eval() if same else None


def difference(first: nn.Module, second: nn.Module) -> str | None:
    """The first weight or buffer whose shape differs between two networks, with both shapes; None if there is none."""
    one, other = ({name: tuple(value.shape) for name, value in model.state_dict().items()} for model in (first, second))
    for name in (*one, *other):
        if one.get(name) != other.get(name):
            return f"'{name}' is {one.get(name, 'missing')} in one and {other.get(name, 'missing')} in the other"
    return None


def probe_outputs(model: nn.Module, inputs: Inputs) -> Tensor:
    """The outputs for the first few inputs, on the CPU."""
    return outputs_of(model, inputs, torch.arange(min(PROBED, inputs.size())))


@torch.no_grad()
def outputs_of(model: nn.Module, inputs: Inputs, index: Tensor) -> Tensor:
    """The scores of some inputs, on the CPU, found in what the model returns, in the type of its weights."""
    few, adapted, kind = inputs.take(index).to(device_of(model)), inputs.adapt(model), weight_type(model)
    if kind is not None and kind is not few.values.dtype:
        adapted = Converted(adapted, kind)
    with evaluating(model):
        _, outputs = readable_output(adapted, few.through(adapted))
    if not isinstance(outputs, Tensor):
        raise InputError(f"The model must return one tensor with a row for each input, not {type(outputs).__name__}.")
    return outputs.cpu()


def weight_hashes(model: nn.Module) -> list[str]:
    """A hash of every weight and buffer."""
    return [fingerprint.of_tensor(value) for value in model.state_dict().values() if isinstance(value, Tensor)]


def check_apart(name: str, models: list[nn.Module]) -> None:
    """Raise if two folds gave the very same weights: then the training does not depend on its data."""
    hashes = [fingerprint.of_json(weight_hashes(model)) for model in models]
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
                f"and MeGe and ReCo assume equally good models (the smallest fold has {fewest} samples to judge this by)."
            )
            notes.append({"model": label, "explainer": "", "text": text})
            warn(f"{label} / folds: {text}")
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
