"""Weight noise with Gaussian latents: each row a model of its own, the model itself untouched."""

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest
from torch import nn
from weight_nets import conv_net, untouched

from veracity.core.errors import InputError, SpecError
from veracity.core.randomness import Draws
from veracity.perturb import ParameterScaling, WeightNeighbourhood
from veracity.perturb.weights import RowWeightSpace
from veracity.walk import MonteCarlo


def line():
    """One weight of 2, one of -4, a bias of zero; by name the bias comes first."""
    model = nn.Linear(2, 1)
    model.weight.data, model.bias.data = torch.tensor([[2.0, -4.0]]), torch.zeros(1)
    return model


def test_by_hand():
    model, u = line(), torch.tensor([[1.0, 1.0, -1.0], [3.0, 0.0, 0.5]])
    scaled, added = (WeightNeighbourhood(sigma=0.5, relative=relative).of(model) for relative in (True, False))
    assert scaled.latents == added.latents == 3
    assert scaled.decode(u).tolist() == added.decode(u).tolist() == [[0.5, 0.5, -0.5], [1.5, 0.0, 0.25]]
    found = scaled.parameters(model, scaled.decode(u))
    assert {name: value.tolist() for name, value in found.items()} == {"bias": [[0.0], [0.0]], "weight": [[[3.0, -2.0]], [[2.0, -5.0]]]}
    found = added.parameters(model, added.decode(u))
    assert {name: value.tolist() for name, value in found.items()} == {"bias": [[0.5], [1.5]], "weight": [[[2.5, -4.5]], [[2.0, -3.75]]]}


@pytest.mark.parametrize("relative", [True, False])
def test_against_one_entry_at_a_time(relative):
    model = conv_net()
    space = WeightNeighbourhood(sigma=0.3, relative=relative).of(model)
    elements = space.sample(Draws.of(4, torch.arange(3)))
    found = space.parameters(model, elements)
    place = 0
    for name in sorted(name for name, _ in model.named_parameters()):
        own = model.get_parameter(name).detach().flatten()
        for entry in range(len(own)):
            for row in range(3):
                noise = float(elements[row, place])
                expected = float(own[entry]) * (1 + noise) if relative else float(own[entry]) + noise
                assert float(found[name][row].flatten()[entry]) == pytest.approx(expected, rel=1e-5, abs=1e-6)
            place += 1
    assert place == space.latents == elements.shape[1]


def test_it_moves_weights_as_parameter_scaling_does():
    """The noise that one copy of parameter scaling has, as an element, makes the same copy."""
    model, unit = conv_net(), conv_net()
    for value in unit.parameters():
        nn.init.ones_(value)
    noise = ParameterScaling(sigma=0.2, steps=1).parameters(unit, 7, 0, seed=3)
    elements = torch.cat([(noise[name] - 1).flatten() for name in sorted(noise)]).unsqueeze(0)
    found = WeightNeighbourhood().parameters(model, elements)
    for name, value in ParameterScaling(sigma=0.2, steps=1).parameters(model, 7, 0, seed=3).items():
        torch.testing.assert_close(found[name][0], value, rtol=1e-5, atol=1e-6)


@given(st.floats(0.01, 3.0), st.floats(-2.0, 2.0), st.booleans())
def test_the_way_out_of_the_model_is_straight(sigma, share, relative):
    """w'(share u) - w = share (w'(u) - w): what a search learns of a direction holds along it."""
    model = line().double()
    space = WeightNeighbourhood(sigma=sigma, relative=relative).of(model)
    u = torch.tensor([[0.3, -1.2, 0.7]], dtype=torch.float64)
    far, near = (space.parameters(model, space.decode(times * u)) for times in (1.0, share))
    for name, own in model.named_parameters():
        torch.testing.assert_close(near[name][0] - own, share * (far[name][0] - own), rtol=1e-9, atol=1e-12)


def test_draws_are_gaussian_of_the_wanted_size_and_belong_to_their_sample():
    model = nn.Linear(20, 25, bias=False)
    space = WeightNeighbourhood(sigma=0.25).of(model)
    elements = space.sample(Draws.of(0, torch.arange(20)))
    assert abs(float(elements.std()) - 0.25) < 4 * 0.25 / math.sqrt(20_000)
    assert kstest(elements.flatten()[::3].numpy() / 0.25, "norm").pvalue > 1e-3
    assert torch.equal(space.sample(Draws.of(0, torch.tensor([7]))), elements[7:8])
    assert (elements[0] != elements[1]).all()


def test_a_walk_gives_every_evaluation_its_own_weights():
    space = WeightNeighbourhood(sigma=0.1).of(line())
    assert space.nested
    assert isinstance(space, RowWeightSpace)
    ask = MonteCarlo(draws=4).start(space, torch.arange(3), 0, (0.0, 1.0)).ask()
    assert ask.element.shape == (12, 3)
    assert len(ask.element.unique(dim=0)) == 12


def test_nothing_but_what_is_returned_changes():
    model = conv_net()
    space = WeightNeighbourhood(sigma=0.1)
    with untouched(model):
        fitted = space.of(model)
        elements = fitted.decode(torch.ones(2, fitted.latents))
        kept = elements.clone()
        found = fitted.parameters(model, elements)
    assert space.size is None
    assert fitted.of(model) == fitted
    assert torch.equal(elements, kept)
    assert set(found) == {name for name, _ in model.named_parameters()}
    assert not any(value.requires_grad for value in found.values())
    assert json.loads(json.dumps(fitted.spec())) == {"name": "weight_neighbourhood", "sigma": 0.1, "relative": True, "size": fitted.size}


def test_slopes_reach_the_elements():
    model = line()
    elements = torch.zeros(2, 3, requires_grad=True)
    (slope,) = torch.autograd.grad(WeightNeighbourhood().parameters(model, elements)["weight"].sum(), elements)
    assert slope.tolist() == [[0.0, 2.0, -4.0]] * 2


def test_precision_and_shared_parameters():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).bfloat16()
    model[1].weight = model[0].weight
    space = WeightNeighbourhood().of(model)
    found = space.parameters(model, torch.zeros(2, space.latents, dtype=torch.float64))
    assert space.latents == 15
    assert {name: value.dtype for name, value in found.items()} == dict.fromkeys(("0.bias", "0.weight", "1.bias"), torch.bfloat16)
    assert torch.equal(found["0.weight"][1], model[0].weight)


def test_what_makes_no_neighbourhood_is_refused():
    for sigma in (0.0, -1.0, math.inf, math.nan, True, "1", None):
        with pytest.raises(
            SpecError, match=r"^The setting 'sigma' of space 'weight_neighbourhood' must be a positive (finite )?number, not"
        ):
            WeightNeighbourhood(sigma=sigma).of(line())
    with pytest.raises(InputError, match=r"^The model ReLU has no parameters that could be perturbed: leave out the scores"):
        WeightNeighbourhood().of(nn.ReLU())
    with pytest.raises(SpecError, match=r"^The space 'weight_neighbourhood' does not know the model's parameters yet: call of\(model\)\.$"):
        WeightNeighbourhood().sample(Draws.of(0, torch.arange(2)))
    with pytest.raises(InputError, match=r"^This weight neighbourhood was made for a model of 4 parameters, but Linear has 3: leave out"):
        WeightNeighbourhood(size=4).of(line())
    with pytest.raises(InputError, match=r"^The elements of 'weight_neighbourhood' must have the shape \(N, 3\), not \(2, 4\)\.$"):
        WeightNeighbourhood().parameters(line(), torch.zeros(2, 4))
