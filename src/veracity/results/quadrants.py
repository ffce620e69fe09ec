"""The four outcomes of a perturbation as counts with intervals: prediction kept or changed, explanation kept or changed (Figure 2B)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from veracity.core.errors import InputError
from veracity.scores.common import across_levels
from veracity.scores.outcomes import QUADRANTS, AlignedOutcomes, outcomes
from veracity.statistics.means import estimate

if TYPE_CHECKING:
    from veracity.results.run import Result

COLUMNS = ["model", "explainer", "control", "outcome", "count", "of", "share", "low", "high", "unseen", "undefined"]


def quadrants(result: Result, score: str = AlignedOutcomes.name, threshold: float | None = None) -> pd.DataFrame:
    """Four rows per model and explainer: how often each outcome of `QUADRANTS` was seen, and its share with an interval.

    `of` counts the copies of the model at all levels and samples that have an outcome, `undefined` those that have none. The share is the
    mean over samples and draws; its interval allows for other samples and other draws. Where all samples have the same share, such as none,
    the interval has no width, and `unseen` is the largest share of the population that may differ. `threshold` replaces the one of the
    score: the similarities are stored.
    """
    known = result.known_score(score) if score in result.manifest["score_specs"] else None
    if not isinstance(known, AlignedOutcomes):
        raise InputError(
            f"Quadrants are counted by the score 'aligned_outcomes', and '{score}' is none of this run: add it to the scores and run again."
        )
    if threshold is not None and not (isinstance(threshold, (int, float)) and np.isfinite(threshold)):
        raise InputError(f"The threshold is a similarity, such as 0.5, not {threshold!r}.")
    limit = known.threshold if threshold is None else float(threshold)
    rows: list[dict[str, Any]] = []
    for one in (series.sound() for series in result.series if series.score == score):
        if not len(one.samples):
            continue
        found = outcomes(one.measured, limit)
        drawn = np.arange(found[0].shape[1])[None, :, None] < one.counts[:, None, None]
        missing = int((np.isnan(found[0]) & drawn).sum())
        for name, seen in zip(QUADRANTS, found, strict=True):
            share = estimate(across_levels(seen, "mean"), one.sampling, (0.0, 1.0), confidence=result.confidence, units=one.units)
            rows.append(
                {
                    "model": one.model,
                    "explainer": one.explainer,
                    "control": one.control,
                    "outcome": name,
                    "count": int(np.nansum(seen)),
                    "of": int(np.isfinite(seen).sum()),
                    "share": share.value,
                    "low": share.low,
                    "high": share.high,
                    "unseen": share.unseen,
                    "undefined": missing,
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS)
