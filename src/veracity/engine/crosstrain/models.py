"""Cross-trained models in an audit: one audited model a fold, asked about the samples that it never saw."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from torch import Tensor, nn

from veracity.core.errors import InputError, Note
from veracity.core.training import CrossTrained
from veracity.engine.crosstrain.folds import Trained
from veracity.engine.problem import AuditedModel, FoldPlace
from veracity.engine.resolve import Scores
from veracity.scores.stability import StabilityScore

APART = 0.03
"""How far apart the folds' accuracies may lie to be called comparable (section 4.1)."""

Models = Mapping[str, "nn.Module | CrossTrained"]


def unfolded(models: Models, folds: Mapping[str, Trained]) -> Iterator[tuple[str, str, FoldPlace | None, nn.Module]]:
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


def known_by(model: AuditedModel, place: FoldPlace | None, folds: Mapping[str, Trained]) -> AuditedModel:
    """A model under the hash that it is known by: of a fold that was trained here, what it was trained from and its weights."""
    hashes = () if place is None else folds[place.label].fingerprints
    return replace(model, fingerprint=hashes[place.fold]) if place is not None and hashes else model


def trained_or_missing(name: str, trained: Mapping[str, Trained] | None) -> Trained:
    """The folds' models of a cross-trained one; raises where they are needed and nobody trained them."""
    if trained is None or name not in trained:
        raise InputError(
            f"The model '{name}' is cross-trained and not trained yet: pass CrossTrained(build=...), which makes its network, or a "
            "torch.nn.Module that is trained."
        )
    return trained[name]


def accounted(
    models: Mapping[str, AuditedModel], folds: Mapping[str, Trained], accuracies: dict[str, float | None]
) -> tuple[dict[str, Any], ...]:
    """One record a fold with the accuracy on the audited samples that it was trained without; `accuracies` gets that of all."""
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


def comparable(records: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
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


def check_crossed(scores: Scores, models: Models, labels: Tensor | None) -> None:
    """Raise if a score of stability is written wrongly, no model is cross-trained, or nobody knows the right answers."""
    asked = [name for name, score in scores.named.items() if isinstance(score, StabilityScore) and score.checked()]
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
