"""Proposition D.14 on a trained network: concept explanations are invariant on an invariant layer, and not on an equivariant one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from concept_cases import context_of, digits_training, learnt
from shift_invariant import Digits
from torch import Tensor

from veracity.core.explainers import Explainer
from veracity.explain.concepts.activations import CAR, CAV, ConceptSensitivity
from veracity.explain.concepts.base import ConceptExplainer
from veracity.measure import categorical_agreement, cosine
from veracity.perturb import CyclicShift

CONV, POOLED = "4", "6"


def invariance(explainer: Explainer, digits: Digits) -> Tensor:
    """Inv_G(e, x) of each sample over all 144 shifts (eq. 1)."""
    x, targets = digits.inputs[:24], digits.targets[:24]
    context = learnt(explainer, digits.model, context_of(digits_training(), len(x)))
    before = explainer.explain(digits.model, x, targets, context)
    elements = CyclicShift(axes=(-2, -1)).fit(x.shape[1:])
    element, row = elements.enumerate().repeat_interleave(len(x), 0), torch.arange(len(x)).repeat(elements.order)
    many = replace(context, draws=context.draws[row])
    after = explainer.explain(digits.model, elements.act(element, x[row]), targets[row], many)
    measure = categorical_agreement if explainer.categorical else cosine
    return measure(after, before[row]).reshape(elements.order, len(x)).mean(0)


@pytest.mark.parametrize("kind", [CAV, CAR, ConceptSensitivity])
def test_invariant_on_the_invariant_layer(kind: type[ConceptExplainer], digits: Digits) -> None:
    found = invariance(kind(layer=POOLED), digits)
    assert float(found.min()) >= 1 - 1e-6


@pytest.mark.parametrize("kind", [CAV, CAR, ConceptSensitivity])
def test_not_invariant_on_the_equivariant_layer(kind: type[ConceptExplainer], digits: Digits) -> None:
    found = invariance(kind(layer=CONV), digits)
    error = float(found.std()) / len(found) ** 0.5
    assert float(found.mean()) + 3 * error < 1


@pytest.mark.parametrize("layer", [CONV, POOLED])
@pytest.mark.parametrize("kind", [CAV, CAR])
def test_concepts_of_the_labels_are_reported_and_a_coin_is_not(kind: type[ConceptExplainer], layer: str, digits: Digits) -> None:
    explainer, context = kind(layer=layer), context_of(digits_training(coin=True))
    loop, stroke, coin = explainer.facts(explainer.learn(digits.model, context), context)
    assert (loop["trusted"], stroke["trusted"], coin["trusted"]) == (True, True, False)
    assert min(loop["accuracy"], stroke["accuracy"]) > 0.7
