"""The training of a cross-trained model: which samples the model of each fold sees, how it is trained, and how it is checked."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from copy import deepcopy
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.component import encode_setting
from veracity.core.errors import InputError, SpecError, VeracityError, error_text, warn
from veracity.core.inputs import Inputs, SelectedSamples, TensorInputs, is_streamed
from veracity.core.randomness import seeded
from veracity.core.targets import class_numbers
from veracity.core.training import CrossTrained
from veracity.engine.admission import one_line
from veracity.engine.crosstrain.folds import (
    MODELS,
    FoldModels,
    check_apart,
    difference,
    outputs_of,
    placed,
    probe_outputs,
    rebuild_model,
    save_model,
    stored_facts,
    weight_hashes,
)
from veracity.engine.memory import Budget
from veracity.engine.progress import bar
from veracity.engine.resolve import as_tensor
from veracity.engine.store import RunFolder
from veracity.inputs import as_inputs
from veracity.perturb.folds import check_classes, members

TRAINING = 1
"""Raise it whenever the same settings train other models than before."""
TRIED, AT_ONCE, ENOUGH = 512, 64, 50
FEW = 2
STEPS = 1000

Advance = Callable[[int, str], None]


class FoldTraining:
    """The folds of the data of a cross-trained model, and how the model of each fold is trained or loaded."""

    def __init__(self, given: CrossTrained, inputs: Inputs, labels: Tensor | None, name: str = "model") -> None:
        given.check()
        self.given, self.name = given, name
        self.inputs, self.labels, place = training_data(given, inputs, labels, name)
        self.members = members(given.folds, self.labels, given.seed)
        self.k = int(self.members.max()) + 1
        if not given.models or given.data is not None:
            check_classes(self.members, self.labels)
        if given.models and len(given.models) != self.k:
            raise InputError(f"Model '{name}' has {len(given.models)} trained models for {self.k} folds: give one for each fold.")
        self.audited = self.members[place]
        empty = sorted(set(range(self.k)) - set(self.audited.tolist()))
        if empty:
            raise InputError(f"Model '{name}': no audited input lies in fold {empty[0]}, of {self.k}: choose inputs from every fold.")
        self.fit = None if given.models else given.trainer()

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """A hash of everything that the model of each fold depends on; computed once, before any training."""
        about = [TRAINING, encode_setting(self.fit), self.inputs.fingerprint(), fingerprint.of_tensor(self.labels)]
        seen = [fingerprint.of_tensor((self.members != fold).nonzero()[:, 0]) for fold in range(self.k)]
        return tuple(fingerprint.of_json([*about, seen[fold], self.seed(fold)]) for fold in range(self.k))

    def sizes(self) -> tuple[dict[str, Any], ...]:
        """How many samples each model has not seen, and how many it has."""
        held_out = torch.bincount(self.members, minlength=self.k).tolist()
        return tuple({"fold": fold, "held_out": out, "trained_on": len(self.members) - out} for fold, out in enumerate(held_out))

    def seed(self, fold: int) -> int:
        """The seed of one fold's training."""
        return self.given.seed + (fold if self.given.reseed else 0)

    def where(self, store: RunFolder) -> RunFolder:
        """The folder of the trained models: the run's own, unless several runs share one."""
        return store if self.given.folder is None else RunFolder(self.given.folder)

    def missing(self, store: RunFolder | None) -> int:
        """How many models are still to be trained."""
        if self.given.models:
            return 0
        if store is None and self.given.folder is None:
            return self.k
        where = RunFolder(str(self.given.folder)) if store is None else self.where(store)
        return sum(not where.records.has(MODELS, key) for key in self.keys)

    def train(self, store: RunFolder, progress: bool = True, look: Callable[[FoldModels], object] | None = None) -> FoldModels:
        """The models of all folds: given, found in the folder, or trained now and stored there, one after the other.

        `look` gets the first model in the place of all before the others are trained, and may raise.
        """
        if self.given.models:
            return self.given_models()
        modules: list[nn.Module] = []
        records = []
        self.where(store).files.sweep(MODELS)
        with bar(f"training {self.name}", self.k * STEPS, progress) as advance:
            for fold in range(self.k):
                model, facts = self.model(fold, store, modules, advance)
                modules.append(model)
                records.append({**self.sizes()[fold], **facts})
                advance(0, f"{self.name}: {fold + 1} of {self.k} folds")
                check_apart(self.name, modules)
                if fold == 0 and look is not None:
                    look(self.models_of([model] * self.k, self.sizes()))
        return self.models_of(modules, tuple(records))

    def load(self, store: RunFolder | None) -> FoldModels | None:
        """The stored models of all folds; untrained networks if one is missing; None if nobody can build those.

        Nothing is trained, and nothing is written.
        """
        if self.given.models:
            return self.given_models()
        network = self.network()
        if network is None:
            return None
        stored = [] if store is None or self.missing(store) else [self.where(store).recovered(MODELS, key) for key in self.keys]
        models = [None if one is None else rebuild_model(one, network, self.inputs) for one in stored]
        whole = [model for model in models if model is not None]
        return self.models_of(whole if len(whole) == self.k else [deepcopy(network) for _ in range(self.k)], self.sizes())

    def given_models(self) -> FoldModels:
        """Models that the user trained; warns about identical models, whose explanations cannot differ."""
        classes = int(self.labels.max()) + 1
        for fold, model in enumerate(self.given.models):
            what = f"Model '{self.name}': the model of fold {fold}"
            try:
                outputs = probe_outputs(model, self.inputs)
            except InputError:
                raise
            except Exception as error:
                raise InputError(f"{what} fails on the inputs with {error_text(error)[:200]}: give models of these inputs.") from error
            check_outputs(what, outputs, classes)
        hashes = [fingerprint.of_json(weight_hashes(model)) for model in self.given.models]
        if len(set(hashes)) < len(hashes):
            text = "two of the given models have the same weights, so that their explanations cannot differ."
            warn(f"{self.name} / folds: {text}")
        return FoldModels(tuple(placed(one, self.given.device) for one in self.given.models), self.audited, self.sizes())

    def models_of(self, modules: list[nn.Module], records: tuple[dict[str, Any], ...]) -> FoldModels:
        """Models of all folds, each identified by what it was trained from and by its weights."""
        known = [fingerprint.of_json([key, weight_hashes(model)]) for key, model in zip(self.keys, modules, strict=True)]
        return FoldModels(tuple(placed(one, self.given.device) for one in modules), self.audited, records, tuple(known))

    def model(self, fold: int, store: RunFolder, before: list[nn.Module], advance: Advance) -> tuple[nn.Module, dict[str, float]]:
        """The stored or newly trained model of a fold, with the seconds of its training and what the trainer says about it."""
        key, where = self.keys[fold], self.where(store)
        stored = where.recovered(MODELS, key)
        if stored is not None:
            network = before[0] if before else self.network() or self.trial_network()
            model = None if network is None else rebuild_model(stored, network, self.inputs)
            if model is not None:
                advance(STEPS, f"{self.name}: fold {fold} found")
                return model, stored_facts(stored)
            warn(
                f"{self.name}: the stored model of fold {fold} cannot be brought back from its weights alone, and is trained again: "
                f"{'' if self.given.build else 'pass CrossTrained(build=...), and '}keep everything that it learns in its state_dict."
            )
        start = time.perf_counter()
        model = self.train_fold(fold, advance)
        if before and (where_else := difference(before[0], model)):
            raise InputError(f"Model '{self.name}': fit gives different networks for folds 0 and {fold}: {where_else}.")
        known = None if before else self.network()
        if known is not None and (unlike := difference(known, model)):
            raise InputError(f"Model '{self.name}': build=... makes another network than fit returns: {unlike}.")
        facts_by: Any = getattr(self.fit, "facts", None)
        facts = {"seconds": time.perf_counter() - start, **({} if facts_by is None else facts_by(model, self.inputs.shape))}
        save_model(where, key, model, self.inputs, facts)
        return model, facts

    def train_fold(self, fold: int, advance: Advance) -> nn.Module:
        """Train without one fold, with a seed of its own, and check the model."""
        seen = (self.members != fold).nonzero()[:, 0]
        told = 0

        def heard(done: int, total: int, text: str) -> None:
            nonlocal told
            now = STEPS * done // max(total, 1)
            advance(max(0, now - told), f"{self.name} fold {fold} of {self.k}: {text}")
            told = max(told, now)

        advance(0, f"{self.name}: fold {fold} of {self.k}")
        model = self.learn(seen, self.seed(fold), f" without fold {fold}", heard)
        advance(max(0, STEPS - told), f"{self.name}: fold {fold} of {self.k}")
        self.check(model, fold, seen)
        return model

    def learn(self, seen: Tensor, seed: int, which: str = "", heard: Callable[[int, int, str], None] | None = None) -> nn.Module:
        """Call fit on some samples."""
        if self.fit is None:
            raise InputError("Models that are given are not trained.")
        extra = {"progress": heard} if heard is not None and takes(self.fit, "progress") else {}
        try:
            with seeded(seed), torch.enable_grad():
                model = self.fit(self.part(seen), self.labels[seen], seed, **extra)
        except VeracityError:
            raise
        except Exception as error:
            raise InputError(f"Model '{self.name}': fit failed on {len(seen)} samples{which} with {one_line(error)}") from error
        if not isinstance(model, nn.Module):
            raise InputError(f"Model '{self.name}': fit must return a torch.nn.Module, not {type(model).__name__}.")
        return model.eval()

    def part(self, samples: Tensor) -> Tensor | SelectedSamples:
        """Some samples as `fit` gets them: a tensor if the inputs are one."""
        plain = isinstance(self.inputs, TensorInputs) or is_streamed(self.inputs)
        return self.inputs.take(samples).values if plain else SelectedSamples(self.inputs, samples)

    def network(self) -> nn.Module | None:
        """The untrained network, if `build` or the trainer can make it."""
        build: Any = self.given.build
        untrained: Any = getattr(self.fit, "untrained", None)
        if build is None and untrained is None:
            return None
        few = self.few()
        try:
            with seeded(self.given.seed):
                made = build() if build is not None else untrained(self.part(few), self.labels[few], self.given.seed)
        except VeracityError:
            raise
        except Exception as error:
            raise SpecError(f"Model '{self.name}': its network cannot be built: {one_line(error)}") from error
        if not isinstance(made, nn.Module):
            raise SpecError(f"Model '{self.name}': build=... must give a torch.nn.Module, not {type(made).__name__}.")
        return made.eval()

    def few(self) -> Tensor:
        """The indices of a few samples per class."""
        order = torch.argsort(self.labels, stable=True)
        first = torch.searchsorted(self.labels[order], self.labels[order])
        return order[torch.arange(len(order)) - first < FEW].sort().values

    def trial_network(self) -> nn.Module | None:
        """A network trained on a few samples per class, for its shape only; None if the training fails."""
        try:
            return self.learn(self.few(), self.given.seed)
        except InputError:
            return None

    def check(self, model: nn.Module, fold: int, seen: Tensor) -> None:
        """Raise on a model that does not classify, or that learnt nothing."""
        few = seen[torch.linspace(0, len(seen) - 1, min(TRIED, len(seen))).long()]
        labels, classes = self.labels[few], int(self.labels.max()) + 1
        what = f"Model '{self.name}': what fit returned for fold {fold}"
        try:
            parts: list[Tensor] = []
            Budget(AT_ONCE).spend(len(few), 1, lambda part: parts.append(outputs_of(model, self.inputs, few[part])))
            outputs = torch.cat(parts)
        except Exception as error:
            raise InputError(f"{what} cannot take the inputs it was given: {one_line(error)}") from error
        check_outputs(what, outputs, classes)
        if not bool(outputs.isfinite().all()):
            raise InputError(f"{what} gives NaN or infinity: the training diverged.")
        if at_chance(outputs.argmax(1), labels):
            right = int((outputs.argmax(1) == labels).sum())
            raise InputError(
                f"{what} is right on {right} of {len(labels)} samples that it was trained on, no better than chance: it is untrained."
            )


