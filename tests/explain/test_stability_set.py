"""The stability paper's explainers: by hand, and each against a literal reading of appendix B."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from scipy.stats import spearmanr
from shift_invariant import Digits, context_of, explain
from torch import Tensor, nn

from veracity.core.errors import SpecError
from veracity.explain import InputXSaliency, IntegratedGradients, RandomUniform, Rise, SmoothGrad, as_explainer, stability_explainers
from veracity.explain.gradients import QUADRATURES, points_and_weights
from veracity.explain.smooth_grad import noise_of
from veracity.measure import spearman as registered

SEVEN = ["saliency", "input_x_saliency", "integrated_gradients", "smooth_grad", "grad_cam", "grad_cam_plus_plus", "rise"]


class Cubes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.pow(3).sum(1, keepdim=True)


def gradient(model: nn.Module, point: Tensor, target: int) -> Tensor:
    leaf = point.clone().requires_grad_()
    (found,) = torch.autograd.grad(model(leaf[None])[0, target], leaf)
    return found


def colour_net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, stride=2), nn.ReLU()]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 3)).eval()


def test_the_settings() -> None:
    made = stability_explainers()
    assert list(made) == [*SEVEN, "random_uniform"]
    assert [made[name].name for name in SEVEN] == SEVEN
    assert made["integrated_gradients"] == IntegratedGradients(steps=60, method="trapezoid", baseline=0.0)
    assert made["smooth_grad"] == SmoothGrad(draws=60, sigma=0.2)
    assert made["rise"] == Rise(masks=1000)
    assert made["random_uniform"] == RandomUniform()
    small = stability_explainers(points=6, masks=20, layer="conv")
    assert (small["integrated_gradients"].spec()["steps"], small["rise"].spec()["masks"]) == (6, 20)
    assert {small[name].spec()["layer"] for name in ("grad_cam", "grad_cam_plus_plus")} == {"conv"}
    assert all(as_explainer(one.spec()) == one for one in made.values())


def test_input_times_saliency_by_hand() -> None:
    x, target = torch.tensor([[2.0, -1.0]]), torch.tensor([0])
    net = nn.Linear(2, 1, bias=False)
    net.weight.data = torch.tensor([[-3.0, 5.0]])
    assert explain(InputXSaliency(), net, x, target).tolist() == [[6.0, -5.0]]


def test_input_times_saliency_literally(digits: Digits) -> None:
    x, targets = digits.inputs[:3] - 0.3, digits.targets[:3]
    found = InputXSaliency().explain(digits.model, x, targets, context_of(3, batch=2))
    for row in range(3):
        torch.testing.assert_close(found[row], x[row] * gradient(digits.model, x[row], int(targets[row])).abs())


def test_the_trapezoid_by_hand() -> None:
    """Of 3 t² on [0, 1] three points give (0 + 2 · 3/4 + 3) / 4 = 9/8."""
    x, target = torch.tensor([[1.0, -2.0]]), torch.tensor([0])
    found = explain(IntegratedGradients(steps=3, method="trapezoid"), Cubes(), x, target)
    torch.testing.assert_close(found, torch.tensor([[9 / 8, -9.0]]))
    short = explain(IntegratedGradients(steps=3, method="riemann_trapezoid"), Cubes(), x, target)
    torch.testing.assert_close(short, found * 2 / 3)


@pytest.mark.parametrize("batch", [512, 7])
def test_the_trapezoid_literally(digits: Digits, batch: int) -> None:
    x, targets = digits.inputs[:2], digits.targets[:2]
    found = stability_explainers()["integrated_gradients"].explain(digits.model, x, targets, context_of(2, batch=batch))
    for row in range(2):
        slopes = [gradient(digits.model, m / 59 * x[row], int(targets[row])) for m in range(60)]
        expected = x[row] * sum((one + other) / 2 / 59 for one, other in pairwise(slopes))
        torch.testing.assert_close(found[row], expected, rtol=1e-4, atol=1e-5)


def test_a_linear_model_is_integrated_exactly_by_every_rule_but_captums_trapezoid() -> None:
    net, x, target = nn.Linear(3, 1).double(), torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float64), torch.tensor([0])
    for method in QUADRATURES:
        total = explain(IntegratedGradients(steps=5, method=method), net, x, target)
        share = 4 / 5 if method == "riemann_trapezoid" else 1.0
        torch.testing.assert_close(total, share * x * net.weight.detach())
        assert sum(points_and_weights(method, 5)[1]) == pytest.approx(share)


def test_rules_with_too_few_points_are_refused() -> None:
    x, target = torch.ones(1, 2), torch.tensor([0])
    for method in QUADRATURES[1:]:
        with pytest.raises(SpecError, match=rf"The rule '{method}' of integrated_gradients needs at least 2 steps, not 1"):
            IntegratedGradients(steps=1, method=method).check(Cubes(), x, target)
    IntegratedGradients(steps=1).check(Cubes(), x, target)


def test_sigma_is_the_same_whatever_the_range() -> None:
    """Of f = Σ x³ the mean gradient is 3 mean (x + σ ε)²."""
    x, target, context = torch.tensor([[1.0, 5.0], [0.1, 0.2]]), torch.tensor([0, 0]), context_of(2, batch=5)
    found = SmoothGrad(draws=60, sigma=0.2).explain(Cubes(), x, target, context)
    row, item = torch.arange(2).repeat(60), torch.arange(60).repeat_interleave(2)
    noise = noise_of(context.draws, x, 60, "smooth_grad")(row, item).reshape(60, 2, 2)
    torch.testing.assert_close(found, 3 * (x + 0.2 * noise).pow(2).mean(0))
    many = explain(SmoothGrad(draws=4000, sigma=0.2), Cubes(), x, target)
    torch.testing.assert_close(many, 3 * (x.pow(2) + 0.04), rtol=0.05, atol=0.02)
    torch.testing.assert_close(explain(SmoothGrad(sigma=0.0), Cubes(), x, target), 3 * x.pow(2))
    for wrong in (-0.1, float("nan"), float("inf")):
        with pytest.raises(SpecError, match=r"'sigma' of explainer 'smooth_grad' must be a (finite )?number of at least 0 or None"):
            SmoothGrad(sigma=wrong)


def test_layer_maps_literally() -> None:
    """The last convolution's maps, weighted, cut at zero, interpolated and repeated over channels."""
    net, x, targets = colour_net(), torch.rand(2, 3, 7, 7, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 2])
    made = stability_explainers()
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
            torch.testing.assert_close(explain(made[name], net, x, targets)[row], expected[0].detach())


def test_one_value_a_position_has_the_rank_correlation_of_one_channel() -> None:
    net, x = colour_net(), torch.rand(2, 3, 7, 7, generator=torch.Generator().manual_seed(1))
    maps = explain(Rise(masks=20), net, x, torch.tensor([0, 1]))
    assert torch.equal(maps[:, :1].expand_as(maps), maps)
    one, other = maps.double().numpy()
    whole, channel = spearmanr(one.ravel(), other.ravel())[0], spearmanr(one[0].ravel(), other[0].ravel())[0]
    assert whole == pytest.approx(channel, abs=1e-12)
    assert float(registered(maps[:1], maps[1:])) == pytest.approx(channel, abs=1e-5)
