"""Does this explanation tell the truth about this model? Measured, with uncertainty and controls."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from veracity.audit import Audit
    from veracity.core.targets import Class, Custom, Label, Neuron, Predicted
    from veracity.explain import (
        CaptumMethod,
        DeepLift,
        FeatureAblation,
        FeaturePermutation,
        Function,
        GradCam,
        GradientShap,
        IntegratedGradients,
        KernelShap,
        Lime,
        Occlusion,
        SmoothGrad,
    )
    from veracity.interpret import Equivariance, Invariance, ModelInvariance, SelfAgreement
    from veracity.perturb import (
        CyclicShift,
        Dihedral,
        FiniteGroup,
        Flips,
        Group,
        Mirror,
        Permutations,
        Product,
        Rotation,
        Rotations,
        WindowShift,
    )
    from veracity.results import Result
    from veracity.walk import Adaptive, Exhaustive, MonteCarlo

HOMES = {
    "veracity.audit": ("Audit",),
    "veracity.results": ("Result",),
    "veracity.core.targets": ("Class", "Custom", "Label", "Neuron", "Predicted"),
    "veracity.perturb": (
        "CyclicShift",
        "Dihedral",
        "FiniteGroup",
        "Flips",
        "Group",
        "Mirror",
        "Permutations",
        "Product",
        "Rotation",
        "Rotations",
        "WindowShift",
    ),
    "veracity.explain": (
        "CaptumMethod",
        "DeepLift",
        "FeatureAblation",
        "FeaturePermutation",
        "Function",
        "GradCam",
        "GradientShap",
        "IntegratedGradients",
        "KernelShap",
        "Lime",
        "Occlusion",
        "SmoothGrad",
    ),
    "veracity.interpret": ("Equivariance", "Invariance", "ModelInvariance", "SelfAgreement"),
    "veracity.walk": ("Adaptive", "Exhaustive", "MonteCarlo"),
}
WHERE = {name: home for home, names in HOMES.items() for name in names}

__all__ = [
    "Adaptive",
    "Audit",
    "CaptumMethod",
    "Class",
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
    "Group",
    "IntegratedGradients",
    "Invariance",
    "KernelShap",
    "Label",
    "Lime",
    "Mirror",
    "ModelInvariance",
    "MonteCarlo",
    "Neuron",
    "Occlusion",
    "Permutations",
    "Predicted",
    "Product",
    "Result",
    "Rotation",
    "Rotations",
    "SelfAgreement",
    "SmoothGrad",
    "WindowShift",
]


def __getattr__(name: str) -> Any:
    """Load public names on first use, so that `import veracity` stays light."""
    if name not in WHERE:
        raise AttributeError(f"module 'veracity' has no attribute '{name}'")
    return getattr(import_module(WHERE[name]), name)
