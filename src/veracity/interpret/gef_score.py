"""Does an explanation move as its model moves? The mathematics of GEF, on distortions that have been measured."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError
from veracity.measure.correlation import spearman

Array = NDArray[np.float64]


def alignment(model_distortion: Array, explanation_distortion: Array, correlation: Callable[[Array, Array], Array] = spearman) -> Array:
    """How alike model and explanation rank the levels of a path, for each sample and draw; its mean over draws is GEF.

    Spearman's rank correlation over the levels of D_f and D_phi, with ties averaged and its sign kept, from two arrays
    (samples, draws, levels) to (samples, draws). It is undefined (NaN) where either does not vary over the levels: an
    explanation that does not respond to the model has no alignment with it, not one of 0. It is undefined, too, where any level
    is: a correlation over fewer levels would not be alike. Another correlation over the last axis may stand for Spearman's.

    >>> model = np.array([[[0.1, 0.4, 0.9, 1.6, 2.5], [0.1, 0.4, 0.9, 1.6, 2.5]]])
    >>> alignment(model, np.array([[[1.0, 3.0, 2.0, 4.0, 5.0], [0.0, 0.0, 0.0, 0.0, 0.0]]]))
    array([[0.9, nan]])

    Reference: Hedström et al., Evaluating interpretable methods via geometric alignment of functional distortions (TMLR 2025).
    """
    if model_distortion.shape != explanation_distortion.shape or model_distortion.ndim != 3:
        raise InputError(
            "Alignment needs the distortions of a model and of its explanations, each of shape (samples, draws, levels), "
            f"not {model_distortion.shape} and {explanation_distortion.shape}."
        )
    whole = (np.isfinite(model_distortion) & np.isfinite(explanation_distortion)).all(axis=-1)
    return np.where(whole, correlation(model_distortion, explanation_distortion), np.nan)


def path_length(steps: Array) -> Array:
    """The length of a path from the lengths of its segments: D_phi of exact GEF (equations 11 to 13).

    sum_t |e(theta_t) - e(theta_{t-1})|, from (samples, draws, levels, segments) to (samples, draws, levels). The length of a
    curve under the pullback metric is the length of its image, so that no Jacobian is needed. A path with an undefined
    segment is undefined.

    >>> path_length(np.array([[[[0.5, 0.25], [1.0, np.nan]]]]))
    array([[[0.75,  nan]]])
    """
    if steps.ndim != 4:
        raise InputError(f"Path lengths need steps of shape (samples, draws, levels, segments), not {steps.shape}.")
    return np.asarray(steps.sum(axis=-1), dtype=np.float64)


def running_mean(steps: Array) -> Array:
    """The mean of all segments up to each level: D_phi of the public code of exact GEF.

    1 / ((z + 1) T) sum over z' <= z and t of the segments, from (samples, draws, levels, segments) to (samples, draws, levels).

    >>> running_mean(np.array([[[[1.0, 3.0], [5.0, 7.0]]]]))
    array([[[2., 4.]]])
    """
    if steps.ndim != 4:
        raise InputError(f"Running means need steps of shape (samples, draws, levels, segments), not {steps.shape}.")
    return np.asarray(steps.mean(axis=-1).cumsum(axis=-1) / np.arange(1, steps.shape[2] + 1), dtype=np.float64)
