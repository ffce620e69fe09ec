"""Symmetry scan: which of the catalogued symmetries does a model keep?

Every catalogued group that fits the inputs is tried, and the agreement is compared with that of different inputs.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from pydantic import Field
from torch import Size, Tensor, nn

from veracity.audit import Audit
from veracity.core.errors import InputError, Note
from veracity.core.inputs import FirstSamples, Inputs, Signals
from veracity.core.models import evaluating
from veracity.core.randomness import Draws
from veracity.core.sentences import tell
from veracity.core.spaces import InputSpace
from veracity.core.walks import Walk
from veracity.engine.admission import take
from veracity.engine.prepare import AuditPlan
from veracity.engine.resolve import as_whole
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Count, Kind, Part
from veracity.engine.store.study import findings
from veracity.inputs import as_inputs
from veracity.perturb import (
    CubeRotations,
    CyclicShift,
    Dihedral,
    Flips,
    Mirror,
    NodePermutations,
    Permutations,
    Rotation,
    Rotations,
    Rotations3D,
    SignFlip,
    WindowShift,
)
from veracity.perturb.groups.base import describe
from veracity.statistics.intervals import Array, mean_interval, unseen_share
from veracity.studies.result import StudyResult, gate_rows, or_none, write_study
from veracity.walk import Exhaustive, MonteCarlo


def catalogue(shape: Size, structured: bool = False, margin: int = 0) -> list[InputSpace]:
    """Every catalogued symmetry of inputs of this shape (one sample's values) that moves anything, fitted.

    Of a graph's values (V, F), which are `structured`: node and feature permutations. One axis (F,), a table: permutations,
    shifts and reversal. Two axes, series (C, T), points (P, 3) or tokens (T, V): the same along each axis, rotations in
    space where there are three coordinates, an image's symmetries where it is square. Three axes or more, images
    (C, H, W): shifts, turns and mirror images of the last two, permutations of the channels. Inputs with a blank `margin`
    (see `blank_margin`) can be shifted inside it.

    >>> [space.name for space in catalogue(Size([5]))]
    ['cyclic_shift', 'mirror', 'permutations', 'sign_flip']
    """
    found = []
    for space in candidates(shape, structured, margin):
        with suppress(InputError):
            found.append(space.fit(shape))
    return [space for space in found if space.order is None or space.order > 1]


def candidates(shape: Size, structured: bool, margin: int) -> list[InputSpace]:
    """The symmetries to try on inputs of this shape; some may not fit."""
    points: list[InputSpace] = [Rotations3D(), CubeRotations()]
    if structured:
        return [NodePermutations(), Permutations(axis=-1), *points, SignFlip()]
    image: list[InputSpace] = [CyclicShift(axes=(-2, -1)), Dihedral(), Rotations(), Flips(), Rotation()]
    axes = [axis for axis in (-1, -2) if len(shape) >= -axis and shape[axis] > 1]
    along = [one for axis in axes for one in (CyclicShift(axes=(axis,)), Mirror(axis=axis))]
    window = [WindowShift(margin=margin, axes=(-2, -1) if len(shape) > 2 else (-1,))] if margin > 0 else []
    if len(shape) > 2:
        return [*(image if len(axes) == 2 else []), *along, *window, Permutations(axis=-3), SignFlip()]
    square = image if len(axes) == 2 and shape[0] == shape[1] else []
    return [*square, *along, *window, *(Permutations(axis=axis) for axis in axes), *points, SignFlip()]


def moves(space: InputSpace, signals: Signals) -> bool:
    """Whether a random element changes any of these inputs. If none does, every model keeps the symmetry.

    >>> moves(Permutations(axis=-2, size=3), Signals(torch.ones(8, 3, 4)))
    False
    """
    latent = Draws.of(0, torch.arange(len(signals))).normal(space.latents, stream="moves")
    moved = space.move(space.decode(latent), signals)
    pairs = zip((moved.values, *moved.structure), (signals.values, *signals.structure), strict=True)
    return not all(torch.equal(after, before) for after, before in pairs)


def blank_margin(x: Tensor) -> int:
    """How many outer entries are blank in every one of N inputs (N, ...): along rows and columns of images, else the last axis.

    Blank means one value per sample and channel, as `WindowShift` requires. The margin of blank inputs is 0.

    >>> blank_margin(torch.tensor([[[0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0]]]))
    2
    """
    sizes = x.shape[-2:] if x.ndim > 3 else x.shape[-1:]
    flat = x.reshape(-1, math.prod(sizes))
    visible = (flat != flat[:, :1]).any(dim=0).reshape(sizes).nonzero()
    if len(visible) == 0:
        return 0
    return int(torch.minimum(visible, visible.new_tensor(sizes) - 1 - visible).min())


TOLERANCE = 1e-4
"""A kept symmetry may deviate from a perfect one by at most this share of the distance to the null."""

ROUNDING = 1e-7
"""Outputs of different inputs are the same if they differ by at most this."""

NAMED = 10**9
"""The largest number of elements that is written out."""


def null_agreement(outputs: Tensor) -> float:
    """The similarity of outputs (N, K) of different inputs: the mean cosine over all pairs, (|sum of unit rows|^2 - n) / (n (n - 1)).

    A symmetry whose agreement is not higher is not kept. 1 for a constant model, NaN for fewer than two outputs with a direction.

    >>> import torch
    >>> round(null_agreement(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]])), 4)
    0.3333
    """
    rows = outputs.detach().double().flatten(1)
    lengths = rows.norm(dim=1, keepdim=True)
    units = (rows / lengths)[(lengths[:, 0] > 0) & rows.isfinite().all(dim=1)]
    n = len(units)
    return float((units.sum(dim=0).square().sum() - n) / (n * (n - 1))) if n > 1 else math.nan


class Verdict(Enum):
    """What a scan says of one symmetry, best first."""

    KEPT = "kept"
    EMPTY = "says nothing"
    BROKEN = "not kept"
    UNDEFINED = "undefined"


@dataclass(frozen=True, kw_only=True)
class KeptSymmetry:
    """How well a model keeps one symmetry over n samples; `elements` is the order of the group, None if it is infinite.

    `invariance` is the mean of eq. 1. `moved` is the mean without the identity, which every model keeps and which has a large weight in a
    small group, with the interval from `low` to `high`; `lowest` is the value of the worst sample. `null` is the agreement of different
    inputs. `rank` sets `place` and `why`. `space` is the symmetry itself, None in a scan that was read from a folder.
    """

    symmetry: str
    elements: float | None
    invariance: float
    moved: float
    low: float
    high: float
    lowest: float
    null: float
    n: int
    undefined: int
    verdict: Verdict
    place: int = 0
    why: str = ""
    space: InputSpace | None = field(default=None, compare=False)

    @classmethod
    def of(cls, space: InputSpace, values: Array, null: float, tolerance: float = TOLERANCE) -> KeptSymmetry:
        """From one invariance per sample (samples,), NaN if undefined, and the `null_agreement` of the model's outputs."""
        x = values[np.isfinite(values)]
        ends = mean_interval(without_identity(values, space.order))
        lowest = float(without_identity(x, space.order).min()) if len(x) else math.nan
        return cls(
            space=space,
            symmetry=describe(space),
            elements=space.order,
            invariance=float(x.mean()) if len(x) else math.nan,
            moved=ends.value,
            low=ends.low,
            high=ends.high,
            lowest=lowest,
            null=null,
            n=len(x),
            undefined=len(values) - len(x),
            verdict=verdict(lowest, null, tolerance),
        )


