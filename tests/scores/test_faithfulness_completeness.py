"""Completeness: by hand, against Captum's convergence delta, and for explanations that are complete by construction."""

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients

from masked import DEFAULTS, bare, explained, higher, inputs, linear, pair, reading, value
from small import series_inputs, small_net
from veracity.core.registry import SCORES
from veracity.core.scores import Measured
from veracity.perturb.masks import FullMask
from veracity.scores.common import as_score
from veracity.scores.faithfulness.content import Completeness, gap


def test_by_hand():
    before = reading(torch.tensor([[3.0, 0.0]]), explanation=torch.tensor([[2.0, -1.0]]), input=torch.zeros(1, 2))
    after = reading(torch.tensor([[1.0, 9.0]]))
    assert Completeness().observe(pair(before, after)).tolist() == [[1.0, 2.0]]
    measured = Measured({"attributed": np.array([[[1.0]], [[1.0]]]), "drop": np.array([[[2.0]], [[0.0]]])})
    assert Completeness().values(measured).tolist() == [[0.5], [pytest.approx(np.nan, nan_ok=True)]]
    assert Completeness(relative=False).values(measured).tolist() == [[1.0], [1.0]]
    assert gap(np.array([np.nan]), np.array([1.0]), relative=False).tolist() == pytest.approx([np.nan], nan_ok=True)


def test_one_map_for_all_channels_counts_for_each_of_them():
    weight, x = torch.tensor([2.0, -1.0]).double(), inputs(3, 3, 2)

    def net(x):
        return (x * weight).sum(dim=(1, 2))[:, None]

    shared = weight * x.mean(dim=1, keepdim=True)
    np.testing.assert_allclose(value(Completeness(), net, x, torch.zeros(3, dtype=torch.long), shared), 0.0, atol=1e-12)


@pytest.mark.parametrize("baseline", ["black", "white", "mean", 0.0])
def test_contributions_to_a_linear_model_are_complete(baseline):
    net, x, target = linear(), inputs(4), torch.tensor([0, 1, 2, 0])
    at = {"black": x.amin(1), "white": x.amax(1), "mean": x.mean(1), 0.0: torch.zeros(4)}[baseline]
    contribution = net.weight[target] * (x - at[:, None])
    for relative in (True, False):
        score = Completeness(perturb_baseline=baseline, relative=relative)
        np.testing.assert_allclose(value(score, net, x, target, contribution), 0.0, atol=1e-12)
    np.testing.assert_allclose(value(Completeness(perturb_baseline=baseline), net, x, target, 3.0 * contribution), 2.0)


def test_the_gap_is_captums_convergence_delta():
    net, x = small_net().double(), series_inputs(5).double()
    target = net(x).argmax(dim=1)
    maps, delta = IntegratedGradients(net).attribute(x, target=target, n_steps=4, return_convergence_delta=True)
    with torch.no_grad():
        found = value(Completeness(relative=False), net, x, target, maps)
    np.testing.assert_allclose(found, delta.abs().numpy(), atol=1e-9)
    assert found.max() > 1e-3


def test_what_it_asks_for_and_how_to_read_it():
    (request,) = Completeness(perturb_baseline="black").requests(explained((1, 28, 28)), DEFAULTS)
    assert request.space == FullMask(baseline="black").fit(torch.Size((1, 28, 28)))
    assert request.walk.length(request.space) == 1
    assert not Completeness().requests(bare((4,)), DEFAULTS)
    assert not higher(Completeness())
    assert Completeness().bounds == (0.0, np.inf)
    score = Completeness(relative=False, perturb_baseline="mean")
    assert as_score(score.about()["spec"]) == score
    assert "completeness" in set(SCORES)
