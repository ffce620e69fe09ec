"""Table 1 and Propositions D.5 to D.8 of the symmetry paper, on a trained CNN that is exactly invariant under cyclic shifts.

cosine(e(g x), g e(x)) for 72 of the 144 shifts: every second row, every column.
"""

from __future__ import annotations

import captum.attr
import pytest
import torch
from shift_invariant import Digits
from torch import Tensor

from veracity.core.explainers import Context, Explainer
from veracity.core.randomness import Draws
from veracity.explain import (
    CaptumMethod,
    Constant,
    Deconvolution,
    DeepLift,
    EdgeFilter,
    FeatureAblation,
    FeaturePermutation,
    GradCam,
    Gradient,
    GradientShap,
    GuidedBackprop,
    InputXGradient,
    IntegratedGradients,
    Occlusion,
    RandomGaussian,
    RandomUniform,
    Saliency,
)

EXACT = [
    (Gradient(), 6),
    (Saliency(), 6),
    (InputXGradient(), 6),
    (GuidedBackprop(), 6),
    (Deconvolution(), 6),
    (DeepLift(), 3),
    (GradCam(), 6),
    (IntegratedGradients(steps=20), 1),
    (FeatureAblation(), 1),
    (Occlusion(), 1),
]


def orbit(x: Tensor) -> Tensor:
    """Cyclic shifts of N signals: (N, 72, ...)."""
    return torch.stack([x.roll((i, j), (-2, -1)) for i in range(0, x.shape[-2], 2) for j in range(x.shape[-1])], dim=1)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    a, b = a.flatten(2).double(), b.flatten(2).double()
    return (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))


def equivariance(explainer: Explainer, digits: Digits, samples: int, common: bool = True) -> Tensor:
    """Cosines (samples, 72) of the maps that are not zero; fails if there are such zero maps."""
    x, targets = digits.inputs[:samples], digits.targets[:samples]
    number = torch.arange(samples)
    moved = orbit(x)
    shifts = moved.shape[1]
    draw = torch.zeros(samples * shifts, dtype=torch.long) if common else 1 + torch.arange(shifts).repeat(samples)
    base = explainer.explain(digits.model, x, targets, Context(Draws.of(0, number), 512))
    draws = Draws(0, number.repeat_interleave(shifts), draw)
    after = explainer.explain(digits.model, moved.flatten(0, 1), targets.repeat_interleave(shifts), Context(draws, 512))
    values = cosine(after.unflatten(0, (samples, shifts)), orbit(base))
    zero = base.flatten(1).abs().amax(1) == 0
    assert not zero.any(), f"{int(zero.sum())} of {samples} maps are zero, so that their cosine is undefined"
    return values


def self_agreement(explainer: Explainer, digits: Digits, samples: int, repeats: int) -> Tensor:
    """Cosines (samples, repeats) of a second draw with the first, for the same input."""
    x, targets, number = digits.inputs[:samples], digits.targets[:samples], torch.arange(samples)
    base = explainer.explain(digits.model, x, targets, Context(Draws.of(0, number), 512))
    draws = Draws(0, number.repeat_interleave(repeats), 1000 + torch.arange(repeats).repeat(samples))
    again = explainer.explain(digits.model, x.repeat_interleave(repeats, 0), targets.repeat_interleave(repeats), Context(draws, 512))
    return cosine(again.unflatten(0, (samples, repeats)), base.unsqueeze(1).expand(-1, repeats, *base.shape[1:]))


def test_the_model_is_trained_and_invariant(digits: Digits) -> None:
    assert digits.accuracy > 0.8
    with torch.no_grad():
        scores = digits.model(orbit(digits.inputs[:3]).flatten(0, 1)).unflatten(0, (3, 72))
    torch.testing.assert_close(scores, scores[:, :1].expand_as(scores), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("explainer", "samples"), EXACT, ids=[explainer.name for explainer, _ in EXACT])
def test_equivariant_by_theory(digits: Digits, explainer: Explainer, samples: int) -> None:
    assert equivariance(explainer, digits, samples).min() >= 0.9999


@pytest.mark.parametrize("explainer", [Constant(), EdgeFilter()], ids=lambda explainer: explainer.name)
def test_controls_that_say_nothing_are_exactly_equivariant(digits: Digits, explainer: Explainer) -> None:
    torch.testing.assert_close(equivariance(explainer, digits, 6), torch.ones(6, 72).double(), rtol=0, atol=1e-12)


def test_random_controls_are_not(digits: Digits) -> None:
    uniform, gaussian = (equivariance(explainer, digits, 6, common=False).mean() for explainer in (RandomUniform(), RandomGaussian()))
    assert abs(float(uniform) - 0.75) < 0.01
    assert abs(float(gaussian)) < 0.01


def test_a_baseline_that_moves_breaks_integrated_gradients(digits: Digits) -> None:
    ramp = torch.linspace(0, 1, 12).expand(1, 12, 12)
    assert equivariance(IntegratedGradients(baseline=ramp, steps=20), digits, 1).mean() < 0.95


def test_reference_rows_break_feature_permutation(digits: Digits) -> None:
    values = equivariance(FeaturePermutation(reference_set=digits.inputs[10:]), digits, 1)
    assert values.mean() < 0.95


def test_the_window_that_does_not_wrap_breaks_occlusion(digits: Digits) -> None:
    """The same method with the same window as above: Captum's leaves borders to fewer windows."""
    captums = CaptumMethod(
        attribution=captum.attr.Occlusion,
        settings={"sliding_window_shapes": (1, 5, 5), "perturbations_per_eval": 4},
        random=False,
    )
    assert equivariance(captums, digits, 1).min() < 0.95


def test_gradient_shap_from_zero_is_noisy_and_not_asymmetric(digits: Digits) -> None:
    """With common draws it is exact; with fresh draws it agrees with itself as much under shifts as without them."""
    explainer = GradientShap()
    assert equivariance(explainer, digits, 2).min() >= 0.9999
    shifted, still = equivariance(explainer, digits, 2, common=False), self_agreement(explainer, digits, 2, 72)
    assert still.mean() < 0.99
    noise = ((shifted.var(1) + still.var(1)) / 72).sqrt()
    assert ((shifted.mean(1) - still.mean(1)).abs() <= 4 * noise).all()


def test_gradient_shap_from_data_is_asymmetric(digits: Digits) -> None:
    explainer = GradientShap(baselines=digits.inputs[10:])
    assert equivariance(explainer, digits, 3).mean() < 0.8