def without_identity(values: Array, order: int | None) -> Array:
    """Means over all `order` elements as means over all but the identity, at which the agreement is 1: (order v - 1) / (order - 1).

    Exact for an exhaustive walk, right on average for a random one: visit small groups as a whole.

    >>> without_identity(np.array([0.5, 1.0]), 2)
    array([0., 1.])
    """
    return values - (1.0 - values) * (1 / (order - 1)) if order is not None and order > 1 else values


def verdict(lowest: float, null: float, tolerance: float = TOLERANCE) -> Verdict:
    """Kept if even the worst sample has 1 - lowest <= tolerance min(1, 1 - null); without a null, 1 - lowest <= tolerance.

    The tolerance is relative to the distance from the null, since the outputs of a model that hardly responds are always similar.

    >>> verdict(0.99995, null=0.2), verdict(0.99995, null=0.9999), verdict(1.0, null=1.0)
    (<Verdict.KEPT: 'kept'>, <Verdict.BROKEN: 'not kept'>, <Verdict.EMPTY: 'says nothing'>)
    """
    if math.isnan(lowest):
        return Verdict.UNDEFINED
    if null >= 1.0 - ROUNDING and 1.0 - lowest <= tolerance:
        return Verdict.EMPTY
    room = 1.0 if math.isnan(null) else min(1.0, 1.0 - null)
    return Verdict.KEPT if 1.0 - lowest <= tolerance * room else Verdict.BROKEN


