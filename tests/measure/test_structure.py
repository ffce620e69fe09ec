from __future__ import annotations

import pytest
import torch
from skimage.metrics import structural_similarity
from torch import Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.randomness import Draws
from veracity.measure import ssim


def maps(*shape: int, count: int = 5) -> tuple[Tensor, Tensor]:
    draws = Draws.of(2, torch.arange(count))
    a = draws.normal(*shape, stream="a")
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
    a, b = maps(*shape)
    kind = {"gaussian_weights": True} if window == "gaussian" else {"win_size": 7}
    size = 11 if window == "gaussian" else 7
    for row, found in enumerate(ssim.using(window=window, size=size, data_range=given_range)(a, b).tolist()):
        x, y = a[row].numpy(), b[row].numpy()
        span = given_range or max(x.max(), y.max()) - min(x.min(), y.min())
        expected = structural_similarity(x, y, data_range=span, channel_axis=0, use_sample_covariance=False, **kind)
        assert found == pytest.approx(expected, abs=1e-10)


def test_ssim_in_units_of_each_pair_is_free_of_scale() -> None:
    a, b = maps(1, 16, 16)
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
        ssim.using(size=size)(*maps(1, 12, 12))


def test_ssim_says_what_it_takes() -> None:
    with pytest.raises(InputError, match=r"\(N, C, H, W\) or series"):
        ssim(torch.ones(2, 30), torch.ones(2, 30))
    with pytest.raises(SpecError, match="'gaussian' or 'uniform', not 'box'"):
        ssim.using(window="box")(*maps(1, 12, 12))
