"""Samples in the plane of two scores: every one of few, and a fixed subset of many, so that an answer never grows with the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from veracity.core.scores import Array
from veracity.results import Result
from veracity.results.selection import Numbers, plane

DRAWN = 10_000
"""How many samples are sent at most."""
GOLDEN = 2654435769
"""2^32 over the golden ratio: multiples of it, modulo 2^32, are spread evenly."""


def subset(samples: Numbers, most: int = DRAWN) -> Numbers:
    """The places of at most so many samples, ascending. They depend on the numbers of the samples alone, so all scores show the same ones.

    >>> subset(np.array([5, 6, 7]), most=2).tolist()
    [0, 2]
    """
    if len(samples) <= most:
        return np.arange(len(samples))
    keys = samples.astype(np.uint64) * np.uint64(GOLDEN) % np.uint64(1 << 32)
    return np.sort(np.argpartition(keys, most)[:most])


def points(run: Result, model: str, explainer: str, x: str, y: str, chosen: Numbers | None) -> dict[str, Any]:
    """The samples that have both scores: how many they are, the ends of both axes, and the numbers and values of those that are drawn.

    Of `chosen` samples, how many have both scores, and which of those drawn they are.
    """
    samples, across, up = plane(run, model, explainer, x, y)
    drawn = subset(samples)
    marked = None if chosen is None else np.isin(samples, chosen)
    return {
        "total": int(run.manifest["data"]["samples"]),
        "n": len(samples),
        "ends": [ends(across), ends(up)],
        "samples": samples[drawn].tolist(),
        "x": across[drawn].tolist(),
        "y": up[drawn].tolist(),
        "chosen": None if marked is None else {"n": int(marked.sum()), "marked": np.flatnonzero(marked[drawn]).tolist()},
    }


def ends(values: Array) -> list[float]:
    """The least and the greatest value; 0 and 1 without values."""
    return [float(values.min()), float(values.max())] if len(values) else [0.0, 1.0]
