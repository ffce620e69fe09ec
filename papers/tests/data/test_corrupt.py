from __future__ import annotations

import pytest
import torch
from torch.nn.functional import interpolate

from veracity.core.errors import InputError, SpecError
from veracity.core.randomness import Draws
from veracity_papers.data.cifar import KINDS, WIDTHS, corrupt

X = interpolate(torch.rand(5, 3, 5, 5, generator=torch.Generator().manual_seed(0)), (16, 16), mode="bilinear")


@pytest.mark.parametrize("kind", list(KINDS))
def test_corruptions_keep_the_range_grow_with_severity_and_leave_the_input(kind: str) -> None:
    before = X.clone()
    damage = []
    for severity in range(1, 6):
        out = corrupt(X, kind, severity)
        assert out.shape == X.shape
        assert 0.0 <= float(out.min()) <= float(out.max()) <= 1.0
        damage.append(float((out - X).abs().mean()))
    assert damage == sorted(damage)
    assert damage[0] > 0.002
    assert torch.equal(X, before)


@pytest.mark.parametrize("kind", list(KINDS))
def test_an_images_corruption_does_not_depend_on_the_batch(kind: str) -> None:
    draws = Draws.of(7, torch.arange(5))
    whole = corrupt(X, kind, 3, draws)
    assert torch.allclose(corrupt(X[3:], kind, 3, draws[torch.tensor([3, 4])]), whole[3:], atol=1e-6)


def test_the_noise_belongs_to_seed_sample_and_draw() -> None:
    grey = torch.full((4, 1, 20, 20), 0.5)
    one = corrupt(grey, "gaussian_noise", 2, Draws.of(0, torch.arange(4)))
    assert torch.equal(one, corrupt(grey, "gaussian_noise", 2))
    assert not torch.equal(one, corrupt(grey, "gaussian_noise", 2, Draws.of(1, torch.arange(4))))
    assert not torch.equal(one[0], one[1])
    assert float((one - 0.5).std()) == pytest.approx(0.06, rel=0.1)


def test_contrast_and_pixelate_by_hand() -> None:
    image = torch.tensor([[[[0.0, 0.0, 1.0, 1.0]] * 4]])
    assert torch.allclose(corrupt(image, "contrast", 3), torch.tensor([[[[0.3, 0.3, 0.7, 0.7]] * 4]]))
    ramp = torch.tensor([[[[0.0, 0.2, 0.4, 0.6, 0.8]] * 5]])
    assert torch.allclose(corrupt(ramp, "pixelate", 1), torch.tensor([[[[0.1, 0.1, 0.5, 0.5, 0.8]] * 5]]))


def test_blur_against_a_sum_over_places() -> None:
    width, size, reach = WIDTHS[1], 6, 2
    image = torch.rand(1, 1, size, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def mirrored(place: int) -> int:
        place = abs(place)
        return place if place < size else 2 * (size - 1) - place

    weights = [2.718281828459045 ** (-0.5 * (step / width) ** 2) for step in range(-reach, reach + 1)]
    slow = torch.zeros(size, size, dtype=torch.float64)
    for row in range(size):
        for column in range(size):
            for a in range(-reach, reach + 1):
                for b in range(-reach, reach + 1):
                    weight = weights[a + reach] * weights[b + reach] / sum(weights) ** 2
                    slow[row, column] += weight * image[0, 0, mirrored(row + a), mirrored(column + b)]
    assert torch.allclose(corrupt(image, "blur", 2)[0, 0], slow, atol=1e-12)


def test_misuse_is_one_sentence() -> None:
    with pytest.raises(SpecError, match=r"Unknown corruption 'fog'"):
        corrupt(X, "fog", 1)
    with pytest.raises(InputError, match="severity is a whole number from 1 to 5, not 6"):
        corrupt(X, "blur", 6)
    with pytest.raises(InputError, match=r"need images \(N, C, H, W\) in floating point"):
        corrupt((X * 255).byte(), "blur", 1)
