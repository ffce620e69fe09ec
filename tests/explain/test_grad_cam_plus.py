from __future__ import annotations

import pytest
import torch
from shift_invariant import explain
from torch import Tensor, nn
from torch.nn import functional

from veracity.core.errors import InputError
from veracity.explain import GradCam, GradCamPlusPlus, as_explainer

TARGETS = torch.tensor([1, 0])


def net(pool: nn.Module, inside: int) -> nn.Sequential:
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
    model = net(nn.AvgPool2d(2), 12)
    x = torch.randn(2, 2, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = explain(GradCamPlusPlus(layer="1"), model, x, TARGETS)
    for row in range(2):
        torch.testing.assert_close(found[row], slow(model, x[row], int(TARGETS[row])).expand(2, 4, 5))
    assert (found > 0).any()


def test_by_hand() -> None:
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
    plain, plus = (explain(kind(layer="3"), model, x, TARGETS).flatten(1) for kind in (GradCam, GradCamPlusPlus))
    torch.testing.assert_close(plus / plus.amax(1, keepdim=True), plain / plain.amax(1, keepdim=True))
    torch.testing.assert_close(explain(GradCamPlusPlus(), model, x, TARGETS), explain(GradCamPlusPlus(layer="2"), model, x, TARGETS))


def test_large_scores_do_not_overflow() -> None:
    model = net(nn.AvgPool2d(2), 12).float()
    model[6].bias.data.add_(1000.0)
    x = torch.randn(2, 2, 4, 5, generator=torch.Generator().manual_seed(0))
    assert explain(GradCamPlusPlus(), model, x, TARGETS).isfinite().all()


def test_misuse_is_told_under_its_own_name() -> None:
    dense, x = nn.Sequential(nn.Flatten(), nn.Linear(96, 3)), torch.zeros(2, 2, 6, 8)
    with pytest.raises(
        InputError, match=r"grad_cam_plus_plus found no convolution in this model: name a layer with GradCamPlusPlus\(layer="
    ):
        GradCamPlusPlus().check(dense, x, TARGETS)
    with pytest.raises(InputError, match="grad_cam_plus_plus needs a layer with maps over the input's axes"):
        GradCamPlusPlus(layer="1").check(dense, x, TARGETS)


def colour_net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, stride=2), nn.ReLU()]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 3)).eval()


def test_layer_maps_literally() -> None:
    """The last convolution's maps, weighted, cut at zero, interpolated and repeated over channels."""
    net, x, targets = colour_net(), torch.rand(2, 3, 7, 7, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 2])
    for row in range(2):
        inner = net[:3](x[row : row + 1]).detach().requires_grad_()
        (g,) = torch.autograd.grad(net[3:](inner)[0, targets[row]], inner)
        positive = inner.clamp(min=0.0)
        alpha = g**2 / (2 * g**2 + g**3 * positive.sum((2, 3), keepdim=True))
        weights = {
            "grad_cam": (g.mean((2, 3), keepdim=True), inner),
            "grad_cam_plus_plus": ((alpha.nan_to_num() * g.clamp(min=0.0)).sum((2, 3), keepdim=True), positive),
        }
        for name, (weight, activation) in weights.items():
            small = (weight * activation).sum(1, keepdim=True).clamp(min=0.0)
            expected = nn.functional.interpolate(small, size=(7, 7), mode="bilinear", align_corners=False).expand(1, 3, 7, 7)
            torch.testing.assert_close(explain(as_explainer(name), net, x, targets)[row], expected[0].detach())
