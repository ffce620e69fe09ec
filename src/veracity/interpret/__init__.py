"""From measurements to scores, and from scores to statements with uncertainty."""

from veracity.interpret.invariance import ActionFloor, Equivariance, Invariance, ModelInvariance, SelfAgreement, Symmetry, SymmetryScore
from veracity.interpret.sensitivity import MaxSensitivity

__all__ = ["ActionFloor", "Equivariance", "Invariance", "MaxSensitivity", "ModelInvariance", "SelfAgreement", "Symmetry", "SymmetryScore"]
