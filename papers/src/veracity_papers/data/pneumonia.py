"""PneumoniaMNIST (Yang et al. 2023, after Kermany et al. 2018): 5,856 chest X-rays of children, 28x28, normal or pneumonia.

The splits are the published ones of 4,708, 524 and 624 images. The published file is read, or one that was put together again
with the training images in another order. About three of four training images show pneumonia, but only five of eight test
images: always predicting pneumonia scores .625 there.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from veracity_papers.data import files
from veracity_papers.data.labelled import check_split

ORIGIN = "medmnist.com"
FILE, REBUILT = "pneumoniamnist/pneumoniamnist.npz", "pneumoniamnist/pneumoniamnist_28_rebuilt.npz"
CLASSES = ("normal", "pneumonia")
SPLITS = ("train", "val", "test")


def pneumonia_mnist(split: str = "test") -> tuple[Tensor, Tensor]:
    """Images (N, 1, 28, 28) in [0, 1] and labels (N,), 0 for normal and 1 for pneumonia; split is "train", "val" or "test"."""
    check_split(split, SPLITS)
    with np.load(files.locate(REBUILT) or files.find(FILE, ORIGIN)) as file:
        images, labels = (torch.from_numpy(file[f"{split}_{part}"]) for part in ("images", "labels"))
    return images[:, None].float() / 255.0, labels.flatten().long()
