"""Scores: what to perturb, what to observe, and how to reduce the observations to one number per sample or per data set."""

from __future__ import annotations

from veracity.scores.assumptions import InputGrowth, ModelRobustness, ModelSensitivity, WeightGrowth
from veracity.scores.faithfulness import (
    IROF,
    PGI,
    PGU,
    ROAD,
    AverageDrop,
    AverageGain,
    AverageIncrease,
    Completeness,
    Complexity,
    Comprehensiveness,
    Consistency,
    Deletion,
    EffectiveComplexity,
    FaithfulnessCorrelation,
    FaithfulnessEstimate,
    Infidelity,
    Insertion,
    Monotonicity,
    MonotonicityCorrelation,
    MuF,
    MuFidelity,
    NonSensitivity,
    PixelFlipping,
    RationaleSufficiency,
    RegionPerturbation,
    Selectivity,
    SensitivityN,
    Sparseness,
    Sufficiency,
    TauLOO,
)
from veracity.scores.faithfulness.masked import ModelFaithfulness
from veracity.scores.fidelity import Characterisation, FidelityMinus, FidelityPlus, PartScore, Unfaithfulness
from veracity.scores.gef import GEF, FastGEF, InputAlignment, PublicFastGEF, PublicGEF, RefitGEF
from veracity.scores.input_invariance import InputInvariance
from veracity.scores.localisation import (
    AUC,
    AttributionLocalisation,
    Focus,
    PointingGame,
    RelevanceMassAccuracy,
    RelevanceRankAccuracy,
    TopKIntersection,
)
from veracity.scores.outcomes import AlignedOutcomes
from veracity.scores.randomisation import MPRT, EfficientMPRT, RandomLogit, SmoothMPRT
from veracity.scores.rare_events import LnPHat, LnPMisclassified, LnPTilde
from veracity.scores.robustness import SolHat, SolTilde, WorstLoss
from veracity.scores.sensitivity import (
    AvgSensitivity,
    Continuity,
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
    ModelEquivariance,
    ModelInvariance,
    SelfAgreement,
    Symmetry,
    SymmetryScore,
)
