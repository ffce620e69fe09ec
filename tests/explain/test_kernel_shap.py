from __future__ import annotations

from itertools import combinations
from math import factorial

import captum.attr
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shift_invariant import Digits, context_of, explain
from torch import Tensor, nn

from veracity.core.explainers import Context
from veracity.core.randomness import Draws
from veracity.explain import KernelShap
from veracity.explain.kernel_shap import all_coalitions, coalition_count, patch_coalitions, shapley_regression
from veracity.explain.masking import patch_index


def brute_force(value: dict[frozenset[int], float], players: int) -> list[float]:
    """Shapley values by their definition."""
    found = []
    for player in range(players):
        others = [other for other in range(players) if other != player]
        total = 0.0
        for size in range(players):
            weight = factorial(size) * factorial(players - size - 1) / factorial(players)
            total += sum(weight * (value[frozenset(s) | {player}] - value[frozenset(s)]) for s in combinations(others, size))
        found.append(total)
    return found


def game(model: nn.Module, x: Tensor, target: int, numbers: Tensor, players: int) -> dict[frozenset[int], float]:
    coalitions = [frozenset(s) for size in range(players + 1) for s in combinations(range(players), size)]
    kept = torch.stack([torch.tensor([p in s for p in range(players)])[numbers] for s in coalitions])
    with torch.no_grad():
        scores = model(kept[:, None] * x)[:, target]
    return {s: float(score) for s, score in zip(coalitions, scores, strict=True)}


def test_few_patches_are_exact(digits: Digits) -> None:
    """Four patches: all 14 coalitions, the values of the definition, whatever the draw."""
    explainer, x = KernelShap(patch=6), digits.inputs[:3]
    numbers = patch_index(x[0].shape, 6)
    found = explain(explainer, digits.model, x, digits.targets[:3])
    for row in range(3):
        truth = brute_force(game(digits.model, x[row], int(digits.targets[row]), numbers, 4), 4)
        for player in range(4):
            assert found[row, 0][numbers == player].tolist() == pytest.approx([truth[player]] * 36, abs=1e-4)
    assert torch.equal(found, explain(explainer, digits.model, x, digits.targets[:3], draw=5))
    assert explainer.cost(x[0].shape).forward == 16


def test_eight_patches_are_exact() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 2)).double(), torch.randn(2, 8).double()
    found = explain(KernelShap(patch=1, samples=254), model, x, torch.tensor([0, 1]))
    for row in range(2):
        assert found[row].tolist() == pytest.approx(definition(model, x[row], row), abs=1e-9)


def definition(model: nn.Module, x: Tensor, target: int) -> list[float]:
    coalitions = [frozenset(s) for size in range(9) for s in combinations(range(8), size)]
    kept = torch.tensor([[p in s for p in range(8)] for s in coalitions])
    with torch.no_grad():
        scores = model(kept * x)[:, target]
    return brute_force({s: float(score) for s, score in zip(coalitions, scores, strict=True)}, 8)


@pytest.mark.parametrize("explainer", [KernelShap(), KernelShap(patch=1), KernelShap(patch=12), KernelShap(patch=2, baseline=0.2)])
def test_values_always_add_up(digits: Digits, explainer: KernelShap) -> None:
    """Σ over patches = f(x) - f(baseline), with enough samples and with too few."""
    x, targets = digits.inputs[:4], digits.targets[:4]
    found = explain(explainer, digits.model, x, targets)
    numbers = patch_index(x[0].shape, explainer.patch).flatten()
    firsts = torch.stack([(numbers == number).nonzero()[0, 0] for number in numbers.unique()])
    with torch.no_grad():
        gap = (digits.model(x) - digits.model(torch.full_like(x, explainer.baseline or 0.0))).gather(1, targets[:, None]).squeeze(1)
    torch.testing.assert_close(found.flatten(1)[:, firsts].sum(1), gap, rtol=1e-4, atol=1e-4)


