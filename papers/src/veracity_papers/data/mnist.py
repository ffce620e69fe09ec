"""MNIST (LeCun et al. 1998) and FashionMNIST (Xiao et al. 2017): 60,000 and 10,000 images of 28x28 each."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from veracity_papers.data import files
from veracity_papers.data.labelled import check_split

ORIGIN = "yann.lecun.com/exdb/mnist"
CLASSES = tuple("0123456789")
SIDE = 28


def mnist(split: str = "test", padding: int = 0, *, size: int = SIDE, range: tuple[float, float] = (0.0, 1.0)) -> tuple[Tensor, Tensor]:
    """Images (N, 1, size + 2 padding, size + 2 padding) from black to white over `range`, and labels (N,).

    The split is "train" or "test". Images of another size than 28 are resized as by Pillow.
    """
    images, labels = read("mnist", split, ORIGIN)
    low, high = range
    return pad(resize(images, size)[:, None].float() / 255.0 * (high - low) + low, (padding,) * 4, value=low), labels


def read(folder: str, split: str, origin: str) -> list[Tensor]:
    """Images (N, 28, 28) of bytes and labels (N,) of a data set in MNIST's format."""
    prefix = {"train": "train", "test": "t10k"}[check_split(split)]
    parts = (files.read_idx(files.find(f"{folder}/{prefix}-{part}-ubyte.gz", origin)) for part in ("images-idx3", "labels-idx1"))
    return [part if part.ndim > 1 else part.long() for part in parts]


def resize(images: Tensor, side: int) -> Tensor:
    """Grey images (N, H, W) of bytes as (N, side, side), in Pillow's bilinear interpolation, bit for bit.

    Pillow stretches the rows, rounds, then stretches the columns. One picture of all rows and one of all columns do it for
    every image at once.

    >>> resize(torch.tensor([[[0, 100]]], dtype=torch.uint8), 4)[0, 0]
    tensor([  0,  25,  75, 100], dtype=torch.uint8)
    """
    from PIL import Image

    for _ in ("rows", "columns"):
        if images.shape[-1] != side:
            picture = Image.fromarray(images.reshape(-1, images.shape[-1]).numpy())
            pixels = np.asarray(picture.resize((side, picture.height), Image.Resampling.BILINEAR))
            images = torch.from_numpy(pixels.copy()).reshape(*images.shape[:2], side)
        images = images.transpose(1, 2)
    return images.contiguous()


FASHION_ORIGIN = "github.com/zalandoresearch/fashion-mnist"
GARMENTS = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
CONCEPTS = {"top": frozenset({0, 2, 3, 4, 6}), "shoe": frozenset({5, 7, 9})}


def fashion_mnist(split: str = "test", padding: int = 10, count: int | None = None) -> tuple[Tensor, Tensor]:
    """The first `count` images (N, 1, 28 + 2 padding, 28 + 2 padding) in [0, 1] and labels (N,); split is "train" or "test".

    All 60,000 training images with their padding are 550 MB: ask only for as many as you need.
    """
    images, labels = (part[:count] for part in read("fashion_mnist", split, FASHION_ORIGIN))
    return pad(images[:, None].float() / 255.0, (padding,) * 4), labels
