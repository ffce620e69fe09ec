from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from veracity.core.errors import InputError
from veracity.inputs import ImageInputs, Scaling

PIXELS = np.arange(2 * 5 * 6 * 3, dtype=np.uint8).reshape(2, 5, 6, 3)


def test_pixels_are_scaled_per_channel() -> None:
    scaling = Scaling(mean=(0.5, 0.25, 0.0), std=(0.5, 1.0, 2.0))
    found = ImageInputs(PIXELS, scaling).take(torch.tensor([1])).values
    expected = (PIXELS[1].astype(np.float32) / 255 - np.array([0.5, 0.25, 0.0])) / np.array([0.5, 1.0, 2.0])
    assert found.shape == (1, 3, 5, 6)
    assert np.allclose(found[0].numpy(), expected.transpose(2, 0, 1), atol=1e-6)


@pytest.mark.parametrize(
    ("images", "channels"),
    [
        (PIXELS, None),
        (PIXELS.transpose(0, 3, 1, 2), None),
        (torch.tensor(PIXELS), "last"),
        (torch.tensor(PIXELS).permute(0, 3, 1, 2), "first"),
    ],
)
def test_channels_may_be_first_or_last(images: Any, channels: Any) -> None:
    found = ImageInputs(images, channels=channels).take(torch.arange(2)).values
    assert torch.equal(found, torch.tensor(PIXELS).permute(0, 3, 1, 2).float() / 255)


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (np.zeros((2, 5, 6)), r"type uint8 and shape .* not float64 \(2, 5, 6\)"),
        (np.zeros((2, 3, 6, 3), dtype=np.uint8), "may have their channels first or last: pass channels='first' or 'last'"),
        (np.zeros((0, 5, 6), dtype=np.uint8), "There are no images"),
        ([1, 2], "not list"),
    ],
)
def test_bad_images(images: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        ImageInputs(images)


def test_a_scaling_for_other_channels() -> None:
    with pytest.raises(InputError, match="The scaling has 2 numbers in mean, and the images have 3 channels"):
        ImageInputs(PIXELS, Scaling(mean=(0.1, 0.2)))
