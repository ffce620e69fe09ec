"""Explainers: Captum's, ours, controls, and anybody's."""

from veracity.explain.captum_adapters import (
    Deconvolution,
    FeatureAblation,
    Gradient,
    GuidedBackprop,
    InputXGradient,
    IntegratedGradients,
    Saliency,
)
from veracity.explain.controls import CONTROLS, Constant, Control, EdgeFilter, RandomGaussian, RandomUniform
from veracity.explain.deep_lift import DeepLift
from veracity.explain.foreign import CaptumMethod, Foreign, Function
from veracity.explain.grad_cam import GradCam
from veracity.explain.gradient_shap import GradientShap
from veracity.explain.kernel_shap import KernelShap
from veracity.explain.lime import Lime
from veracity.explain.occlusion import Occlusion
from veracity.explain.permutation import FeaturePermutation
from veracity.explain.resolve import as_explainer
from veracity.explain.smooth_grad import SmoothGrad

__all__ = [
    "CONTROLS",
    "CaptumMethod",
    "Constant",
    "Control",
    "Deconvolution",
    "DeepLift",
    "EdgeFilter",
    "FeatureAblation",
    "FeaturePermutation",
    "Foreign",
    "Function",
    "GradCam",
    "Gradient",
    "GradientShap",
    "GuidedBackprop",
    "InputXGradient",
    "IntegratedGradients",
    "KernelShap",
    "Lime",
    "Occlusion",
    "RandomGaussian",
    "RandomUniform",
    "Saliency",
    "SmoothGrad",
    "as_explainer",
]
