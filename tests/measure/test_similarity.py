from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from skimage.metrics import structural_similarity
from torch import Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.randomness import Draws
from veracity.measure import categorical_agreement, cosine, pearson, sorensen_dice, ssim


def maps(count: int, size: int, seed: int = 0, stream: str = "a") -> Tensor:
    return Draws.of(seed, torch.arange(count)).normal(size, stream=stream).double()


def test_cosine_by_hand() -> None:
    a = torch.tensor([[1.0, 0.0], [1.0, 2.0], [1.0, 1.0]])
    b = torch.tensor([[0.0, 3.0], [-2.0, -4.0], [1.0, 0.0]])
    torch.testing.assert_close(cosine(a, b), torch.tensor([0.0, -1.0, math.sqrt(0.5)], dtype=torch.float64))


def test_cosine_of_a_zero_vector_is_undefined() -> None:
    zero, one = torch.zeros(1, 4), torch.ones(1, 4)
    assert cosine(zero, one).isnan().all()
    assert cosine(zero, zero).isnan().all()
    assert cosine(torch.tensor([[math.inf, 1.0]]), torch.ones(1, 2)).isnan().all()


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(torch.float32, 1e-4), (torch.float32, 1e-30), (torch.float32, 1e30), (torch.float64, 1e-200), (torch.float64, 1e300)],
)
def test_cosine_is_free_of_scale(dtype: torch.dtype, scale: float) -> None:
    a, b = maps(50, 64).to(dtype), maps(50, 64, stream="b").to(dtype)
    torch.testing.assert_close(cosine(a * scale, b), cosine(a, b), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(cosine(a * scale, b * scale), cosine(a, b), rtol=1e-5, atol=1e-5)
    assert cosine(a * scale, b * scale).abs().mean() < 0.2


def test_cosine_of_the_smallest_floats_is_defined() -> None:
    smallest = torch.tensor([[1e-45, 0.0]])
    assert cosine(smallest, torch.tensor([[1e-45, 1e-45]])).item() == pytest.approx(math.sqrt(0.5))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(0, 10_000))
def test_cosine_and_pearson_against_their_definitions(size: int, seed: int) -> None:
    a, b = maps(3, size + 1, seed), maps(3, size + 1, seed, "b")
    for row in range(3):
        x, y = a[row].tolist(), b[row].tolist()
        slow = sum(p * q for p, q in zip(x, y, strict=True)) / math.sqrt(sum(p * p for p in x) * sum(q * q for q in y))
        assert cosine(a, b)[row].item() == pytest.approx(slow, abs=1e-12)
        assert pearson(a, b)[row].item() == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)


def test_cosine_is_differentiable() -> None:
    a, b = maps(2, 5).requires_grad_(), maps(2, 5, stream="b")
    (gradient,) = torch.autograd.grad(cosine(a, b).sum(), a)
    torch.testing.assert_close((gradient * a).sum(dim=1), torch.zeros(2, dtype=torch.float64), atol=1e-12, rtol=0.0)


def test_pearson_ignores_shift_and_positive_scale() -> None:
    a, b = maps(5, 30), maps(5, 30, stream="b")
    torch.testing.assert_close(pearson(3.0 * a + 7.0, b), pearson(a, b))
    torch.testing.assert_close(pearson(-a, b), -pearson(a, b))


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e20, 1e-20])
def test_pearson_of_a_constant_is_undefined(constant: float) -> None:
    assert pearson(torch.full((1, 37), constant), maps(1, 37)).isnan().all()


def test_agreement_by_hand() -> None:
    a = torch.tensor([[1, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]])
    b = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]])
    assert categorical_agreement(a, b).tolist() == [0.75, 0.0, 1.0]
    assert categorical_agreement(a.bool(), b.bool()).tolist() == [0.75, 0.0, 1.0]


def test_agreement_takes_fractions_and_nothing_else() -> None:
    assert categorical_agreement(torch.tensor([[0.25, 1.0]]), torch.tensor([[0.75, 1.0]])).item() == 0.75
    assert categorical_agreement(torch.tensor([[1.0000001, 0.0]]), torch.tensor([[1.0, 0.0]])).item() == pytest.approx(1.0)
    assert categorical_agreement(torch.tensor([[2.0, 0.0]]), torch.tensor([[2.0, 0.0]])).isnan().all()
    assert categorical_agreement(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, -0.5]])).isnan().all()


def slow_dice(a: list[float], b: list[float], seats: int) -> float:
    """Every way to seat tied entries, averaged to degrees of membership, then the smaller degrees summed."""
    degrees = []
    for x in (a, b):
        border = sorted(x, reverse=True)[seats - 1]
        left = seats - sum(value > border for value in x)
        tied = sum(value == border for value in x)
        degrees.append([1.0 if value > border else left / tied if value == border else 0.0 for value in x])
    return 2.0 * sum(min(p, q) for p, q in zip(*degrees, strict=True)) / (sum(degrees[0]) + sum(degrees[1]))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=25), st.floats(0.05, 1.0))
