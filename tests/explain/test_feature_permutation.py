from __future__ import annotations

import pytest
import torch
from shift_invariant import context_of, explain
from torch import nn

from veracity.core.errors import SpecError
from veracity.explain import FeatureAblation, FeaturePermutation

REFERENCE = torch.randn(9, 2, 3, generator=torch.Generator().manual_seed(1))
X = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0))
TARGETS = torch.tensor([0, 1, 0, 1])


@pytest.fixture
def net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2))


def test_the_slow_loop(net: nn.Module) -> None:
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
        match=r"feature_permutation needs a reference set: pass Audit\(reference=...\) or FeaturePermutation\(reference_set=...\).",
    ):
        bare.bind(None).check(net, X, TARGETS)
    assert bare.bind(REFERENCE).reference_set is REFERENCE
    assert FeaturePermutation(reference_set=X).bind(REFERENCE).reference_set is X
    assert bare.bind(REFERENCE).spec()["reference_set"]["shape"] == [9, 2, 3]
    with pytest.raises(SpecError, match=r"has shape \(9, 6\), but must be inputs of shape \(2, 3\)"):
        bare.bind(REFERENCE.flatten(1)).check(net, X, TARGETS)
