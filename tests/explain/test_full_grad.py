from __future__ import annotations

import pytest
import torch
from shift_invariant import explain
from torch import Tensor, nn
from torch.nn import functional

from veracity.core.errors import InputError
from veracity.explain import FullGrad
from veracity.explain.full_grad import full_gradient, layer_bias

TARGETS = torch.tensor([1, 0, 2])


class Block(nn.Module):
    """A residual block with batch normalisation and functional ReLU."""

    def __init__(self, given: int, made: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(given, made, 3, stride, 1, bias=False), nn.Conv2d(made, made, 3, 1, 1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(made), nn.BatchNorm2d(made, affine=False)])
        self.short = nn.Sequential(nn.Conv2d(given, made, 1, stride), nn.BatchNorm2d(made))

    def forward(self, x: Tensor) -> Tensor:
        inside = functional.relu(self.norms[0](self.first(x)), inplace=True)
        return functional.relu(self.norms[1](self.second(inside)) + self.short(x))


def residual() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(
            *(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(inplace=True), Block(4, 6, 2), nn.MaxPool2d(2), Block(6, 5, 1)),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)),
        )
        for layer in net.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.running_mean.normal_()
                layer.running_var.uniform_(0.5, 2)
                if layer.affine:
                    nn.init.normal_(layer.weight)
                    nn.init.normal_(layer.bias)
    return net.eval()


def images(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(3, 2, 12, 10, generator=torch.Generator().manual_seed(1)).to(dtype)


def test_the_terms_add_up_to_the_score_of_a_residual_network() -> None:
    """Proposition 1: f(x) = x·∇f(x) + Σ b·∂f/∂b, with the implicit biases of batch normalisation."""
    net, x = residual(), images()
    found = full_gradient(net, x, TARGETS)
    torch.testing.assert_close(found.score, net(x).gather(1, TARGETS[:, None]).squeeze(1).detach())
    torch.testing.assert_close(found.sums.sum(0), found.score, rtol=1e-4, atol=1e-4)
    assert (len(found.spatial), len(found.dense)) == (11, 2)
    assert float((found.sums[0] - found.score).abs().min()) > 0.01, "the biases must matter, or nothing is tested"


def test_a_biass_term_is_its_derivative_times_itself() -> None:
    """Σ over positions of b ⊙ ∂f/∂b is what autograd says about the parameter."""
    net, x = residual().double(), images(torch.float64)
    found = full_gradient(net, x[:1], TARGETS[:1])
    first, dense = net[0], net[-1]
    for parameter, term in ((first.bias, found.spatial[0].sum((2, 3))[0]), (dense.bias, found.dense[-1][0])):
        (slope,) = torch.autograd.grad(net(x[:1])[0, TARGETS[0]], parameter)
        torch.testing.assert_close(term, slope * parameter.detach())


def test_the_bias_of_batch_normalisation() -> None:
    norm = residual()[2].norms[0]
    x = torch.zeros(1, 6, 2, 2)
    torch.testing.assert_close(layer_bias(norm), norm(x)[0, :, 0, 0].detach())
    assert layer_bias(nn.Conv2d(1, 1, 1, bias=False)) is None


def slow(net: nn.Module, x: Tensor, target: int) -> Tensor:
    """The map of one input by separate passes: each layer's output moved by a tensor of zeros, whose gradient is asked for."""
    total = psi((torch.autograd.functional.jacobian(lambda v: net(v[None])[0, target], x) * x)[None]).sum(1)
    for layer in net.modules():
        bias = layer_bias(layer) if isinstance(layer, (nn.Conv2d, nn.BatchNorm2d)) else None
        if bias is None:
            continue
        moves: list[Tensor] = []

        def move(_layer: nn.Module, _args: object, output: Tensor, moves: list[Tensor] = moves) -> Tensor:
            moves.append(torch.zeros_like(output, requires_grad=True))
            return output + moves[-1]

        handle = layer.register_forward_hook(move)
        score = net(x[None])[0, target]
        handle.remove()
        (slope,) = torch.autograd.grad(score, moves[0])
        term = psi(slope * bias[:, None, None])
        for channel in range(term.shape[1]):
            total = total + functional.interpolate(term[:, [channel]], size=x.shape[1:], mode="bilinear")[:, 0]
    return total.detach().expand_as(x)


def psi(term: Tensor) -> Tensor:
    size = term.abs()
    return (size - size.min()) / (size.max() - size.min())


def test_the_slow_map_layer_by_layer() -> None:
    net, x = residual().double(), images(torch.float64)
    found = explain(FullGrad(), net, x, TARGETS)
    for row in range(3):
        torch.testing.assert_close(found[row], slow(net, x[row], int(TARGETS[row])))


def test_by_hand() -> None:
    """f = relu(2 x + 1) summed: ψ(x ⊙ 2) on (1, 3) is (0, 1); the bias's term is (1, 1), the same everywhere, so zero."""
    conv = nn.Conv1d(1, 1, 1)
    conv.weight.data.fill_(2.0)
    conv.bias.data.fill_(1.0)

    class Sum(nn.Module):
        def forward(self, maps: Tensor) -> Tensor:
            return maps.relu().sum(2)

    found = explain(FullGrad(), nn.Sequential(conv, Sum()), torch.tensor([[[1.0, 3.0]]]), torch.tensor([0]))
    torch.testing.assert_close(found, torch.tensor([[[0.0, 1.0]]]))


def test_what_does_not_add_up_is_reported() -> None:
    x = images()
    assert FullGrad().check(residual(), x, TARGETS) == ()
    curved = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(240, 3))
    curved[0].weight.data.mul_(20)
    (note,) = FullGrad().check(curved, x, TARGETS)
    assert note.startswith("The terms of full_grad miss the first input's score by ")
    with pytest.raises(InputError, match=r"full_grad needs images \(C, H, W\) or series \(C, T\), but an input has shape \(4,\)"):
        FullGrad().check(nn.Linear(4, 2), torch.zeros(2, 4), torch.tensor([0, 1]))
