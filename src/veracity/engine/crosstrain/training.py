"""The training of a cross-trained model: which samples the model of each fold sees, how it is trained, and how it is checked."""

from __future__ import annotations

import inspect
import math
import time
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.component import encode_setting
from veracity.core.errors import InputError, Note, SpecError, VeracityError
from veracity.core.inputs import Inputs, SelectedSamples, TensorInputs
from veracity.core.models import device_of, evaluating
from veracity.core.randomness import seeded
from veracity.core.targets import class_numbers
from veracity.core.training import CrossTrained
from veracity.engine.crosstrain import artefacts
from veracity.engine.memory import Budget
from veracity.engine.resolve import as_inputs, as_tensor
from veracity.engine.store import RunFolder
from veracity.perturb.folds import check_classes, members

TRAINING = 1
"""To be raised whenever what is trained from the same specification changes."""
TRIED, AT_ONCE, ENOUGH = 512, 64, 50
FEW = 2
STEPS = 1000

Advance = Callable[[int, str], None]


class FoldTraining:
    """The folds of a cross-trained model's data, and the way to the model of each."""

    def __init__(self, given: CrossTrained, inputs: Inputs, labels: Tensor | None, name: str) -> None:
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
    def about(self) -> list[Any]:
        """What all folds' models depend on; looked at once, before any training."""
        return [TRAINING, encode_setting(self.fit), self.inputs.fingerprint(), fingerprint.of_tensor(self.labels)]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Everything that the model of each fold depends on."""
        seen = [fingerprint.of_tensor((self.members != fold).nonzero()[:, 0]) for fold in range(self.k)]
        return tuple(fingerprint.of_json([*self.about, seen[fold], self.seed(fold)]) for fold in range(self.k))

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

    def finished(self, store: RunFolder) -> bool:
        """Whether the models of all folds lie in the folder."""
        return all(artefacts.exists(self.where(store), key) for key in self.keys)

    def model(self, fold: int, store: RunFolder, before: list[nn.Module], advance: Advance) -> tuple[nn.Module, dict[str, float]]:
        """The model of a fold, found or trained; the seconds that its training took, and what the trainer knows about it."""
        key, where = self.keys[fold], self.where(store)
        stored = artefacts.load(where, key)
        if stored is not None:
            network = before[0] if before else self.network() or self.trial_network()
            model = None if network is None else artefacts.rebuild(stored, network, self.inputs)
            if model is not None:
                advance(STEPS, f"{self.name}: fold {fold} found")
                return model, artefacts.facts_of(stored)
            warnings.warn(
                f"{self.name}: the stored model of fold {fold} cannot be brought back from its weights alone, and is trained again: "
                f"{'' if self.given.build else 'pass CrossTrained(build=...), and '}keep everything that it learns in its state_dict.",
                Note,
                stacklevel=5,
            )
        start = time.perf_counter()
        model = self.trained(fold, advance)
        if before and (where_else := artefacts.difference(before[0], model)):
            raise InputError(f"Model '{self.name}': fit gives different networks for folds 0 and {fold}: {where_else}.")
        known = None if before else self.network()
        if known is not None and (unlike := artefacts.difference(known, model)):
            raise InputError(f"Model '{self.name}': build=... makes another network than fit returns: {unlike}.")
        facts_by: Any = getattr(self.fit, "facts", None)
        facts = {"seconds": time.perf_counter() - start, **({} if facts_by is None else facts_by(model, self.inputs.shape))}
        artefacts.save(where, key, model, self.inputs, facts)
        return model, facts

    def trained(self, fold: int, advance: Advance) -> nn.Module:
        """Train without one fold, with random numbers of its own, and look at what comes back."""
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
            raise InputError(f"Model '{self.name}': fit failed on {len(seen)} samples{which} with {reason(error)}") from error
        if not isinstance(model, nn.Module):
            raise InputError(f"Model '{self.name}': fit must return a torch.nn.Module, not {type(model).__name__}.")
        return model.eval()

    def part(self, samples: Tensor) -> Tensor | SelectedSamples:
        """Some samples as fit gets them: a tensor where they are one."""
        return self.inputs.take(samples).values if isinstance(self.inputs, TensorInputs) else SelectedSamples(self.inputs, samples)

    def network(self) -> nn.Module | None:
        """The network before training, if somebody knows it."""
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
            raise SpecError(f"Model '{self.name}': its network cannot be built: {reason(error)}") from error
        if not isinstance(made, nn.Module):
            raise SpecError(f"Model '{self.name}': build=... must give a torch.nn.Module, not {type(made).__name__}.")
        return made.eval()

    def few(self) -> Tensor:
        """Where a few samples of each class stand."""
        order = torch.argsort(self.labels, stable=True)
        first = torch.searchsorted(self.labels[order], self.labels[order])
        return order[torch.arange(len(order)) - first < FEW].sort().values

    def trial_network(self) -> nn.Module | None:
        """A network from a training on a few samples of each class, only to have its shape; None if that does not work."""
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
            with evaluating(model), torch.no_grad():
                adapted, device = self.inputs.adapt(model), device_of(model)
                Budget(AT_ONCE).spend(len(few), 1, lambda part: parts.append(self.inputs.take(few[part]).to(device).through(adapted).cpu()))
            outputs = torch.cat(parts)
        except Exception as error:
            raise InputError(f"{what} cannot take the inputs it was given: {reason(error)}") from error
        if outputs.ndim != 2 or outputs.shape[1] < classes:
            shape = tuple(outputs.shape[1:])
            raise InputError(f"{what} gives outputs of shape {shape} a sample, not one for each of the {classes} classes.")
        if not bool(outputs.isfinite().all()):
            raise InputError(f"{what} gives NaN or infinity: the training diverged.")
        if at_chance(outputs.argmax(1), labels):
            right = int((outputs.argmax(1) == labels).sum())
            raise InputError(
                f"{what} is right on {right} of {len(labels)} samples that it was trained on, no better than chance: it is untrained."
            )


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
    """What there is to learn from, its labels (n,), and where the audited inputs stand in it (samples,)."""
    size = inputs.size()
    if given.data is None:
        if labels is None:
            raise InputError(f"The model '{name}' is cross-trained, which needs labels: pass Audit(targets=...).")
        return inputs, whole(labels, size, name), torch.arange(size)
    if not isinstance(given.data, (tuple, list)) or len(given.data) != 2:
        raise InputError(f"Model '{name}': data=... is a pair (inputs, targets), not {type(given.data).__name__}.")
    known = as_inputs(given.data[0])
    marks = whole(as_tensor(given.data[1], "targets of data"), known.size(), name)
    place = as_tensor(given.place, "place")
    if place is None or place.is_floating_point() or place.shape != (size,) or len(place.unique()) != size:
        raise InputError(f"Model '{name}': beside data=..., place=... says where each of the {size} audited inputs stands in it, once.")
    place = place.cpu().long()
    if int(place.min()) < 0 or int(place.max()) >= known.size():
        raise InputError(f"Model '{name}': place=... must lie between 0 and {known.size() - 1}.")
    for part in torch.arange(size).split(256):
        if not torch.equal(known.take(place[part]).values.cpu(), inputs.take(part).values.cpu()):
            raise InputError(f"Model '{name}': the inputs that place=... names in data=... are not those that are audited.")
    return known, marks, place


def whole(labels: Tensor | None, size: int, name: str) -> Tensor:
    """Class numbers, one per sample."""
    if labels is None or labels.shape != (size,):
        what = "nothing" if labels is None else f"the shape {tuple(labels.shape)}"
        raise InputError(f"Model '{name}' is cross-trained, which needs a class number for each of {size} samples, not {what}.")
    return class_numbers(labels, None, fix=f"model '{name}' is cross-trained, which needs the class of every sample").cpu()


def reason(error: Exception) -> str:
    """An error of somebody else's code in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def takes(function: Any, keyword: str) -> bool:
    """Whether a callable has a parameter of this name."""
    try:
        return keyword in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
