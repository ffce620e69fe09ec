"""The training samples behind an explanation by example: those that speak most for the explained output, and most against it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from veracity.core.explainers import Frame
from veracity.engine.problem import Problem
from veracity.report.figures.images import to_array
from veracity.report.interactive.cases import Shown
from veracity.results import Result
from veracity.results.cases import sample_explanation
from veracity.results.series import Array

EACH = 4
"""How many samples of each sign are drawn."""


def ends_of(values: Array, each: int = EACH) -> list[int]:
    """The places of the largest positive values, largest first, then those of the lowest negative ones, lowest first.

    >>> ends_of(np.array([0.0, 2.0, -1.0, 3.0, -4.0]), each=1)
    [3, 4]
    >>> ends_of(np.array([3.0, -1.0, -2.0, np.nan]), each=2)
    [0, 2, 1]
    """
    order = [int(place) for place in np.argsort(-values, kind="stable") if np.isfinite(values[place])]
    first = [place for place in order[:each] if values[place] > 0]
    return first + [place for place in order[::-1][:each] if values[place] < 0]


def training_samples(run: Result, problem: Problem, sample: int, model: str, explainer: str, shown: Shown) -> list[dict[str, Any]] | None:
    """The most influential training samples of a sample, with their attributions as the run stored them.

    None for explanations that are not about training samples, or that the run did not keep.
    """
    known, training = problem.explainers.get(explainer), problem.training
    if known is None or training is None or known.frame is not Frame.TRAINING:
        return None
    kept = sample_explanation(run, model, explainer, sample)
    if kept is None or kept.ndim != 1:
        return None
    values = to_array(kept)
    places = ends_of(values)
    inputs = training.inputs.take(torch.tensor(places, dtype=torch.int64)).values
    return [
        {"number": place, "value": float(values[place]), "label": training.labels[place].item(), "drawing": shown.other(to_array(one))}
        for place, one in zip(places, inputs, strict=True)
    ]
