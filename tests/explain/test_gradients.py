from __future__ import annotations

import warnings
from copy import deepcopy
from itertools import pairwise

import captum.attr
import pytest
import torch
from shift_invariant import Digits, context_of, explain
from torch import Tensor, nn
from torch.nn import functional

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import Context
from veracity.explain import (
    Deconvolution,
    FeatureAblation,
    Gradient,
    GuidedBackprop,
    InputXGradient,
    InputXSaliency,
    IntegratedGradients,
    Saliency,
    SmoothGrad,
    Symmetrised,
    TopK,
)
from veracity.explain.gradients import QUADRATURES, quadrature


class Square(nn.Module):
    """Scores (sum of x², minus sum of x²)."""

    def forward(self, x: Tensor) -> Tensor:
        value = x.pow(2).flatten(1).sum(1)
        return torch.stack((value, -value), dim=1)


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.relu = nn.Linear(3, 2), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.relu(self.linear(x)))


X, TARGETS = torch.tensor([[[1.0, -2.0]], [[3.0, 0.5]]]), torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("explainer", "expected"),
    [
        (Saliency(), [[[2.0, 4.0]], [[6.0, 1.0]]]),
        (Gradient(), [[[2.0, -4.0]], [[-6.0, -1.0]]]),
        (InputXGradient(), [[[2.0, 8.0]], [[-18.0, -0.5]]]),
        (IntegratedGradients(), [[[1.0, 4.0]], [[-9.0, -0.25]]]),
        (IntegratedGradients(baseline=1.0), [[[0.0, 3.0]], [[-8.0, 0.75]]]),
        (FeatureAblation(), [[[1.0, 4.0]], [[-9.0, -0.25]]]),
        (FeatureAblation(baseline=torch.tensor([1.0, 2.0])), [[[0.0, 0.0]], [[-8.0, 3.75]]]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_by_hand_on_a_square(explainer: Gradient, expected: list[list[list[float]]]) -> None:
    torch.testing.assert_close(explain(explainer, Square(), X, TARGETS), torch.tensor(expected), rtol=1e-5, atol=1e-6)


def test_relu_rules_by_hand() -> None:
    """y = relu(x) - 2 relu(-x): the gradient, and what the two rules cut of it."""
    first, last = nn.Linear(1, 2, bias=False), nn.Linear(2, 1, bias=False)
    first.weight.data, last.weight.data = torch.tensor([[1.0], [-1.0]]), torch.tensor([[1.0, -2.0]])
    net = nn.Sequential(first, nn.ReLU(), last)
    x, targets = torch.tensor([[3.0], [-3.0]]), torch.tensor([0, 0])
    assert explain(Gradient(), net, x, targets).tolist() == [[1.0], [2.0]]
    assert explain(GuidedBackprop(), net, x, targets).tolist() == [[1.0], [0.0]]
    assert explain(Deconvolution(), net, x, targets).tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize(
    ("explainer", "method", "settings"),
    [
        (Saliency(), captum.attr.Saliency, {}),
        (Gradient(), captum.attr.Saliency, {"abs": False}),
        (InputXGradient(), captum.attr.InputXGradient, {}),
        (GuidedBackprop(), captum.attr.GuidedBackprop, {}),
        (Deconvolution(), captum.attr.Deconvolution, {}),
        (IntegratedGradients(), captum.attr.IntegratedGradients, {"n_steps": 50}),
        (IntegratedGradients(method="riemann_left", steps=7), captum.attr.IntegratedGradients, {"n_steps": 7, "method": "riemann_left"}),
        (FeatureAblation(), captum.attr.FeatureAblation, {}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
@pytest.mark.filterwarnings("ignore")
def test_captums_numbers(digits: Digits, explainer: Gradient, method: type, settings: dict[str, object]) -> None:
    x, targets = digits.inputs[:4], digits.targets[:4]
    theirs = method(digits.model).attribute(x.clone().requires_grad_(), target=targets, **settings).detach()
    torch.testing.assert_close(explain(explainer, digits.model, x, targets), theirs, rtol=1e-4, atol=1e-6)


def test_ablation_is_the_slow_loop(digits: Digits) -> None:
    x, target = digits.inputs[:1], digits.targets[:1]
    baseline = torch.rand(1, 12, 12, generator=torch.Generator().manual_seed(0))
    found = explain(FeatureAblation(baseline=baseline), digits.model, x, target)
    with torch.no_grad():
        full = digits.model(x)[0, target]
        for place in range(0, 144, 7):
            changed = x.clone()
            changed.view(-1)[place] = baseline.view(-1)[place]
            assert float(full - digits.model(changed)[0, target]) == pytest.approx(float(found.view(-1)[place]), abs=1e-5)


def test_integrated_gradients_add_up(digits: Digits) -> None:
    x, targets = digits.inputs[:6], digits.targets[:6]
    total = explain(IntegratedGradients(steps=200), digits.model, x, targets).sum((1, 2, 3))
    with torch.no_grad():
        gap = (digits.model(x) - digits.model(torch.zeros_like(x))).gather(1, targets[:, None]).squeeze(1)
    torch.testing.assert_close(total, gap, rtol=0.02, atol=0.02)


def test_no_warning_reaches_the_user(digits: Digits) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for explainer in (Saliency(), InputXGradient(), GuidedBackprop(), Deconvolution(), IntegratedGradients(steps=3)):
            explainer.explain(digits.model, digits.inputs[:3], digits.targets[:3], context_of(3, batch=2))


def test_a_warning_of_the_model_does() -> None:
    class Warns(Square):
        def forward(self, x: Tensor) -> Tensor:
            warnings.warn("from the model", stacklevel=1)
            return super().forward(x)

    with pytest.warns(UserWarning, match="from the model"):
        explain(GuidedBackprop(), Warns(), X, TARGETS)


class Rounded(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x.flatten(1) > 0).float()


class Detached(Square):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.detach()).requires_grad_()


@pytest.mark.parametrize("model", [Rounded(), Detached()], ids=["comparison", "detached"])
@pytest.mark.parametrize("explainer", [Saliency(), IntegratedGradients(), GuidedBackprop()], ids=lambda explainer: explainer.name)
def test_models_without_gradients_are_refused(explainer: Saliency, model: nn.Module) -> None:
    sentence = f"{explainer.name} needs gradients, but the output of this model does not depend differentiably on its input."
    with pytest.raises(InputError, match=sentence):
        explainer.check(model, X, TARGETS)
    FeatureAblation().check(model, X, TARGETS)


def test_functional_relus_are_reported() -> None:
    x, targets = torch.randn(2, 3), torch.tensor([0, 1])
    (note,) = GuidedBackprop().check(Functional(), x, targets)
    assert note.startswith("guided_backprop changes the gradient of nn.ReLU modules only, but 1 of 2 ReLU steps")
    assert GuidedBackprop().check(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), x, targets) == ()


def test_settings_are_checked() -> None:
    with pytest.raises(SpecError, match="'steps' of explainer 'integrated_gradients'"):
        IntegratedGradients(steps=0)
    with pytest.raises(SpecError, match="Did you mean 'gausslegendre'"):
        IntegratedGradients(method="gauslegendre").check(Square(), X, TARGETS)
    with pytest.raises(SpecError, match="The baseline of feature_ablation"):
        FeatureAblation(baseline=torch.zeros(5)).check(Square(), X, TARGETS)


class Cubes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.pow(3).sum(1, keepdim=True)


def gradient(model: nn.Module, point: Tensor, target: int) -> Tensor:
    leaf = point.clone().requires_grad_()
    (found,) = torch.autograd.grad(model(leaf[None])[0, target], leaf)
    return found


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
    found = IntegratedGradients(steps=60, method="trapezoid").explain(digits.model, x, targets, context_of(2, batch=batch))
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
        assert sum(quadrature(method, 5)[1]) == pytest.approx(share)


def test_rules_with_too_few_points_are_refused() -> None:
    x, target = torch.ones(1, 2), torch.tensor([0])
    for method in QUADRATURES[1:]:
        with pytest.raises(SpecError, match=rf"The rule '{method}' of integrated_gradients needs at least 2 steps, not 1"):
            IntegratedGradients(steps=1, method=method).check(Cubes(), x, target)
    IntegratedGradients(steps=1).check(Cubes(), x, target)


@pytest.mark.parametrize("batch", [3, 64])
def test_half_precision_sums_in_float32(batch: int) -> None:
    x, target = torch.rand(3, 8, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 0])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).eval()
    explainer = IntegratedGradients(steps=200)
    half = explainer.explain(deepcopy(net).bfloat16(), x.bfloat16(), target, context_of(3, batch=batch))
    whole = explainer.explain(net, x, target, context_of(3, batch=batch))
    assert half.dtype is torch.float32
    assert float((half - whole).norm() / whole.norm()) < 0.02


class Own(IntegratedGradients):
    """Integrated gradients that does something of its own."""

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return 2.0 * super().explain(model, inputs, targets, context)


def test_only_explainers_that_fill_their_calls_say_so() -> None:
    assert IntegratedGradients().splits
    assert SmoothGrad().splits
    assert TopK(explainer="integrated_gradients", k=3).splits
    assert not Own().splits
    assert not Saliency().splits
    assert not Symmetrised(explainer="integrated_gradients").splits
