"""Tensors as small PNG pictures inside the page.

Signed maps use two hues whose opacity grows with the magnitude: zero is the page itself, light or dark. The scale is
symmetric about zero and linear.
"""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

Array = NDArray[np.float64]

POSITIVE = (209, 52, 70)
NEGATIVE = (43, 117, 208)
MISSING = (128, 128, 128)
SATURATION = 99.5
LIMIT = 128
STEPS = 127
HOLE = 255


def to_array(tensor: Tensor) -> Array:
    """A tensor of any device and type as float64."""
    array: Array = tensor.detach().cpu().double().numpy()
    return array


def reach(*maps: Array) -> float:
    """The magnitude that gets the full colour: the 99.5th percentile of |values| over all maps, so that one pixel hides no other.

    >>> reach(np.array([-2.0, 1.0]), np.array([0.5]))
    1.99
    """
    magnitudes = np.concatenate([np.abs(item[np.isfinite(item)]).ravel() for item in maps])
    if not len(magnitudes):
        return 1.0
    high = float(np.percentile(magnitudes, SATURATION)) or float(magnitudes.max())
    return high if high > 0 else 1.0


def bounds(*arrays: Array) -> tuple[float, float]:
    """The range that inputs share: from 0 to 1 if they keep within it, else from the least to the largest."""
    finite = np.concatenate([array[np.isfinite(array)].ravel() for array in arrays])
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    return (0.0, 1.0) if low >= 0 and 0.5 < high <= 1 else (low, high)


def shrink(image: Array, limit: int = LIMIT) -> Array:
    """Averages over square blocks until neither side of (H, W, ...) is longer than the limit.

    >>> shrink(np.arange(4.0).reshape(1, 4), limit=2)
    array([[0.5, 2.5]])
    """
    block = -(-max(image.shape[:2]) // limit)
    if block <= 1:
        return image
    rows, columns = (np.arange(0, side, block) for side in image.shape[:2])
    total = np.add.reduceat(np.add.reduceat(image, rows, axis=0), columns, axis=1)
    height, width = (np.minimum(block, side - starts) for side, starts in zip(image.shape[:2], (rows, columns), strict=True))
    area = (height[:, None] * width[None, :]).astype(np.float64)
    averaged: Array = total / area.reshape(*area.shape, *[1] * (image.ndim - 2))
    return averaged


def signed_png(values: Array, scale: float) -> str:
    """A map (H, W) in two hues, with `scale` as the magnitude of the full colour."""
    small = shrink(values)
    level = np.clip(np.nan_to_num(small / scale), -1.0, 1.0)
    index = np.where(np.isfinite(small), np.rint(level * STEPS) + STEPS, HOLE).astype(np.uint8)
    image = Image.fromarray(index)
    image.putpalette([*NEGATIVE * STEPS, *POSITIVE * (HOLE - STEPS), *MISSING])
    ramp = np.abs(np.arange(HOLE) - STEPS) / STEPS
    opacity = bytes([*np.rint(255 * ramp).clip(0, 255).astype(np.uint8), 90])
    return encode(image, transparency=opacity)


def grey_png(values: Array, low: float, high: float) -> str:
    """A picture (H, W) in greys, larger is darker, as ink on paper."""
    level = np.clip((shrink(values) - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    return encode(Image.fromarray(np.rint(255 - 235 * np.nan_to_num(level)).astype(np.uint8)))


def colour_png(values: Array, low: float, high: float) -> str:
    """A picture (3, H, W) in its own colours."""
    level = np.clip((shrink(np.moveaxis(values, 0, -1)) - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    return encode(Image.fromarray(np.rint(255 * np.nan_to_num(level)).astype(np.uint8)))


def encode(image: Image.Image, **settings: bytes) -> str:
    """A picture as a data URI."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True, **settings)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
