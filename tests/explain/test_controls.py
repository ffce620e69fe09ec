from __future__ import annotations

import torch
from shift_invariant import context_of, explain
from torch import nn
from torch.nn import functional

from veracity.core.explainers import Cost
from veracity.core.registry import EXPLAINERS
from veracity.explain import CONTROLS, Constant, EdgeFilter, RandomGaussian, RandomUniform

MODEL, TARGETS = nn.Identity(), torch.zeros(200, dtype=torch.long)


def test_the_controls_are_the_registered_ones_that_cost_nothing() -> None:
    registered = {EXPLAINERS[name] for name in EXPLAINERS if EXPLAINERS[name].control is True}
    assert registered == set(CONTROLS)
    assert {control().cost(torch.Size((3, 4))) for control in CONTROLS} == {Cost(0, 0)}


def test_random_maps_have_their_cosines() -> None:
    """Two uniform maps: (1/2)² / (1/3) = 3/4. Two Gaussian ones: 0."""
    x = torch.zeros(200, 1, 30, 30)
    for explainer, expected in ((RandomUniform(), 0.75), (RandomGaussian(), 0.0)):
        one, other = (explainer.explain(MODEL, x, TARGETS, context_of(200, draw=draw)).flatten(1) for draw in (0, 1))
        assert abs(float(functional.cosine_similarity(one, other).mean()) - expected) < 0.005


def test_constant_is_one() -> None:
    assert (explain(Constant(), MODEL, torch.randn(3, 2, 4), TARGETS[:3]) == 1).all()


def test_the_edge_filter_is_sobels_around_the_border() -> None:
    x = torch.randn(2, 3, 6, 7, generator=torch.Generator().manual_seed(0))
    kernel = torch.tensor([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]]) / 8
    padded = functional.pad(x.reshape(6, 1, 6, 7), (1, 1, 1, 1), mode="circular")
    along, across = (functional.conv2d(padded, weights[None, None]) for weights in (kernel, kernel.T))
    expected = (along**2 + across**2).sqrt().reshape(2, 3, 6, 7)
    torch.testing.assert_close(explain(EdgeFilter(), MODEL, x, TARGETS[:2]), expected)


def test_the_edge_filter_of_a_series_by_hand() -> None:
    x = torch.tensor([[[0.0, 1.0, 4.0, 9.0]]])
    assert explain(EdgeFilter(), MODEL, x, TARGETS[:1]).tolist() == [[[4.0, 2.0, 4.0, 2.0]]]
