"""What the outputs of a model are, and which of its predictions are correct."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from veracity.core.dense_targets import label_map
from veracity.core.errors import InputError
from veracity.core.models import unwrap
from veracity.core.targets import Outputs, class_numbers
from veracity.engine.problem import AuditedModel
from veracity.models.base import ForeignModel
from veracity.models.transformers import config_classes


def declared(module: nn.Module) -> Outputs | None:
    """What an adapter says about the outputs of its model; classifiers of `transformers` give logits."""
    inner: Any = unwrap(module)
    found = getattr(inner, "outputs", None)
    if isinstance(found, Outputs):
        return found
    config = getattr(inner, "config", None)
    classifies = type(inner).__module__.startswith("transformers.") and type(inner).__name__.endswith("Classification")
    one_of_many = getattr(config, "problem_type", None) in (None, "single_label_classification")
    return Outputs.LOGITS if classifies and one_of_many and getattr(config, "num_labels", 0) > 1 else None


def recognise(rows: Tensor, labels: Tensor | None) -> Outputs:
    """Guess what outputs (N, K) are, with the help of the labels.

    A single output beside labels other than 0 and 1 is the value of a regression. Several outputs beside as many 0s and 1s are
    labels that do not exclude each other.
    """
    if labels is not None and rows.ndim == 2 and not labels.is_complex():
        yes_or_no = bool(((labels == 0) | (labels == 1)).all())
        if rows.shape[1] == 1 and labels.numel() == len(rows) and not yes_or_no:
            return Outputs.RAW
        unit = bool(((rows >= 0) & (rows <= 1)).all())
        if rows.shape[1] > 1 and labels.shape == rows.shape and yes_or_no and not unit:
            return Outputs.MULTILABEL
    return Outputs.detect(rows)


def share_correct(name: str, decided: Tensor, labels: Tensor | None, kind: Outputs) -> float | None:
    """The share of correct decisions: of pixels, of single labels, or of samples with one output; None if nothing is decided."""
    if labels is None or kind is Outputs.RAW or labels.is_complex():
        return None
    if decided.ndim == 3:
        truth = label_map(labels, decided)
        known = (truth >= 0) & (truth < max(decided.shape[2], 2))
        found = decided.argmax(2) if decided.shape[2] > 1 else kind.read(decided.flatten(0, 1))[:, 1].reshape(truth.shape) > 0.5
        return float((found == truth)[known].float().mean()) if bool(known.any()) else None
    if labels.numel() != decided.numel() or decided.ndim != 2:
        if labels.ndim == 1:
            return None
        shape = tuple(labels.shape[1:])
        raise InputError(
            f"The targets have the shape {shape} per sample, but model '{name}' returns {tuple(decided.shape[1:])}: pass one class number "
            "per sample, or one 0 or 1 for each output."
        )
    if not bool(((labels == 0) | (labels == 1)).all()):
        return None
    yes = kind.read(decided) if decided.shape[1] > 1 else kind.read(decided)[:, 1:]
    return float(((yes > 0.5) == labels.reshape(yes.shape).bool()).float().mean())


def correct_samples(name: str, scores: Tensor, labels: Tensor, outputs: Outputs | None) -> Tensor | None:
    """Which samples (samples,) are classified correctly by scores (samples, K).

    Raises on a label that is no class; None if the user said that the outputs are "raw", since those do not classify.
    """
    fix = "" if outputs else "pass outputs='raw' if it does not classify"
    try:
        return scores.argmax(1) == class_numbers(labels, scores.shape[1], f"model '{name}'", fix=fix)
    except InputError:
        if outputs is Outputs.RAW:
            return None
        raise


def class_titles(module: nn.Module, count: int) -> list[str]:
    """The names of the classes, as an estimator or the configuration of a `transformers` model has them; else their numbers."""
    inner: Any = unwrap(module)
    named = config_classes(module) or []
    invented = named == [f"LABEL_{number}" for number in range(count)]
    fitted = getattr(inner, "classes", None) if isinstance(inner, ForeignModel) else None
    names = fitted or ([] if invented else named)
    known = isinstance(names, list) and len(names) == count
    return [str(name) for name in names] if known else [str(number) for number in range(count)]


def classes_shown(model: AuditedModel, labels: Tensor | None, count: int) -> dict[str, list[str]]:
    """The predicted, the true and the explained class of the first samples, by their names if the model has any.

    Empty for a model that does not choose among classes; the explained class stands there only if it is another than the predicted one.
    """
    chooses = model.outputs in (Outputs.LOGITS, Outputs.PROBABILITIES)
    if model.predicted is None or model.classes is None or model.classes < 2 or not chooses:
        return {}
    names = class_titles(model.module, model.classes)
    found = {"predicted": model.predicted}
    if labels is not None and labels.ndim == 1 and not labels.is_floating_point():
        found["label"] = labels
    if model.targets.shape == model.predicted.shape and bool((model.targets != model.predicted.cpu()).any()):
        found["explained"] = model.targets
    if any(bool(((numbers < 0) | (numbers >= len(names))).any()) for numbers in found.values()):
        return {}
    return {what: [names[number] for number in numbers[:count].tolist()] for what, numbers in found.items()}