def test_dice_against_the_slow_way(entries: list[tuple[int, int]], fraction: float) -> None:
    a, b = ([float(pair[side]) for pair in entries] for side in (0, 1))
    found = sorensen_dice.using(fraction=fraction)(torch.tensor([a]), torch.tensor([b])).item()
    assert found == pytest.approx(slow_dice(a, b, max(1, round(fraction * len(a)))))


def test_dice_without_ties_is_the_overlap_of_two_sets() -> None:
    a, b = maps(20, 50), maps(20, 50, stream="b")
    for row, found in enumerate(sorensen_dice(a, b).tolist()):
        one, other = (set(np.argsort(x[row].numpy())[-5:].tolist()) for x in (a, b))
        assert found == pytest.approx(2 * len(one & other) / (len(one) + len(other)))


def test_dice_does_not_depend_on_the_order_of_entries() -> None:
    a, b = maps(8, 40).round(), maps(8, 40, stream="b").round()
    order = torch.arange(40).roll(13)
    torch.testing.assert_close(sorensen_dice(a[:, order], b[:, order]), sorensen_dice(a, b))


def test_dice_of_sparse_maps_is_not_saved_by_their_zeros() -> None:
    a, b = torch.zeros(1, 100), torch.zeros(1, 100)
    a[0, 0], b[0, 1] = 1.0, 1.0
    assert sorensen_dice(a, b).item() == pytest.approx((98 * 9 / 99 + 2 * 9 / 99) / 10)
    assert sorensen_dice(a, a).item() == pytest.approx(1.0)


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.5])
def test_dice_needs_a_share(fraction: float) -> None:
    with pytest.raises(SpecError, match="The setting 'fraction' of measure 'sorensen_dice' must be a number above 0 and at most 1"):
        sorensen_dice.using(fraction=fraction)


def ssim_maps(*shape: int, count: int = 5) -> tuple[Tensor, Tensor]:
    draws = Draws.of(2, torch.arange(count))
    a = draws.normal(*shape, stream="a").double()
    return a, a + 0.7 * draws.normal(*shape, stream="b") + 0.2


def test_ssim_by_hand() -> None:
    a, b = torch.tensor([[[0.0, 0.0, 3.0]]]), torch.tensor([[[0.0, 3.0, 3.0]]])
    mean_a, mean_b, var_a, var_b, covariance = 1.0, 2.0, 2.0, 2.0, 1.0
    c1, c2 = (0.01 * 3) ** 2, (0.03 * 3) ** 2
    by_hand = (2 * mean_a * mean_b + c1) * (2 * covariance + c2) / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))
    assert ssim.using(window="uniform", size=3)(a, b).item() == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 13, 19), (2, 31)])
@pytest.mark.parametrize("window", ["gaussian", "uniform"])
@pytest.mark.parametrize("given_range", [None, 5.0])
def test_ssim_is_scikit_images(shape: tuple[int, ...], window: str, given_range: float | None) -> None:
    a, b = ssim_maps(*shape)
    kind = {"gaussian_weights": True} if window == "gaussian" else {"win_size": 7}
    size = 11 if window == "gaussian" else 7
    for row, found in enumerate(ssim.using(window=window, size=size, data_range=given_range)(a, b).tolist()):
        x, y = a[row].numpy(), b[row].numpy()
        span = given_range or max(x.max(), y.max()) - min(x.min(), y.min())
        expected = structural_similarity(x, y, data_range=span, channel_axis=0, use_sample_covariance=False, **kind)
        assert found == pytest.approx(expected, abs=1e-10)


def test_ssim_in_units_of_each_pair_is_free_of_scale() -> None:
    a, b = ssim_maps(1, 16, 16)
    scale = torch.tensor([1e-30, 1e-3, 1.0, 1e3, 1e30], dtype=torch.float64).reshape(-1, 1, 1, 1)
    torch.testing.assert_close(ssim(scale * a, scale * b), ssim(a, b))
    assert not torch.allclose(ssim.using(data_range=1.0)(scale * a, scale * b), ssim.using(data_range=1.0)(a, b))


def test_ssim_without_any_range_is_undefined() -> None:
    flat = torch.full((2, 1, 12, 12), 0.3)
    flat[1, 0, 5, 5] = 1.0
    assert ssim(flat, flat).isnan().tolist() == [True, False]


@pytest.mark.parametrize("size", [1, 4, 13])
def test_ssim_window_must_fit(size: int) -> None:
    with pytest.raises(InputError, match="odd size from 3 up to the map's 12 x 12"):
        ssim.using(size=size)(*ssim_maps(1, 12, 12))


def test_ssim_says_what_it_takes() -> None:
    with pytest.raises(InputError, match=r"\(N, C, H, W\) or series"):
        ssim(torch.ones(2, 30), torch.ones(2, 30))
    with pytest.raises(SpecError, match="'gaussian' or 'uniform', not 'box'"):
        ssim.using(window="box")(*ssim_maps(1, 12, 12))
