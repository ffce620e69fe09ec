from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from veracity_papers.data import files
from veracity_papers.data.pneumonia import FILE, REBUILT, pneumonia_mnist


@pytest.mark.parametrize("file", [FILE, REBUILT])
def test_the_splits_are_kept_apart(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = {}
    for number, split in enumerate(("train", "val", "test")):
        held[f"{split}_images"] = np.full((number + 2, 28, 28), 51 * number, dtype=np.uint8)
        held[f"{split}_labels"] = np.arange(number + 2, dtype=np.uint8)[:, None] % 2
    (tmp_path / file).parent.mkdir()
    np.savez(tmp_path / file, **held)
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    for number, split in enumerate(("train", "val", "test")):
        x, y = pneumonia_mnist(split)
        assert torch.equal(x, torch.full((number + 2, 1, 28, 28), 0.2 * number))
        assert y.tolist() == [0, 1, 0, 1][: number + 2]


@pytest.mark.skipif(files.locate(REBUILT) is None, reason="needs PneumoniaMNIST")
def test_the_real_splits_have_the_published_sizes() -> None:
    counts = {split: pneumonia_mnist(split)[1].bincount().tolist() for split in ("train", "val", "test")}
    assert counts == {"train": [1214, 3494], "val": [135, 389], "test": [234, 390]}
