"""Robustness of interpretation: the worst case, and the probability, of being misled close to an input."""

from veracity.interpret.robustness.base import Hunted, Misinterpretation
from veracity.interpret.robustness.probability import LnPHat, LnPMisclassified, LnPTilde
from veracity.interpret.robustness.worst import SolHat, SolTilde, WorstLoss

__all__ = ["Hunted", "LnPHat", "LnPMisclassified", "LnPTilde", "Misinterpretation", "SolHat", "SolTilde", "WorstLoss"]
