"""What a perturbation does to a block of samples: to its inputs, to the weights, to the training folds, or in a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veracity.core.errors import SpecError
from veracity.core.spaces import GuidedSpace, InputSpace, SampleSpace, Space, TargetSpace, TrainingSpace, WeightSpace
from veracity.core.walks import Search
from veracity.engine.memory import Readings
from veracity.engine.perturbation.base import Perturbation
from veracity.engine.perturbation.folds import FoldPerturbation
from veracity.engine.perturbation.inputs import GuidedPerturbation, InputPerturbation, SamplePerturbation, TargetPerturbation
from veracity.engine.perturbation.row_weights import RowWeightPerturbation
from veracity.engine.perturbation.search import SearchRun
from veracity.engine.perturbation.weights import WeightPerturbation
from veracity.engine.plan import Cell
from veracity.engine.reading import Block
from veracity.perturb.weights import RowWeightSpace

KINDS: tuple[tuple[type[Space], type[Perturbation[Any]]], ...] = (
    (GuidedSpace, GuidedPerturbation),
    (InputSpace, InputPerturbation),
    (SampleSpace, SamplePerturbation),
    (TargetSpace, TargetPerturbation),
    (RowWeightSpace, RowWeightPerturbation),
    (WeightSpace, WeightPerturbation),
    (TrainingSpace, FoldPerturbation),
)
"""How the elements of each kind of space reach a block of samples; the first kind that fits counts."""


def perturbation_of(block: Block, cells: Sequence[Cell], before: Readings) -> Perturbation[Any]:
    """How a block is perturbed for cells that share their request, beside what was read `before`."""
    space = cells[0].request.space
    kind = next((kind for spaces, kind in KINDS if isinstance(space, spaces)), None)
    if kind is None:
        raise SpecError(f"The space '{space.name}' acts on neither inputs, targets nor weights.")
    found = kind(block, cells, space, before)
    return SearchRun(found) if isinstance(cells[0].request.walk, Search) else found