def rank(rows: Sequence[KeptSymmetry]) -> list[KeptSymmetry]:
    """The symmetries, best first, each with its place and the reason for it.

    Kept symmetries come first, the largest group before its subgroups, which are kept with it; an infinite group is the largest. The
    others follow by their invariance without the identity. Ties are sorted by name, since differences within the tolerance are rounding.
    """
    order = sorted(rows, key=sort_key)
    above = (None, *order)
    return [replace(row, place=number + 1, why=reason(row, above[number])) for number, row in enumerate(order)]


def sort_key(row: KeptSymmetry) -> tuple[int, tuple[float, float], float, tuple[float, float], str]:
    """The verdict, then the size of a kept symmetry or the agreement of another one, then the name."""
    size = (0, 0) if row.elements is None else (1, -row.elements)
    by_size = row.verdict in (Verdict.KEPT, Verdict.EMPTY)
    agreement = 0.0 if by_size or math.isnan(row.moved) else -row.moved
    return list(Verdict).index(row.verdict), size if by_size else (0, 0), agreement, size, row.symmetry


def reason(row: KeptSymmetry, above: KeptSymmetry | None) -> str:
    """Why a row has its place, in one sentence."""
    if row.verdict is Verdict.UNDEFINED:
        return tell("scan.undefined", undefined=1)
    if row.verdict is Verdict.EMPTY:
        return tell("scan.empty", samples=row.n)
    if row.verdict is Verdict.BROKEN:
        null = "" if math.isnan(row.null) else f" (different inputs: {row.null:.3f} on average)"
        chance = "; no more alike than different inputs" if row.moved <= row.null else ""
        return tell("scan.broken", row.moved, row.lowest, null, chance, samples=row.n)
    kept = f"Kept on every sample ({row.n}{f', undefined on {row.undefined}' if row.undefined else ''})"
    if above is None:
        return tell("scan.first", kept, size_of(row.elements), samples=row.n)
    if above.elements == row.elements:
        return tell("scan.tied", kept, size_of(row.elements), above.symmetry, samples=row.n)
    return tell("scan.fewer", kept, size_of(row.elements), above.symmetry, samples=row.n)


def size_of(elements: float | None) -> str:
    """How many elements there are, in words.

    >>> size_of(8), size_of(math.factorial(20)), size_of(None)
    ('8 elements', 'about 10^18 elements', 'elements without end')
    """
    if elements is None:
        return "elements without end"
    return f"{elements:,} elements" if elements < NAMED else f"about 10^{math.floor(math.log10(elements))} elements"


WHOLE = 64
"""All elements of a symmetry are tried up to this order."""


class SymmetryRecord(Part):
    """One symmetry of a scan."""

    symmetry: str
    elements: Annotated[float, Field(ge=1)] | None
    invariance: float | None
    moved: float | None
    low: float | None
    high: float | None
    lowest: float | None
    null: float | None
    n: Count
    undefined: Count
    verdict: Annotated[str, Field(pattern="^(kept|says nothing|not kept|undefined)$")]
    place: Count
    why: str


class Findings(Part):
    """What the folder of a scan keeps."""

    rows: Annotated[list[SymmetryRecord], Field(min_length=1)]


@dataclass(frozen=True)
class Scan(StudyResult):
    """The catalogued symmetries that fit the input, best kept first."""

    kind: ClassVar[Kind] = Kind.SCAN
    rows: list[KeptSymmetry]

    @classmethod
    def read(cls, folder: RunFolder, manifest: Mapping[str, Any]) -> Self:
        """The symmetries that a folder holds."""
        rows = []
        for record in findings(folder, Findings)["rows"]:
            numbers = {name: math.nan if record[name] is None else float(record[name]) for name in NUMBERS}
            known = {name: record[name] for name in SymmetryRecord.model_fields}
            rows.append(KeptSymmetry(**{**known, **numbers, "verdict": Verdict(record["verdict"])}))
        return cls(rows, title=manifest.get("title"), path=folder.root)

    def findings(self) -> dict[str, Any]:
        """One record per symmetry."""
        rows = []
        for row in self.rows:
            numbers = {name: or_none(getattr(row, name)) for name in NUMBERS}
            known = {name: getattr(row, name) for name in SymmetryRecord.model_fields}
            rows.append({**known, **numbers, "elements": writable(row.elements), "verdict": row.verdict.value})
        return {"rows": rows}

    def table(self) -> pd.DataFrame:
        """One row per symmetry, best kept first: its invariance with a 95 % interval over samples, the worst sample, the null.

        The identity, which every model keeps, is left out of the invariance.
        """
        names = ["symmetry", "elements", "verdict", "moved", "low", "high", "lowest", "null", "n", "why"]
        table = pd.DataFrame([vars(row) | {"elements": writable(row.elements), "verdict": row.verdict.value} for row in self.rows])
        return table[names].rename(columns={"moved": "invariance", "lowest": "worst"})

    def requirements(self) -> pd.DataFrame:
        """The `invariance` to every symmetry, with its interval over samples; the symmetry takes the place of the model."""
        rows = []
        for row in self.rows:
            unseen = unseen_share(row.n) if row.low == row.high else math.nan
            found = {"value": row.moved, "low": row.low, "high": row.high, "n": row.n, "unseen": unseen}
            rows.append({"model": row.symmetry, "score": "invariance", **found})
        return gate_rows(rows)

    def __str__(self) -> str:
        shown = self.table().drop(columns="why")
        return str(shown.to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep=""))


