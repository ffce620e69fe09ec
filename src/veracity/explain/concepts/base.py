"""Which training examples teach a concept, and which ones test what was learnt.

How well a concept can be told from a layer, and whether that is better than a coin.

What all concept explanations share: classifiers of concepts on a layer, learnt once, tested on examples they have not seen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import betaincinv
from torch import Size, Tensor, nn
from torch.nn.functional import pad

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import BARE, Context, Cost, Frame, Learner, Need
from veracity.core.inputs import Inputs
from veracity.core.models import LayerScores, device_of, evaluating
from veracity.core.randomness import Draws
from veracity.core.settings import Count
from veracity.core.training import Training
from veracity.explain.passes import by_rows


@dataclass(frozen=True)
class ConceptSet:
    """Numbers of training examples, first as many that show the concept, then as many that do not: (2 k,) to fit, (2 h,) held out.

    `available` counts the examples with and without the concept that there were to choose from.
    """

    fitted: Tensor
    held_out: Tensor
    available: tuple[int, int]


def sizes(available: int, per_side: int) -> tuple[int, int]:
    """How many of the available examples a side are fitted, and how many are held out: a quarter of few, as many as are fitted of many.

    >>> sizes(1000, 100), sizes(120, 100), sizes(40, 100), sizes(3, 100)
    ((100, 100), (90, 30), (30, 10), (3, 0))
    """
    held_out = min(per_side, available // 4)
    return min(per_side, available - held_out), held_out


def concept_set(name: str, mask: Tensor, per_side: int, seed: int) -> ConceptSet:
    """A balanced random choice of examples with and without the concept, the same for every layer and every other concept.

    `mask` (n,) says which training examples show the concept. Both sides have the size of what the smaller one can
    give, so that chance is an accuracy of one half.
    """
    sides = [mask.cpu().nonzero()[:, 0], (~mask.cpu()).nonzero()[:, 0]]
    for rows, who in zip(sides, ("none", "all"), strict=True):
        if len(rows) == 0:
            raise InputError(
                f"The concept '{name}' is shown by {who} of the {len(mask)} training examples: "
                "a concept needs examples with it and examples without it."
            )
    fitted, held_out = sizes(min(len(rows) for rows in sides), per_side)
    chosen = [some(rows, fitted + held_out, seed, f"concept.{name}.{side}") for side, rows in enumerate(sides)]
    return ConceptSet(
        fitted=torch.cat([rows[:fitted] for rows in chosen]),
        held_out=torch.cat([rows[fitted:] for rows in chosen]),
        available=(len(sides[0]), len(sides[1])),
    )


def some(rows: Tensor, count: int, seed: int, stream: str) -> Tensor:
    """`count` of the rows, at random and without replacement."""
    return rows[Draws.of(seed, torch.zeros(1, dtype=torch.int64)).choice(len(rows), count, stream=stream)[0]]


def shown(rows: Tensor) -> Tensor:
    """Which of a concept set's rows show the concept: the first half.

    >>> shown(torch.tensor([7, 3, 9, 4]))
    tensor([ True,  True, False, False])
    """
    return torch.arange(len(rows)) < len(rows) // 2


def with_concepts(name: str, training: Training | None) -> Training:
    """The training examples, if there are any and some concepts with them."""
    if training is None:
        raise InputError(f"{name} needs training examples: pass Audit(training=(inputs, labels), concepts={{'name': ...}}).")
    if not training.concepts:
        raise InputError(f"{name} needs concepts: pass Audit(concepts={{'name': ...}}) with labels, a mask or a function for each.")
    return training


def concept_sets(name: str, training: Training | None, per_side: int, seed: int) -> Mapping[str, ConceptSet]:
    """Every concept's examples, by its name."""
    concepts = with_concepts(name, training).concepts
    return {concept: concept_set(concept, mask, per_side, seed) for concept, mask in concepts.items()}


Array = NDArray[np.float64]
LEVEL = 0.95
CHANCE = 0.5


