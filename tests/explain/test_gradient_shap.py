from __future__ import annotations

import captum.attr
import pytest
import torch
from shift_invariant import Digits, context_of, explain

from veracity.core.errors import SpecError
from veracity.core.explainers import Context
from veracity.core.randomness import Draws
from veracity.explain import GradientShap, IntegratedGradients
from veracity.explain.passes import gradients


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).norm() / b.norm())


def test_the_slow_loop(digits: Digits) -> None:
    """The formula, draw by draw, with the same random numbers."""
    x, targets, baselines = digits.inputs[:3], digits.targets[:3], digits.inputs[10:17]
    context = context_of(3, batch=4)
    found = GradientShap(draws=4, noise=0.1, baselines=baselines).explain(digits.model, x, targets, context)
    share = context.draws.uniform(4, stream="gradient_shap.share").float()
    chosen = context.draws.integers(7, 4, stream="gradient_shap.baseline")
    for row in range(3):
        total = torch.zeros_like(x[0])
        for k in range(4):
            noise = context.draws.normal(4, 1, 12, 12, stream="gradient_shap.noise.0")[row, k].float()
            b, a = baselines[chosen[row, k]], share[row, k]
            gap = x[row] + 0.1 * noise - b
            total += gap * gradients(digits.model, (b + a * gap)[None], targets[[row]])[0]
        torch.testing.assert_close(found[row], total / 4, rtol=1e-4, atol=1e-5)


def test_many_draws_from_zero_are_integrated_gradients(digits: Digits) -> None:
    x, targets = digits.inputs[:2], digits.targets[:2]
    exact = explain(IntegratedGradients(steps=200), digits.model, x, targets)
    assert relative(explain(GradientShap(draws=2000), digits.model, x, targets), exact) < 0.05
    assert relative(explain(GradientShap(draws=5), digits.model, x, targets), exact) > 0.05


@pytest.mark.filterwarnings("ignore")
def test_captums_in_distribution(digits: Digits) -> None:
    x, targets, baselines = digits.inputs[:1], digits.targets[:1], digits.inputs[10:14]
    ours = explain(GradientShap(draws=3000, baselines=baselines), digits.model, x, targets)
    exact = torch.stack([explain(IntegratedGradients(baseline=b), digits.model, x, targets) for b in baselines]).mean(0)
    with torch.random.fork_rng(devices=[]):
        theirs = captum.attr.GradientShap(digits.model).attribute(x, baselines=baselines, target=targets, n_samples=3000, stdevs=0.0)
    assert relative(ours, exact) < 0.06
    assert relative(theirs.detach(), ours) < 0.09


def test_rows_of_the_same_sample_differ_by_their_draw(digits: Digits) -> None:
    x, targets = digits.inputs[:1].expand(3, -1, -1, -1), digits.targets[:1].expand(3)
    draws = Draws(0, torch.tensor([4, 4, 4]), torch.tensor([0, 1, 0]))
    found = GradientShap().explain(digits.model, x, targets, Context(draws, 100))
    assert torch.equal(found[0], found[2])
    assert not torch.equal(found[0], found[1])


def test_misuse_is_told(digits: Digits) -> None:
    with pytest.raises(
        SpecError, match=r"The baselines of gradient_shap have shape \(1, 12, 12\), but must be inputs of shape \(1, 12, 12\)"
    ):
        GradientShap(baselines=digits.inputs[0]).check(digits.model, digits.inputs, digits.targets)
    with pytest.raises(SpecError, match="'draws' of explainer 'gradient_shap'"):
        GradientShap(draws=0)
    with pytest.raises(SpecError, match="'baselines' of explainer 'gradient_shap' must be a tensor or None, not True"):
        GradientShap(baselines=True)
    assert GradientShap().bind(digits.inputs).baselines is None
