"""Faithfulness correlation and mu-fidelity: by hand, against a literal reading of the equation, and on a linear model."""

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr

from masked import DEFAULTS, bare, explained, higher, inputs, linear, measure, pair, reading, small_mlp, value
from veracity.core.errors import InputError, SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import SCORES
from veracity.core.scores import Measured
from veracity.perturb.masks import RandomMasks
from veracity.scores.common import as_score
from veracity.scores.faithfulness.correlation import FaithfulnessCorrelation, MuFidelity, constant_rows
from veracity.scores.faithfulness.masked import ModelFaithfulness, cell_side
from veracity.walk import MonteCarlo


def test_by_hand():
    before = reading(torch.tensor([[3.0, 0.0]] * 2), explanation=torch.tensor([[1.0, -2.0, 4.0]] * 2), input=torch.zeros(2, 3))
    after = reading(torch.tensor([[1.0, 9.0], [3.5, 9.0]]))
    masks = torch.tensor([[True, False, True], [False, True, False]])
    assert FaithfulnessCorrelation().observe(pair(before, after, masks)).tolist() == [[5.0, 2.0], [-2.0, -0.5]]
    chances = FaithfulnessCorrelation(softmax=True).observe(pair(before, after, masks))[:, 1]
    assert chances.tolist() == pytest.approx(
        [1 / (1 + np.exp(-3.0)) - 1 / (1 + np.exp(8.0)), 1 / (1 + np.exp(-3.0)) - 1 / (1 + np.exp(5.5))]
    )
    measured = Measured({"attributed": np.array([[[1.0], [2.0], [3.0]]]), "drop": np.array([[[1.0], [3.0], [2.0]]])})
    assert FaithfulnessCorrelation().values(measured).tolist() == [[pytest.approx(0.5)]]
    measured = Measured({"attributed": np.array([[[1.0], [2.0], [9.0]]]), "drop": np.array([[[1.0], [3.0], [2.0]]])})
    assert MuFidelity().values(measured).tolist() == [[pytest.approx(0.5)]]
    assert FaithfulnessCorrelation().values(measured).item() != pytest.approx(0.5)


def test_a_sample_with_one_subset_is_undefined_and_not_without_response():
    flat, steep = [[2.0], [2.0], [2.0]], [[1.0], [3.0], [2.0]]
    measured = Measured({"attributed": np.array([flat, flat, steep]), "drop": np.array([flat, steep, flat])})
    score = FaithfulnessCorrelation()
    assert score.no_response(measured).tolist() == [False, True, False]
    assert np.isnan(score.values(measured)[:, 0]).all()


@pytest.mark.parametrize("softmax", [False, True])
def test_as_equation_24_reads(softmax):
    x, explanation, net = inputs(3, 1, 4, 4), inputs(3, 1, 4, 4, seed=2), small_mlp(16)
    target = torch.tensor([0, 2, 1])
    score = FaithfulnessCorrelation(nr_runs=12, subset_size=5, softmax=softmax)
    found = value(score, net, x, target, explanation)
    space = RandomMasks(size=5).fit(x.shape[1:])
    for i in range(3):

        def f(row, i=i):
            out = net(row[None])[0]
            return (out.softmax(dim=0) if softmax else out)[target[i]].item()

        sums, drops = [], []
        for draw in range(12):
            (mask,) = space.decode(Draws.of(0, torch.tensor([i]), draw).normal(16, stream="walk"))
            masked = x[i].clone().flatten()
            masked[mask] = x[i].min()
            sums.append(sum(explanation[i].flatten()[j].item() for j in range(16) if mask[j]))
            drops.append(f(x[i]) - f(masked.reshape(1, 4, 4)))
        assert found[i] == pytest.approx(pearsonr(sums, drops)[0])


@pytest.mark.parametrize("baseline", ["black", "white", "mean", 0.3])
def test_a_linear_model_explained_by_its_contributions_is_faithful(baseline):
    net, x, target = linear(), inputs(4), torch.tensor([0, 1, 2, 0])
    at = {"black": x.amin(1), "white": x.amax(1), "mean": x.mean(1), 0.3: torch.full((4,), 0.3)}[baseline]
    contribution = net.weight[target] * (x - at[:, None])
    score = FaithfulnessCorrelation(nr_runs=20, subset_size=0.5, perturb_baseline=baseline)
    np.testing.assert_allclose(value(score, net, x, target, contribution), 1.0, atol=1e-12)
    np.testing.assert_allclose(value(score, net, x, target, 7.0 - 3.0 * contribution), -1.0, atol=1e-12)
    cells = MuFidelity(nr_samples=20, perturb_baseline=baseline, subset_percent=0.4)
    np.testing.assert_allclose(value(cells, net, x, target, contribution), 1.0, atol=1e-12)


