from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from concept_cases import context_of, learnt, network, normal, numbers

from veracity.core.errors import InputError
from veracity.core.explainers import Cost, Frame
from veracity.explain.concept import RandomConcepts
from veracity.measure import categorical_agreement

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


def test_rows_keep_their_bits() -> None:
    control, model = RandomConcepts(), network()
    context = learnt(control, model, context_of(numbers(), 2000))
    alone = control.explain(model, X[7:9], TARGETS[7:9], replace(context, draws=context.draws[7:9]))
    assert torch.equal(alone, control.explain(model, X, TARGETS, context)[7:9])


def test_misuse_is_one_sentence() -> None:
    with pytest.raises(InputError, match="random_concepts needs concepts"):
        RandomConcepts().check(network(), X, TARGETS, context_of(replace(numbers(), concepts={})))
    with pytest.raises(InputError, match="random_concepts has learnt nothing yet"):
        RandomConcepts().explain(network(), X, TARGETS, context_of(numbers(), 2000))
