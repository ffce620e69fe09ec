"""Cross-training: one model for each fold of the data, trained without it, once; kept in the folder and found again."""

from __future__ import annotations

import inspect
import random
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.component import encode
from veracity.core.crosstrained import CrossTrained
from veracity.core.errors import InputError, Note, VeracityError
from veracity.core.inputs import Inputs, Part, TensorInputs
from veracity.core.models import as_device, device_of, evaluating
from veracity.engine import artefacts
from veracity.engine.progress import bar
from veracity.engine.resolve import as_inputs, as_tensor
from veracity.engine.store import RunFolder
from veracity.perturb.folds import members

TRAINING = 1
"""To be raised whenever what is trained from the same specification changes."""
UNTRAINED = 0.01
"""How likely a model must guess as well as it does for being called untrained."""
TRIED = 512
FEW = 2
STEPS = 1000


@dataclass(frozen=True)
class Trained:
    """One model a fold, the fold (samples,) of each audited input, and how each training went."""

    modules: tuple[nn.Module, ...]
    members: Tensor
    records: tuple[dict[str, Any], ...]


def trained_folds(
    given: CrossTrained, inputs: Inputs, labels: Tensor | None, store: RunFolder, progress: bool = True, name: str = "model"
) -> Trained:
    """The models of all folds: given, found in the folder, or trained now and kept there, one after the other."""
    course = Course(given, inputs, labels, name)
    if given.models:
        return Trained(tuple(placed(one, given.device) for one in given.models), course.audited, course.sizes())
    modules: list[nn.Module] = []
    records = []
    with bar(f"training {name}", course.k * STEPS, progress) as advance:
        for fold in range(course.k):
            model, facts = course.model(fold, store, modules, advance)
            modules.append(model)
            records.append({**course.sizes()[fold], **facts})
            advance(0, f"{name}: {fold + 1} of {course.k} folds")
    check_apart(name, modules)
    return Trained(tuple(placed(one, given.device) for one in modules), course.audited, tuple(records))


def stand_ins(given: CrossTrained, inputs: Inputs, labels: Tensor | None, name: str = "model") -> Trained | None:
    """Untrained networks in the place of the trained ones, to look at an audit before the training; None if nobody knows them."""
    course = Course(given, inputs, labels, name)
    if given.models:
        return Trained(tuple(placed(one, given.device) for one in given.models), course.audited, course.sizes())
    network = course.network()
    if network is None:
        return None
    return Trained(tuple(placed(deepcopy(network), given.device) for _ in range(course.k)), course.audited, course.sizes())


def finished_folds(given: CrossTrained, inputs: Inputs, labels: Tensor | None, store: RunFolder, name: str = "model") -> bool:
    """Whether the models of all folds lie in the folder."""
    course = Course(given, inputs, labels, name)
    where = course.where(store)
    return bool(given.models) or all(where.files.exists(f"{artefacts.KIND}/{course.key(fold)}.safetensors") for fold in range(course.k))


