from __future__ import annotations

import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

from veracity.core.explainers import Context
from veracity.core.randomness import Draws
from veracity.explain import IntegratedGradients, RandomUniform, Rise, SmoothGrad, as_explainer
from veracity.measure import spearman
from veracity_papers.recipes.stability_explainers import stability_explainers

SEVEN = ["saliency", "input_x_saliency", "integrated_gradients", "smooth_grad", "grad_cam", "grad_cam_plus_plus", "rise"]


def test_the_settings_are_the_papers() -> None:
    explainers = stability_explainers()
    assert list(explainers) == [*SEVEN, "random_uniform"]
    assert [explainers[name].name for name in SEVEN] == SEVEN
    assert explainers["integrated_gradients"] == IntegratedGradients(steps=60, method="trapezoid", baseline=0.0)
    assert explainers["smooth_grad"] == SmoothGrad(draws=60, sigma=0.2)
    assert explainers["rise"] == Rise(masks=1000)
    assert explainers["random_uniform"] == RandomUniform()
    small = stability_explainers(points=6, masks=20, layer="conv")
    assert (small["integrated_gradients"].spec()["steps"], small["rise"].spec()["masks"]) == (6, 20)
    assert {small[name].spec()["layer"] for name in ("grad_cam", "grad_cam_plus_plus")} == {"conv"}
    assert all(as_explainer(one.spec()) == one for one in explainers.values())


def test_one_value_per_position_has_the_rank_correlation_of_one_channel() -> None:
    net, x = nn.Sequential(nn.Flatten(), nn.Linear(147, 2)).eval(), torch.rand(2, 3, 7, 7, generator=torch.Generator().manual_seed(1))
    maps = Rise(masks=20).explain(net, x, torch.tensor([0, 1]), Context(Draws.of(0, torch.arange(2)), 512))
    assert torch.equal(maps[:, :1].expand_as(maps), maps)
    one, other = maps.double().numpy()
    whole, channel = spearmanr(one.ravel(), other.ravel())[0], spearmanr(one[0].ravel(), other[0].ravel())[0]
    assert whole == pytest.approx(channel, abs=1e-12)
    assert float(spearman(maps[:1], maps[1:])) == pytest.approx(channel, abs=1e-5)