def exact_interval(correct: Any, total: Any, level: float = LEVEL) -> tuple[Array, Array]:
    """The Clopper-Pearson interval of a share, for each of C counts: (C,) and (C,) to (C,) and (C,).

    Its ends are quantiles of Beta(k, n - k + 1) and Beta(k + 1, n - k). Nothing counted says nothing: 0 to 1.

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
    """Whether an accuracy on balanced held-out examples lies above one half, with its whole interval.

    >>> above_chance([31, 33, 0], [50, 50, 0])
    array([False,  True, False])
    """
    return exact_interval(correct, total)[0] > CHANCE


def rows_of(names: Sequence[str], learnt: Mapping[str, Tensor], layer: str, per_side: int) -> list[dict[str, Any]]:
    """What a reader must know of each concept's classifier: its examples, its held-out accuracy with interval, and any doubt."""
    count = {key: learnt[key].cpu().numpy() for key in ("fitted", "held_out", "correct", "trusted")}
    low, high = exact_interval(count["correct"], count["held_out"])
    rows = []
    for number, name in enumerate(names):
        fitted, held_out = int(count["fitted"][number]), int(count["held_out"][number])
        row = {
            "concept": name,
            "positives": fitted,
            "negatives": fitted,
            "held_out": held_out,
            "accuracy": int(count["correct"][number]) / held_out if held_out else float("nan"),
            "low": float(low[number]),
            "high": float(high[number]),
            "trusted": bool(count["trusted"][number]),
        }
        doubt = doubts(row, layer, per_side)
        rows.append(row | ({"warning": doubt} if doubt else {}))
    return rows


def doubts(row: Mapping[str, Any], layer: str, per_side: int) -> str:
    """What speaks against a concept's classifier, in a sentence; nothing if nothing does."""
    name, fitted = row["concept"], row["positives"]
    if not row["held_out"]:
        return (
            f"The concept '{name}' has too few examples ({fitted} a side) to test its classifier, so that it is left out of explanations."
        )
    if not row["trusted"]:
        found = f"{row['accuracy']:.2f} ({row['low']:.2f} to {row['high']:.2f}) on {row['held_out']} held-out examples"
        return (
            f"The concept '{name}' cannot be told from the layer '{layer}': its classifier's accuracy is {found}, "
            "which is not above chance, so that it is left out of explanations."
        )
    few = f"The classifier of the concept '{name}' was fitted to {fitted} examples a side, since there were too few for {per_side}."
    return few if fitted < per_side else ""


SEEDS = 2**32
"""How many seeds scikit-learn knows."""


