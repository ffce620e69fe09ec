"""Largest and mean sensitivity: by hand, against Captum on the same perturbations, and what ten draws can and cannot say."""

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients
from captum.metrics import sensitivity_max

from small import series_inputs, small_net
from veracity.core.errors import SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import SCORES
from veracity.core.scores import Defaults, Pair, Reading, Reads, Subject
from veracity.explain.controls import RandomUniform
from veracity.explain.gradients import Gradient
from veracity.perturb import Ball
from veracity.scores.assumptions import ModelRobustness
from veracity.scores.common import as_score, largest
from veracity.scores.sensitivity import AvgSensitivity, MaxSensitivity
from veracity.walk import MonteCarlo

DEFAULTS = Defaults(None, MonteCarlo(draws=50))


def pair(before, after):
    target = torch.zeros(len(before), dtype=torch.long)
    readings = (Reading(target, {Reads.EXPLANATION: side}) for side in (before, after))
    return Pair(*readings, torch.zeros(len(before), 0), lambda x: x, lambda x: x)


def noise(ball, count, draws):
    """Draw d of sample s, as the walk makes it: (count * draws, d), sample by sample."""
    row, draw = torch.arange(count).repeat_interleave(draws), torch.arange(draws).repeat(count)
    return ball.sample(Draws(0, row, draw))


def test_by_hand():
    before, after = torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[3.0, 5.0], [0.6, 0.8]])
    assert MaxSensitivity(relative=False).observe(pair(before, after)).tolist() == pytest.approx([1.0, 1.0])
    assert MaxSensitivity().observe(pair(before, after)).tolist() == pytest.approx([0.2, np.nan], nan_ok=True)
    values = np.array([[0.1, 0.4, 0.2], [np.nan, 0.3, np.nan], [np.nan, np.nan, np.nan]])
    assert MaxSensitivity().reduce(values).tolist() == pytest.approx([0.4, 0.3, np.nan], nan_ok=True)
    assert np.isnan(largest(np.zeros((1, 0)))).all()


def test_what_it_asks_for():
    (request,) = MaxSensitivity(radius=0.1, norm="l2").requests(Subject("net", Gradient(), torch.Size([1, 12])), DEFAULTS)
    assert request.space == Ball(radius=0.1, norm="l2", size=12)
    assert request.walk == MonteCarlo(draws=10)
    assert request.common_draws
    assert MaxSensitivity().requests(Subject("net", None, torch.Size([1, 12])), DEFAULTS) == ()
    with pytest.raises(SpecError, match="'radius' of score 'max_sensitivity' must be a positive number"):
        MaxSensitivity(radius=0.0)


def test_the_mean_beside_the_largest():
    before, after = torch.tensor([[3.0, 4.0]] * 3), torch.tensor([[3.0, 5.0], [3.0, 4.0], [6.0, 8.0]])
    assert AvgSensitivity(relative=False).observe(pair(before, after)).tolist() == pytest.approx([1.0, 0.0, 5.0])
    values = np.array([[1.0, 0.0, 5.0], [np.nan, 0.5, np.nan], [np.nan, np.nan, np.nan]])
    assert AvgSensitivity().reduce(values).tolist() == pytest.approx([2.0, 0.5, np.nan], nan_ok=True)
    assert AvgSensitivity().observe(pair(before, after)).tolist() == pytest.approx([0.2, 0.0, 1.0])


def test_both_share_their_perturbations_and_their_assumption():
    subject = Subject("net", Gradient(), torch.Size([1, 12]))
    assert MaxSensitivity().requests(subject, DEFAULTS) == AvgSensitivity().requests(subject, DEFAULTS)
    for score in (MaxSensitivity(radius=0.1, norm="l2"), AvgSensitivity(radius=0.1, norm="l2")):
        assert isinstance(score.assumption, ModelRobustness)
        (own,), (assumed,) = (
            one.requests(Subject("net", explainer, torch.Size([1, 12])), DEFAULTS)
            for one, explainer in ((score, Gradient()), (score.assumption, None))
        )
        assert (assumed.space, assumed.walk) == (own.space, own.walk)


def test_random_controls_draw_afresh():
    """Otherwise a random map, the same for x and x', would look perfectly stable."""
    (request,) = MaxSensitivity().requests(Subject("net", RandomUniform(), torch.Size([1, 12])), DEFAULTS)
    assert not request.common_draws


def test_it_survives_being_written_down():
    score = MaxSensitivity(radius=0.05, relative=False, walk=MonteCarlo(draws=3))
    assert score.about()["reduce"] == "own"
    assert as_score(score.about()["spec"]) == score
    assert as_score({"name": "max_sensitivity", "walk": {"name": "monte_carlo", "draws": 3}}).walk == MonteCarlo(draws=3)
    assert as_score(AvgSensitivity(radius=0.05).about()["spec"]) == AvgSensitivity(radius=0.05)
    assert AvgSensitivity().about()["reduce"] == "mean"
    assert {"avg_sensitivity", "max_sensitivity"} <= set(SCORES)


def test_against_captum_on_the_same_perturbations():
    x, net, draws = series_inputs(4).double(), small_net().double(), 10
    ball = Ball().fit(x.shape[1:])
    z = noise(ball, len(x), draws)
    targets = net(x).argmax(dim=1)
    explain = IntegratedGradients(net).attribute

    def perturbed(inputs, _radius):
        return ball.act(z, inputs)

    expected = sensitivity_max(explain, x, perturbed, n_perturb_samples=draws, target=targets, n_steps=10)
    before = explain(x, target=targets, n_steps=10).repeat_interleave(draws, dim=0)
    there = ball.act(z, x.repeat_interleave(draws, dim=0))
    after = explain(there, target=targets.repeat_interleave(draws), n_steps=10)
    score = MaxSensitivity()
    found = score.reduce(score.observe(pair(before, after)).reshape(len(x), draws).numpy())
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-9)
    assert found.min() > 0


def test_more_draws_find_more_but_never_all():
    """For e(x) = A x the truth is the maximum over the box's corners; draws stay below it and come closer."""
    a = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ball, score = Ball(radius=0.02).fit(torch.Size([4])), MaxSensitivity(relative=False)
    corners = 0.02 * torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 4)
    truth = float((corners @ a.T).norm(dim=1).max())
    z = noise(ball, 1, 1000) @ a.T
    values = score.observe(pair(torch.zeros_like(z), z)).reshape(1, 1000).numpy()
    reached = [float(score.reduce(values[:, :draws])[0]) for draws in (10, 100, 1000)]
    assert reached == sorted(reached)
    assert 0.3 * truth < reached[0] < reached[2] < truth