class Course:
    """One learning algorithm on one data set: which samples each of its models sees, and how it is trained."""

    def __init__(self, given: CrossTrained, inputs: Inputs, labels: Tensor | None, name: str) -> None:
        given.check()
        self.given, self.name = given, name
        self.inputs, self.labels, place = learnt_from(given, inputs, labels, name)
        self.members = members(given.folds, self.labels, given.seed)
        self.k = int(self.members.max()) + 1
        if given.models and len(given.models) != self.k:
            raise InputError(f"Model '{name}' has {len(given.models)} trained models for {self.k} folds: give one for each fold.")
        self.audited = self.members[place]
        empty = sorted(set(range(self.k)) - set(self.audited.tolist()))
        if empty:
            raise InputError(f"Model '{name}': no audited input lies in fold {empty[0]}, of {self.k}: choose inputs from every fold.")
        self.fit = None if given.models else given.trainer()

    def where(self, store: RunFolder) -> RunFolder:
        """The folder of the trained models: the run's own, unless several runs share one."""
        return store if self.given.kept is None else RunFolder(self.given.kept)

    def sizes(self) -> tuple[dict[str, Any], ...]:
        """How many samples each model has not seen, and how many it has."""
        held_out = torch.bincount(self.members, minlength=self.k).tolist()
        return tuple({"fold": fold, "held_out": out, "trained_on": len(self.members) - out} for fold, out in enumerate(held_out))

    def seed(self, fold: int) -> int:
        """The seed of one fold's training."""
        return self.given.seed + (fold if self.given.reseed else 0)

    def key(self, fold: int) -> str:
        """Everything that the model of a fold depends on."""
        about = [TRAINING, encode(self.fit), self.inputs.fingerprint(), fingerprint.of_tensor(self.labels)]
        return fingerprint.of_json([*about, fingerprint.of_tensor((self.members != fold).nonzero()[:, 0]), self.seed(fold)])

    def model(
        self, fold: int, store: RunFolder, before: list[nn.Module], advance: Callable[[int, str], None]
    ) -> tuple[nn.Module, dict[str, float]]:
        """The model of a fold, found or trained; the seconds that its training took, and what the trainer knows about it."""
        key, where = self.key(fold), self.where(store)
        stored = artefacts.found(where, key)
        if stored is not None:
            network = before[0] if before else self.network() or self.glimpsed()
            model = None if network is None else artefacts.revived(stored, network, self.inputs)
            if model is not None:
                advance(STEPS, f"{self.name}: fold {fold + 1} found")
                return model, artefacts.facts_of(stored)
            warnings.warn(
                f"{self.name}: the stored model of fold {fold + 1} cannot be brought back from its weights alone, and is trained again: "
                "pass CrossTrained(build=...), and keep everything that it learns in its state_dict.",
                Note,
                stacklevel=5,
            )
        start = time.perf_counter()
        model = self.trained(fold, advance)
        if before and (where_else := artefacts.differs(before[0], model)):
            raise InputError(f"Model '{self.name}': fit gives different networks for folds 1 and {fold + 1}: {where_else}.")
        known: dict[str, float] = facts_by(model, self.inputs.shape) if (facts_by := getattr(self.fit, "facts", None)) else {}
        facts = {"seconds": time.perf_counter() - start, **known}
        artefacts.keep(where, key, model, self.inputs, facts)
        return model, facts

    def trained(self, fold: int, advance: Callable[[int, str], None]) -> nn.Module:
        """Train without one fold, with random numbers of its own, and look at what comes back."""
        seen = (self.members != fold).nonzero()[:, 0]
        told = 0

        def heard(done: int, total: int, text: str) -> None:
            nonlocal told
            now = STEPS * done // max(total, 1)
            advance(max(0, now - told), f"{self.name} fold {fold + 1}/{self.k}: {text}")
            told = max(told, now)

        advance(0, f"{self.name}: fold {fold + 1} of {self.k}")
        model = self.learn(seen, self.seed(fold), heard)
        advance(max(0, STEPS - told), f"{self.name}: fold {fold + 1} of {self.k}")
        self.check(model, fold, seen)
        return model

    def learn(self, seen: Tensor, seed: int, heard: Callable[[int, int, str], None] | None = None) -> nn.Module:
        """Call fit on some samples."""
        if self.fit is None:
            raise InputError("Models that are given are not trained.")
        extra = {"heard": heard} if heard is not None and takes(self.fit, "heard") else {}
        try:
            with seeded(seed):
                model = self.fit(self.part(seen), self.labels[seen], seed, **extra)
        except VeracityError:
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"Model '{self.name}': fit failed on {len(seen)} samples with {type(error).__name__}: {reason}") from error
        if not isinstance(model, nn.Module):
            raise InputError(f"Model '{self.name}': fit must return a torch.nn.Module, not {type(model).__name__}.")
        return model.eval()

    def part(self, samples: Tensor) -> Tensor | Part:
        """Some samples as fit gets them: a tensor where they are one."""
        return self.inputs.take(samples).values if isinstance(self.inputs, TensorInputs) else Part(self.inputs, samples)

    def network(self) -> nn.Module | None:
        """The network before training, if somebody knows it."""
        untrained = getattr(self.fit, "untrained", None)
        with seeded(self.given.seed):
            if self.given.build is not None:
                return self.given.build().eval()
            if untrained is not None:
                made: nn.Module = untrained(self.part(torch.arange(self.inputs.size())), self.labels, self.given.seed)
                return made.eval()
        return None

    def glimpsed(self) -> nn.Module | None:
        """A network from a training on a few samples of each class, only to have its shape; None if that does not work."""
        order = torch.argsort(self.labels, stable=True)
        ranked = self.labels[order]
        first = torch.searchsorted(ranked, ranked)
        few = order[torch.arange(len(order)) - first < FEW]
        try:
            return self.learn(few.sort().values, self.given.seed)
        except InputError:
            return None

    def check(self, model: nn.Module, fold: int, seen: Tensor) -> None:
        """Raise on a model that does not classify, or that learnt nothing: no better than always naming the largest class."""
        few = seen[torch.linspace(0, len(seen) - 1, min(TRIED, len(seen))).long()]
        labels = self.labels[few]
        signals = self.inputs.take(few).to(device_of(model))
        classes = int(self.labels.max()) + 1
        try:
            with evaluating(model), torch.no_grad():
                outputs = signals.through(self.inputs.adapt(model)).cpu()
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(
                f"Model '{self.name}': what fit returned for fold {fold + 1} cannot take the inputs it was given: {reason}"
            ) from error
        if outputs.ndim != 2 or outputs.shape[1] < classes:
            raise InputError(
                f"Model '{self.name}': what fit returned for fold {fold + 1} gives outputs of shape {tuple(outputs.shape[1:])} a sample, "
                f"not one for each of the {classes} classes."
            )
        if not bool(outputs.isfinite().all()):
            raise InputError(f"Model '{self.name}': what fit returned for fold {fold + 1} gives NaN or infinity: the training diverged.")
        right, largest = int((outputs.argmax(1) == labels).sum()), float(labels.bincount().max()) / len(labels)
        if binom.sf(right - 1, len(labels), largest) > UNTRAINED:
            raise InputError(
                f"Model '{self.name}': what fit returned for fold {fold + 1} is right on {right} of {len(labels)} samples that it was "
                f"trained on, no better than always naming the largest class ({largest:.0%}): it is untrained."
            )


