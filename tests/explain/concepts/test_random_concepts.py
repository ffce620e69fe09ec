from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from concept_cases import context_of, learnt, network, normal, numbers

from veracity.core.errors import InputError
from veracity.core.explainers import Cost, Frame
from veracity.explain.controls import ConceptControl, RandomConcepts, RandomSensitivities
from veracity.measure import categorical_agreement, cosine

X = normal(2000, 6)
TARGETS = torch.zeros(2000, dtype=torch.long)


def test_fair_independent_bits() -> None:
    control, model = RandomConcepts(), network()
    assert (control.frame, control.categorical, control.stochastic, control.control) == (Frame.CONCEPTS, True, True, True)
    assert control.cost(X.shape[1:]) == Cost()
    first, again, other = (
        control.explain(model, X, TARGETS, learnt(control, model, context_of(numbers(), 2000, draw=draw))) for draw in (0, 0, 1)
    )
    assert first.shape == (2000, 3)
    assert set(first.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(first, again)
    assert (first.mean(0) - 0.5).abs().max() < 0.05
    assert abs(float(categorical_agreement(first, other).mean()) - 0.5) < 0.03


def test_gaussian_sensitivities() -> None:
    """Two vectors of three independent normal numbers: their cosine is uniform on [-1, 1], so of mean 0 and variance 1/3."""
    control, model = RandomSensitivities(), network()
    assert (control.frame, control.categorical, control.stochastic, control.control) == (Frame.CONCEPTS, False, True, True)
    assert (control.signed, control.structured, control.cost(X.shape[1:])) == (True, True, Cost())
    first, again, other = (
        control.explain(model, X, TARGETS, learnt(control, model, context_of(numbers(), 2000, draw=draw))) for draw in (0, 0, 1)
    )
    assert first.shape == (2000, 3)
    assert torch.equal(first, again)
    assert first.mean(0).abs().max() < 0.08
    assert (first.std(0) - 1).abs().max() < 0.06
    found = cosine(first, other)
    assert abs(float(found.mean())) < 0.05
    assert abs(float(found.var()) - 1 / 3) < 0.03


@pytest.mark.parametrize("kind", [RandomConcepts, RandomSensitivities])
def test_rows_keep_their_numbers(kind: type[ConceptControl]) -> None:
    control, model = kind(), network()
    context = learnt(control, model, context_of(numbers(), 2000))
    alone = control.explain(model, X[7:9], TARGETS[7:9], replace(context, draws=context.draws[7:9]))
    assert torch.equal(alone, control.explain(model, X, TARGETS, context)[7:9])


@pytest.mark.parametrize("kind", [RandomConcepts, RandomSensitivities])
def test_misuse_is_one_sentence(kind: type[ConceptControl]) -> None:
    with pytest.raises(InputError, match=f"{kind.name} needs concepts"):
        kind().check(network(), X, TARGETS, context_of(replace(numbers(), concepts={})))
    with pytest.raises(InputError, match=f"{kind.name} must learn about the model first"):
        kind().explain(network(), X, TARGETS, context_of(numbers(), 2000))
