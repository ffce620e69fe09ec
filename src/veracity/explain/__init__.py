"""Explainers: Captum's methods, methods of our own, controls, and adapters for anybody's code."""

from veracity.explain.ablation import FeatureAblation, FeaturePermutation, Occlusion
from veracity.explain.attention import Attention, AttentionRollout
from veracity.explain.attn_lrp import AttnLrp
from veracity.explain.cam_objects import CamObject
from veracity.explain.captum_llm import CaptumLLM
from veracity.explain.captum_methods import CaptumMethod
from veracity.explain.concepts import CAR, CAV, ConceptExplainer, ConceptSensitivity, tcav_scores
from veracity.explain.controls import (
    CONTROLS,
    Constant,
    Control,
    EdgeFilter,
    RandomConcepts,
    RandomExamples,
    RandomGaussian,
    RandomGlobal,
    RandomMixture,
    RandomSensitivities,
    RandomTopK,
    RandomUniform,
)
from veracity.explain.convert import as_explainer
from veracity.explain.deep_lift import DeepLift
from veracity.explain.examples import InfluenceFunctions, RepresentationSimilarity, SimplEx, TracIn
from veracity.explain.extremal import ExtremalPerturbation
from veracity.explain.foreign import Bound, Foreign, Function, bound_inside
from veracity.explain.full_grad import FullGrad
from veracity.explain.grad_cam import GradCam, GradCamPlusPlus
from veracity.explain.gradients import (
    Deconvolution,
    Gradient,
    GradientShap,
    GuidedBackprop,
    InputXGradient,
    InputXSaliency,
    IntegratedGradients,
    Saliency,
    SmoothGrad,
)
from veracity.explain.graph_explainer import GraphExplainer, TrainedGraphExplainer
from veracity.explain.importances import Importances, PermutationImportance
from veracity.explain.kernel_shap import KernelShap, SuperpixelShap
from veracity.explain.language_model import LanguageModel
from veracity.explain.lime import Lime, SuperpixelLime
from veracity.explain.llm_x import LanguageModelExplainer
from veracity.explain.lrp import LRPEpsilon, LRPZPlus
from veracity.explain.partition_shap import PartitionShap
from veracity.explain.precomputed import Precomputed
from veracity.explain.rise import Rise
from veracity.explain.shap_explainers import Shap, ShapObject, TreeShap
from veracity.explain.shap_explanation import GivenShap
from veracity.explain.sparse import LinearEncoder, SparseFeatures, as_encoder, feature_controls
from veracity.explain.stacked import stacked
from veracity.explain.symmetrised import Symmetrised, smallest_draws, symmetrised_family
from veracity.explain.text_controls import Position, WordFrequency
from veracity.explain.top_k import TopK
from veracity.explain.visualise import DeepViz, Fourier, GlobalExplainer, Maco, NaturalActivation, Visualisation
