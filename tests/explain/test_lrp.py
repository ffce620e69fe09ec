from __future__ import annotations

import captum.attr
import numpy as np
import pytest
import torch
from captum.attr._utils.lrp_rules import Alpha1_Beta0_Rule, EpsilonRule
from numpy.typing import NDArray
from shift_invariant import explain
from torch import Tensor, nn
from torch.nn import functional

from veracity.core.errors import InputError, SpecError
from veracity.core.targets import OutputFunction
from veracity.explain import InputXGradient, LRPEpsilon, LRPZPlus
from veracity.explain.lrp import LRP
from veracity.testing.explainers import no_trace

Array = NDArray[np.float64]
TARGETS = torch.tensor([2, 0, 1])


def seeded(*layers: nn.Module, scale: float = 1.0) -> nn.Sequential:
    net = nn.Sequential(*layers).double().eval()
    generator = torch.Generator().manual_seed(0)
    for weight in net.parameters():
        weight.data = scale * torch.randn(weight.shape, generator=generator, dtype=torch.float64) / weight[0].numel() ** 0.5
    return net


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def handed_back(x: Array, weight: Array, bias: Array, relevance: Array, epsilon: float | None) -> Array:
    """One dense layer of one sample, contribution by contribution: the epsilon rule, or z+ without an epsilon."""
    found = np.zeros(len(x))
    for j in range(len(bias)):
        parts = [x[i] * weight[j, i] for i in range(len(x))]
        if epsilon is None:
            parts = [max(part, 0.0) for part in parts]
            below = sum(parts) + max(bias[j], 0.0)
        else:
            z = sum(parts) + bias[j]
            below = z + (epsilon if z >= 0 else -epsilon)
        for i in range(len(x)):
            found[i] += parts[i] / below * relevance[j] if below else 0.0
    return found


def slow_mlp(net: nn.Sequential, x: Array, target: int, epsilon: float | None) -> Array:
    """Linear layers with pointwise activations between them, which pass relevance as it is."""
    numbers = [x]
    for layer in net:
        numbers.append(layer(torch.tensor(numbers[-1])[None])[0].detach().numpy())
    relevance = np.where(np.arange(len(numbers[-1])) == target, numbers[-1], 0.0)
    for layer, given in zip(reversed(list(net)), reversed(numbers[:-1]), strict=True):
        if isinstance(layer, nn.Linear):
            relevance = handed_back(given, layer.weight.detach().numpy(), layer.bias.detach().numpy(), relevance, epsilon)
    return relevance


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.SiLU, nn.LeakyReLU, nn.Sigmoid, nn.Hardtanh])
@pytest.mark.parametrize(("explainer", "epsilon"), [(LRPEpsilon(epsilon=0.05), 0.05), (LRPZPlus(), None)], ids=["epsilon", "z+"])
def test_the_slow_loop_on_a_perceptron(explainer: LRP, epsilon: float | None, activation: type[nn.Module]) -> None:
    net = seeded(nn.Linear(5, 7), activation(), nn.Linear(7, 6), activation(), nn.Linear(6, 3))
    x = normal(3, 5)
    expected = np.stack([slow_mlp(net, x[row].numpy(), int(TARGETS[row]), epsilon) for row in range(3)])
    np.testing.assert_allclose(explain(explainer, net, x, TARGETS).numpy(), expected, rtol=1e-8, atol=1e-10)


def dense(conv: nn.Conv2d, shape: tuple[int, int, int]) -> tuple[Array, Array]:
    """A convolution without padding as a matrix and its biases, entry by entry."""
    weight, bias = (value.detach().numpy() for value in (conv.weight, conv.bias))
    made, given, tall, wide = weight.shape
    down, right = shape[1] - tall + 1, shape[2] - wide + 1
    matrix, biases = np.zeros((made, down, right, *shape)), np.zeros((made, down, right))
    for k in range(made):
        for i in range(down):
            for j in range(right):
                biases[k, i, j] = bias[k]
                for c in range(given):
                    for a in range(tall):
                        for b in range(wide):
                            matrix[k, i, j, c, i + a, j + b] = weight[k, c, a, b]
    return matrix.reshape(made * down * right, -1), biases.flatten()


