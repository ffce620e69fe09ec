"""What all concept explanations share: classifiers of concepts on a layer, learnt once and tested on held-out examples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import betaincinv
from torch import Size, Tensor, nn
from torch.nn.functional import pad

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import BARE, Context, Cost, Frame, Learner
from veracity.core.inputs import Inputs
from veracity.core.models import LayerScores, device_of, evaluating
from veracity.core.randomness import Draws
from veracity.core.settings import Count
from veracity.explain.passes import Structure, in_batches

Array = NDArray[np.float64]
CONFIDENCE = 0.95
CHANCE = 0.5


@dataclass(frozen=True, kw_only=True)
class ConceptExplainer(Learner, ABC):
    """e(x) = c[h(x)]: classifiers c of C concepts on the output h of a layer (Proposition D.14).

    Each classifier is fitted to `per_side` random training examples with the concept and as many without it, and tested
    on at most as many others. A concept is left out of the explanation if its held-out accuracy is not above chance (the
    lower end of its 95 % interval is not above one half). If no concept is left, explanations are NaN, (N, 1). If h is
    invariant, so is e.
    """

    frame = Frame.CONCEPTS
    structured = True
    layer: str = ""
    per_side: Count = 100

    @abstractmethod
    def fit(self, features: Tensor, labels: Tensor, seed: int) -> dict[str, Tensor]:
        """One concept's classifier as tensors, from features (n, d), float64, and which rows show the concept (n,)."""

    @abstractmethod
    def decisions(self, learnt: Mapping[str, Tensor], features: Tensor) -> Tensor:
        """Decision values (N, C) of C concepts for features (N, d), float64; above zero means present."""

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless every concept has examples with and without it, and the layer gives one row per input."""
        if not self.layer or not isinstance(self.layer, str):
            raise SpecError(f"{self.name} needs the name of a layer: pass {type(self).__name__}(layer='...').")
        self.example_sets(context)
        with evaluating(model), torch.no_grad():
            LayerScores(model, self.layer)(inputs, *context.structure)
        return ()

    def example_sets(self, context: Context) -> list[ConceptSet]:
        """The examples of each concept."""
        concepts = context.require_concepts(self.name).concepts
        return [concept_set(concept, mask, self.per_side, context.draws.seed) for concept, mask in concepts.items()]

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        """A classifier per concept, stacked, and the counts behind its accuracy: tensors (C, ...)."""
        inputs = context.require_concepts(self.name).inputs
        with evaluating(model), torch.no_grad():
            learnt = stack_padded([self.learn_one(model, inputs, chosen, context) for chosen in self.example_sets(context)])
        return {**learnt, "trusted": torch.as_tensor(above_chance(learnt["correct"], learnt["held_out"]))}

    def learn_one(self, model: nn.Module, inputs: Inputs, chosen: ConceptSet, context: Context) -> dict[str, Tensor]:
        """One concept's classifier, and how often it is right on held-out examples."""
        features = self.features(model, inputs, chosen.fitted, context.batch).double()
        classifier = self.fit(features, labels_of(chosen.fitted), context.draws.seed)
        single = {key: value.unsqueeze(0) for key, value in classifier.items()}
        parts = [self.detect(single, self.features(model, inputs, rows, context.batch)) for rows in chosen.held_out.split(context.batch)]
        detected = torch.cat([bits[:, 0] for bits in parts]) if len(chosen.held_out) else torch.zeros(0, dtype=torch.bool)
        correct = int((detected == labels_of(chosen.held_out)).sum())
        counts = {"fitted": len(chosen.fitted) // 2, "held_out": len(chosen.held_out), "correct": correct}
        return classifier | {key: torch.tensor(value) for key, value in counts.items()}

    def features(self, model: nn.Module, inputs: Inputs, rows: Tensor, batch: int) -> Tensor:
        """The layer's output for these examples, (n, d), on the CPU."""
        view, device = LayerScores(model, self.layer), device_of(model)
        features = torch.cat([inputs.take(part).to(device).through(view).cpu() for part in rows.split(batch)])
        if not features.isfinite().all():
            raise InputError(f"The layer '{self.layer}' gives NaN or infinity for training examples: {self.name} cannot learn from it.")
        return features

    def detect(self, learnt: Mapping[str, Tensor], features: Tensor) -> Tensor:
        """Which concepts are present in features (N, d): bool (N, C)."""
        return self.decisions(learnt, features.double()) > 0

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """One number per trusted concept, (N, T), in the order of the concepts."""
        trusted = context.require_learnt(self.name)["trusted"]
        learnt = {key: value[trusted].to(inputs.device) for key, value in context.learnt.items()}
        if not trusted.any():
            return inputs.new_full((len(inputs), 1), float("nan"))
        return in_batches(partial(self.values, learnt, model), inputs, targets, context.batch, context.structure).to(inputs.dtype)

    def values(self, learnt: Mapping[str, Tensor], model: nn.Module, x: Tensor, targets: Tensor, structure: Structure) -> Tensor:
        """The explanations (N, T) of one batch, from what was learnt about T concepts."""
        with torch.no_grad():
            return self.detect(learnt, LayerScores(model, self.layer)(x, *structure))

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        """One row per concept: its examples, its held-out accuracy with a 95 % interval, and a warning if there is one."""
        names = context.require_concepts(self.name).concepts
        counts = (learnt[key].tolist() for key in ("fitted", "held_out", "correct", "trusted"))
        ends = (end.tolist() for end in exact_interval(learnt["correct"].cpu(), learnt["held_out"].cpu()))
        rows = []
        for name, fitted, held_out, correct, trusted, low, high in zip(names, *counts, *ends, strict=True):
            accuracy = correct / held_out if held_out else float("nan")
            row = {"concept": name, "positives": fitted, "negatives": fitted, "held_out": held_out, "accuracy": accuracy}
            row |= {"low": low, "high": high, "trusted": trusted}
            warning = concept_warning(row, self.layer, self.per_side)
            rows.append(row | ({"warning": warning} if warning else {}))
        return rows


class ConceptSet(NamedTuple):
    """Indices of training examples: (2 k,) to fit and (2 h,) held out. The first half of each shows the concept."""

    fitted: Tensor
    held_out: Tensor


def concept_set(name: str, mask: Tensor, per_side: int, seed: int) -> ConceptSet:
    """A balanced random choice of examples with and without the concept, independent of the layer and of other concepts.

    `mask` (n,) says which training examples show the concept. Both sides are as large as the smaller one allows, so
    chance is an accuracy of one half.
    """
    sides = [mask.cpu().nonzero()[:, 0], (~mask.cpu()).nonzero()[:, 0]]
    for rows, who in zip(sides, ("None", "All"), strict=True):
        if len(rows) == 0:
            raise InputError(
                f"{who} of the {len(mask)} training examples show the concept '{name}': "
                "a concept needs examples with it and examples without it."
            )
    fitted, held_out = split_sizes(min(len(rows) for rows in sides), per_side)
    draws = Draws.of(seed, torch.zeros(1, dtype=torch.int64))
    chosen = [rows[draws.choice(len(rows), fitted + held_out, stream=f"concept.{name}.{side}")[0]] for side, rows in enumerate(sides)]
    return ConceptSet(torch.cat([rows[:fitted] for rows in chosen]), torch.cat([rows[fitted:] for rows in chosen]))


def split_sizes(available: int, per_side: int) -> tuple[int, int]:
    """How many of the available examples per side are fitted and held out: a quarter is held out, at most `per_side`.

    >>> split_sizes(1000, 100), split_sizes(120, 100), split_sizes(40, 100), split_sizes(3, 100)
    ((100, 100), (90, 30), (30, 10), (3, 0))
    """
    held_out = min(per_side, available // 4)
    return min(per_side, available - held_out), held_out


def labels_of(rows: Tensor) -> Tensor:
    """Which rows of a concept set show the concept: the first half.

    >>> labels_of(torch.tensor([7, 3, 9, 4]))
    tensor([ True,  True, False, False])
    """
    return torch.arange(len(rows)) < len(rows) // 2


def stack_padded(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors of several concepts, stacked by key along a first axis; smaller ones are padded with zeros.

    >>> stack_padded([{"w": torch.tensor([1.0])}, {"w": torch.tensor([2.0, 3.0])}])
    {'w': tensor([[1., 0.],
            [2., 3.]])}
    """

    def stack(tensors: Sequence[Tensor]) -> Tensor:
        shape = torch.tensor([tensor.shape for tensor in tensors]).amax(0).tolist()
        margins = ([side for axis in reversed(range(one.ndim)) for side in (0, shape[axis] - one.shape[axis])] for one in tensors)
        return torch.stack([pad(tensor, margin) for tensor, margin in zip(tensors, margins, strict=True)])

    return {key: stack([part[key] for part in parts]) for key in parts[0]}


def exact_interval(correct: Any, total: Any, level: float = CONFIDENCE) -> tuple[Array, Array]:
    """The Clopper-Pearson interval of a share, for each of C counts: (C,) and (C,) to (C,) and (C,).

    Its ends are quantiles of Beta(k, n - k + 1) and Beta(k + 1, n - k). For n = 0 it is 0 to 1.

    >>> low, high = exact_interval([45, 50], [50, 50])
    >>> low.round(3), high.round(3)
    (array([0.782, 0.929]), array([0.967, 1.   ]))
    """
    k, n = np.asarray(correct, dtype=np.float64), np.asarray(total, dtype=np.float64)
    tail = (1.0 - level) / 2.0
    low = np.where(k > 0, betaincinv(np.maximum(k, 1.0), n - k + 1.0, tail), 0.0)
    high = np.where(k < n, betaincinv(k + 1.0, np.maximum(n - k, 1.0), 1.0 - tail), 1.0)
    return low, high


def above_chance(correct: Any, total: Any) -> NDArray[np.bool_]:
    """Whether the whole interval of an accuracy on balanced held-out examples lies above one half.

    >>> above_chance([31, 33, 0], [50, 50, 0])
    array([False,  True, False])
    """
    return exact_interval(correct, total)[0] > CHANCE


def concept_warning(row: Mapping[str, Any], layer: str, per_side: int) -> str:
    """A sentence about what is wrong with a concept's classifier; empty if nothing is."""
    name, fitted = row["concept"], row["positives"]
    if not row["held_out"]:
        return f"The concept '{name}' has too few examples ({fitted} per side) to test its classifier. It is left out of explanations."
    if not row["trusted"]:
        accuracy = f"{row['accuracy']:.2f} ({row['low']:.2f} to {row['high']:.2f}) on {row['held_out']} held-out examples"
        return (
            f"The layer '{layer}' does not separate the concept '{name}': its classifier's accuracy is {accuracy}, "
            "which is not above chance. The concept is left out of explanations."
        )
    if fitted < per_side:
        return f"The classifier of the concept '{name}' was fitted to {fitted} examples per side, since there were too few for {per_side}."
    return ""
