"""MNIST (LeCun et al. 1998): 60,000 and 10,000 handwritten digits of 28x28."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import pad

from veracity.data import files, idx
from veracity.data.labelled import check_split

ORIGIN = "yann.lecun.com/exdb/mnist"
CLASSES = tuple("0123456789")
PREFIXES = {"train": "train", "test": "t10k"}


def mnist(split: str = "test", padding: int = 0) -> tuple[Tensor, Tensor]:
    """Images (N, 1, 28 + 2 padding, 28 + 2 padding) in [0, 1] and labels (N,); split is "train" or "test"."""
    prefix = PREFIXES[check_split(split)]
    images = idx.read(files.find(f"mnist/{prefix}-images-idx3-ubyte.gz", ORIGIN))
    labels = idx.read(files.find(f"mnist/{prefix}-labels-idx1-ubyte.gz", ORIGIN))
    return pad(images[:, None].float() / 255.0, (padding,) * 4), labels.long()
