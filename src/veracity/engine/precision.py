"""Audits in TF32: what would be lost in its rounding, and how far scores are from strict float32 on some of the samples."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch

from veracity.core.errors import SpecError
from veracity.core.fingerprint import of_json
from veracity.core.inputs import Inputs
from veracity.core.spaces import Space
from veracity.engine.plan import Job, plan
from veracity.engine.prepare import AuditPlan
from veracity.perturb.noise import AddedNoise
from veracity.perturb.weights.noise import WeightNoise

ROUNDING = 2.0**-11
"""TF32 keeps ten bits of a factor's mantissa, so it moves a factor by up to this share."""
CLEAR = 4.0
"""How many times larger than the rounding a perturbation must be."""
CHECKED = 16
"""How many samples are measured again in strict float32."""


def typical_size(inputs: Inputs) -> float:
    """The root mean square of some samples' values."""
    some = inputs.take(torch.arange(min(CHECKED, inputs.size()))).values
    return math.sqrt(float(some.double().square().mean()))


def smallest_share(space: Space, size: float) -> float | None:
    """The smallest perturbation of a space as a share of what it perturbs; None if that has no meaning."""
    if isinstance(space, WeightNoise):
        return None if space.sigma is None else space.strength(0)
    if isinstance(space, AddedNoise) and size > 0.0 and space.scales is None:
        return None if space.smallest is None else space.smallest / size
    return None


def check_resolution(jobs: Iterable[Job], inputs: Inputs) -> None:
    """Raise if a score perturbs by less than TF32 resolves."""
    size = typical_size(inputs)
    for job in jobs:
        for cell in job.cells:
            share = smallest_share(cell.request.space, size)
            if share is not None and share < CLEAR * ROUNDING:
                raise SpecError(
                    f"The score '{cell.name}' perturbs by {share:.2g} of the size of what it perturbs, but tf32 rounds that by up to "
                    f"{ROUNDING:.2g}: use precision='float32', or a perturbation of at least {CLEAR * ROUNDING:.2g}."
                )


def strict_plan(prepared: AuditPlan) -> AuditPlan:
    """The plan of the first samples in strict float32: the same models, draws, strengths and explained outputs.

    The outputs of the first pass were computed in TF32, so they are computed again.
    """
    models = {
        name: replace(one, fingerprint=of_json([one.fingerprint, "float32"]), first=None) for name, one in prepared.problem.models.items()
    }
    problem = replace(prepared.problem, models=models, precision="float32")
    return replace(prepared, problem=problem, jobs=plan(problem, prepared.budgets, most=CHECKED))


def strict_records(result: Any, strict: Any) -> list[dict[str, Any]]:
    """For every score: its mean over the samples that both results have, in TF32 and strictly, and the largest difference of one."""
    found: list[dict[str, Any]] = []
    for score in strict.manifest["scores"]:
        ours, theirs = result.samples(score), strict.samples(score)
        both = ours.merge(theirs, on=["model", "explainer", "sample"], suffixes=("", "_strict"))
        for (model, explainer), rows in both.groupby(["model", "explainer"], sort=False):
            rows = rows.dropna(subset=["value", "value_strict"])
            if len(rows):
                found.append(
                    {
                        "model": str(model),
                        "explainer": str(explainer),
                        "score": str(score),
                        "samples": len(rows),
                        "tf32": float(rows["value"].mean()),
                        "float32": float(rows["value_strict"].mean()),
                        "largest": float((rows["value"] - rows["value_strict"]).abs().max()),
                    }
                )
    return [one for one in found if all(math.isfinite(one[what]) for what in ("tf32", "float32", "largest"))]
