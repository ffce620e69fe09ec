"""What users of Quantus call our scores: for suggestions in errors, and for `veracity.quantus`."""

from __future__ import annotations

import re

QUANTUS = {
    "FaithfulnessCorrelation": "faithfulness_correlation",
    "FaithfulnessEstimate": "faithfulness_estimate",
    "Monotonicity": "monotonicity",
    "MonotonicityArya": "monotonicity",
    "Selectivity": "selectivity",
    "SensitivityN": "sensitivity_n",
    "MonotonicityCorrelation": "monotonicity_correlation",
    "MonotonicityNguyen": "monotonicity_correlation",
    "IROF": "irof",
    "ROAD": "road",
    "Continuity": "continuity",
    "ContinuityTest": "continuity",
    "Consistency": "consistency",
    "EffectiveComplexity": "effective_complexity",
    "NonSensitivity": "non_sensitivity",
    "InputInvariance": "input_invariance",
    "PointingGame": "pointing_game",
    "TopKIntersection": "top_k_intersection",
    "RelevanceMassAccuracy": "relevance_mass_accuracy",
    "RelevanceRankAccuracy": "relevance_rank_accuracy",
    "AttributionLocalisation": "attribution_localisation",
    "AUC": "auc",
    "Focus": "focus",
    "PixelFlipping": "pixel_flipping",
    "RegionPerturbation": "region_perturbation",
    "RegionSegmentation": "region_perturbation",
    "Infidelity": "infidelity",
    "Sufficiency": "sufficiency",
    "Completeness": "completeness",
    "LocalLipschitzEstimate": "local_lipschitz",
    "MaxSensitivity": "max_sensitivity",
    "AvgSensitivity": "avg_sensitivity",
    "RelativeInputStability": "relative_input_stability",
    "RelativeOutputStability": "relative_output_stability",
    "RelativeRepresentationStability": "relative_representation_stability",
    "Sparseness": "sparseness",
    "Complexity": "complexity",
    "MPRT": "mprt",
    "ModelParameterRandomisation": "mprt",
    "ModelParameterRandomisationTest": "mprt",
    "SmoothMPRT": "smooth_mprt",
    "EfficientMPRT": "efficient_mprt",
    "RandomLogit": "random_logit",
}
"""The scores that measure the same as a metric of Quantus 0.6.0. Its table AVAILABLE_METRICS has other names for some classes."""


def squeezed(name: str) -> str:
    """A name without case, spaces and punctuation, in British spelling.

    >>> squeezed("Max-Sensitivity"), squeezed("model parameter randomization")
    ('maxsensitivity', 'modelparameterrandomisation')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower()).replace("randomiz", "randomis").replace("localiz", "localis")


SAME = {squeezed(name): score for name, score in QUANTUS.items()}
