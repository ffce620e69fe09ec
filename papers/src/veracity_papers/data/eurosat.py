"""EuroSAT (Helber et al. 2019): Sentinel-2 satellite images of 64x64 in ten kinds of land use; a balanced part of its 27,000.

Of each class the first 180 images by number are the training split and the next 60 the test split, as original JPEGs in one
archive whose folders are the splits and classes.
"""

from __future__ import annotations

import zipfile
from pathlib import PurePosixPath

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity_papers.data import files
from veracity_papers.data.labelled import check_split

ORIGIN = "github.com/phelber/EuroSAT (RGB), as train/CLASS/CLASS_NUMBER.jpg and test/CLASS/CLASS_NUMBER.jpg in one zip file"
FILE = "eurosat/eurosat_rgb_240perclass.zip"
SIDE = 64
CLASSES = (
    "AnnualCrop", "Forest", "HerbaceousVegetation", "Highway", "Industrial", "Pasture", "PermanentCrop", "Residential", "River", "SeaLake",
)  # fmt: skip


def eurosat(split: str = "test") -> tuple[Tensor, Tensor]:
    """Images (N, 3, 64, 64) in [0, 1] and labels (N,), class by class in the images' order: 1,800 and 600."""
    check_split(split)
    path = files.find(FILE, ORIGIN)
    with zipfile.ZipFile(path) as archive:
        found = sorted(
            (class_and_number(name), name) for name in archive.namelist() if name.startswith(f"{split}/") and name.endswith(".jpg")
        )
        images = [read_image(archive, name) for _, name in found]
    if not images:
        raise InputError(f"{path} holds no images under {split}/: get the archive from {ORIGIN}.")
    return torch.stack(images).permute(0, 3, 1, 2).contiguous().float() / 255.0, torch.tensor([label for (label, _), _ in found])


def class_and_number(name: str) -> tuple[int, int]:
    """The class and the number of an image by its path.

    >>> class_and_number("train/Forest/Forest_12.jpg")
    (1, 12)
    """
    path = PurePosixPath(name)
    kind, _, number = path.stem.rpartition("_")
    if path.parent.name not in CLASSES or kind != path.parent.name or not number.isdigit():
        raise InputError(f"The archive of EuroSAT holds {name}, which is not SPLIT/CLASS/CLASS_NUMBER.jpg with one of its ten classes.")
    return CLASSES.index(kind), int(number)


def read_image(archive: zipfile.ZipFile, name: str) -> Tensor:
    """One image (64, 64, 3) of bytes."""
    from PIL import Image

    with archive.open(name) as stream, Image.open(stream) as picture:
        values = np.array(picture.convert("RGB"))
    if values.shape != (SIDE, SIDE, 3):
        raise InputError(f"The image {name} of EuroSAT is {values.shape[1]}x{values.shape[0]}, not {SIDE}x{SIDE}.")
    return torch.from_numpy(values)
