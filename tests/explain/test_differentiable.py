from __future__ import annotations

import pytest
import torch
from shift_invariant import context_of
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import Context, Explainer
from veracity.explain import (
    Deconvolution,
    DeepLift,
    GradCam,
    GradCamPlusPlus,
    Gradient,
    GradientShap,
    GuidedBackprop,
    InputXGradient,
    InputXSaliency,
    IntegratedGradients,
    Lime,
    LRPEpsilon,
    Occlusion,
    Precomputed,
    RandomUniform,
    Saliency,
    SmoothGrad,
    Symmetrised,
)
from veracity.explain.differentiable import SoftReLU, differentiable
from veracity.perturb import CyclicShift

ROWS = 3
BASELINES = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
FORMS: dict[str, Explainer] = {
    "gradient": Gradient(),
    "saliency": Saliency(),
    "input_x_gradient": InputXGradient(),
    "input_x_saliency": InputXSaliency(),
    "integrated_gradients": IntegratedGradients(steps=5, baseline=0.1),
    "integrated_gradients, trapezoid": IntegratedGradients(steps=4, method="trapezoid"),
    "smooth_grad": SmoothGrad(draws=3, noise=0.1),
    "smooth_grad, sigma": SmoothGrad(draws=3, sigma=0.2),
    "gradient_shap": GradientShap(draws=3, noise=0.2, baselines=BASELINES),
    "grad_cam": GradCam(),
    "grad_cam of a layer": GradCam(layer="0"),
    "grad_cam_plus_plus": GradCamPlusPlus(),
    "deep_lift": DeepLift(baseline=BASELINES[0]),
    "precomputed": Precomputed(maps=torch.zeros(ROWS, 1, 8, 8), explainer=IntegratedGradients(steps=3)),
    "symmetrised": Symmetrised(explainer=InputXGradient(), space=CyclicShift(axes=(-1,)), draws=3),
    "symmetrised whole": Symmetrised(explainer=SmoothGrad(draws=2), space=CyclicShift(axes=(-1,))),
}


def small_net(first: nn.Module, second: nn.Module, pool: type[nn.Module] = nn.AvgPool2d) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), first, nn.Conv2d(4, 4, 1), pool(2), nn.Conv2d(4, 5, 2), second]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(20, 6), nn.Tanh(), nn.Linear(6, 3)).double().eval()


@pytest.fixture
def smooth() -> nn.Module:
    return small_net(nn.Tanh(), nn.Softplus())


