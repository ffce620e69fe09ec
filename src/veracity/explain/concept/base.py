"""What all concept explanations share: classifiers of concepts on a layer, learnt once, tested on examples they have not seen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor, nn
from torch.nn.functional import pad

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import BARE, Context, Cost, Explainer, Frame, Need
from veracity.core.inputs import Inputs
from veracity.core.models import LayerScores, device_of, evaluating
from veracity.core.settings import Count
from veracity.explain.concept.accuracy import above_chance, rows_of
from veracity.explain.concept.sets import ConceptSet, concept_sets, shown, with_concepts
from veracity.explain.passes import by_rows

SEEDS = 2**32
"""How many seeds scikit-learn knows."""


@dataclass(frozen=True, kw_only=True)
class ConceptExplainer(Explainer, ABC):
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
