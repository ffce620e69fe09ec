"""Sensitivity: what is left of an explanation when the model, or the class that is explained, becomes random."""

from veracity.interpret.randomisation.efficient import EfficientMPRT
from veracity.interpret.randomisation.logit import RandomLogit
from veracity.interpret.randomisation.mprt import MPRT
from veracity.interpret.randomisation.smooth import SmoothMPRT

__all__ = ["MPRT", "EfficientMPRT", "RandomLogit", "SmoothMPRT"]
