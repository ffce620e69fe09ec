from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from concept_cases import context_of, learnt, network, normal, numbers
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.targets import Custom, Neuron
from veracity.explain.concepts.activations import CAV, ConceptSensitivity, gradients_at_layer, tcav_scores
from veracity.testing.explainers import CountingModel, no_trace

X = normal(12, 6, stream="test inputs")
TARGETS = torch.arange(12) % 3


def test_by_hand() -> None:
    """f = (2 h1 + 5 h2, h1 h2): along (3, 4) / 5 at h = (1, 2) the slopes are 5.2 and 2 (.6) + 1 (.8) = 2."""

    class Head(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            return torch.stack((2 * h[:, 0] + 5 * h[:, 1], h[:, 0] * h[:, 1]), dim=1)

    known = {"weights": torch.tensor([[30.0, 40.0], [0.0, -7.0]], dtype=torch.float64), "trusted": torch.tensor([True, True])}
    x = torch.tensor([[1.0, 2.0], [1.0, 2.0]])
    context = replace(context_of(None, 2), learnt=known)
    found = ConceptSensitivity(layer="0").explain(nn.Sequential(nn.Identity(), Head()), x, torch.tensor([0, 1]), context)
    torch.testing.assert_close(found, torch.tensor([[5.2, -5.0], [2.0, -1.0]]))


@pytest.mark.parametrize("layer", ["0", "1", "2", "3"])
def test_against_finite_differences_and_one_pass_a_concept(layer: str) -> None:
    """(f(h + t v) - f(h - t v)) / 2 t, and a gradient for each concept and row on its own."""
    model, explainer = network(), ConceptSensitivity(layer=layer, per_side=60)
    context = learnt(explainer, model, context_of(numbers(), len(X)))
    found = explainer.explain(model, X, TARGETS, context)
    tail, index = model[int(layer) + 1 :], context.learnt["trusted"].nonzero()[:, 0]
    h = model[: int(layer) + 1](X).detach()
    assert found.shape == (12, len(index))
    for column, concept in enumerate(index):
        v = context.learnt["weights"][concept]
        v = v / v.norm()
        step = 1e-6
        above, below = (tail(h + sign * step * v).detach()[range(12), TARGETS] for sign in (1, -1))
        torch.testing.assert_close(found[:, column], (above - below) / (2 * step), rtol=1e-6, atol=1e-8)
        for row in range(12):
            leaf = h[[row]].clone().requires_grad_()
            (slope,) = torch.autograd.grad(tail(leaf.clone())[0, TARGETS[row]], leaf)
            torch.testing.assert_close(found[row, column], (slope[0] * v).sum(), rtol=1e-9, atol=1e-12)


def test_directions_are_the_vectors_of_cav() -> None:
    model, training = network(), numbers()
    same = [kind(layer="1").learn(model, context_of(training))["weights"] for kind in (CAV, ConceptSensitivity)]
    assert torch.equal(*same)


def test_one_pass_each_way_whatever_the_concepts() -> None:
    explainer = ConceptSensitivity(layer="1", per_side=40)
    context = learnt(explainer, network(), context_of(numbers(), len(X)))
    model = network()
    backward: list[int] = []
    model[4].register_full_backward_hook(lambda _module, _given, made: backward.append(len(made[0])))
    forward: list[int] = []
    model[4].register_forward_hook(lambda _module, _given, made: forward.append(len(made)))
    explainer.explain(model, X, TARGETS, context)
    assert (forward, backward) == ([12], [12])
    assert (explainer.cost(X.shape[1:]).forward, explainer.cost(X.shape[1:]).backward) == (1, 1)


def test_rows_and_batches_are_independent() -> None:
    model, explainer = network(), ConceptSensitivity(layer="1", per_side=40)
    context = learnt(explainer, model, context_of(numbers(), len(X)))
    together = explainer.explain(model, X, TARGETS, context)
    torch.testing.assert_close(explainer.explain(model, X, TARGETS, replace(context, batch=5)), together, rtol=1e-12, atol=1e-14)
    alone = explainer.explain(model, X[[4]], TARGETS[[4]], context)
    torch.testing.assert_close(alone, together[[4]], rtol=1e-12, atol=1e-14)


def test_views_of_the_model() -> None:
    """The score may be a unit of another layer, or any function of the output."""
    model, explainer = network(), ConceptSensitivity(layer="1", per_side=40)
    neuron, custom = Neuron(layer="2", unit=3).view(model), Custom(function=lambda y: y.square().sum(1)).view(model)
    for view, score in ((neuron, lambda h: model[2](h)[:, 3]), (custom, lambda h: model[2:](h).square().sum(1))):
        h = model[:2](X).detach().requires_grad_()
        (expected,) = torch.autograd.grad(score(h).sum(), h)
        targets = torch.full((12,), 3 if view is neuron else 0)
        torch.testing.assert_close(gradients_at_layer(view, "1", X, targets), expected)
        assert explainer.check(view, X, targets, context_of(numbers())) == ()


def test_leaves_no_trace() -> None:
    model, explainer = network(), ConceptSensitivity(layer="1", per_side=40)
    context = learnt(explainer, model, context_of(numbers(), len(X)))
    with no_trace(model, X):
        explainer.check(model, X, TARGETS, context)
        explainer.explain(model, X, TARGETS, context)
        with torch.no_grad():
            explainer.explain(model, X, TARGETS, context)

    class Broken(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            raise RuntimeError("broken")

    broken = nn.Sequential(*network()[:2], Broken())
    with no_trace(broken, X), pytest.raises(RuntimeError, match="broken"):
        explainer.explain(broken, X, TARGETS, context)


def test_a_score_that_does_not_depend_on_the_layer_is_refused() -> None:
    class Beside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(6, 3).double(), nn.Linear(6, 4).double()

        def forward(self, x: Tensor) -> Tensor:
            self.unused(x)
            return self.used(x)

    with pytest.raises(InputError, match="the score does not depend on the layer 'unused'"):
        ConceptSensitivity(layer="unused").check(Beside(), X, TARGETS, context_of(numbers()))


def test_scores_of_a_class_are_shares_and_leave_out_the_undefined() -> None:
    nan = float("nan")
    sensitivities = torch.tensor([[1.0, nan], [2.0, nan], [-1.0, 3.0], [0.0, -1.0], [5.0, 2.0]])
    found = tcav_scores(sensitivities, torch.tensor([0, 0, 2, 2, 2]), classes=3)
    expected = torch.tensor([[1.0, nan], [nan, nan], [1 / 3, 2 / 3]], dtype=torch.float64)
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_a_concept_that_makes_the_class_has_score_one() -> None:
    """A linear head whose class 0 is the first input: its slope along the first concept is positive for every sample."""
    head = nn.Linear(6, 2, bias=False).double()
    with torch.no_grad():
        head.weight.zero_()[0, 0] = 1.0
    model, explainer = nn.Sequential(nn.Identity(), head), ConceptSensitivity(layer="0")
    context = learnt(explainer, model, context_of(numbers(), len(X)))
    found = explainer.explain(model, X, torch.zeros(12, dtype=torch.long), context)
    assert tcav_scores(found, torch.zeros(12), classes=1)[0, 0] == 1.0
    assert found[:, 0].min() > 0.8
    assert CountingModel(model)(X).shape == (12, 2)
