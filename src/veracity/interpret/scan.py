"""Symmetry scan: which of the catalogued symmetries does a model keep? The null that it is held against, and the ranking."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from torch import Tensor

from veracity.core.sentences import tell
from veracity.core.spaces import InputSpace
from veracity.interpret.catalogue import blank_margin, catalogue, moves
from veracity.interpret.intervals import Array
from veracity.perturb.group.base import describe

__all__ = ["Scanned", "Verdict", "blank_margin", "catalogue", "judged", "moves", "null_agreement", "ranked"]

TOLERANCE = 1e-4
"""How much of the way from a perfect symmetry to the null a kept symmetry may stray."""

ROUNDING = 1e-7
"""Different inputs whose outputs agree to this are not told apart."""

NAMED = 10**9
"""Up to how many elements an order is written out."""


def null_agreement(outputs: Tensor) -> float:
    """How alike outputs (N, K) of different inputs are: the mean cosine over all pairs, (|sum of unit rows|^2 - n) / (n (n - 1)).

    A symmetry that agrees no better is none. 1 for a constant model, NaN for fewer than two outputs with a direction.

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
class Scanned:
    """One symmetry's invariance over n samples.

    `invariance` is its mean as defined (eq. 1). `moved` is the mean without the identity, which every model keeps and
    which counts for much in a small group; `lowest` is the worst sample's. `null` is what different inputs reach.
    `place` and `why` are set by `ranked`.
    """

    space: InputSpace
    invariance: float
    moved: float
    lowest: float
    null: float
    n: int
    undefined: int
    verdict: Verdict
    place: int = 0
    why: str = ""

    @classmethod
    def of(cls, space: InputSpace, values: Array, null: float, tolerance: float = TOLERANCE) -> Scanned:
        """From one invariance a sample (samples,), NaN where undefined, and the `null_agreement` of the model's outputs."""
        x = values[np.isfinite(values)]
        away = without_identity(x, space.order)
        lowest = float(away.min()) if len(x) else math.nan
        return cls(
            space=space,
            invariance=float(x.mean()) if len(x) else math.nan,
            moved=float(away.mean()) if len(x) else math.nan,
            lowest=lowest,
            null=null,
            n=len(x),
            undefined=len(values) - len(x),
            verdict=judged(lowest, null, tolerance),
        )


def without_identity(values: Array, order: int | None) -> Array:
    """Means over all `order` elements as means over all but the identity, at which the agreement is 1: (order v - 1) / (order - 1).

    Exact for an exhaustive walk, right on average for a random one: visit small groups as a whole.

    >>> without_identity(np.array([0.5, 1.0]), 2)
    array([0., 1.])
    """
    return values - (1.0 - values) * (1 / (order - 1)) if order is not None and order > 1 else values


def judged(lowest: float, null: float, tolerance: float = TOLERANCE) -> Verdict:
    """Kept if even the worst sample has 1 - lowest <= tolerance min(1, 1 - null); without a null the tolerance stands alone.

    Measured by the distance to the null, since the outputs of a model that hardly reacts are alike whatever happens.

    >>> judged(0.99995, null=0.2), judged(0.99995, null=0.9999), judged(1.0, null=1.0)
    (<Verdict.KEPT: 'kept'>, <Verdict.BROKEN: 'not kept'>, <Verdict.EMPTY: 'says nothing'>)
    """
    if math.isnan(lowest):
        return Verdict.UNDEFINED
    if null >= 1.0 - ROUNDING and 1.0 - lowest <= tolerance:
        return Verdict.EMPTY
    room = 1.0 if math.isnan(null) else min(1.0, 1.0 - null)
    return Verdict.KEPT if 1.0 - lowest <= tolerance * room else Verdict.BROKEN


def ranked(rows: Sequence[Scanned]) -> list[Scanned]:
    """The symmetries, best first, each with its place and the reason for it.

    Kept ones come first, the one with the most elements before all others: where a group is kept, so are its parts. One
    without end is larger than any finite one. The rest follow by their invariance without the identity. Ties are
    broken by name, since differences within the tolerance are rounding.
    """
    order = sorted(rows, key=standing)
    above = (None, *order)
    return [replace(row, place=number + 1, why=reason(row, above[number])) for number, row in enumerate(order)]


def standing(row: Scanned) -> tuple[int, tuple[int, int], float, tuple[int, int], str]:
    """What a row is sorted by, least first."""
    size = (0, 0) if row.space.order is None else (1, -row.space.order)
    by_size = row.verdict in (Verdict.KEPT, Verdict.EMPTY)
    agreement = 0.0 if by_size or math.isnan(row.moved) else -row.moved
    return list(Verdict).index(row.verdict), size if by_size else (0, 0), agreement, size, describe(row.space)


def reason(row: Scanned, above: Scanned | None) -> str:
    """Why a row stands where it stands, in one sentence."""
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
        return tell("scan.first", kept, size_of(row.space), samples=row.n)
    if above.space.order == row.space.order:
        return tell("scan.tied", kept, size_of(row.space), describe(above.space), samples=row.n)
    return tell("scan.fewer", kept, size_of(row.space), describe(above.space), samples=row.n)


def size_of(space: InputSpace) -> str:
    """How many elements there are, in words.

    >>> from veracity.perturb import Dihedral, Permutations, Rotation
    >>> size_of(Dihedral()), size_of(Permutations(size=20)), size_of(Rotation())
    ('8 elements', 'about 10^18 elements', 'elements without end')
    """
    if space.order is None:
        return "elements without end"
    return f"{space.order:,} elements" if space.order < NAMED else f"about 10^{math.floor(math.log10(space.order))} elements"