@dataclass(frozen=True, kw_only=True)
class ConceptExplainer(Learner, ABC):
    """e(x) = c[h(x)]: classifiers c of C concepts on the output h of a layer (Proposition D.14).

    Each classifier is fitted to `per_side` random training examples with the concept and as many without it, and tested
    on others, at most as many; the classifier that was tested is the one that is used. A concept whose held-out accuracy
    is not above chance (the lower end of its 95 % interval is not above one half) has no place in the explanation; if
    there is none left, explanations are NaN, (N, 1). If h is invariant, so is e.
    """

    frame = Frame.CONCEPTS
    structured = True
    layer: str = ""
    per_side: Count = 100

    @property
    def needs(self) -> frozenset[Need]:
        """Examples with and without each concept."""
        return frozenset({Need.TRAINING, Need.CONCEPTS})

    @abstractmethod
    def fit(self, features: Tensor, labels: Tensor, seed: int) -> dict[str, Tensor]:
        """One concept's classifier as tensors, from features (n, d), float64, and which rows show the concept (n,)."""

    @abstractmethod
    def decisions(self, learnt: Mapping[str, Tensor], features: Tensor) -> Tensor:
        """How strongly each of C concepts is seen in features (N, d), float64: (N, C), above zero if it is there."""

    def cost(self, shape: Size) -> Cost:
        """One pass up to the layer."""
        return Cost(forward=1)

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        """A classifier for each concept, stacked, with the counts that its accuracy follows from: each (C, ...)."""
        with evaluating(model), torch.no_grad():
            sets = concept_sets(self.name, context.training, self.per_side, context.seed)
            inputs = with_concepts(self.name, context.training).inputs
            parts = [self.learn_one(model, inputs, chosen, context) for chosen in sets.values()]
        learnt = stacked(parts)
        return {**learnt, "trusted": torch.as_tensor(above_chance(learnt["correct"], learnt["held_out"]))}

    def learn_one(self, model: nn.Module, inputs: Inputs, chosen: ConceptSet, context: Context) -> dict[str, Tensor]:
        """One concept's classifier and how often it is right on examples that it was not fitted to."""
        made = self.fit(self.features(model, inputs, chosen.fitted, context.batch).double(), shown(chosen.fitted), context.seed)
        alone = {key: value.unsqueeze(0) for key, value in made.items()}
        tested = (self.seen(alone, self.features(model, inputs, rows, context.batch)) for rows in chosen.held_out.split(context.batch))
        found = torch.cat([bits[:, 0] for bits in tested]) if len(chosen.held_out) else torch.zeros(0, dtype=torch.bool)
        counts = {
            "available": torch.tensor(chosen.available),
            "fitted": torch.tensor(len(chosen.fitted) // 2),
            "held_out": torch.tensor(len(chosen.held_out)),
            "correct": (found == shown(chosen.held_out)).sum(),
        }
        return made | counts

    def features(self, model: nn.Module, inputs: Inputs, rows: Tensor, batch: int) -> Tensor:
        """What the layer gives for these examples, (n, d), on the CPU."""
        view, device = LayerScores(model, self.layer), device_of(model)
        found = torch.cat([inputs.take(part).to(device).through(view).cpu() for part in rows.split(batch)])
        if not found.isfinite().all():
            raise InputError(
                f"The layer '{self.layer}' gives NaN or infinity for some training examples, so that {self.name} cannot learn."
            )
        return found

    def seen(self, learnt: Mapping[str, Tensor], features: Tensor) -> Tensor:
        """Which concepts are seen in features (N, d): (N, C), bool."""
        return self.decisions(learnt, features.double()) > 0

    def trusted(self, context: Context, device: torch.device) -> dict[str, Tensor]:
        """What was learnt about the T concepts that can be told from the layer, each (T, ...)."""
        if not context.learnt:
            raise InputError(f"{self.name} has learnt nothing yet: call learn(model, context) and hand its result back as context.learnt.")
        keep = context.learnt["trusted"]
        return {key: value[keep].to(device) for key, value in context.learnt.items()}

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Bits (N, T), one for each concept that can be told from the layer, in the order of the concepts."""
        learnt = self.trusted(context, inputs.device)
        if not learnt["trusted"].any():
            return inputs.new_full((len(inputs), 1), float("nan"))
        view = LayerScores(model, self.layer)
        with torch.no_grad():
            bits = by_rows(lambda x, _, s: self.seen(learnt, view(x, *s)), inputs, targets, context.batch, context.structure)
        return bits.to(inputs.dtype)

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        """One row a concept: its examples, its held-out accuracy with a 95 % interval, whether it is trusted."""
        return rows_of(list(with_concepts(self.name, context.training).concepts), learnt, self.layer, self.per_side)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise without concepts with examples on both sides, or a layer that gives one row an input."""
        if not self.layer or not isinstance(self.layer, str):
            raise SpecError(f"{self.name} needs the name of a layer: pass {type(self).__name__}(layer='...').")
        concept_sets(self.name, context.training, self.per_side, context.seed)
        with evaluating(model), torch.no_grad():
            LayerScores(model, self.layer)(inputs, *context.structure)
        return ()


def stacked(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The same tensors of several concepts, each stacked along a first axis; smaller ones are filled up with zeros.

    >>> stacked([{"w": torch.tensor([1.0])}, {"w": torch.tensor([2.0, 3.0])}])
    {'w': tensor([[1., 0.],
            [2., 3.]])}
    """
    return {key: torch.stack(filled(part[key] for part in parts)) for key in parts[0]}


def filled(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Tensors with as many axes, filled up with zeros to one shape."""
    given = list(tensors)
    shape = torch.tensor([tensor.shape for tensor in given]).amax(0).tolist()
    return [
        pad(tensor, [side for axis in reversed(range(tensor.ndim)) for side in (0, shape[axis] - tensor.shape[axis])]) for tensor in given
    ]
