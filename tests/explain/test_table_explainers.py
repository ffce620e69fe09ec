"""Explainers of tables: groups of values are removed together, and baselines are the table's reference."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import pytest
import torch
from shift_invariant import context_of, explain
from torch import Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.features import Features, group_sums
from veracity.explain import (
    DeepLift,
    FeatureAblation,
    FeaturePermutation,
    GradientShap,
    IntegratedGradients,
    KernelShap,
    Lime,
    Occlusion,
    Precomputed,
    SmoothGrad,
)

GROUPS = torch.tensor([0, 1, 1, 2, 3, 3])
BACKGROUND = torch.tensor(
    [[1.0, 1.0, 0.0, 3.0, 0.0, 1.0], [2.0, 1.0, 0.0, 5.0, 1.0, 0.0], [9.0, 0.0, 1.0, 1.0, 1.0, 0.0]], dtype=torch.float64
)
TABLE = Features.measured(BACKGROUND, names=["age", "job", "hours", "town"], groups=GROUPS)
X = torch.tensor([[4.0, 0.0, 1.0, 2.0, 0.0, 1.0], [0.5, 1.0, 0.0, 7.0, 1.0, 0.0]], dtype=torch.float64)
TARGETS = torch.tensor([0, 0])


class Interactions(nn.Module):
    """f(x) = x0 x2 + x1 x3 x5 - x4 + x3², which no sum of single features gives."""

    def forward(self, x: Tensor) -> Tensor:
        return (x[:, 0] * x[:, 2] + x[:, 1] * x[:, 3] * x[:, 5] - x[:, 4] + x[:, 3] ** 2)[:, None]


def value(present: tuple[int, ...], row: Tensor) -> float:
    kept = torch.isin(GROUPS, torch.tensor(present, dtype=torch.long))
    return float(Interactions()(torch.where(kept, row, TABLE.centre())[None])[0, 0])


def shapley(row: Tensor) -> list[float]:
    """The exact Shapley values of the four features, from their definition."""
    found = []
    for feature in range(4):
        others = [one for one in range(4) if one != feature]
        total = 0.0
        for size in range(4):
            for some in combinations(others, size):
                share = factorial(size) * factorial(3 - size) / factorial(4)
                total += share * (value((*some, feature), row) - value(some, row))
        found.append(total)
    return found


def test_kernel_shap_gives_the_exact_shapley_values_of_groups() -> None:
    explainer = KernelShap().over(TABLE)
    maps = explain(explainer, Interactions(), X, TARGETS)
    sums = group_sums(maps, GROUPS)
    for row, own in zip(X, sums, strict=True):
        assert own.tolist() == pytest.approx(shapley(row), abs=1e-9)
    assert torch.equal(maps[:, 1], maps[:, 2]), "the columns of a feature share its value in equal parts"
    assert explainer.cost(X.shape[1:]).forward == 2 + 2**4 - 2


def test_ablation_removes_a_feature_as_one() -> None:
    """By hand: f(x) - f(x with all columns of the feature at the reference)."""
    for explainer in (FeatureAblation().over(TABLE), Occlusion().over(TABLE)):
        sums = group_sums(explain(explainer, Interactions(), X, TARGETS), GROUPS)
        for row, own in zip(X, sums, strict=True):
            whole = value((0, 1, 2, 3), row)
            slow = [whole - value(tuple(one for one in range(4) if one != feature), row) for feature in range(4)]
            assert own.tolist() == pytest.approx(slow, abs=1e-9)


def test_permutation_takes_all_columns_of_a_feature_from_one_row() -> None:
    """With a single reference row it is an ablation with that row as the baseline."""
    one = BACKGROUND[2:]
    found = explain(FeaturePermutation(reference_set=one, groups=GROUPS), Interactions(), X, TARGETS)
    expected = explain(FeatureAblation(baseline=one[0], groups=GROUPS), Interactions(), X, TARGETS)
    torch.testing.assert_close(found, expected)
    assert torch.equal(FeaturePermutation().over(TABLE).reference_set, BACKGROUND)


def test_lime_has_one_coefficient_per_feature() -> None:
    """Of a linear function of presences, the coefficients are those of the ablation."""
    linear = nn.Linear(6, 1, bias=False, dtype=torch.float64)
    maps = group_sums(explain(Lime(samples=400, ridge=1e-6).over(TABLE), linear, X, TARGETS), GROUPS)
    exact = group_sums(explain(FeatureAblation().over(TABLE), linear, X, TARGETS), GROUPS)
    torch.testing.assert_close(maps, exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [IntegratedGradients, DeepLift])
def test_gradients_start_from_the_reference(kind: type[IntegratedGradients] | type[DeepLift]) -> None:
    net = nn.Sequential(nn.Linear(6, 4, dtype=torch.float64), nn.ReLU(), nn.Linear(4, 1, dtype=torch.float64))
    maps = kind().over(TABLE).explain(net, X, TARGETS, context_of(2)).detach()
    gap = (net(X) - net(TABLE.centre()[None]))[:, 0].detach()
    torch.testing.assert_close(maps.sum(1), gap, rtol=1e-2, atol=1e-2)


def test_what_the_user_gave_stays() -> None:
    assert FeatureAblation(baseline=1.0).over(TABLE).baseline == 1.0
    own = torch.tensor([0, 0, 0, 1, 1, 1])
    assert torch.equal(KernelShap(groups=own).over(TABLE).groups, own)
    torch.testing.assert_close(KernelShap(baseline="median").over(TABLE).baseline, TABLE.centre("median"))


def test_without_a_table_the_baseline_is_zero_and_the_spec_as_before() -> None:
    for kind in (FeatureAblation, Occlusion, KernelShap, Lime, IntegratedGradients, DeepLift):
        found = kind().over(None)
        assert found.spec()["baseline"] == 0.0
        assert "groups" not in found.spec()
        torch.testing.assert_close(explain(kind(), linear(), X, TARGETS), explain(found, linear(), X, TARGETS))


def linear() -> nn.Module:
    net = nn.Linear(6, 1, bias=False, dtype=torch.float64)
    nn.init.ones_(net.weight)
    return net


def test_explainers_inside_others_are_told_too() -> None:
    inside = Precomputed(maps=torch.zeros(2, 6), explainer=KernelShap()).over(TABLE).explainer
    assert isinstance(inside, KernelShap)
    assert inside.groups is not None


def test_noise_of_gradients_is_in_column_scales() -> None:
    assert torch.equal(SmoothGrad(noise=0.5).over(TABLE).sigma, 0.5 * TABLE.scales)  # type: ignore[arg-type]
    assert torch.equal(GradientShap().over(TABLE).baselines, BACKGROUND)  # type: ignore[arg-type]
    spread = SmoothGrad().over(TABLE).spread(X)
    assert spread[:, [1, 2, 4, 5]].abs().max() == 0.0


def test_mistakes_are_told() -> None:
    with pytest.raises(SpecError, match="groups of kernel_shap must be the number of the feature"):
        KernelShap(groups=torch.tensor([0, 2])).check(linear(), X, TARGETS)
    with pytest.raises(SpecError, match="'mean' of feature_ablation is known for tables with names only"):
        FeatureAblation(baseline="mean").check(linear(), X, TARGETS)
