"""What a score observed along its levels, by (model, explainer): distortions of paths, and curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Size

from veracity.core.errors import VeracityError
from veracity.core.scores import Score, per_sample_mean
from veracity.report.view import SeriesView
from veracity.scores.faithfulness.curves import CurveScore, Insertion, RegionPerturbation
from veracity.scores.gef import Alignment
from veracity.scores.randomisation import MPRT

Array = NDArray[np.float64]
Subject = tuple[str, str]
BOTH = ("model", "explanation")


@dataclass(frozen=True, kw_only=True)
class Track:
    """Where the levels of a curve lie, and what both axes are, in words."""

    quantity: str
    places: Array
    across: str
    up: str
    bounds: tuple[float, float] = (-math.inf, math.inf)
    masking: bool = False


def distortions(series: Sequence[SeriesView], label: str, score: Score | None = None) -> dict[Subject, tuple[Array, Array]]:
    """Model and explanation distortions, (samples, draws, levels) each, of a score that observes both; none of any other.

    The segments of a path add up to its length, as the score does it.
    """
    found = {}
    for one in series:
        known = score.quantities if isinstance(score, Alignment) else BOTH
        if one.score == label and all(name in one.measured.quantities for name in known):
            plain = one.measured
            found[one.model, one.explainer] = score.distortions(plain) if isinstance(score, Alignment) else (plain[BOTH[0]], plain[BOTH[1]])
    return found


def curves(series: Sequence[SeriesView], label: str, quantity: str) -> dict[Subject, Array]:
    """A quantity along the levels, averaged over the draws of each sample: (samples, levels)."""
    mine = [one for one in series if one.score == label and quantity in one.measured.quantities]
    return {(one.model, one.explainer): over_draws(one.measured[quantity]) for one in mine}


def over_draws(values: Array) -> Array:
    """From (samples, draws, levels) to (samples, levels): the mean of what is defined.

    >>> over_draws(np.array([[[1.0, 2.0], [3.0, np.nan]]]))
    array([[2., 2.]])
    """
    samples, draws, levels = values.shape
    flat = np.moveaxis(values, 1, 2).reshape(samples * levels, draws)
    return per_sample_mean(flat).reshape(samples, levels)


def track(score: Score | None, shape: Sequence[int], levels: int) -> Track | None:
    """The curve that a score runs along, over `levels` levels on inputs of this shape; None if it has none."""
    if levels < 2:
        return None
    if isinstance(score, MPRT):
        return Track(
            quantity="value",
            places=np.arange(1.0, levels + 1),
            across="how many layers are randomised",
            up="the mean similarity of explanations before and after",
            bounds=score.bounds,
        )
    if not isinstance(score, CurveScore):
        return None
    word = "probability" if score.softmax else "score"
    what = "inserted" if isinstance(score, Insertion) else "masked"
    regions = isinstance(score, RegionPerturbation)
    return Track(
        quantity=score.quantities[0],
        places=shares(score, shape, levels),
        across=f"the share of the input that is {what}",
        up=f"how far the {word} of the explained class has dropped" if regions else f"the mean {word} of the explained class",
        bounds=((-1.0, 1.0) if regions else (0.0, 1.0)) if score.softmax else (-math.inf, math.inf),
        masking=what == "masked" and not regions,
    )


def shares(score: CurveScore, shape: Sequence[int], levels: int) -> Array:
    """Which share of the input has had its turn at each level; evenly spaced if the masks do not fit the shape."""
    try:
        masks: Any = score.masks().fit(Size(shape))
        if masks.levels == levels:
            return np.asarray(masks.count(torch.arange(levels)).double().numpy() / masks.units, dtype=np.float64)
    except VeracityError:
        pass
    return np.arange(1.0, levels + 1) / levels


def shape_of(manifest: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of one input, as the manifest has it."""
    return tuple(int(side) for side in (manifest.get("data") or {}).get("shape") or ())
