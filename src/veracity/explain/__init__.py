"""Explainers: Captum's, ours, controls, and anybody's."""

from veracity.core.explainers import Explainer
from veracity.explain.ablation import FeatureAblation
from veracity.explain.captum_adapters import (
    Deconvolution,
    Gradient,
    GuidedBackprop,
    InputXGradient,
    InputXSaliency,
    IntegratedGradients,
    Saliency,
)
from veracity.explain.concept import CAR, CAV, ConceptExplainer, ConceptSensitivity, RandomConcepts, RandomSensitivities, tcav_scores
from veracity.explain.controls import MAPS, Constant, Control, EdgeFilter, RandomGaussian, RandomTopK, RandomUniform
from veracity.explain.deep_lift import DeepLift
from veracity.explain.example import InfluenceFunctions, RandomExamples, RandomMixture, RepresentationSimilarity, SimplEx, TracIn
from veracity.explain.extremal import ExtremalPerturbation
from veracity.explain.foreign import CaptumMethod, Foreign, Function
from veracity.explain.full_grad import FullGrad
from veracity.explain.grad_cam import GradCam
from veracity.explain.grad_cam_plus import GradCamPlusPlus
from veracity.explain.gradient_shap import GradientShap
from veracity.explain.kernel_shap import KernelShap
from veracity.explain.lime import Lime
from veracity.explain.lrp import LRPEpsilon, LRPZPlus
from veracity.explain.occlusion import Occlusion
from veracity.explain.permutation import FeaturePermutation
from veracity.explain.precomputed import Precomputed
from veracity.explain.resolve import as_explainer
from veracity.explain.rise import Rise
from veracity.explain.smooth_grad import SmoothGrad
from veracity.explain.stability_set import stability_explainers
from veracity.explain.stacked import stacked
from veracity.explain.superpixel_lime import SuperpixelLime
from veracity.explain.superpixel_shap import SuperpixelShap
from veracity.explain.symmetrised import Symmetrised, smallest_draws, symmetrised_family

CONTROLS: tuple[type[Explainer], ...] = (*MAPS, RandomExamples, RandomMixture, RandomConcepts, RandomSensitivities)
"""What stands beside explanations of each frame."""

__all__ = [
    "CAR",
    "CAV",
    "CONTROLS",
    "CaptumMethod",
    "ConceptExplainer",
    "ConceptSensitivity",
    "Constant",
    "Control",
    "Deconvolution",
    "DeepLift",
    "EdgeFilter",
    "ExtremalPerturbation",
    "FeatureAblation",
    "FeaturePermutation",
    "Foreign",
    "FullGrad",
    "Function",
    "GradCam",
    "GradCamPlusPlus",
    "Gradient",
    "GradientShap",
    "GuidedBackprop",
    "InfluenceFunctions",
    "InputXGradient",
    "InputXSaliency",
    "IntegratedGradients",
    "KernelShap",
    "LRPEpsilon",
    "LRPZPlus",
    "Lime",
    "Occlusion",
    "Precomputed",
    "RandomConcepts",
    "RandomExamples",
    "RandomGaussian",
    "RandomMixture",
    "RandomSensitivities",
    "RandomTopK",
    "RandomUniform",
    "RepresentationSimilarity",
    "Rise",
    "Saliency",
    "SimplEx",
    "SmoothGrad",
    "SuperpixelLime",
    "SuperpixelShap",
    "Symmetrised",
    "TracIn",
    "as_explainer",
    "smallest_draws",
    "stability_explainers",
    "stacked",
    "symmetrised_family",
    "tcav_scores",
]