def pooled(given: Array, kind: type[nn.Module], relevance: Array) -> Array:
    """Relevance through windows of two by two: all to the largest, or in proportion."""
    found = np.zeros_like(given)
    for c, i, j in np.ndindex(*relevance.shape):
        window = given[c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        share = window / window.sum() if kind is nn.AvgPool2d else (window == window.max()).astype(float)
        found[c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2] = share * relevance[c, i, j]
    return found


@pytest.mark.parametrize("pool", [nn.AvgPool2d, nn.MaxPool2d])
@pytest.mark.parametrize(("explainer", "epsilon"), [(LRPEpsilon(epsilon=0.05), 0.05), (LRPZPlus(), None)], ids=["epsilon", "z+"])
def test_the_slow_loop_on_a_convolution(explainer: LRP, epsilon: float | None, pool: type[nn.Module]) -> None:
    net = seeded(nn.Conv2d(2, 3, 3), nn.Softplus(), pool(2), nn.Flatten(), nn.Linear(12, 3))
    conv, activation, pooling, _, linear = net
    x = normal(3, 2, 6, 7)
    matrix, biases = dense(conv, (2, 6, 7))
    for row in range(3):
        maps = activation(conv(x[row : row + 1]))
        small = pooling(maps)[0].detach().numpy()
        top = net(x[row : row + 1])[0].detach().numpy()
        relevance = np.where(np.arange(3) == int(TARGETS[row]), top, 0.0)
        weight, bias = linear.weight.detach().numpy(), linear.bias.detach().numpy()
        relevance = handed_back(small.flatten(), weight, bias, relevance, epsilon).reshape(small.shape)
        relevance = pooled(maps[0].detach().numpy(), pool, relevance)
        relevance = handed_back(x[row].numpy().flatten(), matrix, biases, relevance.flatten(), epsilon).reshape(2, 6, 7)
        found = explain(explainer, net, x[row : row + 1], TARGETS[row : row + 1])[0]
        np.testing.assert_allclose(found.numpy(), relevance, rtol=1e-8, atol=1e-10)


class Residual(nn.Module):
    """Functional steps, a skip, in-place work and reshapes in the forward pass, no biases."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.Conv2d(4, 4, 3, padding=1, bias=False, padding_mode="circular")
        self.out = nn.Linear(16, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = functional.relu(self.one(x), inplace=True)
        h = h + functional.relu(self.two(h))
        h = functional.max_pool2d(h, 2)
        return self.out(functional.dropout(functional.adaptive_avg_pool2d(h, 2), training=self.training).view(len(x), -1))


@pytest.mark.parametrize("explainer", [LRPEpsilon(epsilon=1e-12), LRPZPlus()], ids=lambda one: one.name)
def test_relevance_sums_to_the_score_without_biases(explainer: LRP) -> None:
    net, x = seeded(Residual()), normal(3, 2, 8, 8)
    found = explain(explainer, net, x, TARGETS)
    torch.testing.assert_close(found.flatten(1).sum(1), net(x).gather(1, TARGETS[:, None])[:, 0].detach(), rtol=1e-6, atol=1e-8)


def test_z_plus_relevance_has_the_sign_of_the_score() -> None:
    net, x = seeded(Residual()), normal(3, 2, 8, 8)
    signs = net(x).gather(1, TARGETS[:, None]).sign().reshape(3, 1, 1, 1)
    found = explain(LRPZPlus(), net, x, TARGETS)
    assert (found * signs >= 0).all()
    assert (found != 0).any()


@pytest.mark.parametrize(
    "net", [Residual(), nn.Sequential(nn.Flatten(), nn.Linear(128, 9), nn.ReLU(), nn.Linear(9, 3))], ids=["no bias", "bias"]
)
def test_epsilon_to_zero_is_the_input_times_the_gradient_of_a_relu_net(net: nn.Module) -> None:
    model, x = seeded(net), normal(3, 2, 8, 8)
    expected = explain(InputXGradient(), model, x, TARGETS)
    torch.testing.assert_close(explain(LRPEpsilon(epsilon=1e-12), model, x, TARGETS), expected, rtol=1e-6, atol=1e-9)
    assert not torch.allclose(explain(LRPEpsilon(epsilon=1.0), model, x, TARGETS), expected, rtol=1e-2)
    assert not torch.allclose(explain(LRPZPlus(), model, x, TARGETS), expected, rtol=1e-2)


def captums(rule: type, **settings: float) -> captum.attr.LRP:
    layers = (nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4, 3))
    net = seeded(*layers)
    for layer in net:
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            layer.rule = rule(**settings)
        if isinstance(layer, nn.Flatten):
            layer.rule = EpsilonRule()
    return captum.attr.LRP(net)


@pytest.mark.filterwarnings("ignore")
def test_captums_epsilon() -> None:
    method, x = captums(EpsilonRule, epsilon=0.01), normal(3, 2, 8, 8)
    theirs = method.attribute(x.clone().requires_grad_(), target=TARGETS).detach()
    torch.testing.assert_close(explain(LRPEpsilon(epsilon=0.01), method.model, x, TARGETS), theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_captums_alpha_one_beta_zero_where_inputs_and_biases_are_positive() -> None:
    """Captum lets negative biases into the sum of positive contributions, and negative inputs into that of positive weights."""
    method, x = captums(Alpha1_Beta0_Rule), normal(3, 2, 8, 8).abs()
    for layer in (0, 3, 7):
        method.model[layer].bias.data.abs_()
    theirs = method.attribute(x.clone().requires_grad_(), target=TARGETS).detach()
    torch.testing.assert_close(explain(LRPZPlus(), method.model, x, TARGETS), theirs, rtol=1e-5, atol=1e-8)


def with_statistics(norm: nn.Module) -> nn.Module:
    count = norm.num_features
    norm.running_mean, norm.running_var = normal(count, seed=5), normal(count, seed=6).abs() + 0.5
    norm.weight.data, norm.bias.data = normal(count, seed=7), normal(count, seed=8)
    return norm


def folded(layer: nn.Module, norm: nn.Module) -> nn.Module:
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    layer.weight.data = layer.weight.data * scale.detach().reshape(-1, *[1] * (layer.weight.ndim - 1))
    before = torch.zeros_like(scale) if layer.bias is None else layer.bias
    layer.bias = nn.Parameter(((before - norm.running_mean) * scale + norm.bias).detach())
    return layer


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("explainer", [LRPEpsilon(epsilon=0.1), LRPZPlus()], ids=lambda one: one.name)
def test_batch_normalisation_is_one_map_with_the_layer_before_it(explainer: LRP, bias: bool) -> None:
    x = normal(3, 2, 4)

    def net() -> nn.Sequential:
        layers = (
            nn.Conv1d(2, 3, 3, bias=bias),
            nn.BatchNorm1d(3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(6, 5),
            nn.BatchNorm1d(5),
            nn.Linear(5, 3),
        )
        made = seeded(*layers)
        with_statistics(made[1])
        with_statistics(made[5])
        return made

    whole, parts = net(), list(net())
    apart = nn.Sequential(folded(parts[0], parts[1]), parts[2], parts[3], folded(parts[4], parts[5]), parts[6])
    torch.testing.assert_close(whole(x), apart(x))
    torch.testing.assert_close(explain(explainer, whole, x, TARGETS), explain(explainer, apart, x, TARGETS))


@pytest.mark.parametrize("explainer", [LRPEpsilon(epsilon=0.1), LRPZPlus()], ids=lambda one: one.name)
def test_batch_normalisation_elsewhere_is_a_map_of_its_own(explainer: LRP) -> None:
    """As a diagonal layer would be; a ReLU that works in place does not make it the convolution's."""
    x, norm = normal(3, 4), with_statistics(nn.BatchNorm1d(4))
    first, last = nn.Linear(4, 4), nn.Linear(4, 3)
    diagonal = nn.Linear(4, 4, bias=False)
    net = seeded(first, nn.ReLU(inplace=True), nn.Identity(), last)
    diagonal.weight.data = torch.eye(4, dtype=torch.float64)
    net[2] = with_statistics(norm.double()).eval()
    other = nn.Sequential(first, nn.ReLU(), folded(diagonal, net[2]), last)
    torch.testing.assert_close(explain(explainer, net, x, TARGETS), explain(explainer, other, x, TARGETS))


class Thrown(nn.Module):
    """Activations that work in place and whose results nobody takes."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.one(x)
        functional.silu(h, inplace=True)
        h.tanh_()
        return self.two(h)


def test_activations_in_place() -> None:
    net, x = seeded(Thrown()), normal(3, 4)
    kept = nn.Sequential(net[0].one, nn.SiLU(), nn.Tanh(), net[0].two)
    torch.testing.assert_close(explain(LRPZPlus(), net, x, TARGETS), explain(LRPZPlus(), kept, x, TARGETS))


def test_frozen_models_and_views_of_them() -> None:
    net, x = seeded(Residual()), normal(3, 2, 8, 8)
    expected = explain(LRPZPlus(), net, x, torch.ones(3, dtype=torch.long))
    net.requires_grad_(False)
    with no_trace(net, x):
        found = explain(LRPZPlus(), OutputFunction(net, lambda scores: scores[:, 1]), x, torch.zeros(3, dtype=torch.long))
    torch.testing.assert_close(found, expected)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.gate = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return functional.softmax(self.one(x) * torch.sigmoid(self.gate(x)) * 2.0, dim=1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.weight = nn.Parameter(torch.ones(4, 3, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        h = self.one(x)
        h = torch.einsum("ni,nj->nj", h, h) / 2.0
        return torch.eye(len(x), dtype=x.dtype) @ (h @ self.weight)


class Lonely(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 3, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x @ self.weight)


def test_what_has_no_rule_is_reported() -> None:
    x = normal(3, 4)
    (said,) = LRPEpsilon().check(seeded(Gated()), x, TARGETS)
    assert said == (
        "lrp_epsilon has no rule for some steps of this model (mul x1, softmax x1): relevance follows the plain gradient there."
    )
    (said,) = LRPZPlus().check(nn.Sequential(Attention()).double(), x, TARGETS)
    assert "(einsum x1, matmul x1)" in said
    assert LRPZPlus().check(seeded(Thrown()), x, TARGETS) == ()
    assert LRPZPlus().check(seeded(Residual()), normal(1, 2, 8, 8), TARGETS[:1]) == ()
    with pytest.raises(InputError, match="lrp_z_plus has no rule for any layer of this model: it needs linear layers or convolutions"):
        LRPZPlus().check(Lonely(), x, TARGETS)
    with pytest.raises(SpecError, match="'epsilon' of explainer 'lrp_epsilon' must be a positive number, not 0"):
        LRPEpsilon(epsilon=0)