def check_outputs(what: str, outputs: Tensor, classes: int) -> None:
    """Raise unless there is one output per class."""
    if outputs.ndim != 2 or outputs.shape[1] < classes:
        shape = tuple(outputs.shape[1:])
        raise InputError(f"{what} gives outputs of shape {shape} per sample, not one for each of the {classes} classes.")


def at_chance(predicted: Tensor, labels: Tensor) -> bool:
    """Whether predictions of samples that were learnt from are no better than chance.

    That is, one class for all, or, of enough samples, a mean recall over classes that a coin reaches: at most 1 / C and two of its
    standard errors.
    """
    classes, place = labels.unique(return_inverse=True)
    if len(classes) > 1 and len(predicted.unique()) == 1:
        return True
    if len(labels) < ENOUGH:
        return False
    counts = place.bincount().double()
    recall = torch.zeros(len(classes), dtype=torch.float64).index_add_(0, place, (predicted == labels).double()) / counts
    chance = 1.0 / len(classes)
    error = math.sqrt(chance * (1.0 - chance) * float((1.0 / counts).sum())) / len(classes)
    return float(recall.mean()) <= chance + 2.0 * error


def training_data(given: CrossTrained, inputs: Inputs, labels: Tensor | None, name: str) -> tuple[Inputs, Tensor, Tensor]:
    """The training inputs, their labels (n,), and the index of each audited input among them (samples,)."""
    size = inputs.size()
    if given.data is None:
        if labels is None:
            raise InputError(f"The model '{name}' is cross-trained, which needs labels: pass Audit(targets=...).")
        return inputs, class_labels(labels, size, name), torch.arange(size)
    if not isinstance(given.data, (tuple, list)) or len(given.data) != 2:
        raise InputError(f"Model '{name}': data=... is a pair (inputs, targets), not {type(given.data).__name__}.")
    known = as_inputs(given.data[0])
    marks = class_labels(as_tensor(given.data[1], "targets of data"), known.size(), name)
    place = as_tensor(given.place, "place")
    if place is None or place.is_floating_point() or place.shape != (size,) or len(place.unique()) != size:
        raise InputError(f"Model '{name}': beside data=..., place=... must be the index of each of the {size} audited inputs in it.")
    place = place.cpu().long()
    if int(place.min()) < 0 or int(place.max()) >= known.size():
        raise InputError(f"Model '{name}': place=... must lie between 0 and {known.size() - 1}.")
    for part in torch.arange(size).split(256):
        if not torch.equal(known.take(place[part]).values.cpu(), inputs.take(part).values.cpu()):
            raise InputError(f"Model '{name}': the inputs that place=... names in data=... are not those that are audited.")
    return known, marks, place


def class_labels(labels: Tensor | None, size: int, name: str) -> Tensor:
    """Class numbers, one per sample."""
    if labels is None or labels.shape != (size,):
        what = "nothing" if labels is None else f"the shape {tuple(labels.shape)}"
        raise InputError(f"Model '{name}' is cross-trained, which needs a class number for each of {size} samples, not {what}.")
    return class_numbers(labels, None, fix=f"model '{name}' is cross-trained, which needs the class of every sample").cpu()


def takes(function: Any, keyword: str) -> bool:
    """Whether a callable has a parameter of this name."""
    try:
        return keyword in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
