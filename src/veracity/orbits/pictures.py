"""How inputs are drawn: images, scenes and frame pairs as bytes, clouds as points, series as values; and their thumbnails."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import torch
from torch import Size, Tensor
from torch.nn import functional

from veracity.core.errors import SpecError
from veracity.core.settings import short_repr

THUMBNAIL = 32
"""How large a thumbnail is at most, in pixels."""


class Picture(StrEnum):
    """How an input is drawn."""

    IMAGE = "image"
    SCENE = "scene"
    PAIR = "pair"
    CLOUD = "cloud"
    SERIES = "series"
    NONE = "none"


RASTERS = frozenset({Picture.IMAGE, Picture.SCENE, Picture.PAIR})
"""What is drawn as bytes."""

SHAPES = "an image or a scene (1 or 3, height, width), a pair (2, height, width), a cloud (points, 3), a series (channels, time) or (time,)"


def picture_of(shape: Size, layout: str, window: int | None, given: Any = None) -> Picture:
    """How inputs of this shape are drawn along an orbit of this layout; or as was asked, if that fits.

    >>> picture_of(Size([1, 28, 28]), "polar", None), picture_of(Size([64, 3]), "disk", None), picture_of(Size([5]), "line", None)
    (<Picture.IMAGE: 'image'>, <Picture.CLOUD: 'cloud'>, <Picture.SERIES: 'series'>)
    """
    if given is not None:
        if given not in list(Picture):
            raise SpecError(f"A picture is one of {', '.join(Picture)}, not {short_repr(given)}.")
        if not fits(Picture(given), shape):
            raise SpecError(f"Inputs of shape {tuple(shape)} cannot be drawn as '{given}': {SHAPES}.")
        return Picture(given)
    first = Picture.SCENE if window is not None else {"tiles": Picture.PAIR, "disk": Picture.CLOUD}.get(layout, Picture.IMAGE)
    return next(kind for kind in (first, Picture.IMAGE, Picture.SERIES, Picture.NONE) if fits(kind, shape))


def fits(kind: Picture, shape: Size) -> bool:
    """Whether inputs of this shape can be drawn so."""
    if kind in RASTERS:
        return len(shape) == 3 and shape[0] in ((2,) if kind is Picture.PAIR else (1, 3))
    if kind is Picture.CLOUD:
        return len(shape) == 2 and shape[1] == 3
    return len(shape) in (1, 2) or kind is Picture.NONE


def span_of(low: float, high: float) -> tuple[float, float]:
    """The values that are drawn black and white: 0 and 1 where the data lie between, else the data's own ends.

    >>> span_of(0.1, 0.8), span_of(-2.0, 3.0)
    ((0.0, 1.0), (-2.0, 3.0))
    """
    return (0.0, 1.0) if low >= 0.0 and high <= 1.0 else (low, high)


def draw_inputs(kind: Picture, values: Tensor, span: tuple[float, float]) -> Tensor:
    """Inputs (n, ...) as they are kept for drawing.

    Images and scenes become uint8 (n, H, W, C), pairs uint8 (n, 2, H, W), clouds float32 (n, P, 3), series float32 (n, C, T).

    >>> draw_inputs(Picture.IMAGE, torch.tensor([[[[0.0, 0.5, 2.0]]]]), (0.0, 1.0)).flatten()
    tensor([  0, 128, 255], dtype=torch.uint8)
    """
    if kind is Picture.NONE:
        return torch.zeros(len(values), 0)
    if kind not in RASTERS:
        return (values.unsqueeze(1) if values.ndim == 2 else values).float().cpu()
    low, high = span
    scaled = (values.float() - low) / (high - low if high > low else 1.0)
    pixels = scaled.clamp(0.0, 1.0).mul(255.0).round().to(torch.uint8).cpu()
    return pixels if kind is Picture.PAIR else pixels.movedim(1, -1).contiguous()


def restore_inputs(kind: Picture, pictures: Tensor, span: tuple[float, float]) -> Tensor:
    """Kept pictures as inputs (n, ...) again, to the precision of a byte."""
    if kind not in RASTERS:
        return pictures
    low, high = span
    values = pictures.float() / 255.0 * (high - low if high > low else 1.0) + low
    return values if kind is Picture.PAIR else values.movedim(-1, 1)


def thumbnails(kind: Picture, pictures: Tensor, window: int | None = None) -> Tensor | None:
    """Small square pictures uint8 (n, S, S, C) of kept ones (n, ...): of a scene its central window, of a pair its first frame.

    A cloud is seen along the z axis; series, and what is not drawn, have none.
    """
    if kind is Picture.CLOUD:
        return top_view(pictures)
    if kind not in RASTERS:
        return None
    images = pictures[:, :1] if kind is Picture.PAIR else pictures.movedim(-1, 1)
    if kind is Picture.SCENE and window is not None:
        top, left = (images.shape[2] - window) // 2, (images.shape[3] - window) // 2
        images = images[:, :, top : top + window, left : left + window]
    height, width = images.shape[2:]
    side = max(height, width)
    beside, above = side - width, side - height
    square = functional.pad(images.float(), (beside // 2, beside - beside // 2, above // 2, above - above // 2))
    small = functional.interpolate(square, size=(min(side, THUMBNAIL),) * 2, mode="area")
    return small.round().to(torch.uint8).movedim(1, -1).contiguous()


def top_view(clouds: Tensor) -> Tensor:
    """How many points (n, P, 3) fall into each cell of a square grid over x and y, as brightness (n, S, S, 1)."""
    flat = clouds[..., :2]
    reach = flat.abs().amax(dim=(1, 2), keepdim=True).clamp(min=1e-12)
    cell = ((flat / reach + 1.0) / 2.0 * THUMBNAIL).long().clamp_(0, THUMBNAIL - 1)
    place = (THUMBNAIL - 1 - cell[..., 1]) * THUMBNAIL + cell[..., 0]
    counts = torch.zeros(len(clouds), THUMBNAIL**2).scatter_add_(1, place, torch.ones_like(place, dtype=torch.float32))
    bright = counts.sqrt() / counts.sqrt().amax(dim=1, keepdim=True).clamp(min=1.0)
    return bright.mul(255.0).round().to(torch.uint8).reshape(len(clouds), THUMBNAIL, THUMBNAIL, 1)
