"""How the prediction changes when the input is masked by its own map: average drop, average increase and average gain."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Size, Tensor

from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Measured, Pair, SampleNotes
from veracity.perturb.saliency_mask import SaliencyMask
from veracity.scores.faithfulness.masked import BOTH, MaskingScore, prediction

GRAD_CAM_PLUS = "Chattopadhay et al., Grad-CAM++: generalized gradient-based visual explanations for deep networks (WACV 2018)"


@dataclass(frozen=True, kw_only=True)
class ConfidenceScore(SampleNotes, MaskingScore, ABC):
    """A score of p = f(x) and o = f(x'), where x' is the input masked by its own map.

        x' = b + g (x - b),   g = (e - min e) / (max e - min e)

    g is one number per position: the relevance summed over channels. b is `perturb_baseline`, 0 in the papers, and in a table the
    reference of its columns. The prediction is the probability of the explained class, or its score if the models give no probability.
    A constant map is undefined, because it says nothing about what to keep. Scores of this family share their passes.
    """

    before = BOTH
    quantities: ClassVar[tuple[str, ...]] = ("confidence", "masked")
    fallback = 0.0
    softmax: bool | None = None

    def masks(self, shape: Size) -> SaliencyMask:
        """The map itself."""
        return SaliencyMask(baseline=self.filling)

    def observe(self, pair: Pair) -> Tensor:
        """p and o, which is NaN for a constant map: (R, 2)."""
        whole, masked = prediction(pair.before, self.by_probability), prediction(pair.after, self.by_probability)
        silent = pair.element.isnan().any(dim=1).to(masked.device)
        return torch.stack((whole, masked.masked_fill(silent, torch.nan)), dim=1)

    def no_response(self, measured: Measured) -> NDArray[np.bool_]:
        """Samples whose map is constant."""
        return np.asarray((np.isnan(measured["masked"]) & np.isfinite(measured["confidence"])).any(axis=(1, 2)))


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class AverageDrop(ConfidenceScore):
    """Share of the prediction that is lost when the input is masked by its own map; lower is better.

        max(0, p - o) / p,   p = f(x), o = f(x times its map scaled to [0, 1])

    The mean over samples is the average drop, as a share where papers write per cent. A map that keeps everything loses nothing, so read
    it beside `average_increase` or `average_gain`. Undefined if p is not positive, which a logit may be, and for a constant map.
    """

    name = "average_drop"
    reference = GRAD_CAM_PLUS
    direction = Direction.LOWER

    @property
    def bounds(self) -> tuple[float, float]:
        """A share, unless a score may become negative."""
        return (0.0, 1.0) if self.by_probability else (0.0, math.inf)

    def values(self, measured: Measured) -> Array:
        """The relative drop, (samples, 1)."""
        return relative_drop(measured["confidence"][:, :, 0], measured["masked"][:, :, 0])


def relative_drop(whole: Array, masked: Array) -> Array:
    """max(0, p - o) / p, NaN unless p > 0.

    >>> relative_drop(np.array([0.8, 0.8, 0.0]), np.array([0.2, 0.9, 0.1]))
    array([0.75, 0.  ,  nan])
    """
    return np.where(whole > 0.0, np.maximum(whole - masked, 0.0) / np.where(whole > 0.0, whole, 1.0), np.nan)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class AverageIncrease(ConfidenceScore):
    """Whether the prediction rises when the input is masked by its own map: 1 if it does, else 0.

        1[o > p],   p = f(x), o = f(x times its map scaled to [0, 1])

    The mean over samples is the share of inputs whose prediction rises, also called increase in confidence. Undefined for a constant map.
    """

    name = "average_increase"
    reference = GRAD_CAM_PLUS
    direction = Direction.HIGHER
    bounds = (0.0, 1.0)

    def values(self, measured: Measured) -> Array:
        """1 or 0, (samples, 1)."""
        whole, masked = measured["confidence"][:, :, 0], measured["masked"][:, :, 0]
        return np.where(np.isnan(whole) | np.isnan(masked), np.nan, (masked > whole).astype(np.float64))


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class AverageGain(ConfidenceScore):
    """Share of the missing confidence that is gained when the input is masked by its own map; higher is better.

        max(0, o - p) / (1 - p),   p = f(x), o = f(x times its map scaled to [0, 1])

    The counterpart of `average_drop`: one of the two is 0 for every sample. Undefined if p is 1, for a constant map, and for models
    without probabilities, which have no missing confidence.
    """

    name = "average_gain"
    reference = "Zhang et al., Opti-CAM: optimizing saliency maps for interpretability (CVIU 2024)"
    direction = Direction.HIGHER
    bounds = (0.0, 1.0)

    def values(self, measured: Measured) -> Array:
        """The relative gain, (samples, 1)."""
        found = relative_drop(1.0 - measured["confidence"][:, :, 0], 1.0 - measured["masked"][:, :, 0])
        return found if self.by_probability else np.full_like(found, np.nan)
