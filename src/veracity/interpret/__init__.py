"""From measurements to scores, and from scores to statements with uncertainty."""

from veracity.interpret.invariance import ActionFloor, Equivariance, Invariance, ModelInvariance, SelfAgreement, Symmetry, SymmetryScore

__all__ = ["ActionFloor", "Equivariance", "Invariance", "ModelInvariance", "SelfAgreement", "Symmetry", "SymmetryScore"]
