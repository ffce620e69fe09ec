from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
import torch

from veracity.core.errors import InputError
from veracity_papers.data import files
from veracity_papers.data.mnist import fashion_mnist


def write_idx(path: Path, tensor: torch.Tensor) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack(f">HBB{tensor.ndim}I", 0, 8, tensor.ndim, *tensor.shape)
    path.write_bytes(gzip.compress(header + tensor.numpy().tobytes()))


def test_images_and_labels_come_back_padded_and_scaled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.arange(2 * 28 * 28).reshape(2, 28, 28).remainder(256).to(torch.uint8)
    write_idx(tmp_path / "fashion_mnist" / "t10k-images-idx3-ubyte.gz", images)
    write_idx(tmp_path / "fashion_mnist" / "t10k-labels-idx1-ubyte.gz", torch.tensor([3, 9], dtype=torch.uint8))
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    x, y = fashion_mnist("test", padding=10)
    assert x.shape == (2, 1, 48, 48)
    assert torch.equal(x[:, 0, 10:38, 10:38], images / 255.0)
    assert x.sum().item() == pytest.approx((images / 255.0).sum().item(), rel=1e-6)
    assert y.tolist() == [3, 9]
    few, labels = fashion_mnist("test", padding=10, count=1)
    assert torch.equal(few, x[:1])
    assert labels.tolist() == [3]


def test_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\x01\x02\x03\x04 something else")
    with pytest.raises(InputError, match="is not an idx file"):
        files.read_idx(tmp_path / "text")
