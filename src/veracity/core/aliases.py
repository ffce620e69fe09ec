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
ABSENT = {
    "MonotonicityCorrelation": "mu_fidelity",
    "MonotonicityNguyen": "mu_fidelity",
    "IROF": "region_perturbation",
    "ROAD": "deletion",
    "Continuity": "equivariance",
    "ContinuityTest": "equivariance",
    "Consistency": "sufficiency",
    "EffectiveComplexity": "sparseness",
    "NonSensitivity": "faithfulness_correlation",
    "InputInvariance": "invariance",
    **dict.fromkeys(("PointingGame", "TopKIntersection", "RelevanceMassAccuracy", "RelevanceRankAccuracy"), ""),
    **dict.fromkeys(("AttributionLocalisation", "AUC", "Focus"), ""),
}
"""Metrics of Quantus 0.6.0 without a score of the same meaning, each with the nearest score; "" if there is none."""


def squeezed(name: str) -> str:
    """A name without case, spaces and punctuation, in British spelling.

    >>> squeezed("Max-Sensitivity"), squeezed("model parameter randomization")
    ('maxsensitivity', 'modelparameterrandomisation')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower()).replace("randomiz", "randomis").replace("localiz", "localis")


SAME = {squeezed(name): score for name, score in QUANTUS.items()}
NEAREST = {squeezed(name): score for name, score in ABSENT.items()}