@pytest.fixture
def x() -> Tensor:
    return torch.randn(ROWS, 1, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def form_maps(explainer: Explainer, model: nn.Module, x: Tensor, batch: int = 512) -> Tensor:
    form = differentiable(explainer)
    assert form is not None
    return form(model, x, torch.arange(len(x)) % 3, context_of(len(x), batch=batch, draw=3))


@pytest.mark.parametrize("name", FORMS)
def test_values_are_the_explainers(name: str, x: Tensor, smooth: nn.Module) -> None:
    kinked = small_net(nn.ReLU(inplace=True), nn.ReLU(), nn.MaxPool2d)
    for model in (smooth, kinked, smooth.float()):
        given = x.to(next(model.parameters()).dtype)
        expected = FORMS[name].explain(model, given, torch.arange(ROWS) % 3, context_of(ROWS, batch=4, draw=3))
        found = form_maps(FORMS[name], model, given, batch=4)
        assert found.requires_grad
        assert found.shape == expected.shape
        assert float(expected.norm()) > 1e-3
        torch.testing.assert_close(found.detach(), expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("name", FORMS)
def test_slopes_are_finite_differences(name: str, x: Tensor, smooth: nn.Module) -> None:
    weights = torch.randn(x.shape, generator=torch.Generator().manual_seed(4), dtype=x.dtype)
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad((weights * form_maps(FORMS[name], smooth, leaf)).sum(), leaf)
    step = torch.randn(x.shape, generator=torch.Generator().manual_seed(5), dtype=x.dtype)
    width = 1e-5
    up, down = (form_maps(FORMS[name], smooth, x + sign * width * step).detach() for sign in (1.0, -1.0))
    numeric = ((weights * (up - down)).flatten(1).sum(1)) / (2 * width)
    found = (slope * step).flatten(1).sum(1)
    assert float(numeric.abs().max()) > 1e-4
    torch.testing.assert_close(found, numeric, rtol=1e-4, atol=1e-6)


def test_a_slope_by_hand() -> None:
    class Cubes(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.pow(3).sum(1, keepdim=True)

    x, none = torch.tensor([[1.0, -2.0]], requires_grad=True), torch.tensor([0])
    for explainer, values, slopes in [
        (Gradient(), [3.0, 12.0], [6.0, -12.0]),
        (InputXGradient(), [3.0, -24.0], [9.0, 36.0]),
        (IntegratedGradients(), [1.0, -8.0], [3.0, 12.0]),  # complete: x^3 each
    ]:
        form = differentiable(explainer)
        assert form is not None
        maps = form(Cubes(), x, none, context_of(1))
        torch.testing.assert_close(maps, torch.tensor([values]))
        torch.testing.assert_close(torch.autograd.grad(maps.sum(), x)[0], torch.tensor([slopes]))


def test_graph_goes_on_to_what_made_the_inputs(x: Tensor, smooth: nn.Module) -> None:
    scale = torch.ones((), dtype=x.dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(form_maps(InputXGradient(), smooth, scale * x).sum(), scale)
    up, down = (float(form_maps(InputXGradient(), smooth, factor * x).detach().sum()) for factor in (1 + 1e-5, 1 - 1e-5))
    assert float(slope) == pytest.approx((up - down) / 2e-5, rel=1e-5)


@pytest.mark.parametrize("explainer", [Gradient(), InputXGradient(), GradCam()], ids=lambda one: one.name)
def test_a_piecewise_linear_model_has_a_slope_that_bends_only_when_softened(explainer: Explainer, x: Tensor) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 9), nn.ReLU(), nn.Linear(9, 3)).double()
    leaf = x.clone().requires_grad_()

    def slope() -> Tensor:
        (found,) = torch.autograd.grad(form_maps(explainer, model, leaf).sum(), leaf)
        return found

    hard = slope()
    with SoftReLU(5.0):
        soft = slope()
    if explainer == Gradient():
        assert torch.equal(hard, torch.zeros_like(x))
    assert float((soft - hard).norm()) > 1e-3


def test_maps_with_exact_zeros_have_finite_slopes(x: Tensor) -> None:
    model, leaf = small_net(nn.ReLU(), nn.ReLU(), nn.MaxPool2d), x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(form_maps(GradCamPlusPlus(layer="0"), model, leaf).sum(), leaf)
    assert torch.isfinite(slope).all()
    assert float(slope.norm()) > 1e-3


@pytest.mark.parametrize("last", [nn.Identity(), nn.Softmax(1)], ids=["scores", "softmax"])
def test_deep_lift_where_input_and_baseline_meet(last: nn.Module, x: Tensor) -> None:
    # Dark corners equal the baseline, so that Δin = 0 at the first layers, and plain gradients stand for Δout / Δin.
    model = nn.Sequential(*small_net(nn.ReLU(), nn.Tanh()), last)
    dark = x.clone()
    dark[:, :, :5] = 0.0
    expected = DeepLift().explain(model, dark, torch.arange(ROWS) % 3, context_of(ROWS))
    leaf = dark.clone().requires_grad_()
    found = form_maps(DeepLift(), model, leaf)
    torch.testing.assert_close(found.detach(), expected, rtol=1e-6, atol=1e-9)
    assert torch.isfinite(torch.autograd.grad(found.sum(), leaf)[0]).all()


def test_deep_lift_is_complete_where_pooling_follows_an_activation(x: Tensor) -> None:
    # Σ e = f(x) - f(b) (Shrikumar et al. 2017, section 3.1); hooks on modules miss it in this place.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.MaxPool2d(3, stride=3), nn.Flatten(), nn.Linear(12, 3)).double()
    maps = form_maps(DeepLift(baseline=BASELINES[0]), model, x)
    gap = model(x) - model(BASELINES[:1])
    torch.testing.assert_close(maps.flatten(1).sum(1), gap[torch.arange(ROWS), torch.arange(ROWS) % 3])
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(form_maps(DeepLift(baseline=BASELINES[0]), model, leaf).sum(), leaf)
    (plain,) = torch.autograd.grad(model(leaf)[torch.arange(ROWS), torch.arange(ROWS) % 3].sum(), leaf)
    torch.testing.assert_close(slope, plain)  # of a complete map's sum, the slope is the score's


def test_deep_lift_without_a_rule_is_input_times_gradient_with_its_slope(x: Tensor) -> None:
    class Functional(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(x).pow(2).flatten(1)[:, ::7][:, :3]

    leaf = x.clone().requires_grad_()
    found, expected = (form_maps(one, Functional(), leaf) for one in (DeepLift(), InputXGradient()))
    torch.testing.assert_close(found, expected)
    slopes = [torch.autograd.grad(maps.pow(2).sum(), leaf)[0] for maps in (found, expected)]
    assert float(slopes[1].norm()) > 1e-3
    torch.testing.assert_close(*slopes)


def test_structure_goes_along() -> None:
    class Masked(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return (x.pow(3) * mask).sum(1, keepdim=True)

    points, mask = torch.randn(5, 6), torch.rand(5, 6)
    context, targets = Context(context_of(5).draws, 3, structure=(mask,)), torch.zeros(5, dtype=torch.long)
    form = differentiable(SmoothGrad(draws=2))
    assert form is not None
    expected = SmoothGrad(draws=2).explain(Masked(), points, targets, context)
    torch.testing.assert_close(form(Masked(), points, targets, context).detach(), expected)


@pytest.mark.parametrize("name", FORMS)
def test_nothing_of_the_caller_changes(name: str, x: Tensor, smooth: nn.Module) -> None:
    before, state = x.clone(), {key: value.clone() for key, value in smooth.state_dict().items()}
    with torch.no_grad():
        form_maps(FORMS[name], smooth, x).detach()
    assert torch.equal(x, before)
    assert not x.requires_grad
    assert all(value.grad is None and value.requires_grad for value in smooth.parameters())
    assert not any(module._forward_hooks or module._backward_hooks for module in smooth.modules())
    assert all(torch.equal(value, state[key]) for key, value in smooth.state_dict().items())


def test_grad_cam_away_from_the_score_is_one_sentence(x: Tensor) -> None:
    class Beside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 1, 3).double()

        def forward(self, x: Tensor) -> Tensor:
            self.conv(x)
            return x.flatten(1)[:, :3]

    with pytest.raises(
        InputError, match="grad_cam needs a layer that leads to the score, but the score does not depend on any convolution"
    ):
        form_maps(GradCam(), Beside(), x)


def test_what_has_no_such_form() -> None:
    class Own(Gradient):
        """Somebody's subclass may do anything."""

    maps = torch.zeros(2, 3)
    without = [GuidedBackprop(), Deconvolution(), Lime(), LRPEpsilon(), Occlusion(), RandomUniform(), Own(), Precomputed(maps=maps)]
    without.append(Symmetrised(explainer=Lime(), space=CyclicShift(axes=(-1,))))
    assert [differentiable(one) for one in without] == [None] * len(without)
