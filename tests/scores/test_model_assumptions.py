"""What scores assume of the model: distortions by hand, when an assumption holds, and the sentence that says so."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veracity.core.errors import SpecError
from veracity.core.measures import Direction
from veracity.core.scores import Defaults, Measured, Pair, Reading, Reads, Subject, reads_after, reads_before
from veracity.explain.gradients import Gradient
from veracity.perturb import Ball
from veracity.perturb.noise import GaussianNoise
from veracity.perturb.weights import FullRandomisation, LayerRandomisation
from veracity.scores.assumptions import ModelRobustness, ModelSensitivity, same_prediction, sentence, total_variation
from veracity.scores.common import as_score
from veracity.scores.faithfulness.masked import ModelFaithfulness
from veracity.scores.sensitivity import RelativeInputStability
from veracity.walk import MonteCarlo

COMPARE = ": there, compare explainers with each other and with random ones, not with the best possible value."
"""What to do where an assumption fails."""

DEFAULTS = Defaults(None, MonteCarlo(draws=50))
MODEL = Subject("net", None, torch.Size([3]))
NAN = math.nan


def pair(before, after):
    target = torch.zeros(len(before), dtype=torch.long)
    readings = (Reading(target, {Reads.OUTPUT: torch.tensor(side)}) for side in (before, after))
    return Pair(*readings, torch.zeros(len(before), 0), lambda x: x, lambda x: x)


def measured(**quantities):
    return Measured({name: np.array(value, dtype=float) for name, value in quantities.items()})


@given(st.lists(st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4), min_size=3, max_size=3))
@settings(max_examples=30, deadline=None)
def test_total_variation_is_the_largest_change_of_any_event(rows):
    """max over sets A of classes of |p(A) - q(A)|, counted out; a metric between 0 and 1."""
    p, q, r = (torch.tensor([row], dtype=torch.float64) / sum(row) for row in rows)
    events = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 4)
    found = total_variation(p, q)
    assert found.item() == pytest.approx(((p - q) @ events.T).abs().max().item(), abs=1e-12)
    assert total_variation(q, p) == pytest.approx(found)
    assert 0.0 <= found.item() <= 1.0
    assert found.item() <= (total_variation(p, r) + total_variation(r, q)).item() + 1e-12


def test_kept_is_about_the_largest_output():
    assert same_prediction(torch.tensor([[1.0, 2.0], [3.0, 2.0]]), torch.tensor([[-5.0, 0.0], [1.0, 2.0]])).tolist() == [True, False]


def test_robustness_observes_distortion_and_prediction():
    found = ModelRobustness().observe(pair([[0.7, 0.3], [0.6, 0.4], [0.5, NAN]], [[0.6, 0.4], [0.4, 0.6], [0.5, 0.5]]))
    np.testing.assert_allclose(found.numpy(), [[0.1, 1.0], [0.2, 0.0], [NAN, NAN]], atol=1e-6)


def test_robustness_holds_if_every_draw_and_level_does():
    score = ModelRobustness(tolerance=0.1)
    found = measured(
        distortion=[[[0.0, 0.1], [0.05, 0.05]], [[0.0, 0.11], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [NAN, NAN]]],
        kept=[[[1, 1], [1, 1]], [[1, 1], [1, 1]], [[1, 1], [1, 0]], [[1, 1], [NAN, NAN]]],
    )
    values = score.values(found)
    np.testing.assert_equal(values, [[1, 1], [0, 1], [1, 0], [1, NAN]])
    assert score.reduce(values).tolist() == [1.0, 0.0, 0.0, 1.0]
    assert np.isnan(score.reduce(np.full((1, 2), NAN))).all()


def test_a_distortion_on_the_boundary_is_tolerated_and_one_above_is_not():
    for tolerance, holds in ((0.25, 1.0), (0.2499, 0.0)):
        score = ModelRobustness(tolerance=tolerance)
        assert score.reduce(score.values(measured(distortion=[[[0.25]]], kept=[[[1]]]))).tolist() == [holds]
        score = ModelSensitivity(tolerance=tolerance)
        assert score.reduce(score.values(measured(distortion=[[[0.25]]]))).tolist() == [1.0 - holds]


def test_sensitivity_is_about_the_mean_over_copies():
    score = ModelSensitivity(tolerance=0.1, layer_order="top_down")
    found = measured(distortion=[[[0.0, 0.3], [0.0, 0.0]], [[0.9, 0.1], [0.9, 0.05]], [[0.0, NAN], [0.0, 0.5]], [[NAN] * 2] * 2])
    assert score.reduce(score.values(found)).tolist() == pytest.approx([1.0, 0.0, 1.0, NAN], nan_ok=True)
    along = ModelSensitivity(tolerance=0.1, layer_order="top_down", layers="mean")
    np.testing.assert_allclose(along.values(found)[:2], [[0.15, 0.0], [0.5, 0.475]])
    assert along.reduce(along.values(found)).tolist() == pytest.approx([0.0, 1.0, 1.0, NAN], nan_ok=True)


def test_sensitivity_observes_the_distortion():
    found = ModelSensitivity().observe(pair([[0.7, 0.3], [1.0, 0.0]], [[0.6, 0.4], [0.0, 1.0]]))
    assert found.tolist() == pytest.approx([0.1, 1.0], abs=1e-6)


@pytest.mark.parametrize(
    ("score", "space"),
    [
        (ModelRobustness(), GaussianNoise(sigma=0.001)),
        (ModelRobustness(sigma=0.5, levels=10), GaussianNoise(sigma=0.5, levels=10)),
        (ModelRobustness(radius=0.1, norm="l2"), Ball(radius=0.1, norm="l2")),
        (ModelSensitivity(), FullRandomisation()),
        (ModelSensitivity(layer_order="bottom_up", layers="mean"), LayerRandomisation(direction="bottom_up")),
    ],
)
def test_what_they_ask_for(score, space):
    (request,) = score.requests(MODEL, DEFAULTS)
    assert request.space == space.fit(MODEL.shape)
    assert request.walk == MonteCarlo(draws=5)
    assert score.requests(Subject("net", Gradient(), MODEL.shape), DEFAULTS) == ()
    assert reads_before(score) == reads_after(score) == {Reads.OUTPUT}
    assert (score.direction, score.bounds) == (Direction.HIGHER, (0.0, 1.0))
    assert as_score(score.about()["spec"]) == score
    assert (score.about()["reduce"], score.about()["values"]) == ("own", "own")


def test_misuse_is_told():
    with pytest.raises(SpecError, match="Unknown choice of layers 'first'"):
        ModelSensitivity(layers="first").requests(MODEL, DEFAULTS)
    with pytest.raises(SpecError, match="sigma"):
        ModelRobustness(sigma=-1.0).requests(MODEL, DEFAULTS)


@pytest.mark.parametrize(
    ("assumption", "holds", "n", "expected"),
    [
        (
            ModelRobustness(),
            52,
            64,
            f"relative_input_stability assumes a stable model; on 12 of 64 samples it is not{COMPARE}",
        ),
        (ModelRobustness(), 64, 64, "relative_input_stability assumes a stable model; on all 64 samples it is."),
        (ModelRobustness(), 0, 0, "relative_input_stability assumes a stable model; this could not be checked on any sample."),
        (
            ModelSensitivity(),
            1,
            4,
            f"relative_input_stability assumes a model that changes with its weights; on 3 of 4 samples it does not{COMPARE}",
        ),
    ],
)
def test_the_sentence(assumption, holds, n, expected):
    assert sentence(RelativeInputStability(), assumption, holds, n) == expected


def test_the_sentence_of_an_assumption_about_masking():
    found = sentence(RelativeInputStability(), ModelFaithfulness(), 1, 2)
    assert found.startswith("relative_input_stability assumes that the output of the model ")
    assert found.endswith(f"; on 1 of 2 samples it does not{COMPARE}")


def test_small_noise_keeps_a_model_and_large_noise_does_not():
    """A steep linear model: what Assumption 1 measures grows with sigma, at the levels of one path."""
    model = torch.nn.Linear(4, 3)
    with torch.no_grad():
        model.weight.copy_(torch.arange(12.0).reshape(3, 4).sin() * 3)
        model.bias.zero_()
    x = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    space = GaussianNoise(sigma=2.0, levels=4).fit(x.shape[1:])
    noise = space.decode(torch.randn(40, 4, generator=torch.Generator().manual_seed(1)))
    score, clean = ModelRobustness(sigma=2.0, levels=4), model(x).softmax(1).detach()
    seen = []
    for level in range(4):
        moved = space.act(space.at(noise, torch.full((40,), level)), x)
        after = model(moved).softmax(1).detach()
        readings = (Reading(torch.zeros(40, dtype=torch.long), {Reads.OUTPUT: side}) for side in (clean, after))
        seen.append(score.observe(Pair(*readings, noise, lambda x: x, lambda x: x)).numpy())
    distortion, same = (np.stack(seen, axis=1)[:, None, :, column] for column in (0, 1))
    assert (np.diff(distortion.mean(axis=(0, 1))) > 0).all()
    holds = [score.reduce(score.values(measured(distortion=distortion[:, :, :top], kept=same[:, :, :top]))).mean() for top in (1, 2, 3, 4)]
    assert holds == sorted(holds, reverse=True)
    assert holds[0] > holds[-1]
