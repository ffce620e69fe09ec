"""Relative stability and the local Lipschitz estimate: by hand, by a literal oracle, and what theory says they must be."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veracity.core.errors import InputError, SpecError
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Defaults, Pair, Reading, Reads, Subject, reads_after, reads_before
from veracity.explain.controls import RandomUniform
from veracity.explain.gradients import Gradient
from veracity.perturb.noise import GaussianNoise
from veracity.scores.assumptions import ModelRobustness
from veracity.scores.common import as_score
from veracity.scores.sensitivity import (
    LocalLipschitz,
    RelativeInputStability,
    RelativeOutputStability,
    RelativeRepresentationStability,
    relative_change,
)
from veracity.walk import MonteCarlo

DEFAULTS = Defaults(None, MonteCarlo(draws=50))
SHAPE = torch.Size([2, 3])
RELATIVE = [RelativeInputStability(), RelativeOutputStability(), RelativeRepresentationStability(layer="body")]
ALL = [*RELATIVE, LocalLipschitz()]
STAY = torch.tensor([[0.9, 0.1]])


def pair(before, after):
    """Two readings by the names of what was read."""
    made = [Reading(torch.zeros(1, dtype=torch.long), {Reads(key): value for key, value in found.items()}) for found in (before, after)]
    return Pair(*made, torch.zeros(1, 0), lambda x: x, lambda x: x)


def random_pair(rows, seed=0, zeros=False):
    """Random readings of everything; with zeros, half of the entries before are exactly zero."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(rows, *shape, generator=generator)

    before = {"explanation": draw(2, 3), "input": draw(2, 3), "scores": draw(4), "representation": draw(5), "output": draw(4).softmax(1)}
    if zeros:
        before = {key: value * (torch.rand(value.shape, generator=generator) > 0.5) for key, value in before.items()}
    after = {key: value + 0.01 * draw(*value.shape[1:]) for key, value in before.items()}
    return before, after


def literal(a, b, floor, eps):
    """The relative change of one sample, entry by entry."""
    a, b = a.flatten().double().tolist(), b.flatten().double().tolist()
    smallest = floor * math.sqrt(sum(value * value for value in a) / len(a))
    total = 0.0
    for old, new in zip(a, b, strict=True):
        unit = max(abs(old), smallest)
        if unit == 0.0:
            unit = eps if floor == 0.0 else math.nan
        total += ((new - old) / unit) ** 2
    return math.sqrt(total)


@pytest.mark.parametrize("floor", [0.0, 0.01, 0.5])
@pytest.mark.parametrize("zeros", [False, True])
def test_relative_change_equals_the_literal_one(floor, zeros):
    before, after = random_pair(7, zeros=zeros)
    found = relative_change(before["explanation"], after["explanation"], floor=floor)
    oracle = [literal(a, b, floor, 1e-6) for a, b in zip(before["explanation"], after["explanation"], strict=True)]
    np.testing.assert_allclose(found.numpy(), oracle, rtol=1e-12)


def test_relative_change_by_hand():
    a, b = torch.tensor([[3.0, 4.0]]), torch.tensor([[3.3, 3.6]])
    assert relative_change(a, b).item() == pytest.approx(math.sqrt(0.1**2 + 0.1**2), rel=1e-6)
    assert relative_change(a, b, floor=1.0).item() == pytest.approx(math.sqrt(0.3**2 / 12.5 + 0.1**2), rel=1e-6)


def test_what_is_zero_does_not_explode_unless_asked_to():
    a, b = torch.tensor([[1.0, 1.0, 1.0, 0.0]]), torch.tensor([[1.0, 1.0, 1.0, 0.001]])
    assert relative_change(a, b).item() == pytest.approx(0.001 / (0.01 * math.sqrt(0.75)), rel=1e-5)
    assert relative_change(a, b, floor=0.0).item() == pytest.approx(1000.0, rel=1e-5)


def test_nothing_has_no_relative_change():
    nothing, something = torch.zeros(1, 3), torch.ones(1, 3)
    assert relative_change(nothing, something).isnan().all()
    assert relative_change(nothing, nothing).isnan().all()
    assert relative_change(nothing, something, floor=0.0, eps_min=0.5).item() == pytest.approx(2.0 * math.sqrt(3.0))
    assert relative_change(something, something).item() == 0.0


@given(scale=st.floats(1e-6, 1e6), sign=st.sampled_from([-1.0, 1.0]), seed=st.integers(0, 20))
@settings(max_examples=30, deadline=None)
def test_relative_change_is_free_of_scale_and_sign(scale, sign, seed):
    before, after = (found["explanation"].double() for found in random_pair(3, seed))
    found = relative_change(sign * scale * before, sign * scale * after)
    np.testing.assert_allclose(found.numpy(), relative_change(before, after).numpy(), rtol=1e-9)


