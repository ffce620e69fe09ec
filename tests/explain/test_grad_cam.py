from __future__ import annotations

import captum.attr
import pytest
import torch
from shift_invariant import Digits, explain
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.models import LayerScores
from veracity.core.targets import OutputFunction
from veracity.explain import GradCam


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


def test_misuse_is_told(net: OutOfOrder, x: Tensor) -> None:
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
