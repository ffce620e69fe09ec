"""Explainers under unique labels with their controls, and checks of what they bring and need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import Explainer, Frame, GivenMaps, InputObserver, Need, control_label
from veracity.core.inputs import Inputs
from veracity.core.settings import check_value
from veracity.core.training import Training
from veracity.engine.memory import Budget
from veracity.engine.resolve.settings import check_labels
from veracity.explain import CONTROLS, Precomputed, as_explainer

LISTED = Sequence[Any] | Mapping[Any, Any]
NEEDED = {
    Need.TRAINING: "training examples: pass Audit(training=(inputs, labels))",
    Need.CONCEPTS: "concepts: pass Audit(training=(inputs, labels), concepts={'name': {labels that show it}})",
    Need.CHECKPOINTS: "the model's checkpoints: pass Audit(checkpoints={'model': [state_dict, ...]})",
}


def labelled(explainers: Sequence[Any] | Mapping[str, Any] | None, controls: bool, structured: bool = False) -> dict[str, Explainer]:
    """Explainers under unique labels: their name, with their settings where two share it; then the controls of their frames."""
    if isinstance(explainers, str):
        raise SpecError(f"The explainers are a list, such as ['{explainers}'], not one name.")
    explainers = check_value(() if explainers is None else explainers, LISTED, "The setting 'explainers'")
    if isinstance(explainers, Mapping):
        check_labels("explainer", explainers)
        named = {label: as_explainer(one) for label, one in explainers.items()}
    else:
        built = [as_explainer(one) for one in explainers]
        shared = Counter(one.name for one in built)
        labels = unique_labels([one.name if shared[one.name] == 1 else with_settings(one) for one in built], built)
        named = dict(zip(labels, built, strict=True))
    for label, one in named.items():
        if label in RESERVED and one.spec() != RESERVED[label]().spec():
            raise SpecError(
                f"The label '{label}' of the explainer '{one.name}' is the name of a control: choose another one, "
                "with explainers={'label': ...}."
            )
    explained = list(named.values())
    for control in (kind() for kind in CONTROLS) if controls else ():
        if any(fair(control, one) for one in explained) and (control.structured or not structured):
            named.setdefault(control.name, control)
    return named


def with_own_controls(
    explainers: Mapping[str, Explainer], model: nn.Module, inputs: Inputs, seed: int, budget: Budget
) -> tuple[dict[str, Explainer], dict[str, str]]:
    """The explainers with the controls that belong to single ones, and the label of the control that is the null of each of those.

    A control that is there already, under any label, is not added again.
    """
    found, nulls = dict(explainers), dict[str, str]()
    known = {fingerprint.of_json(one.spec()): label for label, one in explainers.items()}

    def own(kind: type[Explainer], mine: Mapping[str, Explainer]) -> Mapping[str, Mapping[str, Explainer]]:
        return kind.own_controls(mine, model, inputs, seed, budget.rows)

    for kind, mine in by_class(explainers).items():
        for label, controls in budget.attempt(partial(own, kind, mine)).items():
            for suffix, control in controls.items():
                key = fingerprint.of_json(control.spec())
                if key not in known:
                    known[key] = with_settings(control) if control.control else control_label(label, suffix)
                    check_free(known[key], found.setdefault(known[key], control), control, label)
                nulls.setdefault(label, known[key])
    return found, nulls


def check_free(label: str, taken: Explainer, control: Explainer, owner: str) -> None:
    """Raise if the label of a control of an explainer is that of something else; one of the same kind may take its place."""
    if type(taken) is not type(control):
        raise SpecError(
            f"The label '{label}' of the explainer '{taken.name}' is that of a control of '{owner}': choose another one, with "
            "explainers={'label': ...}."
        )


def by_class(explainers: Mapping[str, Explainer]) -> dict[type[Explainer], dict[str, Explainer]]:
    """The explainers of each class, by label."""
    kinds = dict.fromkeys(type(one) for one in explainers.values())
    return {kind: {label: one for label, one in explainers.items() if type(one) is kind} for kind in kinds}


RESERVED = {kind.name: kind for kind in CONTROLS}
"""The names of controls, which no other explainer may have: it would take the place of the null."""


def fair(control: Explainer, explainer: Explainer) -> bool:
    """Whether a control can be compared with an explainer: same frame, and same kind of numbers."""
    if control.frame is not explainer.frame or control.frame is Frame.INPUT:
        return control.frame is explainer.frame
    return control.categorical == explainer.categorical and (control.categorical or control.signed == explainer.signed)


def unique_labels(labels: list[str], explainers: list[Explainer]) -> list[str]:
    """Labels with a number where two differ in code alone; two explainers that are the same in everything are refused."""
    keys = [fingerprint.of_json(one.spec()) for one in explainers]
    for label, key in zip(labels, keys, strict=True):
        if keys.count(key) > 1:
            raise SpecError(f"Two explainers are the same, '{label}': leave one out, or label both with explainers={{'label': ...}}.")
    seen: Counter[str] = Counter()
    numbered = []
    for label in labels:
        seen[label] += 1
        numbered.append(label if seen[label] == 1 else f"{label} #{seen[label]}")
    return numbered


def with_settings(explainer: Explainer) -> str:
    """A name with the settings that differ from their defaults, and those that name what it is; an inner explainer by its own name."""
    parts = []
    for item in fields(explainer):
        value = getattr(explainer, item.name)
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        if callable(value) or item.name in ("random", "label"):
            continue
        if isinstance(value, Explainer):
            parts.append(with_settings(value))
        elif isinstance(value, Tensor) or value != default or item.metadata.get("named"):
            parts.append(f"{item.name}={'tensor' if isinstance(value, Tensor) else value}")
    return f"{explainer.name}({', '.join(parts)})" if parts else explainer.name


def prepare_explainer(inputs: Inputs, explainer: Explainer, training: Training | None = None) -> Explainer:
    """The explainer, after it has seen all inputs and training examples if it needs them."""
    explainer = explainer.with_data(inputs, training)
    if not isinstance(explainer, InputObserver) or not explainer.observes:
        return explainer
    if isinstance(explainer, Precomputed):
        check_given({explainer.name: explainer}, inputs, ())  # a table's names are gone once the maps are numbers
    return explainer.prepare(inputs.take(torch.arange(inputs.size())).values)


def check_given(explainers: Mapping[str, Explainer], inputs: Inputs, models: Iterable[str]) -> None:
    """Raise unless there is one precomputed map per input, in their order, for each model."""
    names, frame = getattr(inputs, "names", None), getattr(inputs, "frame", None)
    for label, one in explainers.items():
        if isinstance(one, GivenMaps) and len(one.given) != inputs.size():
            raise InputError(
                f"'{label}' has {len(one.given)} maps for {inputs.size()} inputs: give one map for each input, in their order."
            )
        if not isinstance(one, Precomputed):
            continue
        one.check_order(None if callable(names) else names, None if frame is None else list(frame.index))
        absent = [name for name in models if "" not in one.sets and name not in one.sets]
        if absent:
            raise InputError(
                f"'{label}' has maps of {', '.join(one.sets)}, but none of model '{absent[0]}': give one set of maps per model."
            )


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
                raise SpecError(f"{label} needs {NEEDED[need]}.")
