"""One seed of a degradation check: the undamaged model, its damaged versions, and their scores."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from veracity.audit import Audit
from veracity.core.errors import InputError, Note, SpecError, unknown
from veracity.core.settings import short_repr
from veracity.core.spaces import WeightSpace
from veracity.core.training import CrossTrained
from veracity.engine.crosstrain.training import FoldTraining
from veracity.engine.resolve import as_labels
from veracity.engine.store import RunFolder
from veracity.inputs import as_inputs
from veracity.perturb import ConvolutionNoise, WrongLabels
from veracity.perturb.folds import members
from veracity.perturb.weights.copies import ScratchModel, key
from veracity.results import Result

UNDAMAGED = "undamaged"
Damage = WeightSpace | WrongLabels


DAMAGES: dict[str, Damage] = {"weights": ConvolutionNoise(), "labels": WrongLabels()}


@dataclass(frozen=True)
class Case:
    """One damaged model: which damage, how much of it, its level, and the seed; the undamaged one has the share 0."""

    damage: str
    share: float
    level: int
    seed: int

    @property
    def name(self) -> str:
        """The case's folder.

        >>> Case("weights", 0.05, 0, 2).name, Case("", 0.0, 0, 2).name
        ('weights-0.05-2', 'undamaged-2')
        """
        return f"{self.damage}-{self.share:g}-{self.seed}" if self.damage else f"{UNDAMAGED}-{self.seed}"


def as_damages(given: Any) -> dict[str, Damage]:
    """Damages by name, from names, objects, or a mapping to either."""
    if isinstance(given, str):
        raise SpecError(f"The damages are a list, such as ['{given}'], not one name.")
    listed = (
        given.items() if isinstance(given, Mapping) else [(one if isinstance(one, str) else getattr(one, "name", ""), one) for one in given]
    )
    found: dict[str, Damage] = {}
    for name, one in listed:
        if isinstance(one, str) and one not in DAMAGES:
            raise unknown("damage", one, DAMAGES)
        damage = DAMAGES[one] if isinstance(one, str) else one
        if not isinstance(damage, (WeightSpace, WrongLabels)):
            raise SpecError(
                f"A damage is 'weights', 'labels', a space of weights such as ConvolutionNoise(), or WrongLabels(), not {short_repr(one)}."
            )
        if name in found or name == UNDAMAGED or not re.fullmatch(r"[\w .=-]+", str(name)):
            raise SpecError(
                f"Each damage needs a name of its own, of letters and digits, such as {{'weights': ...}}, not {short_repr(name)}."
            )
        found[str(name)] = damage
    if not found:
        raise SpecError("There is no damage to check: pass damages=['weights', 'labels'], or one of them.")
    return found


Model = nn.Module | CrossTrained


@dataclass(frozen=True)
class Outcome:
    """The measurements of one case: rows, failed cells, and the reason if nothing could be measured."""

    case: Case
    rows: pd.DataFrame
    failed: pd.DataFrame
    lost: str = ""


class SeedBlock:
    """One seed: `audit` measures its undamaged model and the damaged ones, which are trained on `labels` if they are trained."""

    def __init__(self, audit: Audit, model: Model, labels: Tensor | None, seed: int, root: str, settings: Mapping[str, Any]) -> None:
        self.audit, self.labels, self.seed, self.root, self.settings = audit, labels, seed, root, settings
        self.base = model_of_seed(model, labels, seed)
        self.before = pd.DataFrame()

    def measure(self, case: Case, damages: Mapping[str, Damage]) -> Outcome:
        """The scores of one case. An error that only a damaged model causes is not the user's mistake: it is counted."""
        if not case.damage:
            outcome = self.run_audit(case, self.base)
            self.before = outcome.rows
            return outcome
        damage = damages[case.damage]
        spaces = [] if isinstance(damage, WrongLabels) else [damage.of(module) for module in self.modules]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Note)
                model = self.with_wrong_labels(case, damage) if isinstance(damage, WrongLabels) else self.with_noise(case, spaces)
                return self.run_audit(case, model)
        except InputError as error:
            rows = self.before.assign(damage=case.damage, share=case.share, value=np.nan, accuracy=np.nan)
            return Outcome(case, rows, pd.DataFrame(), lost=str(error))

    def run_audit(self, case: Case, model: Model) -> Outcome:
        """Measure one model."""
        result = replace(self.audit, models={"model": model}).run(f"{self.root}/{case.name}", **self.settings)
        failed = result.failures().drop(columns="model")
        failed.insert(0, "case", case.name)
        return Outcome(case, rows_of(result, case), failed)

    @cached_property
    def modules(self) -> tuple[nn.Module, ...]:
        """The undamaged networks, one per fold; the model itself if there are no folds."""
        if not isinstance(self.base, CrossTrained):
            return (self.base,)
        inputs = as_inputs(self.audit.inputs)
        store = RunFolder(f"{self.root}/{Case('', 0.0, 0, self.seed).name}")
        return FoldTraining(self.base, inputs, as_labels(self.audit.targets, inputs.size())).train(store, progress=False).modules

    def with_noise(self, case: Case, spaces: Sequence[WeightSpace]) -> Model:
        """The undamaged networks with damaged weights, each with its own noise."""
        seed = key("degradation", self.audit.seed, case.damage)
        made = []
        for fold, (module, space) in enumerate(zip(self.modules, spaces, strict=True)):
            copies = ScratchModel(module, seed)
            made.append(deepcopy(copies.become(copies.weights(space, [(fold, case.level)]), 0)))
        return replace(self.base, fit=None, build=None, models=made) if isinstance(self.base, CrossTrained) else made[0]

    def with_wrong_labels(self, case: Case, damage: WrongLabels) -> Model:
        """The model trained on partly wrong labels, with the same folds."""
        if not isinstance(self.base, CrossTrained) or self.labels is None:
            raise InputError("Wrong labels need a model that can be trained anew: pass CrossTrained(fit=...).")
        wrong = damage.of(self.labels, case.share, self.audit.seed)
        inputs, place = (self.base.data[0], self.base.place) if self.base.data else (self.audit.inputs, torch.arange(len(self.labels)))
        return replace(self.base, data=(inputs, wrong), place=place)


def model_of_seed(model: Model, labels: Tensor | None, seed: int) -> Model:
    """The model of a seed. The true labels fix the folds, so wrong labels do not change them."""
    if not isinstance(model, CrossTrained) or model.fit is None or labels is None:
        return model
    return replace(model, seed=model.seed + seed, folds=members(model.folds, labels, model.seed + seed))


def rows_of(result: Result, case: Case) -> pd.DataFrame:
    """One row per score and explainer; the value is NaN if it is undefined or only a bound."""
    table = result.table()
    bounds = {(one.explainer, one.score): one.bounds for one in result.series}
    ends = np.array([bounds[one] for one in zip(table["explainer"], table["score"], strict=True)]).reshape(-1, 2)
    accuracy = result.manifest["models"]["model"]["accuracy"]
    return pd.DataFrame(
        {
            "damage": case.damage,
            "share": case.share,
            "seed": case.seed,
            "score": table["score"],
            "explainer": table["explainer"],
            "value": table["value"].where(~table["bound"].astype(bool)).astype(float),
            "accuracy": np.nan if accuracy is None else float(accuracy),
            "direction": table["direction"],
            "least": ends[:, 0],
            "most": ends[:, 1],
        }
    )
