"""Randomisation tests: by hand, by a literal oracle, and on a small model whose layers are randomised one by one."""

import math
from copy import deepcopy

import numpy as np
import pytest
import torch
from scipy.stats import entropy, spearmanr
from torch import nn
from torch.func import functional_call

from veracity import Audit
from veracity.core.errors import SpecError
from veracity.core.measures import Direction
from veracity.core.scores import Defaults, Measured, Pair, Reading, Reads, Smoothing, Subject
from veracity.engine.perturbation import weights
from veracity.explain.controls import RandomUniform
from veracity.explain.gradients import Gradient
from veracity.measure import l2, ssim
from veracity.perturb.noise import GaussianNoise
from veracity.perturb.swaps import OtherClass
from veracity.perturb.weights import FullRandomisation, LayerRandomisation
from veracity.scores.assumptions import ModelSensitivity
from veracity.scores.common import as_score
from veracity.scores.randomisation import MPRT, EfficientMPRT, RandomLogit, SmoothMPRT
from veracity.walk import MonteCarlo

DEFAULTS = Defaults(None, MonteCarlo(draws=50))
SHAPE = torch.Size([1, 4, 4])
SUBJECT = Subject("net", Gradient(), SHAPE)
SURVIVAL = [MPRT(), SmoothMPRT(), RandomLogit()]
ALL = [*SURVIVAL, EfficientMPRT()]
NAN = math.nan


def pair(before, after):
    target = torch.zeros(len(before), dtype=torch.long)
    readings = (Reading(target, {Reads.EXPLANATION: side}) for side in (before, after))
    return Pair(*readings, torch.zeros(len(before), 2, dtype=torch.int64), lambda x: x, lambda x: x)