def test_input_stability_by_hand():
    before = {"explanation": torch.tensor([[1.0, 2.0]]), "input": torch.tensor([[4.0, 5.0]]), "output": STAY}
    after = {"explanation": torch.tensor([[1.3, 2.8]]), "input": torch.tensor([[4.4, 5.0]]), "output": STAY}
    assert RelativeInputStability().observe(pair(before, after)).item() == pytest.approx(0.5 / 0.1, rel=1e-5)


def test_output_stability_by_hand():
    before = {"explanation": torch.tensor([[1.0, 2.0]]), "scores": torch.tensor([[4.0, 5.0]]), "output": STAY}
    after = {"explanation": torch.tensor([[1.3, 2.8]]), "scores": torch.tensor([[4.3, 5.4]]), "output": STAY}
    assert RelativeOutputStability().observe(pair(before, after)).item() == pytest.approx(0.5 / 0.5, rel=1e-5)


def test_representation_stability_by_hand():
    before = {"explanation": torch.tensor([[1.0, 2.0]]), "representation": torch.tensor([[2.0, 5.0]]), "output": STAY}
    after = {"explanation": torch.tensor([[1.3, 2.8]]), "representation": torch.tensor([[2.4, 5.0]]), "output": STAY}
    assert RelativeRepresentationStability(layer="body").observe(pair(before, after)).item() == pytest.approx(0.5 / 0.2, rel=1e-5)


def test_lipschitz_by_hand():
    before = {"explanation": torch.tensor([[1.0, 2.0], [1.0, 2.0]]), "input": torch.tensor([[4.0, 5.0], [4.0, 5.0]])}
    after = {"explanation": torch.tensor([[4.0, 6.0], [4.0, 6.0]]), "input": torch.tensor([[4.0, 5.5], [4.0, 5.0]])}
    assert LocalLipschitz(relative=False).observe(pair(before, after)).tolist() == pytest.approx([10.0, math.nan], nan_ok=True)
    assert LocalLipschitz().observe(pair(before, after)).tolist() == pytest.approx([10.0 / math.sqrt(5.0), math.nan], nan_ok=True)


def test_where_nothing_moves_the_least_change_is_divided_by():
    """A numerator of 1 over 0, and over less than eps_min."""
    before = {"explanation": torch.ones(2, 1), "scores": torch.zeros(2, 2), "output": STAY.expand(2, 2)}
    after = {"explanation": 2 * torch.ones(2, 1), "scores": torch.tensor([[0.0, 0.0], [0.0, 1e-3]]), "output": STAY.expand(2, 2)}
    assert RelativeOutputStability(eps_min=0.01).observe(pair(before, after)).tolist() == pytest.approx([100.0, 100.0])
    assert RelativeOutputStability().observe(pair(before, after)).tolist() == pytest.approx([1e6, 1e3])


@pytest.mark.parametrize("score", RELATIVE, ids=lambda score: score.name)
@pytest.mark.parametrize("floor", [0.0, 0.01])
def test_against_the_equations_taken_literally(score, floor):
    before, after = random_pair(9, seed=3, zeros=True)
    score = as_score({**score.spec(), "floor": floor})
    found = score.observe(pair(before, after)).numpy()
    for row in range(9):
        old, new = ({key: value[row] for key, value in side.items()} for side in (before, after))
        if int(old["output"].argmax()) != int(new["output"].argmax()):
            assert math.isnan(found[row])
            continue
        below = {
            "relative_input_stability": lambda o=old, n=new: literal(o["input"], n["input"], floor, 1e-6),
            "relative_output_stability": lambda o=old, n=new: math.dist(o["scores"].tolist(), n["scores"].tolist()),
            "relative_representation_stability": lambda o=old, n=new: literal(o["representation"], n["representation"], floor, 1e-6),
        }[score.name]()
        expected = literal(old["explanation"], new["explanation"], floor, 1e-6) / max(below, 1e-6)
        assert found[row] == pytest.approx(expected, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("score", RELATIVE, ids=lambda score: score.name)
def test_draws_that_change_the_prediction_are_left_out(score):
    before, after = random_pair(3, seed=5)
    before["output"] = torch.tensor([[0.6, 0.4], [0.6, 0.4], [0.6, 0.4]])
    after["output"] = torch.tensor([[0.51, 0.49], [0.49, 0.51], [0.6, 0.4]])
    found = score.observe(pair(before, after))
    assert found.isnan().tolist() == [False, True, False]
    values = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]])
    assert score.reduce(values).tolist() == pytest.approx([3.0, math.nan], nan_ok=True)


