"""From measurements to scores, and from scores to statements with uncertainty."""

from __future__ import annotations

from veracity.scores.assumptions import ModelRobustness, ModelSensitivity
from veracity.scores.faithfulness import (
    Completeness,
    Complexity,
    Deletion,
    FaithfulnessCorrelation,
    Infidelity,
    Insertion,
    MuF,
    MuFidelity,
    PixelFlipping,
    RegionPerturbation,
    Sparseness,
    Sufficiency,
)
from veracity.scores.faithfulness.masked import ModelFaithfulness
from veracity.scores.gef import GEF, FastGEF, PublicFastGEF, PublicGEF
from veracity.scores.patterns import InputAlignment, InputGrowth, WeightGrowth
from veracity.scores.randomisation import MPRT, EfficientMPRT, RandomLogit, SmoothMPRT
from veracity.scores.robustness import LnPHat, LnPMisclassified, LnPTilde, SolHat, SolTilde, WorstLoss
from veracity.scores.sensitivity import (
    AvgSensitivity,
    LocalLipschitz,
    MaxSensitivity,
    RelativeInputStability,
    RelativeOutputStability,
    RelativeRepresentationStability,
)
from veracity.scores.stability import MeGe, ReCo, ReCoAUC, ReCoKS, StabilityScore
from veracity.scores.symmetry import (
    ActionFloor,
    Equivariance,
    Invariance,
    Likeness,
    ModelInvariance,
    SelfAgreement,
    Symmetry,
    SymmetryScore,
)
