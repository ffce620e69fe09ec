"""Robustness and randomisation scores through a whole audit: the same numbers as by hand, controls told apart, assumptions beside them."""

import numpy as np
import pytest
import torch

from small import series_inputs, small_net
from veracity.audit import Audit
from veracity.core.randomness import Draws
from veracity.scores.assumptions import total_variation
from veracity.scores.randomisation import MPRT, EfficientMPRT, RandomLogit, SmoothMPRT
from veracity.scores.sensitivity import (
    AvgSensitivity,
    LocalLipschitz,
    MaxSensitivity,
    RelativeInputStability,
    RelativeOutputStability,
    RelativeRepresentationStability,
    relative_change,
)

SIGMA, DRAWS = 0.2, 5
SCORES = [
    RelativeInputStability(sigma=SIGMA),
    RelativeOutputStability(sigma=SIGMA),
    RelativeRepresentationStability(sigma=SIGMA, layer="2"),
    LocalLipschitz(sigma=SIGMA),
    MaxSensitivity(),
    AvgSensitivity(),
    MPRT(),
    SmoothMPRT(),
    EfficientMPRT(),
    RandomLogit(),
]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    audit = Audit(
        models={"net": small_net()}, inputs=series_inputs(6), explainers=["input_x_gradient"], scores=[*SCORES, "model_robustness"], seed=3
    )
    return audit.run(tmp_path_factory.mktemp("robustness") / "run")


@pytest.fixture(scope="module")
def by_hand():
    """x and its noisy copies (6 * 5, 1, 12), with gradient times input, logits and the middle layer of both."""
    x, net = series_inputs(6), small_net()
    row, draw = torch.arange(6).repeat_interleave(DRAWS), torch.arange(DRAWS).repeat(6)
    noise = SIGMA * Draws(3, row, draw).normal(12, stream="walk")
    targets = net(x).argmax(dim=1)[row]

    def seen(values):
        values = values.clone().requires_grad_()
        logits = net(values)
        gradient = torch.autograd.grad(logits.gather(1, targets[:, None]).sum(), values)[0]
        return values.detach(), (gradient * values).detach(), logits.detach(), net[:3](values).detach()

    return seen(x[row]), seen(x[row] + noise.float().reshape(-1, 1, 12)), targets


def values_of(result, score, explainer="input_x_gradient"):
    table = result.samples(score)
    return table[table["explainer"] == explainer].sort_values("sample")


def test_relative_stability_equals_the_equations(result, by_hand):
    (x, e, h, inner), (x2, e2, h2, inner2), targets = by_hand
    kept = h2.argmax(dim=1) == targets
    assert 0 < int(kept.sum()) < len(kept), "some draws must change the prediction, for the test to tell"
    below = {
        "relative_input_stability": relative_change(x, x2),
        "relative_output_stability": (h - h2).double().norm(dim=1),
        "relative_representation_stability": relative_change(inner, inner2),
    }
    for name, change in below.items():
        ratio = (relative_change(e, e2) / change).masked_fill(~kept, -1.0).reshape(6, DRAWS)
        expected = ratio.amax(dim=1).numpy()
        found = values_of(result, name)
        np.testing.assert_allclose(found["value"], np.where(expected < 0, np.nan, expected), rtol=1e-5)
        assert found["undefined"].tolist() == (~kept).reshape(6, DRAWS).sum(dim=1).tolist()


def test_lipschitz_equals_its_definition(result, by_hand):
    (x, e, _, _), (x2, e2, _, _), _ = by_hand
    expected = ((e2 - e).flatten(1).norm(dim=1) / (x2 - x).flatten(1).norm(dim=1) / e.flatten(1).norm(dim=1)).reshape(6, DRAWS).amax(dim=1)
    np.testing.assert_allclose(values_of(result, "local_lipschitz")["value"], expected.numpy(), rtol=1e-5)


def test_the_mean_change_is_below_the_largest(result):
    largest, mean = (values_of(result, name)["value"].to_numpy() for name in ("max_sensitivity", "avg_sensitivity"))
    assert (mean <= largest).all()
    assert (mean > 0).any()


def test_random_controls_are_not_stable_and_what_ignores_the_model_survives_it(result):
    table = result.table().set_index(["explainer", "score"])["value"]
    for score in ("max_sensitivity", "avg_sensitivity", "relative_input_stability", "local_lipschitz"):
        assert table["random_uniform", score] > table["edge_filter", score] > table["constant_map", score] == 0.0
    for score in ("mprt", "smooth_mprt", "random_logit"):
        assert table["edge_filter", score] == pytest.approx(1.0)
        assert abs(table["random_uniform", score]) < 0.5
        assert np.isnan(table["constant_map", score])
    assert table["edge_filter", "efficient_mprt"] == 0.0


def test_the_model_is_asked_whether_it_keeps_still(result):
    """The default noise is so small that this model does; the scores' own noise makes it change its mind."""
    assert values_of(result, "model_robustness", "")["value"].tolist() == [1.0] * 6


def test_the_assumption_says_no_exactly_where_the_model_moved(by_hand):
    (_, _, h, _), (_, _, h2, _), targets = by_hand
    moved = total_variation(h.softmax(1), h2.softmax(1)).reshape(6, DRAWS).numpy()
    same = (h2.argmax(dim=1) == targets).reshape(6, DRAWS).numpy()
    score = SCORES[0].assumption
    values = score.values({"distortion": moved[:, :, None], "kept": same[:, :, None].astype(float)})
    assert score.reduce(values).tolist() == [float((moved[i] <= 0.1).all() and same[i].all()) for i in range(6)]
    assert score.reduce(values).min() == 0.0
