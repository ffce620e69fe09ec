"""Robustness of interpretation: the worst case, and the probability, of being misled close to an input."""

from __future__ import annotations

from veracity.scores.robustness.base import Misinterpretation, SearchScore
from veracity.scores.robustness.probability import LnPHat, LnPMisclassified, LnPTilde
from veracity.scores.robustness.worst import SolHat, SolTilde, WorstLoss
