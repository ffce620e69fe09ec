"""Every registered explainer of inputs follows the rules of ExplainerConformance, and so does foreign code."""

from __future__ import annotations

import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

from veracity.core.explainers import Explainer, Frame
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.explain import Foreign, as_explainer
from veracity.models import as_model
from veracity.models.base import ReadableOutput
from veracity.testing.explainers import ExplainerConformance

SMALL = {
    **{name: {"name": name, "samples": 24} for name in ("lime", "kernel_shap", "superpixel_lime", "superpixel_shap")},
    "integrated_gradients": {"name": "integrated_gradients", "steps": 12},
    "smooth_grad": {"name": "smooth_grad", "draws": 8},
    "rise": {"name": "rise", "masks": 24},
    "extremal_perturbation": {"name": "extremal_perturbation", "iterations": 2},
    "partition_shap": {"name": "partition_shap", "patch": 2},
}
"""Cheaper settings. The steps of extremal_perturbation depend on each other and cannot share a call, so there are two; with few patches,
partition_shap splits all nodes of a level in one call."""

SPATIAL = [
    *("edge_filter", "extremal_perturbation", "full_grad", "grad_cam", "kernel_shap", "lime", "occlusion", "rise"),
    *("partition_shap", "superpixel_lime", "superpixel_shap"),
]
"""Explainers whose code depends on the axes that positions run over."""

ON_TABLES = ("permutation_importance", "shap", "tree_shap")
"""Explainers that need fitted estimators, rows of features or labels."""

OF_TRANSFORMERS = ("attention", "attention_rollout")
"""Explainers that need layers of attention."""

OF_TEXTS = ("word_frequency", "llm_x")
"""Explainers that need words, or a language model: see test_llm_x.py."""

HOOKED = ["deep_lift", "guided_backprop", "lrp_z_plus"]
"""Explainers that meet an in-place ReLU, pooling and tanh for the first time on series."""


NAMES = [name for name in EXPLAINERS if EXPLAINERS[name].frame is Frame.INPUT and name not in ON_TABLES + OF_TRANSFORMERS + OF_TEXTS]


class TestRegistered(ExplainerConformance):
    @pytest.fixture(autouse=True, params=NAMES)
    def choose(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param

    def explainer(self) -> Explainer:
        return EXPLAINERS.build(SMALL.get(self.name, self.name))


class TestOnSeries(ExplainerConformance):
    """On inputs (C, T): the rules that can depend on the shape, for the explainers that do."""

    test_settings_are_plain_data = test_same_keys_same_numbers = test_other_draws_differ_iff_stochastic = None
    test_leaves_no_trace_after_an_error = test_calls_are_full_and_fit = test_runs_on_an_accelerator = None

    @pytest.fixture(autouse=True, params=[*SPATIAL, *HOOKED])
    def choose(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param

    def explainer(self) -> Explainer:
        return EXPLAINERS.build(SMALL.get(self.name, self.name))

    def model(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            layers = [nn.Conv1d(2, 4, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool1d(2), nn.Conv1d(4, 4, 3, padding=1), nn.Tanh()]
            return nn.Sequential(*layers, nn.Flatten(), nn.Linear(80, 3)).eval()

    def inputs(self) -> torch.Tensor:
        return super().inputs().reshape(-1, 2, 81)[..., :40]


def noisy(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    inputs.requires_grad_()
    model(inputs).gather(1, targets[:, None]).sum().backward()
    return (inputs * inputs.grad).detach() + torch.rand_like(inputs)


class TestForeign(ExplainerConformance):
    """A Captum class that sets hooks, and a function that leaves gradients behind and draws from the global random state."""

    @pytest.fixture(autouse=True, params=["captum.attr:Deconvolution", "noisy"])
    def choose(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param

    def explainer(self) -> Foreign:
        built = as_explainer(noisy if self.name == "noisy" else self.name)
        assert isinstance(built, Foreign)
        return built


class TestAttention(ExplainerConformance):
    """On a small vision transformer."""

    @pytest.fixture(autouse=True, params=OF_TRANSFORMERS)
    def choose(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param

    def explainer(self) -> Explainer:
        return as_explainer(self.name)

    def model(self) -> nn.Module:
        transformers = pytest.importorskip("transformers")
        sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
        config = transformers.ViTConfig(image_size=9, patch_size=3, num_channels=2, num_labels=3, **sizes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = transformers.ViTForImageClassification(config).eval()
        return ReadableOutput(network, "logits").eval()


class TestTreeShap(ExplainerConformance):
    """On a forest and rows of features. It never calls the model, so the rules about calls do not apply."""

    test_leaves_no_trace_after_an_error = test_cost_is_counted = test_calls_are_full_and_fit = None
    tolerance = 1e-4  # float32 inputs

    def explainer(self) -> Explainer:
        return as_explainer("tree_shap").specialise(self.model(), self.inputs(), self.targets())

    def bind(self) -> Explainer:
        return self.explainer()

    def model(self) -> nn.Module:
        x = Draws.of(1, torch.arange(40)).normal(4, stream="rows").numpy()
        return as_model("forest", RandomForestClassifier(3, random_state=0).fit(x, x[:, 0] > 0))

    def inputs(self) -> torch.Tensor:
        return Draws.of(0, torch.arange(5)).normal(4, stream="inputs").float()
