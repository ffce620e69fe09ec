"""Small models for the tests of perturbed weights, and a check that nothing else was touched."""

from contextlib import contextmanager

import torch
from torch import nn


def conv_net():
    """Convolutions with batch normalisation, whose running statistics are not those of the start."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        net = nn.Sequential()
        net.add_module("conv1", nn.Conv2d(1, 3, 3))
        net.add_module("norm", nn.BatchNorm2d(3))
        net.add_module("relu", nn.ReLU())
        net.add_module("conv2", nn.Conv2d(3, 2, 3))
        net.add_module("flat", nn.Flatten())
        net.add_module("fc", nn.Linear(8, 4))
        net(torch.randn(16, 1, 6, 6))
        nn.init.uniform_(net.norm.weight)
        nn.init.uniform_(net.norm.bias)
    return net.eval()


@contextmanager
def untouched(model):
    """Parameters, buffers, modes and the global random state are the same afterwards, to the bit."""
    state = {name: value.clone() for name, value in model.state_dict().items()}
    places = {name: value.data_ptr() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    random = torch.get_rng_state()
    yield
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in state.items())
    assert places == {name: value.data_ptr() for name, value in after.items()}
    assert modes == [module.training for module in model.modules()]
    assert all(value.grad is None for value in model.parameters())
    assert torch.equal(torch.get_rng_state(), random)


def same(one, other):
    """Whether two copies are equal to the bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
