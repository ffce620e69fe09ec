from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from shift_invariant import context_of, explain
from torch import Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import Cost, Frame
from veracity.explain import FeaturePermutation, Gradient, Precomputed, RandomUniform, Saliency, SmoothGrad, as_explainer

X, TARGETS = torch.arange(12.0).reshape(4, 3), torch.tensor([0, 1, 0, 1])


@pytest.fixture
def net() -> nn.Module:
    linear = nn.Linear(3, 2)
    linear.weight.data = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, -6.0]])
    return linear


def test_maps_alone(net: nn.Module) -> None:
    explainer = Precomputed(maps=X)
    assert explainer.given is not X
    assert torch.equal(explainer.given, X)
    assert explainer.fixed
    assert (explainer.signed, Precomputed(maps=X - 1).signed) == (False, True)
    assert (explainer.frame, explainer.stochastic, explainer.control, explainer.cost(X.shape[1:])) == (Frame.INPUT, False, False, Cost())
    assert explainer.check(net, X[:2], TARGETS[:2]) == ()
    assert explainer.bind(X) is explainer
    assert not explainer.learns
    assert explainer.specialise(net, X, TARGETS) is explainer
    with pytest.raises(InputError, match=r"Scores that explain anything else need the explainer, .*pixel_flipping.* do not"):
        explain(explainer, net, X, TARGETS)


def test_with_an_explainer_everything_else_is_the_explainers(net: nn.Module) -> None:
    for inner in (Gradient(), "gradient", {"name": "gradient"}):
        explainer = Precomputed(maps=X, explainer=inner)
        assert not explainer.fixed
        assert explain(explainer, net, X, TARGETS).tolist() == net.weight.data[TARGETS].tolist()
        assert explainer.cost(X.shape[1:]) == Cost(forward=1, backward=1)
        assert torch.equal(explainer.given, X)
    assert Precomputed(maps=X, explainer=SmoothGrad()).stochastic
    assert Precomputed(maps=X, explainer=RandomUniform()).control
    assert (Precomputed(maps=X, explainer=Saliency()).signed, Precomputed(maps=X, explainer=Gradient()).signed) == (False, True)
    bound = Precomputed(maps=X, explainer=FeaturePermutation()).bind(X)
    assert torch.equal(bound.explainer.reference_set, X)
    assert explain(bound, net, X, TARGETS).shape == X.shape


def test_random_numbers_are_the_explainers_own(net: nn.Module) -> None:
    both = (Precomputed(maps=X, explainer=SmoothGrad(draws=3)), SmoothGrad(draws=3))
    one, other = (explainer.explain(nn.Sequential(net, nn.Tanh()), X / 9, TARGETS, context_of(4, draw=7)) for explainer in both)
    assert torch.equal(one, other)


@pytest.mark.parametrize("value", [X, X.numpy(), X.numpy().astype(np.float64)], ids=["tensor", "array", "float64"])
def test_maps_where_an_explainer_is_expected(value: object) -> None:
    explainer = as_explainer(value)
    assert isinstance(explainer, Precomputed)
    torch.testing.assert_close(explainer.given.float(), X)


def test_other_maps_are_another_explainer() -> None:
    specs = [json.dumps(Precomputed(maps=maps).spec()) for maps in (X, X.clone(), X + 1)]
    assert specs[0] == specs[1] != specs[2]


@pytest.mark.parametrize(
    ("maps", "error", "sentence"),
    [
        (X[:1], InputError, "precomputed has maps for 1 inputs, but there are more"),
        (X[:, :2], InputError, r"have shape \(2,\) each, but an input has shape \(3,\): give maps of the inputs' shape"),
        (None, SpecError, r"precomputed needs maps, a real tensor \(samples, ...\) .* not NoneType"),
        (X[0], SpecError, r"not shape \(3,\)"),
        (X + 0j, SpecError, "precomputed needs maps, a real tensor"),
    ],
    ids=["too few", "another shape", "none", "no samples", "complex"],
)
def test_misuse_raises(net: nn.Module, maps: Tensor | None, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        Precomputed(maps=maps).check(net, X[:2], TARGETS[:2])


def test_what_the_reader_must_know(net: nn.Module) -> None:
    maps = X.clone()
    maps[3, 0] = torch.nan
    assert Precomputed(maps=maps).check(net, X[:2], TARGETS[:2]) == ("The maps of precomputed contain NaN or infinity.",)
    with pytest.raises(SpecError, match="'explainer' of explainer 'precomputed' must be an Explainer"):
        Precomputed(maps=X, explainer=len)


def test_rows_that_just_count_are_not_compared() -> None:
    maps = pd.DataFrame(X.numpy(), columns=list("abc"))
    Precomputed(maps=maps).check_order(list("abc"), [2, 0, 3, 1])
    with pytest.raises(InputError, match="Row 0 of the explanations is called 1, and row 0 of the inputs 2"):
        Precomputed(maps=maps.loc[[1, 0, 3, 2]]).check_order(list("abc"), [2, 0, 3, 1])