def test_a_constant_explanation_has_none_and_says_so():
    net, x, target = small_mlp(10), inputs(3, 10), torch.tensor([0, 1, 2])
    explanation = torch.full((3, 10), 0.1, dtype=torch.float64)
    explanation[1] = x[1]
    for score in (FaithfulnessCorrelation(nr_runs=9, subset_size=3), MuFidelity(nr_samples=9, subset_percent=0.3)):
        measured = measure(score, net, x, target, explanation)
        assert np.isnan(score.reduce(score.values(measured))).tolist() == [True, False, True]
        assert score.no_response(measured).tolist() == [True, False, True]
    assert constant_rows(np.array([[np.nan, np.nan]])).tolist() == [False]


def test_random_explanations_are_uncorrelated_with_the_model():
    net, x = small_mlp(12), inputs(60, 12)
    found = value(FaithfulnessCorrelation(nr_runs=30, subset_size=4), net, x, net(x).argmax(1), inputs(60, 12, seed=9))
    assert abs(found.mean()) < 3 * found.std() / np.sqrt(60)


def test_a_sample_does_not_depend_on_its_batch_mates():
    net, x, explanation, target = small_mlp(10), inputs(4, 10), inputs(4, 10, seed=2), torch.tensor([0, 1, 2, 0])
    for score in (FaithfulnessCorrelation(nr_runs=9, subset_size=3), MuFidelity(nr_samples=9)):
        together = value(score, net, x, target, explanation)
        alone = value(score, net, x[2:3], target[2:3], explanation[2:3], first=2)
        assert alone[0] == pytest.approx(together[2], abs=1e-12)


def test_what_they_ask_for():
    (request,) = FaithfulnessCorrelation(perturb_baseline="mean").requests(explained((1, 28, 28)), DEFAULTS)
    assert request.space == RandomMasks(size=0.25, baseline="mean").fit(torch.Size((1, 28, 28)))
    assert request.walk == MonteCarlo(draws=100)
    (request,) = MuFidelity().requests(explained((1, 28, 28)), DEFAULTS)
    assert request.space == RandomMasks(size=0.2, patch=4).fit(torch.Size((1, 28, 28)))
    assert request.walk == MonteCarlo(draws=200)
    assert not FaithfulnessCorrelation().requests(bare((1, 28, 28)), DEFAULTS)
    assert not MuFidelity().requests(bare((1, 28, 28)), DEFAULTS)
    with pytest.raises(InputError, match=r"subset_size=224 leaves nothing to choose from 14 features: .* subset_size=0.25"):
        FaithfulnessCorrelation(subset_size=224).requests(explained((14,)), DEFAULTS)
    for score, setting, wrong in (
        (FaithfulnessCorrelation, "subset_size", 0),
        (FaithfulnessCorrelation, "subset_size", "a"),
        (MuFidelity, "patch_size", 0),
        (MuFidelity, "nr_samples", None),
    ):
        with pytest.raises(SpecError, match=f"'{setting}' of score '{score.name}' must be a whole number"):
            score(**{setting: wrong})


def test_cells_of_about_nine_by_nine():
    assert [cell_side(torch.Size(shape)) for shape in ((3, 224, 224), (1, 28, 28), (1, 9, 9), (2, 81), (1, 82))] == [25, 4, 1, 1, 2]


def test_what_they_assume():
    score = FaithfulnessCorrelation(subset_size=49, perturb_baseline="white", softmax=True)
    assert score.assumption == ModelFaithfulness(features_in_step=49, perturb_baseline="white", softmax=True)
    assert MuFidelity(perturb_baseline=0.5).assumption == ModelFaithfulness(features_in_step=0.2, patch_size=None, perturb_baseline=0.5)
    assert MuFidelity(patch_size=7).assumption == ModelFaithfulness(features_in_step=0.2, patch_size=7)
    assert MuFidelity().for_subject(explained((1, 28, 28))).patch_size == 4
    assert MuFidelity(patch_size=7).for_subject(explained((1, 28, 28))).patch_size == 7


def test_they_survive_being_written_down():
    for score in (FaithfulnessCorrelation(nr_runs=5, subset_size=0.25, perturb_baseline=0.5), MuFidelity(patch_size=7)):
        assert score.name in set(SCORES)
        assert as_score(score.about()["spec"]) == score
        assert score.reference
        assert higher(score)
        assert score.bounds == (-1.0, 1.0)


def test_ranks_are_spearmans():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5, 20, 1)).round(1), rng.normal(size=(5, 20, 1)).round(1)
    found = MuFidelity().values(Measured({"attributed": a, "drop": b}))
    np.testing.assert_allclose(found[:, 0], [spearmanr(a[i, :, 0], b[i, :, 0])[0] for i in range(5)])
