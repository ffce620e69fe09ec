"""A block of samples under copies of its estimator that were fitted again on other training data."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.explainers import Cost
from veracity.core.models import View, unwrap
from veracity.core.randomness import seeded
from veracity.core.scores import OUTPUTS, Reading, Reads
from veracity.core.training import Training
from veracity.core.walks import Ask
from veracity.engine.memory import Readings
from veracity.engine.perturbation.base import Perturbation, See, pair_of
from veracity.engine.plan import Cell
from veracity.engine.progress import weight
from veracity.engine.reader import Block
from veracity.perturb.refits import Refits, refit
from veracity.perturb.weights.copies import key

BYTES = 256 << 20


class FittedCopies:
    """The copies asked for last, by what they depend on, in a bounded number of bytes."""

    def __init__(self, limit: int = BYTES) -> None:
        self.limit, self.held = limit, 0
        self.kept: OrderedDict[str, tuple[nn.Module, int]] = OrderedDict()

    def recall(self, key: str, fit: Callable[[], nn.Module]) -> nn.Module:
        """The copy of a key, fitted if it is not held."""
        if key not in self.kept:
            model = fit()
            self.kept[key] = model, bytes_of(model)
            self.held += self.kept[key][1]
        self.kept.move_to_end(key)
        while self.held > self.limit and len(self.kept) > 1:
            self.held -= self.kept.popitem(last=False)[1][1]
        return self.kept[key][0]

    def forget(self) -> None:
        """Drop everything."""
        self.kept.clear()
        self.held = 0


COPIES = FittedCopies()
"""All explainers and all blocks of samples share the copies of a process; they are dropped at the end of a run."""


def bytes_of(value: Any) -> int:
    """The bytes of all arrays, strings and buffers inside an object, each counted once.

    >>> bytes_of({"weights": np.zeros(4), "more": [b"abc", "de"]})
    48
    """
    total, seen, waiting = 0, dict[int, Any](), [value]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, (type, ModuleType, FunctionType, int, float)) or one is None:
            continue
        seen[id(one)] = one  # kept, so that its id is not reused
        if isinstance(one, (np.ndarray, Tensor)):
            total += one.nbytes
        elif isinstance(one, (str, bytes, bytearray)):
            total += len(one)
        elif isinstance(one, Mapping):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple, set, frozenset)):
            waiting += list(one)
        else:
            try:
                waiting += [part for part in one.__reduce_ex__(4)[1:3] if part is not None]
            except Exception:  # an object without a state has no size that could be known
                waiting += list(getattr(one, "__dict__", {}).values())
    return total


class RefitPerturbation(Perturbation[Refits]):
    """Readings of one refitted copy after the other."""

    def __init__(self, block: Block, cells: Sequence[Cell], space: Refits, before: Readings) -> None:
        super().__init__(block, cells, space, before)
        training = block.problem.training
        data = "" if training is None else training.fingerprint()
        self.key = fingerprint.of_json([block.model.fingerprint, space.spec(), block.seed, data])

    def observe(self, ask: Ask, see: See) -> None:
        """Every copy of an ask, which goes copy by copy through all samples."""
        block = self.block
        for first in range(0, len(ask), len(block)):
            part = slice(first, first + len(block))
            piece = ask[part]
            found = self.read(int(piece.element[0, 0]), int(piece.element[0, 1]), piece)
            row = piece.row.to(block.device)
            before = {what: value[row] for what, value in self.before.items()}
            targets = block.targets[row]
            pair = pair_of(self.space, piece.element, Reading(targets, before), Reading(targets, found), block.frame)
            see(part, replace(pair, start=before.get(Reads.EXPLANATION)))

    def read(self, draw: int, level: int, piece: Ask) -> Readings:
        """Outputs and explanations of one copy."""
        block, found = self.block, dict[Reads, Tensor]()
        name = fingerprint.of_json([self.key, draw, level])
        reader = block.reader.on(self.copy(name, draw, level))
        if wanted := self.after & OUTPUTS:
            shared = fingerprint.of_json([block.key, name, self.request.layer])
            found |= block.outputs(lambda: reader, wanted, self.request, shared, passes=weight(Cost(forward=1)))
        if Reads.EXPLANATION in self.after:
            control = block.explainer is not None and block.explainer.control
            found[Reads.EXPLANATION] = block.explain_with(block.reader if control else reader.with_lesson(), self.request, piece)
        return found

    def copy(self, name: str, draw: int, level: int) -> nn.Module:
        """The model with its estimator fitted again; each copy is fitted once."""
        return COPIES.recall(name, partial(self.fit, draw, level))

    def fit(self, draw: int, level: int) -> nn.Module:
        """A new copy."""
        training = self.block.problem.training
        if training is None:
            raise InputError("Refits need the training set of the estimator: pass Audit(training=(x, y)).")
        model = self.block.model.module
        inner: Any = unwrap(model)
        rows, labels = self.space.data_of(draw, level, self.block.seed, training.labels)
        x, y = training_rows(model, training, rows), as_classes(inner.estimator, labels)
        with seeded(key("refits", self.block.seed, draw, level), gpus=()):
            fitted = refit(inner.estimator, x, y)
        return around(model, type(inner)(getattr(fitted, inner.method))).eval()


def training_rows(model: nn.Module, training: Training, rows: Tensor) -> Any:
    """Training rows as the estimator was given them: a DataFrame if it was fitted on one, else an array."""
    values = training.inputs.take(rows).values.cpu().numpy()
    while isinstance(model, View):
        if hasattr(model, "columns"):
            own: Any = getattr(training.inputs, "columns", model.columns)
            return own.decode(values, model.order)
        model = model.model
    return values


def as_classes(estimator: Any, labels: Tensor) -> np.ndarray[Any, Any]:
    """Labels as the estimator knows them: numbers as they are, and names of classes by their number."""
    known = getattr(estimator, "classes_", None)
    if known is not None and np.asarray(known).dtype.kind not in "iufb":
        return np.asarray(np.asarray(known)[labels.numpy()])
    return np.asarray(labels.numpy())


def around(model: nn.Module, inner: nn.Module) -> nn.Module:
    """The same views around another model; the given ones stay as they are."""
    if not isinstance(model, View):
        return inner
    again = copy.copy(model)
    again._modules = dict(model._modules)
    again._modules["model"] = around(model.model, inner)
    return again
