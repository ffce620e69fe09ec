"""Which training examples teach a concept, and which ones test what was learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.draws import Draws
from veracity.core.errors import InputError
from veracity.core.training import Training


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
