"""From measurements to scores, and from scores to statements with uncertainty."""

from veracity.interpret.assumptions import ModelRobustness, ModelSensitivity
from veracity.interpret.faithfulness import (
    Completeness,
    Complexity,
    Deletion,
    FaithfulnessCorrelation,
    Infidelity,
    Insertion,
    ModelFaithfulness,
    MuF,
    MuFidelity,
    PixelFlipping,
    RegionPerturbation,
    Sparseness,
    Sufficiency,
)
from veracity.interpret.gef import GEF, FastGEF, PublicFastGEF, PublicGEF
from veracity.interpret.invariance import (
    ActionFloor,
    Equivariance,
    Invariance,
    Likeness,
    ModelInvariance,
    SelfAgreement,
    Symmetry,
    SymmetryScore,
)
from veracity.interpret.patterns import InputAlignment, InputGrowth, WeightGrowth
from veracity.interpret.randomisation import MPRT, EfficientMPRT, RandomLogit, SmoothMPRT
from veracity.interpret.relative import LocalLipschitz, RelativeInputStability, RelativeOutputStability, RelativeRepresentationStability
from veracity.interpret.robustness import LnPHat, LnPMisclassified, LnPTilde, SolHat, SolTilde, WorstLoss
from veracity.interpret.sensitivity import AvgSensitivity, MaxSensitivity
from veracity.interpret.stability import MeGe, ReCo, ReCoAUC, ReCoKS, StabilityScore

__all__ = [
    "GEF",
    "MPRT",
    "ActionFloor",
    "AvgSensitivity",
    "Completeness",
    "Complexity",
    "Deletion",
    "EfficientMPRT",
    "Equivariance",
    "FaithfulnessCorrelation",
    "FastGEF",
    "Infidelity",
    "InputAlignment",
    "InputGrowth",
    "Insertion",
    "Invariance",
    "Likeness",
    "LnPHat",
    "LnPMisclassified",
    "LnPTilde",
    "LocalLipschitz",
    "MaxSensitivity",
    "MeGe",
    "ModelFaithfulness",
    "ModelInvariance",
    "ModelRobustness",
    "ModelSensitivity",
    "MuF",
    "MuFidelity",
    "PixelFlipping",
    "PublicFastGEF",
    "PublicGEF",
    "RandomLogit",
    "ReCo",
    "ReCoAUC",
    "ReCoKS",
    "RegionPerturbation",
    "RelativeInputStability",
    "RelativeOutputStability",
    "RelativeRepresentationStability",
    "SelfAgreement",
    "SmoothMPRT",
    "SolHat",
    "SolTilde",
    "Sparseness",
    "StabilityScore",
    "Sufficiency",
    "Symmetry",
    "SymmetryScore",
    "WeightGrowth",
    "WorstLoss",
]
