"""Noise on a share of each convolution's weights."""

import pytest
import torch
from scipy.stats import kstest
from torch import nn
from weight_nets import conv_net, same, untouched

from veracity.core.errors import InputError, SpecError
from veracity.core.models import View
from veracity.perturb import ConvolutionNoise, stack
from veracity.perturb.weights.copies import generator

CONVOLUTIONS = ["conv1.weight", "conv2.weight"]


def large():
    """A convolution of 18,000 weights."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(3)
        return nn.Conv2d(20, 100, 3)


def literal(model, names, share, sigma, draw, seed):
    """One copy, entry by entry."""
    made = {}
    for number, name in enumerate(names):
        value = dict(model.named_parameters())[name].detach()
        noise = torch.randn(value.numel(), generator=generator("damage", seed, draw, number)).tolist()
        place = torch.randperm(value.numel(), generator=generator("damaged", seed, draw, number)).tolist()
        found = value.clone().flatten()
        for entry in range(value.numel()):
            if place[entry] < round(share * value.numel()):
                found[entry] += sigma * noise[entry]
        made[name] = found.reshape(value.shape)
    return made


@pytest.mark.parametrize(("level", "draw", "seed"), [(0, 0, 0), (1, 2, 0), (2, 1, 5)])
def test_a_copy_is_what_a_loop_over_entries_makes(level, draw, seed):
    model, space = conv_net(), ConvolutionNoise(sigma=0.3)
    found, expected = space.parameters(model, draw, level, seed), literal(model, CONVOLUTIONS, space.shares[level], 0.3, draw, seed)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)


def test_exactly_the_share_is_hit_and_the_larger_share_contains_the_smaller():
    model, space = large(), ConvolutionNoise(shares=(0.05, 0.1, 0.3, 1.0))
    changes = [space.parameters(model, 0, level, 0)["weight"] - model.weight.detach() for level in range(4)]
    hit = [change != 0 for change in changes]
    assert [int(one.sum()) for one in hit] == [900, 1800, 5400, 18000]
    for (one, some), (other, more) in zip(zip(changes, hit, strict=True), list(zip(changes, hit, strict=True))[1:], strict=False):
        assert bool((more | ~some).all())
        assert torch.equal(one[some], other[some])


def test_the_noise_has_the_standard_deviation_of_the_setting():
    model = large()
    noise = (ConvolutionNoise(shares=(1.0,)).parameters(model, 0, 0, 0)["weight"] - model.weight.detach()).flatten()
    assert kstest(noise.numpy() / 0.5, "norm").pvalue > 0.01
    assert float(noise.std()) == pytest.approx(0.5, rel=0.03)


def test_a_copy_depends_on_its_numbers_alone_and_nothing_else_changes():
    model, space = conv_net(), ConvolutionNoise().of(conv_net())
    pairs = [(draw, level) for draw in (0, 3) for level in range(3)]
    with untouched(model):
        together = stack(space, model, pairs, seed=1)
        single = [space.parameters(model, *pair, seed=1) for pair in pairs]
        other = space.parameters(model, 0, 2, seed=2)
    assert sorted(together) == CONVOLUTIONS
    for number, one in enumerate(single):
        assert same({name: value[number] for name, value in together.items()}, one)
    assert not same(single[2], single[5])
    assert not same(single[2], other)


def test_a_view_of_the_model_is_damaged_alike():
    class Seen(View):
        def forward(self, x):
            return self.model(x)

    model = conv_net()
    one, other = (ConvolutionNoise().parameters(item, 0, 2, 0) for item in (model, Seen(model)))
    assert sorted(other) == [f"model.{name}" for name in sorted(one)]
    assert all(torch.equal(other[f"model.{name}"], value) for name, value in one.items())


def test_models_without_convolutions_ask_for_all_layers():
    model = nn.Sequential(nn.Linear(10, 4), nn.LayerNorm(4))
    with pytest.raises(InputError, match=r"Sequential has no convolution .* ConvolutionNoise\(layers='all'\)"):
        ConvolutionNoise().of(model)
    found = ConvolutionNoise(layers="all").of(model).parameters(model, 0, 1, 0)
    assert list(found) == ["0.weight"]
    assert int((found["0.weight"] != model[0].weight).sum()) == 4
    with pytest.raises(InputError, match="has no tensor of weights"):
        ConvolutionNoise(layers="all").of(nn.LayerNorm(4))


def test_reparametrised_and_shared_convolutions_are_damaged_once():
    shared = nn.Conv1d(2, 2, 3, padding=1)
    net = nn.Sequential(shared, nn.utils.parametrizations.weight_norm(nn.Conv1d(2, 2, 3)), shared)
    assert sorted(ConvolutionNoise().parameters(net, 0, 2, 0)) == [
        "0.weight", "1.parametrizations.weight.original0", "1.parametrizations.weight.original1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"shares": (0.3, 0.1)}, "ascending"), ({"shares": ()}, "ascending"), ({"shares": (0.0, 0.1)}, "ascending"),
        ({"shares": 0.1}, "a list of numbers"),
        ({"sigma": 0.0}, "positive"), ({"sigma": True}, "positive"), ({"layers": "linear"}, "Unknown setting"),
    ],
)  # fmt: skip
def test_settings_that_make_no_damage_are_refused(settings, words):
    with pytest.raises(SpecError, match=words):
        ConvolutionNoise(**settings).of(conv_net())


def test_a_level_that_does_not_exist_is_refused():
    with pytest.raises(SpecError, match="levels 0 to 2, not 3"):
        ConvolutionNoise().parameters(conv_net(), 0, 3, 0)
