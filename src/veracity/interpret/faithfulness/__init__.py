"""Scores of faithfulness by masking or perturbing the input, what they assume of the model, and how complex an explanation is."""

from veracity.interpret.faithfulness.assumption import ModelFaithfulness
from veracity.interpret.faithfulness.completeness import Completeness
from veracity.interpret.faithfulness.complexity import Complexity, Sparseness
from veracity.interpret.faithfulness.correlation import FaithfulnessCorrelation, MuFidelity
from veracity.interpret.faithfulness.flipping import Deletion, Insertion, PixelFlipping, RegionPerturbation
from veracity.interpret.faithfulness.infidelity import Infidelity
from veracity.interpret.faithfulness.mu_f import MuF
from veracity.interpret.faithfulness.sufficiency import Sufficiency

__all__ = [
    "Completeness",
    "Complexity",
    "Deletion",
    "FaithfulnessCorrelation",
    "Infidelity",
    "Insertion",
    "ModelFaithfulness",
    "MuF",
    "MuFidelity",
    "PixelFlipping",
    "RegionPerturbation",
    "Sparseness",
    "Sufficiency",
]