def test_more_samples_come_closer(digits: Digits) -> None:
    """Nine patches: 510 coalitions are exact; sampled values approach them."""
    x, targets = digits.inputs[:4], digits.targets[:4]
    exact = explain(KernelShap(samples=510), digits.model, x, targets)
    errors = [float((explain(KernelShap(samples=n), digits.model, x, targets) - exact).norm() / exact.norm()) for n in (20, 100, 500)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.15


@pytest.mark.filterwarnings("ignore")
def test_captums_in_the_limit(digits: Digits) -> None:
    x, targets = digits.inputs[:1], digits.targets[:1]
    numbers = patch_index(x[0].shape, 4)
    exact = explain(KernelShap(samples=510), digits.model, x, targets)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        theirs = captum.attr.KernelShap(digits.model).attribute(
            x, target=targets, feature_mask=numbers[None, None], n_samples=1500, perturbations_per_eval=500
        )
    assert float((theirs - exact).norm() / exact.norm()) < 0.12


def test_coalitions_come_in_pairs_with_the_kernels_sizes() -> None:
    masks = patch_coalitions(context_of(1).draws, patches=6, samples=40_000)[0]
    assert torch.equal(masks[::2], ~masks[1::2])
    sizes = masks.sum(1)
    share = torch.bincount(sizes, minlength=7)[1:6] / len(masks)
    expected = torch.tensor([1 / (k * (6 - k)) for k in range(1, 6)])
    torch.testing.assert_close(share, (expected / expected.sum()).float(), rtol=0, atol=0.01)
    torch.testing.assert_close(masks.float().mean(0), torch.full((6,), 0.5), rtol=0, atol=0.01)
    assert patch_coalitions(context_of(2).draws, patches=2, samples=5).shape == (2, 5, 2)


def test_kernel_weights_by_hand() -> None:
    masks, weights = all_coalitions(4)
    assert len(masks) == 14
    assert {int(mask.sum()): round(float(weight), 6) for mask, weight in zip(masks, weights, strict=True)} == {1: 0.25, 2: 0.125, 3: 0.25}


@settings(max_examples=30, deadline=None)
@given(players=st.integers(2, 6), seed=st.integers(0, 99))
def test_the_regression_over_all_coalitions_is_shapley(players: int, seed: int) -> None:
    masks, weights = all_coalitions(players)
    value = torch.randn(2**players, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    number = (masks.long() << torch.arange(players)).sum(1)
    gains, total, counts = value[number][None] - value[0], (value[-1] - value[0])[None], torch.tensor([players])
    fitted = shapley_regression(masks.double()[None], gains, weights[None], total, counts)
    table = {frozenset(p for p in range(players) if index >> p & 1): float(value[index]) for index in range(2**players)}
    assert fitted[0].tolist() == pytest.approx(brute_force(table, players), abs=1e-9)


def test_too_few_samples_are_reported(digits: Digits) -> None:
    (note,) = KernelShap(patch=1).check(digits.model, digits.inputs, digits.targets)
    assert note == (
        "kernel_shap estimates the values of 144 patches from 200 samples, fewer than two for each: use a larger patch or more samples."
    )
    assert KernelShap().check(digits.model, digits.inputs, digits.targets) == ()
    assert KernelShap(patch=6, samples=14).check(digits.model, digits.inputs, digits.targets) == ()
    assert coalition_count(100, 200) == 200


def test_too_few_samples_for_a_text_are_more_samples_alone() -> None:
    gates, model, target = torch.ones(1, 9), torch.nn.Linear(9, 2), torch.tensor([0])
    (note,) = KernelShap(samples=10).check(model, gates, target, Context(Draws.of(0, torch.arange(1)), 8, present=gates > 0))
    assert note == "kernel_shap estimates the values of 9 words or tokens from 10 samples, fewer than two for each: use more samples."
    (note,) = KernelShap(samples=10).check(model, gates, target)
    assert note.endswith("9 features from 10 samples, fewer than two for each: use more samples.")
