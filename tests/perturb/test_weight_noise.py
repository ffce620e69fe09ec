"""Noise on weights: one direction a draw, regenerated from its numbers, on a copy."""

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest
from torch import nn
from torch.func import functional_call, vmap
from weight_nets import conv_net, same, untouched

from veracity.core.errors import InputError, SpecError
from veracity.core.models import View
from veracity.perturb import LayerRandomisation, ParameterNoise, ParameterScaling, stack
from veracity.perturb.weights import FreshScaling
from veracity.walk import MonteCarlo

BOTH = pytest.mark.parametrize("kind", [ParameterScaling, ParameterNoise])


def big():
    """A model of 20,000 weights."""
    model = nn.Linear(100, 200, bias=False)
    nn.init.constant_(model.weight, 2.0)
    return model


def eta(space, model, draw, level, seed=0):
    """The direction, from what it did to weights of 2."""
    return (space.parameters(model, draw, level, seed)["weight"] / 2 - 1).detach() / space.strength(level)


@BOTH
def test_a_copy_depends_on_its_numbers_alone(kind):
    model, space = conv_net(), kind(sigma=1.0, steps=3)
    pairs = [(draw, level) for draw in range(3) for level in range(3)]
    found = {pair: space.parameters(model, *pair, seed=7) for pair in pairs}
    for pair in reversed(pairs):
        assert same(found[pair], space.parameters(model, *pair, seed=7))
    assert not same(found[0, 1], space.parameters(model, 0, 1, seed=8))
    assert not same(found[0, 1], found[1, 1])


@BOTH
@pytest.mark.parametrize("independent", [False, True])
def test_nothing_but_the_copy_changes(kind, independent):
    model = conv_net()
    space = kind(sigma=1.0, steps=2, independent=independent)
    with untouched(model):
        copy = space.of(model).parameters(model, 0, 1, seed=0)
        stack(space, model, [(0, 0), (3, 1)], seed=0)
    assert set(copy) == {name for name, _ in model.named_parameters()}
    assert {name for name, _ in model.named_buffers()}.isdisjoint(copy)
    assert not any(value.requires_grad for value in copy.values())
    assert all((value != model.get_parameter(name)).any() for name, value in copy.items())


@BOTH
def test_one_direction_is_linear_in_the_strength(kind):
    model = conv_net().double()
    space = kind(sigma=2.0, steps=3, segments=2)
    own = dict(model.named_parameters())
    last = space.parameters(model, 4, 5, seed=1)
    for level in range(6):
        share = space.strength(level) / 2.0
        for name, value in space.parameters(model, 4, level, seed=1).items():
            torch.testing.assert_close(value - own[name], share * (last[name] - own[name]), rtol=1e-9, atol=1e-13)


def test_independent_steps_have_their_own_directions():
    model, space = big(), ParameterScaling(sigma=1.0, steps=3, segments=2, independent=True)
    found = torch.stack([eta(space, model, draw, level).flatten() for draw in range(2) for level in range(6)])
    correlation = torch.corrcoef(found)
    for row in range(12):
        for column in range(12):
            expected = 1.0 if row // 2 == column // 2 else 0.0
            assert abs(float(correlation[row, column]) - expected) < 0.04


def test_the_direction_is_standard_normal():
    model, space = big(), ParameterScaling(sigma=0.5, steps=5)
    found = torch.stack([eta(space, model, draw, 2) for draw in range(5)]).double()
    assert abs(float(found.mean())) < 4 / math.sqrt(100_000)
    assert abs(float(found.std()) - 1) < 4 / math.sqrt(200_000)
    assert kstest(found.flatten()[::10].numpy(), "norm").pvalue > 1e-3


def test_strengths_by_hand():
    def of(**settings):
        space = ParameterScaling(**settings)
        return [round(space.strength(level), 10) for level in range(space.levels)]

    assert of(sigma=1.0, steps=5) == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert of(sigma=0.9, steps=3, segments=3) == [0.1, 0.2, 0.3, 0.2, 0.4, 0.6, 0.3, 0.6, 0.9]
    assert of(sigma=0.901, steps=4, first=0.001) == [0.001, 0.301, 0.601, 0.901]
    assert of(sigma=0.901, steps=2, segments=2, first=0.001) == [0.0005, 0.001, 0.4505, 0.901]
    assert of(sigma=0.5, steps=1, first=0.001) == [0.5]


def test_a_path_starts_at_the_model():
    space = ParameterScaling(sigma=1.0, steps=3, segments=2)
    assert [space.starts(level) for level in range(6)] == [True, False, True, False, True, False]
    assert all(ParameterScaling(sigma=1.0, steps=3).starts(level) for level in range(3))
    fresh = FreshScaling(sigma=1.0, steps=2, segments=2, repeats=1)
    assert [fresh.starts(level) for level in range(5)] == [True, False, True, False, True]


