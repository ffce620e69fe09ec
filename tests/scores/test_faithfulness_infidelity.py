"""Infidelity: by hand, against Captum on the same perturbations, and on a linear model."""

import numpy as np
import pytest
import torch
from captum.metrics import infidelity

from masked import DEFAULTS, bare, explained, higher, inputs, linear, measure, pair, reading, small_mlp, value
from veracity.core.errors import SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import SCORES
from veracity.core.scores import Measured
from veracity.perturb.masks import RandomMasks
from veracity.perturb.noise import GaussianNoise
from veracity.scores.common import as_score
from veracity.scores.faithfulness.correlation import Infidelity, best_scale
from veracity.walk import MonteCarlo


def test_by_hand():
    before = reading(torch.tensor([[3.0, 0.0]]), explanation=torch.tensor([[2.0, -1.0]]), input=torch.tensor([[1.0, 5.0]]))
    after = reading(torch.tensor([[1.5, 9.0]]), input=torch.tensor([[0.0, 2.0]]))
    assert Infidelity().observe(pair(before, after)).tolist() == [[2.0 * 1.0 - 1.0 * 3.0, 1.5]]
    measured = Measured({"attributed": np.array([[[-1.0], [2.0]], [[0.0], [0.0]]]), "drop": np.array([[[1.5], [1.0]], [[1.0], [3.0]]])})
    assert Infidelity().values(measured).tolist() == [[6.25, 1.0], [1.0, 9.0]]
    assert Infidelity(scaled=True).values(measured)[0].tolist() == pytest.approx([(-0.1 - 1.5) ** 2, (0.2 - 1.0) ** 2])
    assert Infidelity(scaled=True).values(measured)[1].tolist() == [1.0, 9.0]


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("noise", [None, 0.3])
def test_against_captum_on_the_same_perturbations(noise, scaled):
    x, explanation, net, target, draws = inputs(3, 1, 4, 4), inputs(3, 1, 4, 4, seed=2), small_mlp(16), torch.tensor([0, 2, 1]), 6
    score = Infidelity(noise=noise, patch_size=2, subset_size=2, n_perturb_samples=draws, scaled=scaled)
    space = score.masks(x.shape[1:]).fit(x.shape[1:])
    rows = Draws(0, torch.arange(3).repeat_interleave(draws), torch.arange(draws).repeat(3))
    element = space.decode(rows.normal(space.latents, stream="walk"))

    def perturbed(repeated):
        moved = space.act(space.at(element, torch.zeros(len(element), dtype=torch.long)), repeated)
        return repeated - moved, moved

    expected = infidelity(net, perturbed, x, explanation, target=target, n_perturb_samples=draws, normalize=scaled)
    np.testing.assert_allclose(value(score, net, x, target, explanation), expected.numpy(), rtol=1e-9)


def test_the_slope_of_a_linear_model_foretells_everything():
    net, x, target = linear(), inputs(4), torch.tensor([0, 1, 2, 0])
    for more in ({"patch_size": 1}, {"patch_size": 2, "subset_size": 0.5}, {"noise": 0.1}):
        np.testing.assert_allclose(value(Infidelity(**more), net, x, target, net.weight[target]), 0.0, atol=1e-24)
        assert (value(Infidelity(**more), net, x, target, 3.0 * net.weight[target]) > 1e-4).all()
        np.testing.assert_allclose(value(Infidelity(scaled=True, **more), net, x, target, 3.0 * net.weight[target]), 0.0, atol=1e-24)


def test_the_best_scale_leaves_the_least_error():
    rng = np.random.default_rng(0)
    a, d = rng.normal(size=(5, 20)), rng.normal(size=(5, 20))
    a[0, 3] = np.nan
    found = best_scale(a, d)
    least = np.nanmean((found * a - d) ** 2, axis=1)
    for factor in (0.9, 1.1):
        assert (np.nanmean((factor * found * a - d) ** 2, axis=1) > least).all()
    np.testing.assert_allclose(best_scale(a[1:], 2.5 * a[1:]), 2.5)


def test_a_sample_does_not_depend_on_its_batch_mates():
    net, x, explanation, target = small_mlp(16), inputs(4, 1, 4, 4), inputs(4, 1, 4, 4, seed=2), torch.tensor([0, 1, 2, 0])
    for score in (Infidelity(patch_size=2, scaled=True), Infidelity(noise=0.1)):
        together, alone = value(score, net, x, target, explanation), value(score, net, x[2:3], target[2:3], explanation[2:3], first=2)
        assert alone[0] == pytest.approx(together[2], abs=1e-12)


def test_one_map_for_all_channels():
    net, x, target = small_mlp(12), inputs(2, 3, 2, 2), torch.tensor([0, 1])
    one = inputs(2, 1, 2, 2, seed=3)
    found, wide = (measure(Infidelity(patch_size=1), net, x, target, e)["attributed"] for e in (one, one.expand(2, 3, 2, 2)))
    np.testing.assert_array_equal(found, wide)


def test_what_it_asks_for_and_how_to_read_it():
    shape = torch.Size((1, 28, 28))
    (request,) = Infidelity().requests(explained((1, 28, 28)), DEFAULTS)
    assert request.space == RandomMasks(size=1, patch=4).fit(shape)
    assert request.walk == MonteCarlo(draws=10)
    (request,) = Infidelity(noise=0.2).requests(explained((1, 28, 28)), DEFAULTS)
    assert request.space == GaussianNoise(sigma=0.2).fit(shape)
    assert not Infidelity().requests(bare((1, 28, 28)), DEFAULTS)
    assert not higher(Infidelity())
    assert Infidelity().bounds == (0.0, np.inf)
    assert Infidelity().assumption is None
    with pytest.raises(SpecError, match="'n_perturb_samples' of score 'infidelity'"):
        Infidelity(n_perturb_samples=None)
    score = Infidelity(noise=0.5, scaled=True)
    assert as_score(score.about()["spec"]) == score
    assert "infidelity" in set(SCORES)
