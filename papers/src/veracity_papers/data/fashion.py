"""FashionMNIST (Xiao et al. 2017), padded so that shifts lose nothing."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import pad

from veracity_papers.data import files, idx

ORIGIN = "github.com/zalandoresearch/fashion-mnist"
CLASSES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
CONCEPTS = {"top": frozenset({0, 2, 3, 4, 6}), "shoe": frozenset({5, 7, 9})}


def fashion_mnist(split: str = "test", padding: int = 10) -> tuple[Tensor, Tensor]:
    """Images (N, 1, 28 + 2 padding, 28 + 2 padding) in [0, 1] and labels (N,); split is "train" or "test"."""
    prefix = "train" if split == "train" else "t10k"
    images = idx.read(files.find(f"fashion_mnist/{prefix}-images-idx3-ubyte.gz", ORIGIN))
    labels = idx.read(files.find(f"fashion_mnist/{prefix}-labels-idx1-ubyte.gz", ORIGIN))
    return pad(images[:, None].float() / 255.0, (padding,) * 4), labels.long()
