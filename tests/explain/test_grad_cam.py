from __future__ import annotations

import captum.attr
import pytest
import torch
from shift_invariant import Digits, explain
from torch import Tensor, nn
from torch.nn import functional

from veracity.core.errors import InputError
from veracity.core.models import LayerScores
from veracity.core.targets import OutputFunction
from veracity.explain import GradCam, GradCamPlusPlus, as_explainer


class OutOfOrder(nn.Module):
    """Declares its last convolution first, has one that nothing depends on, and works in place."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.first, self.loose = nn.Conv2d(4, 3, 3, padding=1), nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(3, 3, 1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.last(self.relu(self.first(x))))
        self.loose(x)
        return x.mean((-2, -1))


@pytest.fixture
def x() -> Tensor:
    return torch.randn(3, 2, 6, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def net() -> OutOfOrder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return OutOfOrder().eval()


TARGETS = torch.tensor([0, 1, 2])


def captums(model: nn.Module, layer: nn.Module, x: Tensor, targets: Tensor) -> Tensor:
    maps = captum.attr.LayerGradCam(model, layer).attribute(x, target=targets, relu_attributions=True)
    return captum.attr.LayerAttribution.interpolate(maps, x.shape[2:], "bilinear").detach().expand_as(x)


def test_by_hand() -> None:
    """One channel A = 2x, f = 3 mean(A): the mean gradient is 3/4, the map relu(3/4 · 2x)."""
    conv = nn.Conv2d(1, 1, 1, bias=False)
    conv.weight.data.fill_(2.0)
    net = OutputFunction(conv, lambda maps: 3 * maps.mean((1, 2, 3)))
    x = torch.tensor([[[[1.0, -1.0], [2.0, 0.0]]]])
    assert explain(GradCam(), net, x, torch.tensor([0])).tolist() == [[[[1.5, 0.0], [3.0, 0.0]]]]


def test_captums_map_of_the_last_convolution_in_the_order_of_execution(net: OutOfOrder, x: Tensor) -> None:
    torch.testing.assert_close(explain(GradCam(), net, x, TARGETS), captums(net, net.last, x, TARGETS))


def test_captums_map_of_a_named_layer(net: OutOfOrder, x: Tensor) -> None:
    torch.testing.assert_close(explain(GradCam(layer="first"), net, x, TARGETS), captums(net, net.first, x, TARGETS))


def test_layers_are_named_as_in_the_users_model(digits: Digits) -> None:
    x, targets = digits.inputs[:3], digits.targets[:3]
    for wrapped in (
        OutputFunction(digits.model, lambda scores: scores[:, 3]),
        OutputFunction(OutputFunction(digits.model, lambda s: s[:, 3:4]), lambda s: s[:, 0]),
    ):
        found = explain(GradCam(layer="2"), wrapped, x, torch.zeros(3, dtype=torch.long))
        torch.testing.assert_close(found, explain(GradCam(layer="2"), digits.model, x, torch.full((3,), 3)))
    assert targets.shape == (3,)


def test_a_neuron_of_an_early_layer_uses_the_convolutions_before_it(digits: Digits) -> None:
    x, unit = digits.inputs[:3], torch.full((3,), 40)
    seen_from_layer = LayerScores(digits.model, "3")
    cut = nn.Sequential(*list(digits.model)[:4], nn.Flatten())
    torch.testing.assert_close(explain(GradCam(), seen_from_layer, x, unit), captums(cut, cut[2], x, unit))


def test_smaller_maps_are_interpolated() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 3, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    x, targets = torch.randn(2, 1, 9, 9), torch.tensor([0, 1])
    net(x)
    torch.testing.assert_close(explain(GradCam(), net, x, targets), captums(net, net[0], x, targets))


def test_frozen_models_have_maps_too(net: OutOfOrder, x: Tensor) -> None:
    expected = explain(GradCam(), net, x, TARGETS)
    net.requires_grad_(False)
    torch.testing.assert_close(explain(GradCam(), net, x, TARGETS), expected)
    assert GradCam().check(net, x, TARGETS) == ()


def test_misuse_raises(net: OutOfOrder, x: Tensor) -> None:
    dense = nn.Sequential(nn.Flatten(), nn.Linear(96, 3))
    with pytest.raises(InputError, match=r"grad_cam found no convolution in this model: name a layer with GradCam\(layer=...\)"):
        GradCam().check(dense, x, TARGETS)
    with pytest.raises(InputError, match=r"The model has no layer 'frist'. Did you mean 'first'"):
        GradCam(layer="frist").check(OutputFunction(net, lambda scores: scores[:, 0]), x, TARGETS * 0)
    with pytest.raises(InputError, match="the score does not depend on the layer 'loose'"):
        GradCam(layer="loose").check(net, x, TARGETS)
    with pytest.raises(
        InputError, match=r"maps over the input's axes: the inputs have shape \(1, 2, 6, 8\), the layer's output has shape \(1, 3\)"
    ):
        GradCam(layer="1").check(dense, x, TARGETS)


PLUS_PLUS_TARGETS = torch.tensor([1, 0])


def plus_plus_net(pool: nn.Module, inside: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        layers = nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), pool, nn.Flatten(), nn.Linear(inside, 4), nn.ReLU(), nn.Linear(4, 2)
        )
    return layers.double().eval()


def slow(model: nn.Sequential, x: Tensor, target: int) -> Tensor:
    """Derivatives of Y = exp(S) of first, second and third order, position by position, then the paper's sums."""
    maps = model[:2](x[None]).detach()[0].requires_grad_()
    score = model[2:](maps[None])[0, target]
    value = score.exp()
    (first,) = torch.autograd.grad(value, maps, create_graph=True)
    second, third = torch.zeros_like(maps), torch.zeros_like(maps)
    for place in torch.cartesian_prod(*[torch.arange(size) for size in maps.shape]):
        index = tuple(place.tolist())
        (twice,) = torch.autograd.grad(first[index], maps, create_graph=True, retain_graph=True)
        second[index] = twice[index].detach()
        (thrice,) = torch.autograd.grad(twice[index], maps, retain_graph=True)
        third[index] = thrice[index]
    total = torch.zeros(maps.shape[1:], dtype=torch.float64)
    for k in range(len(maps)):
        weight = 0.0
        for i in range(maps.shape[1]):
            for j in range(maps.shape[2]):
                below = 2 * second[k, i, j] + maps[k].detach().sum() * third[k, i, j]
                alpha = float(second[k, i, j] / below) if below != 0 else 0.0
                weight += alpha * max(float(first[k, i, j].detach()), 0.0)
        total += weight * maps[k].detach()
    return functional.relu(total) / value.detach()


