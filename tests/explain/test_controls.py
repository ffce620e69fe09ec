from __future__ import annotations

import pytest
import torch
from shift_invariant import context_of, explain
from torch import nn
from torch.nn import functional

from veracity.core.errors import SpecError
from veracity.core.explainers import Cost
from veracity.core.registry import EXPLAINERS
from veracity.explain import CONTROLS, Constant, EdgeFilter, Position, RandomGaussian, RandomTopK, RandomUniform, WordFrequency

MODEL, TARGETS = nn.Identity(), torch.zeros(200, dtype=torch.long)


def test_the_controls_are_the_registered_ones_that_cost_nothing() -> None:
    """All of them stand beside every audit, but for the null of maps that name k numbers, and for those of texts."""
    registered = {EXPLAINERS[name] for name in EXPLAINERS if EXPLAINERS[name].control is True}
    asked_for = {RandomTopK, Position, WordFrequency}
    assert registered == {*CONTROLS, *asked_for}
    assert not asked_for & {*CONTROLS}
    assert {control().cost(torch.Size((3, 4))) for control in registered} == {Cost(0, 0)}


def test_random_top_k_names_k_numbers_evenly_over_the_input() -> None:
    found = explain(RandomTopK(k=3), MODEL, torch.randn(200, 2, 2, 3), TARGETS).flatten(1)
    assert set(found.unique().tolist()) == {0.0, 1.0}
    assert (found.sum(1) == 3).all()
    assert ((found.mean(0) - 3 / 12).abs() < 4 * (0.25 * 0.75 / 200) ** 0.5).all()
    assert len(found.unique(dim=0)) > 100
    with pytest.raises(SpecError, match="k of random_top_k is 13, but an input has 12 numbers: use a smaller k"):
        RandomTopK(k=13).check(MODEL, torch.zeros(1, 2, 2, 3), TARGETS[:1])
    with pytest.raises(SpecError, match="'k' of explainer 'random_top_k' must be a whole number of at least 1, not 0"):
        RandomTopK(k=0)


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
