"""Stability: explanations of models that were trained with and without the sample, where they agree and where they do not."""

from __future__ import annotations

from veracity.scores.stability.base import StabilityScore, membership
from veracity.scores.stability.mege import MeGe, mean_generalisability
from veracity.scores.stability.reco import ReCo, ReCoAUC, ReCoKS, consistency_area, consistency_gap, relative_consistency