@pytest.mark.parametrize("score", RELATIVE, ids=lambda score: score.name)
def test_constant_maps_are_perfectly_stable_and_zero_maps_undefined(score):
    before, after = random_pair(2, seed=1)
    before["output"] = after["output"]
    before["explanation"] = after["explanation"] = torch.stack((torch.ones(2, 3), torch.zeros(2, 3)))
    assert score.observe(pair(before, after)).tolist() == pytest.approx([0.0, math.nan], nan_ok=True)


def test_a_proportional_explanation_has_input_stability_one():
    """e(x) = c x changes as its input does, whatever c and whatever the noise."""
    before, after = random_pair(20, seed=2)
    before["output"] = after["output"]
    before["explanation"], after["explanation"] = -3.0 * before["input"], -3.0 * after["input"]
    np.testing.assert_allclose(RelativeInputStability().observe(pair(before, after)).numpy(), 1.0, rtol=1e-5)


def test_lipschitz_of_a_linear_explanation_comes_close_to_its_spectral_norm_from_below():
    a = torch.tensor([[3.0, 0.0], [4.0, 5.0]], dtype=torch.float64)
    z = 0.001 * torch.randn(2000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    here = torch.zeros_like(z)
    values = LocalLipschitz(relative=False).observe(pair({"explanation": here, "input": here}, {"explanation": z @ a.T, "input": z}))
    found = LocalLipschitz().reduce(values.reshape(1, -1).numpy()).item()
    assert 0.999 * math.sqrt(45.0) < found <= math.sqrt(45.0) + 1e-9


@pytest.mark.parametrize("score", ALL, ids=lambda score: score.name)
def test_what_it_asks_for(score):
    (request,) = score.requests(Subject("net", Gradient(), SHAPE), DEFAULTS)
    assert request.space == GaussianNoise(sigma=0.001).fit(SHAPE)
    assert request.walk == MonteCarlo(draws=5)
    assert request.common_draws
    assert request.layer == getattr(score, "layer", None)
    assert score.requests(Subject("net", None, SHAPE), DEFAULTS) == ()
    assert score.direction is Direction.LOWER
    assert score.bounds == (0.0, math.inf)
    assert Reads.EXPLANATION in reads_before(score) & reads_after(score)


def test_all_share_one_perturbation():
    subject = Subject("net", Gradient(), SHAPE)
    asked = {(request.space, request.walk, request.common_draws) for score in ALL for request in score.requests(subject, DEFAULTS)}
    assert len(asked) == 1


@pytest.mark.parametrize("score", ALL, ids=lambda score: score.name)
def test_random_controls_draw_afresh(score):
    (request,) = score.requests(Subject("net", RandomUniform(), SHAPE), DEFAULTS)
    assert not request.common_draws


@pytest.mark.parametrize("score", ALL, ids=lambda score: score.name)
def test_it_assumes_a_model_that_is_stable_under_the_same_noise(score):
    score = as_score({**score.spec(), "sigma": 0.3, "walk": MonteCarlo(draws=7)})
    (own,) = score.requests(Subject("net", Gradient(), SHAPE), DEFAULTS)
    assert isinstance(score.assumption, ModelRobustness)
    (assumed,) = score.assumption.requests(Subject("net", None, SHAPE), DEFAULTS)
    assert (assumed.space, assumed.walk) == (own.space, own.walk)


@pytest.mark.parametrize("score", ALL, ids=lambda score: score.name)
def test_it_survives_being_written_down(score):
    assert as_score(score.about()["spec"]) == score
    assert as_score(score.name).name in set(SCORES)
    assert score.about()["reduce"] == "own"


def test_misuse_is_told():
    with pytest.raises(InputError, match="needs a layer of the model"):
        RelativeRepresentationStability().requests(Subject("net", Gradient(), SHAPE, layers=("only",)), DEFAULTS)
    with pytest.raises(InputError, match="watches a hidden layer, and model 'net' has no layers with weights"):
        RelativeRepresentationStability().requests(Subject("net", Gradient(), SHAPE), DEFAULTS)
    assert RelativeRepresentationStability().requests(Subject("net", None, SHAPE), DEFAULTS) == ()
    with pytest.raises(SpecError, match=r"'floor' of score .* must be a number of at least 0"):
        RelativeInputStability(floor=-1.0)
    with pytest.raises(SpecError, match=r"'eps_min' of score .* must be a positive number"):
        RelativeOutputStability(eps_min=0.0)
    with pytest.raises(SpecError, match="sigma"):
        LocalLipschitz(sigma=0.0)
