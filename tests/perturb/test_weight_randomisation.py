"""Layers that forget: in order, cumulatively, the same at every level, on a copy."""

import copy
import json
import threading

import pytest
import torch
from scipy.stats import kstest
from torch import nn
from torch.func import functional_call
from weight_nets import conv_net, same, untouched

from veracity import Audit
from veracity.core.errors import InputError, SpecError
from veracity.core.models import View
from veracity.perturb import FullRandomisation, LayerRandomisation, stack
from veracity.perturb.weights import randomisation
from veracity.perturb.weights.copies import SHARED
from veracity.perturb.weights.randomisation import randomise
from veracity.scores.randomisation import MPRT
from veracity.walk import MonteCarlo

LAYERS = ("conv1", "norm", "conv2", "fc")


class Bare(nn.Module):
    """A module that owns weights and cannot reset them."""

    def __init__(self, size=50):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(float(size)))
        self.inner = nn.Linear(size, 2)

    def forward(self, x):
        return self.inner(x * self.weight)


@pytest.mark.parametrize(("direction", "layers"), [("top_down", LAYERS[::-1]), ("bottom_up", LAYERS)])
def test_the_order_of_layers(direction, layers):
    model = conv_net()
    space = LayerRandomisation(direction=direction).of(model)
    assert space.layers == layers
    assert space.levels == 4
    assert space.of(model) == space
    assert json.loads(json.dumps(space.spec()))["layers"] == list(layers)
    own = dict(model.named_parameters()) | dict(model.named_buffers())
    for level in range(4):
        copy = space.parameters(model, 0, level, seed=0)
        statistics = {"norm.running_mean", "norm.running_var"} if "norm" in layers[: level + 1] else set()
        assert set(copy) == {f"{layer}.{part}" for layer in layers[: level + 1] for part in ("weight", "bias")} | statistics
        assert all((value != own[name]).any() for name, value in copy.items())


def test_several_layers_in_a_step():
    model = conv_net()
    single, triple = LayerRandomisation().of(model), LayerRandomisation(step=3).of(model)
    assert [triple.reach(level) for level in range(triple.levels)] == [3, 4]
    for level, alike in ((0, 2), (1, 3)):
        assert same(triple.parameters(model, 0, level, seed=0), single.parameters(model, 0, alike, seed=0))


def test_a_layer_is_the_same_at_all_levels_and_orders():
    model = conv_net()
    down, up, full = (space.of(model) for space in (LayerRandomisation(), LayerRandomisation(direction="bottom_up"), FullRandomisation()))
    last = down.parameters(model, 2, 3, seed=0)
    for level in range(4):
        for name, value in down.parameters(model, 2, level, seed=0).items():
            assert torch.equal(value, last[name])
    assert same(dict(sorted(last.items())), dict(sorted(up.parameters(model, 2, 3, seed=0).items())))
    assert same(dict(sorted(last.items())), dict(sorted(full.parameters(model, 2, 0, seed=0).items())))
    for other in (down.parameters(model, 3, 3, seed=0), down.parameters(model, 2, 3, seed=1)):
        assert all((other[name] != last[name]).any() for name in ("conv1.weight", "conv2.weight", "fc.weight", "fc.bias"))


@pytest.mark.parametrize("space", [LayerRandomisation(), LayerRandomisation(direction="bottom_up"), FullRandomisation()])
def test_nothing_but_the_copy_changes(space):
    model = conv_net()
    with untouched(model):
        fitted = space.of(model)
        copy = fitted.parameters(model, 0, fitted.levels - 1, seed=0)
        stack(fitted, model, [(0, 0), (1, fitted.levels - 1)], seed=0)
    x = torch.rand(3, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    assert functional_call(model, copy, x).isfinite().all()
    assert fitted.starts(fitted.levels - 1)


def test_layers_do_not_share_their_numbers():
    """Two layers of one shape begin anew with different values, whether they are reset or permuted."""
    for model in (nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), nn.ModuleList([Bare(), Bare()])):
        copy = FullRandomisation().of(model).parameters(model, 0, 0, seed=0)
        assert not torch.equal(copy["0.weight"], copy["1.weight"])


def test_layers_begin_anew_as_they_would():
    """A linear layer is uniform within 1 / sqrt(inputs), batch normalisation is one and zero, whatever was learnt."""
    model = nn.Sequential(nn.Linear(100, 50), nn.BatchNorm1d(50))
    nn.init.constant_(model[0].weight, 7.0)
    nn.init.constant_(model[1].weight, 3.0)
    nn.init.constant_(model[1].bias, 2.0)
    copy = FullRandomisation().of(model).parameters(model, 0, 0, seed=0)
    assert kstest(copy["0.weight"].flatten().double().numpy() * 5 + 0.5, "uniform").pvalue > 1e-3
    assert copy["1.weight"].tolist() == [1.0] * 50
    assert copy["1.bias"].tolist() == [0.0] * 50


def test_what_cannot_be_reset_is_permuted():
    model = Bare()
    space = FullRandomisation().of(model)
    assert space.layers == ("", "inner")
    found = space.parameters(model, 0, 0, seed=0)["weight"]
    assert torch.equal(found.sort().values, model.weight.detach())
    assert int((found == model.weight).sum()) < 10
    assert not torch.equal(found, space.parameters(model, 1, 0, seed=0)["weight"])


