from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from veracity_papers.data import files
from veracity_papers.data.mnist import mnist, resize

REAL = files.locate("mnist/t10k-images-idx3-ubyte.gz") is not None


def write_idx(path: Path, tensor: torch.Tensor) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack(f">HBB{tensor.ndim}I", 0, 8, tensor.ndim, *tensor.shape)
    path.write_bytes(gzip.compress(header + tensor.numpy().tobytes()))


@pytest.mark.parametrize(("split", "prefix"), [("train", "train"), ("test", "t10k")])
def test_each_split_comes_from_its_files(split: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.arange(3 * 28 * 28).reshape(3, 28, 28).remainder(256).to(torch.uint8)
    write_idx(tmp_path / "mnist" / f"{prefix}-images-idx3-ubyte.gz", images)
    write_idx(tmp_path / "mnist" / f"{prefix}-labels-idx1-ubyte.gz", torch.tensor([7, 0, 9], dtype=torch.uint8))
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    x, y = mnist(split)
    assert torch.equal(x, images[:, None] / 255.0)
    assert y.tolist() == [7, 0, 9]
    assert y.dtype == torch.int64
    padded, _ = mnist(split, padding=2)
    assert padded.shape == (3, 1, 32, 32)
    assert torch.equal(padded[..., 2:30, 2:30], x)


def test_other_sizes_and_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.randint(0, 256, (3, 28, 28), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    write_idx(tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz", images)
    write_idx(tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz", torch.tensor([7, 0, 9], dtype=torch.uint8))
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    x, _ = mnist(size=32, range=(-1.0, 1.0), padding=1)
    assert x.shape == (3, 1, 34, 34)
    assert torch.allclose(x[:, 0, 1:-1, 1:-1], resize(images, 32) / 127.5 - 1.0, atol=1e-6)
    assert bool((x[:, 0, 0] == -1.0).all())


@pytest.mark.parametrize("side", [28, 32, 41, 13])
def test_images_are_resized_as_pillow_does_one_by_one(side: int) -> None:
    images = torch.randint(0, 256, (5, 28, 28), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    slow = [np.asarray(Image.fromarray(image.numpy()).resize((side, side), Image.Resampling.BILINEAR)) for image in images]
    assert np.array_equal(resize(images, side).numpy(), np.stack(slow))


@pytest.mark.skipif(not REAL, reason="needs MNIST")
def test_the_real_test_split_is_the_published_one() -> None:
    x, y = mnist()
    assert x.shape == (10_000, 1, 28, 28)
    assert y.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert y[:5].tolist() == [7, 2, 1, 0, 4]
    assert float(x.mean()) == pytest.approx(0.1325, abs=1e-4)
