"""Scores of faithfulness by masking or perturbing the input, what they assume of the model, and how complex an explanation is."""

from __future__ import annotations

from veracity.scores.faithfulness.confidence import AverageDrop, AverageGain, AverageIncrease
from veracity.scores.faithfulness.content import Completeness, Complexity, Consistency, Sparseness, Sufficiency
from veracity.scores.faithfulness.correlation import FaithfulnessCorrelation, Infidelity, MuF, MuFidelity
from veracity.scores.faithfulness.curves import Deletion, Insertion, PixelFlipping, RegionPerturbation
from veracity.scores.faithfulness.estimates import FaithfulnessEstimate, SensitivityN
from veracity.scores.faithfulness.marginal import EffectiveComplexity, MonotonicityCorrelation, NonSensitivity
from veracity.scores.faithfulness.prediction_gap import PGI, PGU
from veracity.scores.faithfulness.rationales import Comprehensiveness, RationaleSufficiency, TauLOO
from veracity.scores.faithfulness.removal import IROF, ROAD, Monotonicity, Selectivity
