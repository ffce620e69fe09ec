from __future__ import annotations

from dataclasses import replace

import captum.attr
import pytest
import torch
from shift_invariant import Digits, context_of, explain
from torch import Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import Context
from veracity.core.randomness import Draws
from veracity.explain import Gradient, GradientShap, IntegratedGradients, SmoothGrad
from veracity.explain.gradients import item_noise
from veracity.explain.passes import gradients, pairs


class Cubic(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.pow(3).flatten(1).sum(1, keepdim=True)


def test_the_slow_loop(digits: Digits) -> None:
    x, targets = digits.inputs[:3], digits.targets[:3]
    context = context_of(3, batch=5)
    found = SmoothGrad(draws=4, noise=0.2).explain(digits.model, x, targets, context)
    for row in range(3):
        spread = 0.2 * float(x[row].max() - x[row].min())
        item = (replace(context.draws, item=torch.full((3,), k)).normal(1, 12, 12, stream="smooth_grad")[row].float() for k in range(4))
        points = [x[row] + spread * noise for noise in item]
        expected = torch.stack([gradients(digits.model, point[None], targets[[row]])[0] for point in points]).mean(0)
        torch.testing.assert_close(found[row], expected, rtol=1e-4, atol=1e-5)


def test_the_mean_over_noise_of_a_cubic() -> None:
    """E 3 (x + σ ε)² = 3 x² + 3 σ², with σ a tenth of the sample's range."""
    x = torch.tensor([[0.0, 1.0, 2.0], [5.0, 5.0, 9.0]])
    found = explain(SmoothGrad(draws=20_000, noise=0.1), Cubic(), x, torch.zeros(2, dtype=torch.long))
    expected = 3 * x**2 + 3 * torch.tensor([[0.2], [0.4]]) ** 2
    torch.testing.assert_close(found, expected, rtol=0.01, atol=0.01)


def test_no_noise_is_the_gradient(digits: Digits) -> None:
    x, targets = digits.inputs[:2], digits.targets[:2]
    smooth, plain = (explain(explainer, digits.model, x, targets) for explainer in (SmoothGrad(noise=0.0), Gradient()))
    torch.testing.assert_close(smooth, plain, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_captums_in_expectation(digits: Digits) -> None:
    x, targets = digits.inputs[:1], digits.targets[:1]
    spread = 0.15 * float(x.max() - x.min())
    ours = explain(SmoothGrad(draws=1500), digits.model, x, targets)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        tunnel = captum.attr.NoiseTunnel(captum.attr.Saliency(digits.model))
        theirs = tunnel.attribute(x, nt_samples=1500, nt_samples_batch_size=500, stdevs=spread, target=targets, abs=False)
    assert float((theirs - ours).norm() / ours.norm()) < 0.14


@pytest.mark.parametrize("size", [3, 2000])
def test_noise_does_not_depend_on_the_chunk(size: int) -> None:
    draws, like = context_of(4).draws, torch.zeros(4, size)
    whole, parts = (
        torch.cat([noise(*pair) for pair in pairs(4, 3, n)]) for n, noise in ((n, item_noise(draws, like, "n")) for n in (12, 5))
    )
    assert torch.equal(whole, parts)
    assert len(whole[:, :3].flatten().unique()) == 36
    assert whole.shape == (12, size)


def test_sigma_is_the_same_whatever_the_range() -> None:
    """Of f = Σ x³ the mean gradient is 3 mean (x + σ ε)²."""
    x, target, context = torch.tensor([[1.0, 5.0], [0.1, 0.2]]), torch.tensor([0, 0]), context_of(2, batch=5)
    found = SmoothGrad(draws=60, sigma=0.2).explain(Cubic(), x, target, context)
    row, item = torch.arange(2).repeat(60), torch.arange(60).repeat_interleave(2)
    noise = item_noise(context.draws, x, "smooth_grad")(row, item).reshape(60, 2, 2)
    torch.testing.assert_close(found, 3 * (x + 0.2 * noise).pow(2).mean(0))
    many = explain(SmoothGrad(draws=4000, sigma=0.2), Cubic(), x, target)
    torch.testing.assert_close(many, 3 * (x.pow(2) + 0.04), rtol=0.05, atol=0.02)
    torch.testing.assert_close(explain(SmoothGrad(sigma=0.0), Cubic(), x, target), 3 * x.pow(2))
    for wrong in (-0.1, float("nan"), float("inf")):
        with pytest.raises(
            SpecError, match=r"'sigma' of explainer 'smooth_grad' must be a (finite )?number of at least 0, a tensor or None"
        ):
            SmoothGrad(sigma=wrong)


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).norm() / b.norm())