def test_fresh_scaling_has_noise_of_its_own_at_every_look_and_shares_it_with_its_repeats():
    space, model = FreshScaling(sigma=2.0, steps=2, segments=2, first=0.5, start=0.25, repeats=1), nn.Linear(4, 3)
    assert [space.strength(level) for level in range(10)] == [0.25, 0.25, 0.5, 0.5, 0.5, 0.25, 0.25, 2.0, 2.0, 2.0]
    noise = [(space.parameters(model, 0, level, seed=0)["weight"] / model.weight - 1) / space.strength(level) for level in range(10)]
    alike = {(one, other) for one in range(10) for other in range(one) if torch.allclose(noise[one], noise[other], atol=1e-3)}
    assert alike == {(1, 0), (3, 2), (6, 5), (8, 7)}
    assert [space.explains(level) for level in range(5)] == [True] * 4 + [False]


def test_fresh_scaling_waits_for_the_strength_of_parameter_scaling():
    assert FreshScaling(sigma=None, steps=5).endpoint(2.0) == ParameterScaling(sigma=None, steps=5).endpoint(2.0)
    with pytest.raises(SpecError, match="repeats"):
        FreshScaling(sigma=1.0, repeats=-1).check()
    with pytest.raises(SpecError, match="no sigma"):
        FreshScaling(sigma=None).strength(0)


@given(st.integers(0, 10_000), st.integers(0, 50))
def test_a_linear_model_is_distorted_in_proportion(seed, draw):
    """A.1.3: |f'(x) - f(x)| and |theta' - theta| both grow as z, so that their ranks agree whatever the draw."""
    model = nn.Linear(3, 1, bias=False)
    nn.init.constant_(model.weight, 0.5)
    model.double()
    space, x = ParameterScaling(sigma=1.5, steps=5), torch.tensor([[1.0, -2.0, 3.0]], dtype=torch.float64)
    copies = [space.parameters(model, draw, level, seed) for level in range(5)]
    output = torch.stack([(functional_call(model, copy, x) - model(x)).abs().sum() for copy in copies])
    weights = torch.stack([(copy["weight"] - model.weight).norm() for copy in copies])
    ratio = torch.arange(1, 6, dtype=torch.float64)
    torch.testing.assert_close(output / output[0], ratio, rtol=1e-6, atol=0)
    torch.testing.assert_close(weights / weights[0], ratio, rtol=1e-9, atol=0)


def test_scaling_and_noise_by_hand():
    """With s = .5 the same eta scales each weight, or is added in units of the tensor's root mean square."""
    model = nn.Linear(2, 1, bias=True)
    nn.init.constant_(model.bias, 0.0)
    model.weight.data = torch.tensor([[3.0, -4.0]])
    unit = nn.Linear(2, 1, bias=True)
    unit.weight.data, unit.bias.data = torch.ones(1, 2), torch.ones(1)
    direction = {name: 2 * (value - 1) for name, value in ParameterScaling(sigma=0.5, steps=1).parameters(unit, 3, 0, seed=5).items()}
    scaled = ParameterScaling(sigma=0.5, steps=1).parameters(model, 3, 0, seed=5)
    added = ParameterNoise(sigma=0.5, steps=1).parameters(model, 3, 0, seed=5)
    torch.testing.assert_close(scaled["weight"], model.weight.detach() * (1 + 0.5 * direction["weight"]))
    torch.testing.assert_close(added["weight"], model.weight.detach() + 0.5 * math.sqrt(12.5) * direction["weight"])
    assert scaled["bias"].tolist() == added["bias"].tolist() == [0.0]


@BOTH
@pytest.mark.parametrize("independent", [False, True])
def test_stacked_copies_are_the_single_ones(kind, independent):
    model, space = conv_net(), kind(sigma=1.0, steps=2, segments=2, independent=independent)
    pairs = [(2, 3), (0, 1), (2, 0), (0, 1)]
    together = stack(space, model, pairs, seed=3)
    for number, (draw, level) in enumerate(pairs):
        assert same({name: value[number] for name, value in together.items()}, space.parameters(model, draw, level, seed=3))
    x = torch.rand(5, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    outputs = vmap(lambda copy: functional_call(model, copy, x))(together)
    assert outputs.shape == (4, 5, 4)
    torch.testing.assert_close(outputs[1], functional_call(model, space.parameters(model, 0, 1, seed=3), x), rtol=1e-5, atol=1e-6)


def test_a_space_of_ones_own_is_stacked():
    """Where a space only knows single copies, and names what it changes."""

    class Own(ParameterScaling):
        def parameters(self, model, draw, level, seed):
            return {"fc.bias": torch.full((4,), float(draw))} if level else {"conv1.bias": torch.full((3,), float(draw))}

    own = Own(sigma=1.0)
    model = conv_net()
    plain = type("Plain", (), {"parameters": own.parameters})()
    found = stack(plain, model, [(5, 0), (6, 1)], seed=0)
    assert set(found) == {"conv1.bias", "fc.bias"}
    assert torch.equal(found["conv1.bias"], torch.stack((torch.full((3,), 5.0), model.conv1.bias.detach())))
    assert torch.equal(found["fc.bias"], torch.stack((model.fc.bias.detach(), torch.full((4,), 6.0))))


def test_other_precisions_and_views():
    """The same direction in half precision, and behind a view, whose names are its own."""
    model, space = conv_net(), ParameterScaling(sigma=1.0, steps=1)
    copy = space.parameters(model, 0, 0, seed=0)
    behind = space.parameters(View(model), 0, 0, seed=0)
    assert same({f"model.{name}": value for name, value in copy.items()}, behind)
    half = space.parameters(conv_net().bfloat16(), 0, 0, seed=0)
    assert all(value.dtype == torch.bfloat16 for value in half.values())
    torch.testing.assert_close(half["fc.weight"].float(), copy["fc.weight"], rtol=0.05, atol=0.05)


def test_noise_follows_names_not_registration():
    first, second = nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.Linear(3, 4)}), nn.ModuleDict()
    second["b"], second["a"] = first["b"], first["a"]
    assert list(dict(first.named_parameters())) != list(dict(second.named_parameters()))
    space = ParameterScaling(sigma=1.0)
    assert same(space.parameters(first, 0, 0, seed=0), space.parameters(second, 0, 0, seed=0))


