"""muF of equation 7: by hand, against a literal reading, and on a linear model."""

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr

from masked import DEFAULTS, explained, higher, inputs, linear, small_mlp, value
from veracity.core.errors import InputError
from veracity.core.randomness import Draws
from veracity.core.registry import SCORES
from veracity.core.scores import Measured
from veracity.perturb.masks import RandomMasks
from veracity.scores.common import as_score
from veracity.scores.faithfulness.correlation import FaithfulnessCorrelation, MuF
from veracity.scores.faithfulness.masked import ModelFaithfulness
from veracity.walk import MonteCarlo


def test_by_hand():
    """Of attributed 1, 2, 6 and drops 0, 1, 2 the covariance is 5, the sums of squares are 14 and 2."""
    measured = Measured({"attributed": np.array([[[1.0], [2.0], [6.0]]]), "drop": np.array([[[0.0], [1.0], [2.0]]])})
    assert MuF().values(measured).item() == pytest.approx(5 / np.sqrt(28))


def test_as_equation_7_reads():
    x, explanation, net = inputs(3, 2, 4, 4) + 0.5, inputs(3, 2, 4, 4, seed=2), small_mlp(32)
    target = torch.tensor([0, 2, 1])
    found = value(MuF(nr_runs=12), net, x, target, explanation)
    space = RandomMasks(size=0.15, baseline=0.0).fit(x.shape[1:])
    for i in range(3):
        sums, drops = [], []
        for draw in range(12):
            (mask,) = space.decode(Draws.of(0, torch.tensor([i]), draw).normal(32, stream="walk"))
            subset = [j for j in range(32) if mask[j]]
            assert len(subset) == 5  # 15 % of 32 entries
            masked = x[i].clone().flatten()
            masked[subset] = 0.0
            sums.append(sum(explanation[i].flatten()[j].item() for j in subset))
            drops.append((net(x[i][None])[0, target[i]] - net(masked.reshape(1, 2, 4, 4))[0, target[i]]).item())
        assert found[i] == pytest.approx(pearsonr(sums, drops)[0])


def test_a_linear_model_explained_by_weight_times_input_is_faithful():
    net, x, target = linear(20), inputs(4, 20), torch.tensor([0, 1, 2, 0])
    np.testing.assert_allclose(value(MuF(nr_runs=20), net, x, target, net.weight[target] * x), 1.0, atol=1e-12)
    np.testing.assert_allclose(value(MuF(nr_runs=20), net, x, target, -net.weight[target] * x), -1.0, atol=1e-12)
    assert (value(MuF(nr_runs=20), net, x, target, net.weight[target]) < 0.999).all()


def test_a_constant_explanation_has_none():
    net, x, target = small_mlp(20), inputs(2, 20), torch.tensor([0, 1])
    assert np.isnan(value(MuF(nr_runs=9), net, x, target, torch.full((2, 20), 0.1, dtype=torch.float64))).all()


def test_what_it_asks_for_and_is():
    (request,) = MuF().requests(explained((3, 32, 32)), DEFAULTS)
    assert request.space == RandomMasks(size=0.15, baseline=0.0).fit(torch.Size((3, 32, 32)))
    assert request.walk == MonteCarlo(draws=100)
    assert MuF().assumption == ModelFaithfulness(features_in_step=0.15, perturb_baseline=0.0)
    assert MuF() != FaithfulnessCorrelation(subset_size=0.15, perturb_baseline=0.0)
    assert as_score(MuF(nr_runs=7).about()["spec"]) == MuF(nr_runs=7)
    assert "mu_f" in set(SCORES)
    assert higher(MuF())
    assert MuF().bounds == (-1.0, 1.0)
    with pytest.raises(InputError, match="give mu_f a smaller one"):
        MuF(subset_size=14).requests(explained((14,)), DEFAULTS)
