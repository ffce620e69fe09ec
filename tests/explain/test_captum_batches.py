from __future__ import annotations

from typing import Any

import captum.attr
import pytest
import torch

from small import series_inputs, small_net
from veracity.core.explainers import Context
from veracity.core.randomness import Draws
from veracity.explain import CaptumMethod


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        (captum.attr.FeatureAblation, {}),
        (captum.attr.Occlusion, {"sliding_window_shapes": (1, 3)}),
        (captum.attr.ShapleyValueSampling, {"n_samples": 3}),
    ],
)
def test_perturbations_go_through_the_model_together(method: Any, settings: dict[str, Any]) -> None:
    model, x, targets, calls = small_net(), series_inputs(3), torch.tensor([0, 1, 2]), list[int]()
    model.register_forward_pre_hook(lambda _model, given: calls.append(len(given[0])))
    found, passes = [], []
    for batch in (3, 64):
        calls.clear()
        context = Context(Draws.of(0, torch.arange(3)), batch)
        found.append(CaptumMethod(attribution=method, settings=settings).explain(model, x, targets, context))
        passes.append((len(calls), max(calls)))
    assert torch.allclose(found[0], found[1], atol=1e-6)
    assert passes[0][1] == 3
    assert 3 < passes[1][1] <= 64
    assert passes[1][0] < passes[0][0] / 3


def test_a_given_number_of_perturbations_stays() -> None:
    model, calls = small_net(), list[int]()
    model.register_forward_pre_hook(lambda _model, given: calls.append(len(given[0])))
    explainer = CaptumMethod(attribution=captum.attr.FeatureAblation, settings={"perturbations_per_eval": 2})
    explainer.explain(model, series_inputs(3), torch.tensor([0, 1, 2]), Context(Draws.of(0, torch.arange(3)), 64))
    assert max(calls) == 6
