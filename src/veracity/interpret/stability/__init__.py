"""Stability: explanations of models that were trained with and without the sample, where they agree and where they do not."""

from veracity.interpret.stability.base import StabilityScore
from veracity.interpret.stability.consistency import consistency_area, consistency_gap, relative_consistency
from veracity.interpret.stability.generalisability import mean_generalisability
from veracity.interpret.stability.mege import MeGe
from veracity.interpret.stability.reco import ReCo, ReCoAUC, ReCoKS
from veracity.interpret.stability.sets import membership

__all__ = [
    "MeGe",
    "ReCo",
    "ReCoAUC",
    "ReCoKS",
    "StabilityScore",
    "consistency_area",
    "consistency_gap",
    "mean_generalisability",
    "membership",
    "relative_consistency",
]