def test_the_slow_loop_over_derivatives_of_the_exponential_score() -> None:
    model = plus_plus_net(nn.AvgPool2d(2), 12)
    x = torch.randn(2, 2, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = explain(GradCamPlusPlus(layer="1"), model, x, PLUS_PLUS_TARGETS)
    for row in range(2):
        torch.testing.assert_close(found[row], slow(model, x[row], int(PLUS_PLUS_TARGETS[row])).expand(2, 4, 5))
    assert (found > 0).any()


def test_plus_plus_by_hand() -> None:
    """A = (1, 3) and g = (1, 2): alpha = 1 / (2 + 4 g), w = 1/6 + 2/10 = 11/30, the map is 11/30 A."""

    class Weighted(nn.Module):
        def forward(self, maps: Tensor) -> Tensor:
            return (maps * torch.tensor([1.0, 2.0])).sum((1, 2))[:, None]

    conv = nn.Conv1d(1, 1, 1, bias=False)
    conv.weight.data.fill_(1.0)
    found = explain(GradCamPlusPlus(), nn.Sequential(conv, Weighted()), torch.tensor([[[1.0, 3.0]]]), torch.tensor([0]))
    torch.testing.assert_close(found, torch.tensor([[[11 / 30, 33 / 30]]]))


def test_the_same_layer_and_size_as_grad_cam() -> None:
    """With one channel both are the channel's positive part times a number, wherever that number is positive."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 1, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(9, 2)).eval()
    model[2].bias.data.fill_(0.5)
    model[5].weight.data.abs_()
    x = torch.randn(2, 2, 9, 9, generator=torch.Generator().manual_seed(0))
    plain, plus = (explain(kind(layer="3"), model, x, PLUS_PLUS_TARGETS).flatten(1) for kind in (GradCam, GradCamPlusPlus))
    torch.testing.assert_close(plus / plus.amax(1, keepdim=True), plain / plain.amax(1, keepdim=True))
    torch.testing.assert_close(
        explain(GradCamPlusPlus(), model, x, PLUS_PLUS_TARGETS), explain(GradCamPlusPlus(layer="2"), model, x, PLUS_PLUS_TARGETS)
    )


def test_large_scores_do_not_overflow() -> None:
    model = plus_plus_net(nn.AvgPool2d(2), 12).float()
    model[6].bias.data.add_(1000.0)
    x = torch.randn(2, 2, 4, 5, generator=torch.Generator().manual_seed(0))
    assert explain(GradCamPlusPlus(), model, x, PLUS_PLUS_TARGETS).isfinite().all()


def test_misuse_raises_under_its_own_name() -> None:
    dense, x = nn.Sequential(nn.Flatten(), nn.Linear(96, 3)), torch.zeros(2, 2, 6, 8)
    with pytest.raises(
        InputError, match=r"grad_cam_plus_plus found no convolution in this model: name a layer with GradCamPlusPlus\(layer="
    ):
        GradCamPlusPlus().check(dense, x, PLUS_PLUS_TARGETS)
    with pytest.raises(InputError, match="grad_cam_plus_plus needs a layer with maps over the input's axes"):
        GradCamPlusPlus(layer="1").check(dense, x, PLUS_PLUS_TARGETS)


def colour_net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, stride=2), nn.ReLU()]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 3)).eval()


def test_layer_maps_literally() -> None:
    """The last convolution's maps, weighted, cut at zero, interpolated and repeated over channels."""
    model, x, targets = colour_net(), torch.rand(2, 3, 7, 7, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 2])
    for row in range(2):
        inner = model[:3](x[row : row + 1]).detach().requires_grad_()
        (g,) = torch.autograd.grad(model[3:](inner)[0, targets[row]], inner)
        positive = inner.clamp(min=0.0)
        alpha = g**2 / (2 * g**2 + g**3 * positive.sum((2, 3), keepdim=True))
        weights = {
            "grad_cam": (g.mean((2, 3), keepdim=True), inner),
            "grad_cam_plus_plus": ((alpha.nan_to_num() * g.clamp(min=0.0)).sum((2, 3), keepdim=True), positive),
        }
        for name, (weight, activation) in weights.items():
            small = (weight * activation).sum(1, keepdim=True).clamp(min=0.0)
            expected = nn.functional.interpolate(small, size=(7, 7), mode="bilinear", align_corners=False).expand(1, 3, 7, 7)
            torch.testing.assert_close(explain(as_explainer(name), model, x, targets)[row], expected[0].detach())
