from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
import torch
from PIL import Image

from veracity.core.errors import InputError
from veracity_papers.data import files
from veracity_papers.data.eurosat import CLASSES, FILE, eurosat
from veracity_papers.data.labelled import both_splits

real = pytest.mark.skipif(files.locate(FILE) is None, reason="needs the archive of EuroSAT")


def written(folder: Path, images: dict[str, tuple[tuple[int, int], tuple[int, int, int]]]) -> None:
    """An archive of plain images by path, each of a size and a colour."""
    (folder / FILE).parent.mkdir(parents=True)
    with zipfile.ZipFile(folder / FILE, "w") as archive:
        for name, (size, colour) in images.items():
            stream = io.BytesIO()
            Image.new("RGB", size, colour).save(stream, "JPEG", quality=100, subsampling=0)
            archive.writestr(name, stream.getvalue())


def test_images_come_in_the_order_of_classes_and_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(files.VARIABLE, str(tmp_path))
    grey = {f"train/River/River_{number}.jpg": ((64, 64), (number, number, number)) for number in (10, 9)}
    written(tmp_path, {**grey, "train/Forest/Forest_3.jpg": ((64, 64), (200, 200, 200)), "test/River/River_11.jpg": ((64, 64), (0, 0, 0))})
    images, labels = eurosat("train")
    assert images.shape == (3, 3, 64, 64)
    assert labels.tolist() == [1, 8, 8]
    torch.testing.assert_close(images.mean(dim=(1, 2, 3)) * 255, torch.tensor([200.0, 9.0, 10.0]), atol=0.01, rtol=0)
    both, all_labels = both_splits(eurosat)
    assert len(both) == 4
    assert all_labels.tolist() == [1, 8, 8, 8]


def test_mistakes_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, (name, size, said) in enumerate(
        [
            ("test/River/River_1.jpg", (32, 64), "32x64"),
            ("test/Moon/Moon_1.jpg", (64, 64), "Moon_1"),
            ("train/River/River_1.jpg", (64, 64), "no images"),
        ]
    ):
        folder = tmp_path / str(number)
        written(folder, {name: (size, (0, 0, 0))})
        monkeypatch.setenv(files.VARIABLE, str(folder))
        with pytest.raises(InputError, match=said):
            eurosat()


@real
def test_the_real_archive() -> None:
    images, labels = eurosat()
    assert images.shape == (600, 3, 64, 64)
    assert labels.bincount().tolist() == [60] * len(CLASSES)
    assert float(images.min()) >= 0
    assert float(images.max()) <= 1
    sea, industry = (images[labels == CLASSES.index(name)] for name in ("SeaLake", "Industrial"))
    assert sea.std(dim=(-2, -1)).mean() < 0.3 * industry.std(dim=(-2, -1)).mean()  # water is smooth, roofs are not
