from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shift_invariant import Digits, context_of, explain
from torch import Tensor, nn

from veracity.core.errors import SpecError
from veracity.explain import FeatureAblation, FeaturePermutation, Occlusion
from veracity.explain.ablation import circular_windows, window_mean


def slow(model: nn.Module, x: Tensor, target: int, window: int, baseline: float) -> Tensor:
    """One input, window by window, position by position."""
    _, height, width = x.shape
    total, count = torch.zeros(height, width), torch.zeros(height, width)
    full = model(x[None])[0, target]
    for top in range(height):
        for left in range(width):
            rows = [(top + i) % height for i in range(window)]
            columns = [(left + j) % width for j in range(window)]
            hidden = x.clone()
            for i in rows:
                hidden[:, i, columns] = baseline
            loss = full - model(hidden[None])[0, target]
            for i in rows:
                total[i, columns] += loss
                count[i, columns] += 1
    assert (count == window**2).all()
    return total / count


def test_the_slow_loop(digits: Digits) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)), torch.randn(2, 2, 5, 6)
    targets = torch.tensor([2, 0])
    found = Occlusion(window=3, baseline=0.4).explain(model, x, targets, context_of(2, batch=7))
    with torch.no_grad():
        for row in range(2):
            expected = slow(model, x[row], int(targets[row]), 3, 0.4)
            torch.testing.assert_close(found[row], expected.expand(2, 5, 6), rtol=1e-4, atol=1e-6)


def test_a_series_by_hand() -> None:
    """f = Σ x, window 2: each position shares half of its two windows' sums."""
    x = torch.tensor([[[1.0, 2.0, 4.0, 8.0]]])

    class Sum(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sum((1, 2))[:, None]

    found = explain(Occlusion(window=2), Sum(), x, torch.tensor([0]))
    assert found.tolist() == [[[6.0, 4.5, 9.0, 10.5]]]


def test_features_without_space_are_hidden_one_by_one() -> None:
    linear = nn.Linear(4, 1, bias=False)
    linear.weight.data = torch.tensor([[1.0, 2.0, 4.0, 8.0]])
    found = explain(Occlusion(window=2), linear, torch.ones(1, 4), torch.tensor([0]))
    assert found.tolist() == [[1.0, 2.0, 4.0, 8.0]]


def test_a_window_of_one_is_ablation_of_single_channels(digits: Digits) -> None:
    x, targets = digits.inputs[:2], digits.targets[:2]
    one, other = (explain(explainer, digits.model, x, targets) for explainer in (Occlusion(window=1), FeatureAblation()))
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(size=st.integers(1, 9), data=st.data())
def test_every_position_lies_in_as_many_windows(size: int, data: st.DataObject) -> None:
    window = data.draw(st.integers(1, size))
    inside = circular_windows(size, window)
    assert (inside.sum(0) == window).all()
    assert (inside.sum(1) == window).all()
    values = torch.randn(2, size, generator=torch.Generator().manual_seed(size), dtype=torch.float64)
    expected = torch.stack([values[:, inside[:, i]].mean(1) for i in range(size)], dim=1)
    torch.testing.assert_close(window_mean(values, window, 1), expected)


def test_misuse_raises(digits: Digits) -> None:
    with pytest.raises(SpecError, match=r"window of occlusion is 13, larger than the input's size \(12, 12\)"):
        Occlusion(window=13).check(digits.model, digits.inputs, digits.targets)
    with pytest.raises(SpecError, match="'window' of explainer 'occlusion' must be a whole number"):
        Occlusion(window=0)


REFERENCE = torch.randn(9, 2, 3, generator=torch.Generator().manual_seed(1))
X = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0))
TARGETS = torch.tensor([0, 1, 0, 1])


@pytest.fixture
def net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2))


def test_permutation_is_the_slow_loop(net: nn.Module) -> None:
    context = context_of(4, batch=5)
    found = FeaturePermutation(reference_set=REFERENCE, draws=3).explain(net, X, TARGETS, context).flatten(1)
    chosen = context.draws.integers(9, 18, stream="feature_permutation").reshape(4, 3, 6)
    with torch.no_grad():
        for row in range(4):
            for place in range(6):
                losses = []
                for k in range(3):
                    changed = X[row].clone()
                    changed.view(-1)[place] = REFERENCE[chosen[row, k, place]].view(-1)[place]
                    losses.append((net(X[[row]]) - net(changed[None]))[0, TARGETS[row]])
                assert float(torch.stack(losses).mean()) == pytest.approx(float(found[row, place]), abs=1e-5)


def test_many_draws_are_the_mean_over_the_reference_set(net: nn.Module) -> None:
    exact = torch.stack([explain(FeatureAblation(baseline=row), net, X, TARGETS) for row in REFERENCE]).mean(0)
    found = explain(FeaturePermutation(reference_set=REFERENCE, draws=3000), net, X, TARGETS)
    torch.testing.assert_close(found, exact, rtol=0, atol=0.05)


def test_the_reference_set_is_explicit(net: nn.Module) -> None:
    bare = FeaturePermutation()
    with pytest.raises(
        SpecError,
        match=r"feature_permutation needs a reference set: use Audit\(reference=...\) or FeaturePermutation\(reference_set=...\).",
    ):
        bare.bind(None).check(net, X, TARGETS)
    assert bare.bind(REFERENCE).reference_set is REFERENCE
    assert FeaturePermutation(reference_set=X).bind(REFERENCE).reference_set is X
    assert bare.bind(REFERENCE).spec()["reference_set"]["shape"] == [9, 2, 3]
    with pytest.raises(SpecError, match=r"has shape \(9, 6\), but must be inputs of shape \(2, 3\)"):
        bare.bind(REFERENCE.flatten(1)).check(net, X, TARGETS)
