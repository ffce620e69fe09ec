"""Does this explanation tell the truth about this model? Measured, with uncertainty and controls."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from veracity.advice import Advice, advise
    from veracity.audit import Audit
    from veracity.core.graphs import GraphInputs
    from veracity.core.targets import Class, Custom, Label, Neuron, Predicted
    from veracity.core.tokens import TokenInputs
    from veracity.core.training import Checkpoint, Training
    from veracity.explain import (
        CAR,
        CAV,
        CaptumMethod,
        ConceptSensitivity,
        DeepLift,
        FeatureAblation,
        FeaturePermutation,
        Function,
        GradCam,
        GradientShap,
        InfluenceFunctions,
        IntegratedGradients,
        KernelShap,
        Lime,
        Occlusion,
        RepresentationSimilarity,
        SimplEx,
        SmoothGrad,
        Symmetrised,
        TracIn,
    )
    from veracity.interpret import Equivariance, Invariance, MaxSensitivity, ModelInvariance, SelfAgreement, Symmetry
    from veracity.perturb import (
        Ball,
        CubeRotations,
        CyclicShift,
        Dihedral,
        FiniteGroup,
        Flips,
        Group,
        Mirror,
        NodePermutations,
        Permutations,
        Product,
        Rotation,
        Rotations,
        Rotations3D,
        SignFlip,
        WindowShift,
    )
    from veracity.results import Result
    from veracity.scanning import Scan, scan
    from veracity.walk import Adaptive, Exhaustive, MonteCarlo

HOMES = {
    "veracity.advice": ("Advice", "advise"),
    "veracity.audit": ("Audit",),
    "veracity.core.graphs": ("GraphInputs",),
    "veracity.core.tokens": ("TokenInputs",),
    "veracity.core.training": ("Checkpoint", "Training"),
    "veracity.scanning": ("Scan", "scan"),
    "veracity.results": ("Result",),
    "veracity.core.targets": ("Class", "Custom", "Label", "Neuron", "Predicted"),
    "veracity.perturb": (
        "Ball",
        "CubeRotations",
        "CyclicShift",
        "Dihedral",
        "FiniteGroup",
        "Flips",
        "Group",
        "Mirror",
        "NodePermutations",
        "Permutations",
        "Product",
        "Rotation",
        "Rotations",
        "Rotations3D",
        "SignFlip",
        "WindowShift",
    ),
    "veracity.explain": (
        "CAR",
        "CAV",
        "ConceptSensitivity",
        "CaptumMethod",
        "DeepLift",
        "FeatureAblation",
        "FeaturePermutation",
        "Function",
        "GradCam",
        "GradientShap",
        "InfluenceFunctions",
        "IntegratedGradients",
        "KernelShap",
        "Lime",
        "Occlusion",
        "RepresentationSimilarity",
        "SimplEx",
        "SmoothGrad",
        "Symmetrised",
        "TracIn",
    ),
    "veracity.interpret": ("Equivariance", "Invariance", "MaxSensitivity", "ModelInvariance", "SelfAgreement", "Symmetry"),
    "veracity.walk": ("Adaptive", "Exhaustive", "MonteCarlo"),
}
WHERE = {name: home for home, names in HOMES.items() for name in names}

__all__ = [
    "CAR",
    "CAV",
    "Adaptive",
    "Advice",
    "Audit",
    "Ball",
    "CaptumMethod",
    "Checkpoint",
    "Class",
    "ConceptSensitivity",
    "CubeRotations",
    "Custom",
    "CyclicShift",
    "DeepLift",
    "Dihedral",
    "Equivariance",
    "Exhaustive",
    "FeatureAblation",
    "FeaturePermutation",
    "FiniteGroup",
    "Flips",
    "Function",
    "GradCam",
    "GradientShap",
    "GraphInputs",
    "Group",
    "InfluenceFunctions",
    "IntegratedGradients",
    "Invariance",
    "KernelShap",
    "Label",
    "Lime",
    "MaxSensitivity",
    "Mirror",
    "ModelInvariance",
    "MonteCarlo",
    "Neuron",
    "NodePermutations",
    "Occlusion",
    "Permutations",
    "Predicted",
    "Product",
    "RepresentationSimilarity",
    "Result",
    "Rotation",
    "Rotations",
    "Rotations3D",
    "Scan",
    "SelfAgreement",
    "SignFlip",
    "SimplEx",
    "SmoothGrad",
    "Symmetrised",
    "Symmetry",
    "TokenInputs",
    "TracIn",
    "Training",
    "WindowShift",
    "advise",
    "scan",
]


def __getattr__(name: str) -> Any:
    """Load public names on first use, so that `import veracity` stays light."""
    if name not in WHERE:
        raise AttributeError(f"module 'veracity' has no attribute '{name}'")
    return getattr(import_module(WHERE[name]), name)
