from __future__ import annotations

import pytest
import torch
from torch import nn

from veracity.core.explainers import Explainer, Frame
from veracity.core.registry import EXPLAINERS
from veracity.explain import Foreign, as_explainer
from veracity.testing.explainers import ExplainerConformance

SMALL = {
    **{name: {"name": name, "samples": 40} for name in ("lime", "kernel_shap", "superpixel_lime")},
    "integrated_gradients": {"name": "integrated_gradients", "steps": 12},
    "smooth_grad": {"name": "smooth_grad", "draws": 8},
    "rise": {"name": "rise", "masks": 40},
    "extremal_perturbation": {"name": "extremal_perturbation", "iterations": 2},
}
"""Cheaper settings; steps that need each other cannot share a call, so that there are two of them."""


class TestRegistered(ExplainerConformance):
    @pytest.fixture(autouse=True, params=[name for name in EXPLAINERS if EXPLAINERS[name].frame is Frame.INPUT])
    def choose(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param

    def explainer(self) -> Explainer:
        return EXPLAINERS.build(SMALL.get(self.name, self.name))


class TestRegisteredOnSeries(TestRegistered):
    """The same battery on inputs (C, T)."""

    def model(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            layers = [nn.Conv1d(2, 4, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool1d(2), nn.Conv1d(4, 4, 3, padding=1), nn.Tanh()]
            return nn.Sequential(*layers, nn.Flatten(), nn.Linear(80, 3)).eval()

    def inputs(self) -> torch.Tensor:
        return super().inputs().reshape(-1, 2, 81)[..., :40]


def times_gradient(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    inputs.requires_grad_()
    model(inputs).gather(1, targets[:, None]).sum().backward()
    return inputs * inputs.grad


def noisy(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return times_gradient(model, inputs, targets).detach() + torch.rand_like(inputs)


class TestForeign(ExplainerConformance):
    @pytest.fixture(autouse=True, params=["captum.attr:InputXGradient", "captum.attr:Deconvolution", "function", "noisy"])
    def choose(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param

    def explainer(self) -> Foreign:
        made = {
            "function": {"function": times_gradient, "random": False},
            "noisy": noisy,
        }.get(self.name, self.name)
        built = as_explainer(made)
        assert isinstance(built, Foreign)
        return built