def test_gradient_shap_is_the_slow_loop(digits: Digits) -> None:
    """The formula, draw by draw, with the same random numbers."""
    x, targets, baselines = digits.inputs[:3], digits.targets[:3], digits.inputs[10:17]
    context = context_of(3, batch=4)
    found = GradientShap(draws=4, noise=0.1, baselines=baselines).explain(digits.model, x, targets, context)
    share = context.draws.uniform(4, stream="gradient_shap.share").float()
    chosen = context.draws.integers(7, 4, stream="gradient_shap.baseline")
    for row in range(3):
        total = torch.zeros_like(x[0])
        for k in range(4):
            noise = replace(context.draws, item=torch.full((3,), k)).normal(1, 12, 12, stream="gradient_shap.noise")[row].float()
            b, a = baselines[chosen[row, k]], share[row, k]
            gap = x[row] + 0.1 * noise - b
            total += gap * gradients(digits.model, (b + a * gap)[None], targets[[row]])[0]
        torch.testing.assert_close(found[row], total / 4, rtol=1e-4, atol=1e-5)


def test_many_draws_from_zero_are_integrated_gradients(digits: Digits) -> None:
    x, targets = digits.inputs[:1], digits.targets[:1]
    exact = explain(IntegratedGradients(steps=200), digits.model, x, targets)
    assert relative(explain(GradientShap(draws=2500), digits.model, x, targets), exact) < 0.05
    assert relative(explain(GradientShap(draws=5), digits.model, x, targets), exact) > 0.05


@pytest.mark.filterwarnings("ignore")
def test_captums_in_distribution(digits: Digits) -> None:
    x, targets, baselines = digits.inputs[:1], digits.targets[:1], digits.inputs[10:14]
    ours = explain(GradientShap(draws=1500, baselines=baselines), digits.model, x, targets)
    exact = torch.stack([explain(IntegratedGradients(baseline=b), digits.model, x, targets) for b in baselines]).mean(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        theirs = captum.attr.GradientShap(digits.model).attribute(x, baselines=baselines, target=targets, n_samples=1500, stdevs=0.0)
    assert relative(ours, exact) < 0.09
    assert relative(theirs.detach(), ours) < 0.13


def test_rows_of_the_same_sample_differ_by_their_draw(digits: Digits) -> None:
    x, targets = digits.inputs[:1].expand(3, -1, -1, -1), digits.targets[:1].expand(3)
    draws = Draws(0, torch.tensor([4, 4, 4]), torch.tensor([0, 1, 0]))
    found = GradientShap().explain(digits.model, x, targets, Context(draws, 100))
    assert torch.equal(found[0], found[2])
    assert not torch.equal(found[0], found[1])


def test_misuse_raises(digits: Digits) -> None:
    with pytest.raises(
        SpecError, match=r"The baselines of gradient_shap have shape \(1, 12, 12\), but must be inputs of shape \(1, 12, 12\)"
    ):
        GradientShap(baselines=digits.inputs[0]).check(digits.model, digits.inputs, digits.targets)
    with pytest.raises(SpecError, match="'draws' of explainer 'gradient_shap'"):
        GradientShap(draws=0)
    with pytest.raises(SpecError, match="'baselines' of explainer 'gradient_shap' must be a tensor or None, not True"):
        GradientShap(baselines=True)
    assert GradientShap().bind(digits.inputs).baselines is None