def maps(rows, seed=0):
    return torch.randn(rows, 1, 4, 4, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("score", SURVIVAL, ids=lambda score: score.name)
def test_similarity_equals_spearman_of_flattened_maps(score):
    before, after = maps(6), maps(6, seed=1).round()
    found = score.observe(pair(before, after)).numpy()
    oracle = [spearmanr(a.flatten(), b.flatten())[0] for a, b in zip(before, after, strict=True)]
    np.testing.assert_allclose(found, oracle, atol=1e-12)


def test_similarity_by_hand():
    before, after = torch.tensor([[1.0, 2.0, 3.0, 4.0]] * 3), torch.tensor([[1.0, 3.0, 2.0, 9.0], [-1.0, -2.0, -3.0, -4.0], [5.0] * 4])
    assert MPRT().observe(pair(before, after)).tolist() == pytest.approx([0.8, -1.0, NAN], nan_ok=True)
    assert MPRT(absolute=True).observe(pair(before, after)).tolist() == pytest.approx([0.8, 1.0, NAN], nan_ok=True)


def test_mean_and_last_level():
    found = Measured({"value": np.array([[[0.9, 0.5, 0.1], [0.3, NAN, 0.2]], [[NAN] * 3, [0.0, 0.0, NAN]]])})
    np.testing.assert_allclose(MPRT().values(found), [[0.5, 0.25], [NAN, 0.0]])
    np.testing.assert_allclose(SmoothMPRT(layers="last").values(found), [[0.1, 0.2], [NAN, NAN]])
    assert MPRT().reduce(MPRT().values(found)).tolist() == pytest.approx([0.375, 0.0])


def test_the_average_of_quantus_follows_from_the_levels():
    """It counts the unrandomised model with similarity 1 among the layers."""
    levels = np.array([[[0.5, 0.2, -0.1]]])
    ours = MPRT().values(Measured({"value": levels})).item()
    assert (1.0 + 3 * ours) / 4 == pytest.approx(np.concatenate(([1.0], levels.ravel())).mean())


def test_rise_of_complexity_against_numpy():
    before, after = maps(5), maps(5, seed=1).round()
    found = EfficientMPRT(n_bins=7).observe(pair(before, after)).numpy()

    def c(e):
        return entropy(np.histogram(e.double().numpy(), bins=7)[0])

    np.testing.assert_allclose(found, [(c(b) - c(a)) / c(a) for a, b in zip(before, after, strict=True)], atol=1e-12)


def test_rise_by_hand():
    """Two equal bins of two have entropy log 2; four bins of one have log 4; a constant map has none to rise from."""
    before = torch.tensor([[0.0, 0.0, 3.0, 3.0], [0.0, 1.0, 2.0, 3.0], [1.0] * 4])
    after = torch.tensor([[0.0, 1.0, 2.0, 3.0], [1.0] * 4, [0.0, 1.0, 2.0, 3.0]])
    assert EfficientMPRT(n_bins=4).observe(pair(before, after)).tolist() == pytest.approx([1.0, -1.0, NAN], nan_ok=True)


@pytest.mark.parametrize(
    ("score", "space"),
    [
        (MPRT(), LayerRandomisation(direction="top_down")),
        (MPRT(layer_order="bottom_up"), LayerRandomisation(direction="bottom_up")),
        (MPRT(layers_in_step=4), LayerRandomisation(step=4)),
        (SmoothMPRT(), LayerRandomisation(direction="bottom_up")),
        (EfficientMPRT(), FullRandomisation()),
        (RandomLogit(), OtherClass()),
    ],
)
def test_what_it_asks_for(score, space):
    (request,) = score.requests(SUBJECT, DEFAULTS)
    assert request.space == space.fit(SHAPE)
    assert request.walk == MonteCarlo(draws=1 if isinstance(score, RandomLogit) else 5)
    assert request.common_draws
    smooth = Smoothing(GaussianNoise(sigma=0.01).fit(SHAPE), 5) if isinstance(score, SmoothMPRT) else None
    assert request.smoothing == smooth
    assert score.requests(Subject("net", None, SHAPE), DEFAULTS) == ()
    (control,) = score.requests(Subject("net", RandomUniform(), SHAPE), DEFAULTS)
    assert not control.common_draws
    assert as_score(score.about()["spec"]) == score


def test_directions_and_bounds():
    for score in SURVIVAL:
        assert (score.direction, score.bounds) == (Direction.LOWER, (-1.0, 1.0))
    assert MPRT(measure=l2).direction is Direction.HIGHER
    assert RandomLogit(measure=ssim).direction is Direction.LOWER
    assert (EfficientMPRT().direction, EfficientMPRT().bounds) == (Direction.HIGHER, (-1.0, math.inf))


@pytest.mark.parametrize(
    "score", [MPRT(layers="last"), SmoothMPRT(walk=MonteCarlo(draws=3)), EfficientMPRT()], ids=lambda score: score.name
)
def test_it_assumes_a_model_that_responds_to_the_same_weights(score):
    (own,) = score.requests(SUBJECT, DEFAULTS)
    assert isinstance(score.assumption, ModelSensitivity)
    (assumed,) = score.assumption.requests(Subject("net", None, SHAPE), DEFAULTS)
    assert (assumed.space, assumed.walk) == (own.space, own.walk)
    assert score.assumption.layers == getattr(score, "layers", "last")


def test_another_class_assumes_nothing_of_the_model():
    assert RandomLogit().assumption is None


def test_misuse_is_told():
    with pytest.raises(SpecError, match="Unknown choice of layers 'means'"):
        MPRT(layers="means").requests(SUBJECT, DEFAULTS)
    with pytest.raises(SpecError, match="'nr_samples' of score 'smooth_mprt' must be a whole number"):
        SmoothMPRT(nr_samples=0)
    with pytest.raises(SpecError, match="'n_bins' of score 'efficient_mprt' must be a whole number"):
        EfficientMPRT(n_bins=0)
    with pytest.raises(SpecError, match="noise_magnitude"):
        SmoothMPRT(noise_magnitude=-1.0).requests(SUBJECT, DEFAULTS)


def small_model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


def gradients(model, weights, x, targets):
    x = x.clone().requires_grad_()
    picked = functional_call(model, weights, (x,)).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(picked, x)[0]


def survival(score, explain):
    """One draw of a score on the small model, level by level, as the engine walks it: (samples, 1, levels)."""
    model, x = small_model(), maps(40, seed=4)
    targets = model(x).argmax(dim=1)
    (request,) = score.requests(SUBJECT, DEFAULTS)
    space = request.space.of(model)
    before = explain(model, {}, x, targets)
    levels = [explain(model, space.parameters(model, 0, level, seed=0), x, targets) for level in range(space.levels)]
    return np.stack([score.observe(pair(before, after)).numpy() for after in levels], axis=1)[:, None]


def test_a_gradient_dies_with_its_model_and_an_edge_filter_does_not():
    score = MPRT()
    alive = survival(score, gradients)
    assert alive.shape == (40, 1, 3)
    assert abs(score.values(Measured({"value": alive})).mean()) < 0.5
    assert abs(alive[:, 0, -1].mean()) < 0.25
    ignorant = survival(score, lambda _model, _weights, x, _targets: x)
    np.testing.assert_allclose(score.values(Measured({"value": ignorant})), 1.0)


def test_from_the_input_up_the_first_layer_alone_destroys_a_gradient():
    """Randomising the top layer keeps part of the map; randomising the bottom layer keeps none."""
    down, up = (survival(MPRT(layer_order=order), gradients)[:, 0, 0] for order in ("top_down", "bottom_up"))
    assert abs(up.mean()) < 0.15
    assert np.abs(down).mean() > np.abs(up).mean()


@pytest.mark.parametrize("together", [False, True])
def test_batch_normalisation_forgets_its_statistics(tmp_path, monkeypatch, together):
    """Against a copy whose layers were reset by hand: at "all layers random" nothing of what was learnt is left."""
    if together:
        monkeypatch.setattr(weights, "GAINING", frozenset({"cpu"}))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).train()
        model(2.0 + torch.tensor([1.0, 9.0, 1.0, 4.0, 0.1, 1.0]) * torch.randn(64, 6))
    model.eval()
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(6))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    score = MPRT(layers="last", walk=MonteCarlo(draws=2))
    result = Audit(models=model, inputs=x, explainers=["gradient"], scores=[score], controls=False, companions=False).run(
        tmp_path, progress=False
    )
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    targets, space = model(x).argmax(1), LayerRandomisation().of(model)
    for draw in range(2):
        fresh = deepcopy(model)
        fresh[1].reset_parameters()
        learnt = {name: value for name, value in space.parameters(model, draw, 2, seed=0).items() if not name.startswith("1.running")}
        fresh.load_state_dict({**fresh.state_dict(), **learnt})
        for number, value in enumerate(result.draws("mprt")["model", "gradient"][:, draw]):
            slopes = []
            for net in (model, fresh):
                leaf = x[number : number + 1].clone().requires_grad_()
                slopes.append(torch.autograd.grad(net(leaf)[0, targets[number]], leaf)[0][0])
            assert value == pytest.approx(spearmanr(*(slope.numpy() for slope in slopes)).statistic)
