"""Symmetry scan: given a model and data and nothing else, which symmetries does the model keep?"""

from __future__ import annotations

import tempfile
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from veracity.audit import Audit
from veracity.core.errors import InputError, Note
from veracity.core.inputs import First, Inputs
from veracity.core.models import evaluating
from veracity.core.spaces import InputSpace
from veracity.core.walks import Walk
from veracity.engine.admission import sweep
from veracity.engine.prepared import Prepared
from veracity.engine.progress import bar
from veracity.engine.resolve import as_inputs, as_whole
from veracity.interpret.intervals import Array, mean_interval
from veracity.interpret.scan import Scanned, blank_margin, catalogue, moves, null_agreement, ranked, without_identity
from veracity.perturb.group.base import describe
from veracity.walk import Exhaustive, MonteCarlo

WHOLE = 64
"""Up to this order a symmetry is tried as a whole."""


@dataclass(frozen=True)
class Scan:
    """The catalogued symmetries that fit the input, best kept first."""

    rows: list[Scanned]
    values: dict[str, Array]

    def table(self) -> pd.DataFrame:
        """One row a symmetry, best kept first: its invariance with a 95 % interval over samples, the worst sample, the null.

        The identity, which every model keeps, is left out of the invariance.
        """
        records = []
        for row in self.rows:
            found = mean_interval(without_identity(self.values[describe(row.space)], row.space.order))
            records.append(
                {
                    "symmetry": describe(row.space),
                    "elements": row.space.order,
                    "verdict": row.verdict.value,
                    "invariance": found.value,
                    "low": found.low,
                    "high": found.high,
                    "worst": row.lowest,
                    "null": row.null,
                    "n": row.n,
                    "why": row.why,
                }
            )
        return pd.DataFrame(records)


def scan(
    model: nn.Module,
    inputs: Any,
    *,
    samples: int = 32,
    draws: int = 16,
    folder: str | Path | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Scan:
    """Measure a model's invariance to every catalogued symmetry that fits its inputs, and rank them.

    The first `samples` inputs are moved: by all elements of a symmetry with at most 64, else by `draws` random ones. What
    is measured stays in `folder`, if there is one, and is not measured again.
    """
    as_whole(samples, "samples", least=2)
    as_whole(draws, "draws", least=1)
    given = as_inputs(inputs)
    some = First(given, min(samples, given.size()))
    signals = some.take(torch.arange(some.count))
    margin = 0 if signals.structure else blank_margin(signals.values)
    spaces = [space for space in catalogue(some.shape, bool(signals.structure), margin) if moves(space, signals)]
    if not spaces:
        raise InputError(f"No catalogued symmetry moves inputs of shape {tuple(some.shape)}.")
    kept = nullcontext(str(folder)) if folder is not None else tempfile.TemporaryDirectory()
    values: dict[str, Array] = {}
    with kept as root, bar("scanning", len(spaces), progress) as advance:
        null = null_of(audit_of(model, some, spaces[0], draws, seed).prepare())
        for number, space in enumerate(spaces):
            advance(0, describe(space))
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "model / outputs: ", Note)
                result = audit_of(model, some, space, draws, seed).run(Path(root) / f"{number:02d}-{space.name}", progress=False)
            values[describe(space)] = result.samples("model_invariance")["value"].to_numpy(dtype=np.float64)
            advance(1, describe(space))
    rows = [Scanned.of(space, values[describe(space)], null) for space in spaces]
    return Scan(ranked(rows), values)


def audit_of(model: nn.Module, inputs: Inputs, space: InputSpace, draws: int, seed: int) -> Audit:
    """The audit of one symmetry."""
    small = space.order is not None and space.order <= WHOLE
    walk: Walk = Exhaustive() if small else MonteCarlo(draws=draws)
    return Audit(models={"model": model}, inputs=inputs, symmetry=space, walk=walk, scores=["model_invariance"], seed=seed)


def null_of(prepared: Prepared) -> float:
    """How alike the model's probabilities on different inputs are."""
    model = prepared.problem.models["model"]
    with evaluating(model.module):
        outputs = sweep("model", model.module, prepared.problem.inputs, prepared.budgets["model"])
    return null_agreement(model.outputs.read(outputs))
