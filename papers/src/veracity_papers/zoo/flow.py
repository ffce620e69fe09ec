"""Two models for particle image velocimetry: a small network, and Farnebäck's optical flow from OpenCV.

The network has features, a cost volume and one refinement (after Sun et al. 2018, Hui et al. 2018). It stands in for the NERO
paper's PIV-LiteFlowNet-en, whose weights are not available, and was trained on generated particle images. Its mean end-point
error is .07 px on generated pairs of 256x256, and .20 px on the 54 real ones, which it has never seen.

Farnebäck's method learns nothing. It fits a quadratic polynomial around every pixel of both frames and derives the motion from
the difference, from coarse to fine. No direction is preferred, so it is equivariant to quarter turns and mirror images up to
rounding: within 2e-6 px (root mean square) on real pairs of 256x256.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import grid_sample, interpolate, leaky_relu, pad

from veracity.core.errors import InputError, missing_extra
from veracity_papers.zoo.storage import load_shipped

NAME = "flow-net"
COARSE, FINE = 4, 2
"""How far the cost volumes look, in pixels of a quarter and of half the size."""


def layer(before: int, after: int, stride: int = 1) -> nn.Sequential:
    """A 3x3 convolution and a leaky ReLU."""
    return nn.Sequential(nn.Conv2d(before, after, 3, stride=stride, padding=1), nn.LeakyReLU(0.1))


def decoder(before: int, width: int) -> nn.Sequential:
    """From matching costs and features to a flow, (N, 2, H, W)."""
    return nn.Sequential(layer(before, width), layer(width, width), layer(width, width // 2), nn.Conv2d(width // 2, 2, 3, padding=1))


class FlowNet(nn.Module):
    """From pairs of frames (N, 2, H, W) to flows (N, 2, H, W) in pixels, u to the right and v downwards; sides are multiples of 4."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.fine = nn.Sequential(layer(1, width // 2), layer(width // 2, width, stride=2), layer(width, width))
        self.coarse = nn.Sequential(layer(width, 2 * width, stride=2), layer(2 * width, 2 * width))
        self.guess = decoder((2 * COARSE + 1) ** 2 + 2 * width, 2 * width)
        self.refine = decoder((2 * FINE + 1) ** 2 + width + 2, width)

    def forward(self, pairs: Tensor) -> Tensor:
        """Flows (N, 2, H, W)."""
        if pairs.ndim != 4 or pairs.shape[1] != 2 or pairs.shape[-1] % 4 or pairs.shape[-2] % 4:
            raise InputError(
                f"The flow network sees pairs (N, 2, H, W) whose sides are multiples of 4, not a batch of {tuple(pairs.shape)}."
            )
        count = len(pairs)
        level, spread = pairs.mean(dim=(1, 2, 3), keepdim=True), pairs.std(dim=(1, 2, 3), keepdim=True)
        frames = ((pairs - level) / (spread + 1e-6)).transpose(0, 1).reshape(2 * count, 1, *pairs.shape[-2:])
        fine = self.fine(frames)
        coarse = self.coarse(fine)
        first, second = coarse[:count], coarse[count:]
        flow = self.guess(torch.cat((costs(first, second, COARSE), first), dim=1))
        flow = 2 * interpolate(flow, scale_factor=2, mode="bilinear", align_corners=False)
        first, second = warp(fine[:count], -flow / 2), warp(fine[count:], flow / 2)
        flow = flow + self.refine(torch.cat((costs(first, second, FINE), first, flow), dim=1))
        return 2 * interpolate(flow, scale_factor=2, mode="bilinear", align_corners=False)


def costs(first: Tensor, second: Tensor, reach: int) -> Tensor:
    """How alike features (N, C, H, W) are to those of the second frame around them: (N, (2 reach + 1)^2, H, W).

    >>> costs(torch.ones(1, 2, 1, 1), torch.ones(1, 2, 1, 1), 1).flatten()
    tensor([0., 0., 0., 0., 1., 0., 0., 0., 0.])
    """
    height, width = first.shape[-2:]
    wide = pad(second, (reach,) * 4)
    steps = range(2 * reach + 1)
    likeness = [(first * wide[..., down : down + height, right : right + width]).mean(dim=1) for down in steps for right in steps]
    return leaky_relu(torch.stack(likeness, dim=1), 0.1)


def warp(features: Tensor, flow: Tensor) -> Tensor:
    """Features (N, C, H, W) read off, bilinearly, where a flow (N, 2, H, W) in their own pixels points."""
    height, width = features.shape[-2:]
    columns, rows = torch.arange(width, device=flow.device) + 0.5, torch.arange(height, device=flow.device) + 0.5
    grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy"))
    size = flow.new_tensor([width, height])[:, None, None]
    return grid_sample(features, (2 * (grid + flow) / size - 1).permute(0, 2, 3, 1), padding_mode="border", align_corners=False)


def pretrained() -> FlowNet:
    """The network with the weights that `python -m veracity_papers.zoo.train_flow` made."""
    return load_shipped(FlowNet(), NAME)


THREADS = 4


class Farneback(nn.Module):
    """From pairs (N, 2, H, W) in [0, 1] to flows (N, 2, H, W) in pixels, u to the right and v downwards (Farnebäck 2003).

    levels, scale     of the pyramid: how many images, each how much smaller
    window            the side of the square over which motion is averaged
    rounds            at each level
    size, deviation   of the neighbourhood that a polynomial describes: pixels, and of the Gaussian that weighs them

    Needs the extra "piv". Rows are computed by threads outside Python; the result is on the pairs' device, without gradient.
    """

    def __init__(
        self, *, levels: int = 3, scale: float = 0.5, window: int = 15, rounds: int = 3, size: int = 5, deviation: float = 1.2
    ) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {
            "pyr_scale": scale,
            "levels": levels,
            "winsize": window,
            "iterations": rounds,
            "poly_n": size,
            "poly_sigma": deviation,
            "flags": 0,
        }

    def extra_repr(self) -> str:
        """The settings, by OpenCV's names."""
        return ", ".join(f"{name}={value}" for name, value in self.settings.items())

    @torch.no_grad()
    def forward(self, pairs: Tensor) -> Tensor:
        """Flows (N, 2, H, W)."""
        if pairs.ndim != 4 or pairs.shape[1] != 2:
            raise InputError(f"Farneback sees pairs of frames (N, 2, H, W), not a batch of {tuple(pairs.shape)}.")
        if find_spec("cv2") is None:
            raise missing_extra("opencv-python-headless", "piv", "veracity-papers")
        from cv2 import calcOpticalFlowFarneback

        def one(pair: NDArray[np.uint8]) -> Any:
            return calcOpticalFlowFarneback(pair[0], pair[1], None, **self.settings)

        frames = (pairs * 255.0).round().clamp(0, 255).to(torch.uint8).cpu().numpy()
        with ThreadPoolExecutor(THREADS) as threads:
            found = list(threads.map(one, frames))
        flow = np.stack(found) if found else np.zeros((0, *pairs.shape[-2:], 2), dtype=np.float32)
        return torch.from_numpy(flow).permute(0, 3, 1, 2).contiguous().to(pairs.device)
