"""Images as they are stored: whole numbers from 0 to 255, with the channels last or first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Size, Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.inputs import Signals

CHANNELS = (1, 3, 4)


@dataclass(frozen=True, eq=False, kw_only=True)
class Scaling:
    """From pixels 0 to 255 to what the model was trained on: (pixel / 255 - mean) / std, with one mean and std for all or per channel."""

    mean: float | tuple[float, ...] = 0.0
    std: float | tuple[float, ...] = 1.0

    def __call__(self, pixels: Tensor) -> Tensor:
        """Scaled images (N, C, H, W) of pixels (N, C, H, W)."""
        mean, std = (torch.tensor(one, dtype=torch.float32, device=pixels.device).reshape(-1, 1, 1) for one in (self.mean, self.std))
        return (pixels.float() / 255 - mean) / std


@dataclass(frozen=True, eq=False)
class ImageInputs:
    """Images of type uint8, (N, H, W, C), (N, C, H, W) or (N, H, W), which are scaled when they are taken.

    scaling   how pixels become what the model takes, such as Scaling(mean=(.485, .456, .406), std=(.229, .224, .225))
    channels  "last" or "first"; recognised if only one of the axes has 1, 3 or 4 entries

    >>> images = ImageInputs(np.full((2, 8, 9, 3), 255, dtype=np.uint8))
    >>> images.shape, images.take(torch.tensor([0])).values.max()
    (torch.Size([3, 8, 9]), tensor(1.))
    """

    images: Any
    scaling: Scaling = Scaling()
    channels: Literal["last", "first"] | None = None

    def __post_init__(self) -> None:
        pixels = self.images
        if not isinstance(pixels, (np.ndarray, Tensor)) or str(pixels.dtype).removeprefix("torch.") != "uint8" or pixels.ndim not in (3, 4):
            what = f"{pixels.dtype} {tuple(pixels.shape)}" if isinstance(pixels, (np.ndarray, Tensor)) else type(pixels).__name__
            raise InputError(f"ImageInputs takes an array of type uint8 and shape (N, H, W, C), (N, C, H, W) or (N, H, W), not {what}.")
        if not len(pixels):
            raise InputError("There are no images: the array is empty.")
        if pixels.ndim == 4 and self.channels is None and (pixels.shape[1] in CHANNELS) == (pixels.shape[3] in CHANNELS):
            raise InputError(
                f"Images of shape {tuple(pixels.shape[1:])} may have their channels first or last: pass channels='first' or 'last'."
            )
        for what, one in (("mean", self.scaling.mean), ("std", self.scaling.std)):
            if isinstance(one, tuple) and len(one) not in (1, self.shape[0]):
                raise InputError(
                    f"The scaling has {len(one)} numbers in {what}, and the images have {self.shape[0]} channels: give one for each."
                )

    @property
    def last(self) -> bool:
        """Whether the channels are the last axis."""
        return self.channels == "last" or (self.channels is None and self.images.ndim == 4 and self.images.shape[3] in CHANNELS)

    @property
    def shape(self) -> Size:
        """(C, H, W)."""
        size = tuple(self.images.shape[1:])
        return Size((1, *size) if len(size) == 2 else (size[2], *size[:2]) if self.last else size)

    def size(self) -> int:
        """The number of images."""
        return len(self.images)

    def take(self, index: Tensor) -> Signals:
        """Scaled images (N, C, H, W)."""
        pixels = torch.as_tensor(self.images)[index.cpu() if isinstance(self.images, np.ndarray) else index.to(self.images.device)]
        shaped = pixels.unsqueeze(1) if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2) if self.last else pixels
        return Signals(self.scaling(shaped))

    def fingerprint(self) -> str:
        """A hash of the pixels and of the scaling."""
        scaled = [self.scaling.mean, self.scaling.std, self.last]
        return fingerprint.of_json(["images", scaled, fingerprint.of_tensor(torch.as_tensor(self.images))])

    def adapt(self, model: nn.Module) -> nn.Module:
        """The model itself."""
        return model
