"""Farnebäck's optical flow from OpenCV, as a model: from pairs of frames to flows, with nothing learnt.

It fits a quadratic polynomial around every pixel of both frames and reads the motion off the difference, from coarse to fine. No
direction is preferred, so that on quarter turns and mirror images it is equivariant but for rounding: within 2e-6 px (root mean
square) on real pairs of 256x256.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from veracity.core.errors import InputError, missing_extra

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