def test_what_cannot_be_copied_is_permuted():
    """A lock cannot be copied, which is a TypeError."""
    model = nn.Linear(6, 5)
    model.lock = threading.Lock()
    found = FullRandomisation().of(model).parameters(model, 0, 0, seed=0)
    assert torch.equal(found["weight"].flatten().sort().values, model.weight.detach().flatten().sort().values)
    assert not torch.equal(found["weight"], model.weight)


def test_what_a_reset_leaves_alone_is_permuted():
    """Weight normalisation keeps its direction outside of what reset_parameters knows."""

    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.known, self.forgotten = nn.Parameter(torch.zeros(20)), nn.Parameter(torch.arange(20.0))

        def reset_parameters(self):
            nn.init.normal_(self.known)

    model = Half()
    copy = FullRandomisation().of(model).parameters(model, 0, 0, seed=0)
    assert copy["known"].std() > 0.5
    assert torch.equal(copy["forgotten"].sort().values, model.forgotten.detach())
    assert not torch.equal(copy["forgotten"], model.forgotten)
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(9, 8))
    fresh = FullRandomisation().of(normed).parameters(normed, 0, 0, seed=0)
    own = dict(normed.named_parameters())
    assert fresh.keys() == own.keys()
    assert all((value != own[name]).any() for name, value in fresh.items())


def test_shared_weights_belong_to_the_first_layer():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    space = LayerRandomisation().of(model)
    assert space.layers == ("0",)
    assert set(space.parameters(model, 0, 0, seed=0)) == {"0.weight", "0.bias"}


def test_stacked_copies_are_the_single_ones():
    model = conv_net()
    space = LayerRandomisation().of(model)
    pairs = [(0, 2), (1, 0), (0, 0)]
    together = stack(space, model, pairs, seed=0)
    assert set(together) == set(space.parameters(model, 0, 2, seed=0))
    own = dict(model.named_parameters()) | dict(model.named_buffers())
    for number, (draw, level) in enumerate(pairs):
        single = space.parameters(model, draw, level, seed=0)
        for name, value in together.items():
            assert torch.equal(value[number], single.get(name, own[name]))


def test_a_view_has_the_same_layers():
    model = conv_net()
    space = LayerRandomisation().of(View(model))
    assert space == LayerRandomisation().of(model)
    plain, behind = (space.parameters(part, 0, 1, seed=0) for part in (model, View(model)))
    assert same({f"model.{name}": value for name, value in plain.items()}, behind)


def test_chosen_layers():
    model = conv_net()
    space = LayerRandomisation(layers=("conv1", "fc")).of(model)
    assert space.levels == 2
    assert set(space.parameters(model, 0, 0, seed=0)) == {"conv1.weight", "conv1.bias"}
    with pytest.raises(InputError, match=r"^Unknown layer with parameters 'conv'\. Did you mean 'conv\d'\?$"):
        LayerRandomisation(layers=("conv",)).of(model)


def test_misuse_is_refused():
    model = conv_net()
    with pytest.raises(SpecError, match=r"^The space 'layer_randomisation' does not know the model's layers yet: call of\(model\)\.$"):
        _ = LayerRandomisation().levels
    with pytest.raises(SpecError, match="Did you mean 'top_down'"):
        LayerRandomisation(direction="topdown").of(model)
    with pytest.raises(SpecError, match="has levels 0 to 3, not 4"):
        LayerRandomisation().of(model).parameters(model, 0, 4, seed=0)
    with pytest.raises(SpecError, match="has only level 0, not 1"):
        FullRandomisation().of(model).parameters(model, 0, 1, seed=0)


def literally(model):
    """The model after `reset_parameters` of every module that has it: what Quantus makes of it in the end."""
    fresh = copy.deepcopy(model)
    for module in fresh.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    return fresh


@pytest.mark.parametrize("affine", [True, False])
def test_running_statistics_begin_anew_with_their_layer(affine):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5, affine=affine), nn.ReLU(), nn.Linear(5, 2)).train()
        model(3.0 + 2.0 * torch.randn(64, 4))
        model.eval()
        expected = dict(literally(model).named_buffers())
    with untouched(model):
        space = LayerRandomisation().of(model)
        assert space.layers == ("3", "1", "0")
        copies = [space.parameters(model, 0, level, seed=0) for level in range(3)]
        whole = FullRandomisation().of(model).parameters(model, 0, 0, seed=0)
        stacked = stack(space, model, [(0, 0), (1, 1)], seed=0)
    assert not any("running" in name for name in copies[0])
    for found in (*copies[1:], whole):
        for name in ("1.running_mean", "1.running_var"):
            assert torch.equal(found[name], expected[name])
            assert not torch.equal(found[name], dict(model.named_buffers())[name])
    assert torch.equal(stacked["1.running_mean"][0], model[1].running_mean)
    assert stacked["1.running_mean"][1].tolist() == [0.0] * 5


def test_all_blocks_of_a_run_share_their_random_layers(tmp_path, monkeypatch):
    made = []

    def counted(module, own, parameters, parts):
        made.append(parts)
        return randomise(module, own, parameters, parts)

    monkeypatch.setattr(randomisation, "randomise", counted)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).requires_grad_(False)
    given = {"models": model, "inputs": torch.rand(200, 3), "explainers": ["gradient"], "controls": False, "companions": False}
    audit = Audit(**given, scores=[MPRT(walk=MonteCarlo(draws=3))])
    assert len(audit.prepare(batch=64).jobs) > 1
    audit.run(tmp_path / "run", progress=False, batch=64)
    assert sorted(made) == sorted(("layers", 0, draw, layer) for draw in range(3) for layer in ("0", "2"))
    assert not SHARED  # forgotten with the run
