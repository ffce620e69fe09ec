"""Propositions D.9 and D.12 on a trained CNN that is exactly invariant under cyclic shifts: all 144 shifts of some digits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from example_nets import lessons
from shift_invariant import Digits
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn.functional import pad

from veracity.core.explainers import Context, Explainer
from veracity.core.inputs import TensorInputs
from veracity.core.randomness import Draws
from veracity.core.training import Checkpoint, Training
from veracity.explain.controls import RandomExamples
from veracity.explain.examples.influence import InfluenceFunctions
from veracity.explain.examples.representation import RepresentationSimilarity, SimplEx
from veracity.explain.examples.tracin import TracIn

POOLED, CONVOLUTION = "6", "4"


def orbit(x: Tensor) -> Tensor:
    return torch.cat([x.roll((i, j), (-2, -1)) for i in range(0, x.shape[-2], 2) for j in range(x.shape[-1])])


def training_of(digits: Digits) -> Training:
    data = load_digits()
    images = pad(torch.tensor(data.images[:60], dtype=torch.float32)[:, None] / 16, (2, 2, 2, 2))
    early = {key: value * 0.7 for key, value in digits.model.state_dict().items()}
    checkpoints = (Checkpoint(early, 0.1), Checkpoint(digits.model.state_dict(), 0.01))
    return Training(TensorInputs(images), torch.tensor(data.target[:60]), checkpoints=checkpoints)


def invariance(explainer: Explainer, digits: Digits, samples: int = 4) -> Tensor:
    """Cosines (samples, 72) of e(g x) with e(x)."""
    x, targets = digits.inputs[:samples], digits.targets[:samples]
    moved = orbit(x)
    shifts = len(moved) // samples
    draws = Draws(0, torch.arange(samples).repeat(shifts), 1 + torch.arange(shifts).repeat_interleave(samples))
    context = Context(Draws.of(0, torch.arange(samples)), 512, training=training_of(digits))
    context = replace(context, learnt=lessons(explainer, digits.model, context))
    base = explainer.explain(digits.model, x, targets, context)
    after = explainer.explain(digits.model, moved, targets.repeat(shifts), replace(context, draws=draws))
    return torch.cosine_similarity(after.unflatten(0, (shifts, samples)).double(), base.double(), dim=-1).T


@pytest.mark.parametrize("explainer", [InfluenceFunctions(), InfluenceFunctions(layer="4"), TracIn(), TracIn(layer="2")])
def test_losses_are_invariant_whatever_the_layer(digits: Digits, explainer: Explainer) -> None:
    """Proposition D.9: also for gradients in a convolution, whose representation moves."""
    assert invariance(explainer, digits).min() >= 1 - 1e-4


@pytest.mark.parametrize("kind", [SimplEx, RepresentationSimilarity])
def test_representations_are_as_invariant_as_their_layer(digits: Digits, kind: type[Explainer]) -> None:
    """Proposition D.12: exact on the pooled layer (also by default), not on a convolution."""
    for layer in (None, POOLED):
        assert invariance(kind(layer=layer), digits).min() >= 1 - 1e-4
    moving = invariance(kind(layer=CONVOLUTION), digits, 12).mean(1)
    assert moving.mean() + 3 * moving.std() / 12**0.5 < 1 - 1e-3


def test_the_control_is_not_invariant(digits: Digits) -> None:
    assert abs(float(invariance(RandomExamples(), digits).mean())) < 0.05