def learnt_from(given: CrossTrained, inputs: Inputs, labels: Tensor | None, name: str) -> tuple[Inputs, Tensor, Tensor]:
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
        raise InputError(
            f"Model '{name}': beside data=..., place=... says where each of the {size} audited inputs stands in it, each once."
        )
    place = place.cpu().long()
    if int(place.min()) < 0 or int(place.max()) >= known.size():
        raise InputError(f"Model '{name}': place=... must lie between 0 and {known.size() - 1}.")
    for part in torch.arange(size).split(256):
        if not torch.equal(known.take(place[part]).values.cpu(), inputs.take(part).values.cpu()):
            raise InputError(f"Model '{name}': the inputs that place=... names in data=... are not those that are audited.")
    return known, marks, place


def whole(labels: Tensor | None, size: int, name: str) -> Tensor:
    """Class numbers, one a sample."""
    if labels is None or labels.shape != (size,) or labels.is_floating_point() or int(labels.min()) < 0:
        what = "nothing" if labels is None else f"{labels.dtype} {tuple(labels.shape)}"
        raise InputError(f"Model '{name}' is cross-trained, which needs a class number from 0 for each of {size} samples, not {what}.")
    return labels.cpu().long()


def check_apart(name: str, models: list[nn.Module]) -> None:
    """Raise if two folds gave the very same weights: then the training does not depend on its data."""
    hashes = [fingerprint.of_json([fingerprint.of_tensor(value) for value in model.state_dict().values()]) for model in models]
    for number, one in enumerate(hashes):
        if one in hashes[:number]:
            raise InputError(
                f"Model '{name}': fit gives the same weights for folds {hashes.index(one) + 1} and {number + 1}, whatever it is trained on."
            )


def placed(model: nn.Module, device: str | None) -> nn.Module:
    """The model on a device, copied there if it is elsewhere."""
    if device is None or device_of(model) == as_device(device):
        return model
    return deepcopy(model).to(as_device(device))


def takes(function: Any, keyword: str) -> bool:
    """Whether a callable has a parameter of this name."""
    try:
        return keyword in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Global random states that follow from a seed inside, and are as they were outside."""
    python, array = random.getstate(), np.random.get_state()  # noqa: NPY002, a training of somebody else's may draw from it
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            torch.manual_seed(seed)
            with torch.enable_grad():
                yield
    finally:
        random.setstate(python)
        np.random.set_state(array)  # noqa: NPY002