def test_tied_and_frozen_parameters():
    """A shared tensor is one parameter; one that is not trained is perturbed all the same."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    model[0].bias.requires_grad_(False)
    copy = ParameterScaling(sigma=1.0).parameters(model, 0, 4, seed=0)
    assert set(copy) == {"0.weight", "0.bias", "1.bias"}
    assert (copy["0.bias"] != model[0].bias).all()
    x = torch.ones(1, 3)
    expected = (x @ copy["0.weight"].T + copy["0.bias"]) @ copy["0.weight"].T + copy["1.bias"]
    torch.testing.assert_close(functional_call(model, copy, x), expected)


def test_calibration():
    waiting = ParameterScaling(sigma=None, steps=5, segments=5, independent=True, first=0.001)
    assert waiting.endpoint(2.0) == ParameterScaling(sigma=2.0, steps=1)
    assert waiting.with_strength(2.0).strength(24) == 2.0
    assert waiting.with_strength(2.0).endpoint(1.0) is None
    assert json.loads(json.dumps(waiting.spec()))["sigma"] is None
    with pytest.raises(SpecError, match=r"^The space 'parameter_scaling' has no sigma yet: give it one, such as sigma=0\.5, or calibrate"):
        waiting.parameters(conv_net(), 0, 0, seed=0)
    with pytest.raises(SpecError, match=r"starts at first=0\.001, which must not exceed sigma=0\.0005"):
        waiting.with_strength(0.0005)


def test_a_walk_visits_every_copy_for_all_samples():
    space = ParameterScaling(sigma=1.0, steps=2, segments=2)
    walker = MonteCarlo(draws=3).start(space, torch.arange(5), 0, (0.0, 1.0))
    seen = []
    while (ask := walker.ask()) is not None:
        assert torch.equal(ask.element, torch.stack((ask.draw, ask.level), dim=1))
        seen += ask.element.tolist()
    assert sorted(map(tuple, seen)) == sorted((draw, level) for draw in range(3) for level in range(4) for _ in range(5))


@pytest.mark.parametrize("space", [ParameterScaling(sigma=1.0), ParameterNoise(sigma=1.0), LayerRandomisation()])
def test_models_without_weights_are_refused(space):
    with pytest.raises(InputError, match=r"^The model ReLU has no parameters that could be perturbed: leave out the scores"):
        space.of(nn.ReLU())
    with pytest.raises(InputError, match=r"^The parameter 'bias' has no shape yet \(a lazy layer\) and cannot be perturbed: run the"):
        space.of(nn.LazyLinear(3))
    with pytest.raises(InputError, match=r"^The parameter 'bias' has no values \(it is on the meta device\) and cannot be perturbed"):
        space.of(nn.Linear(2, 2, device="meta"))


def test_settings_that_make_no_path_are_refused():
    model = nn.Linear(2, 2)
    for setting in ("steps", "segments"):
        for value in (0, -1, 1.5, True):
            with pytest.raises(SpecError, match=f"^The setting '{setting}' of space 'parameter_scaling' must be a whole number"):
                ParameterScaling(sigma=1.0, **{setting: value}).of(model)
    for setting in ("sigma", "first"):
        for value in (0.0, -1.0, math.inf, math.nan, True, "1"):
            with pytest.raises(
                SpecError, match=f"^The setting '{setting}' of space 'parameter_scaling' must be a positive (finite )?number"
            ):
                ParameterScaling(**{"sigma": 1.0, setting: value}).of(model)
    for level in (-1, 5):
        with pytest.raises(SpecError, match=f"^The space 'parameter_scaling' has levels 0 to 4, not {level}"):
            ParameterScaling(sigma=1.0).parameters(model, 0, level, seed=0)