NUMBERS = ("invariance", "moved", "low", "high", "lowest", "null")


def writable(elements: float | None) -> float | None:
    """A number of elements that files can hold: exact below 10^15, else the power of ten below it, at most 10^300.

    >>> writable(8), writable(math.factorial(18))
    (8, 1000000000000000.0)
    """
    return elements if elements is None or elements < 10**15 else 10.0 ** min(math.floor(math.log10(elements)), 300)


def scan(
    model: nn.Module,
    inputs: Any,
    *,
    samples: int = 32,
    draws: int = 16,
    folder: str | Path | None = None,
    seed: int = 0,
    title: str | None = None,
    progress: bool = True,
) -> Scan:
    """Measure a model's invariance to every catalogued symmetry that fits its inputs, and rank them.

    The first `samples` inputs are moved: by all elements of a symmetry with at most 64, else by `draws` random ones. With a
    `folder`, what is measured stays there and is not measured again.
    """
    as_whole(samples, "samples", least=2)
    as_whole(draws, "draws", least=1)
    given = as_inputs(inputs)
    some = FirstSamples(given, min(samples, given.size()))
    signals = some.take(torch.arange(some.count))
    margin = 0 if signals.structure else blank_margin(signals.values)
    spaces = [space for space in catalogue(some.shape, bool(signals.structure), margin) if moves(space, signals)]
    if not spaces:
        raise InputError(f"No catalogued symmetry moves inputs of shape {tuple(some.shape)}.")
    where = nullcontext(str(folder)) if folder is not None else tempfile.TemporaryDirectory()
    parts = {f"{number:02d}-{space.name}": space for number, space in enumerate(spaces)}
    about: dict[str, Any] = {"title": title, "settings": {"samples": samples, "draws": draws, "seed": seed}}
    rows = []
    with where as root:
        RunFolder(root).check_writable(Kind.SCAN)
        null = null_of(audit_of(model, some, spaces[0], draws, seed).prepare())
        with write_study(Kind.SCAN, root, list(parts), doing="scanning", progress=progress, **about) as (written, advance):
            for part, space in parts.items():
                advance(0, describe(space))
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "model / outputs: ", Note)
                    result = audit_of(model, some, space, draws, seed).run(f"{root}/{part}", progress=False)
                values = result.samples("model_invariance")["value"].to_numpy(dtype=np.float64)
                rows.append(KeptSymmetry.of(space, values, null))
                advance(1, describe(space))
            found = Scan(rank(rows), title=title, path="" if folder is None else root)
            written.conclude(found.findings())
    return found


def audit_of(model: nn.Module, inputs: Inputs, space: InputSpace, draws: int, seed: int) -> Audit:
    """The audit of one symmetry."""
    small = space.order is not None and space.order <= WHOLE
    walk: Walk = Exhaustive() if small else MonteCarlo(draws=draws)
    return Audit(models={"model": model}, inputs=inputs, symmetry=space, walk=walk, scores=["model_invariance"], seed=seed)


def null_of(prepared: AuditPlan) -> float:
    """The similarity of the model's probabilities for different inputs."""
    model, inputs, parts = prepared.problem.models["model"], prepared.problem.inputs, list[Tensor]()
    with evaluating(model.module), torch.no_grad():
        prepared.budgets["model"].spend(inputs.size(), 1, lambda part: parts.append(model.read(take(inputs, part, model.module)).cpu()))
    outputs = torch.cat(parts)
    if outputs.shape[1] == 1:
        raise InputError("A scan compares outputs by their direction, which a single number has not: audit ModelInvariance(measure='l2').")
    return null_agreement(outputs)
