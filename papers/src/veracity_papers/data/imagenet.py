"""Photographs of ImageNet-1k (Russakovsky et al. 2015), one per class, with the class in the file's name.

The files are `<WordNet id>_<label>.JPEG`. ImageNet numbers its 1,000 classes in the order of their WordNet ids, so a folder with one
photograph of each class gives every label by its rank; the folder at hand has the even-numbered classes. Public networks have probably
been trained on these photographs: an accuracy on them is optimistic.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity_papers.data import files

ORIGIN = "github.com/EliSchwartz/imagenet-sample-images (all 1,000 classes, or every second one, as WNID_LABEL.JPEG in one folder)"
FOLDER = "imagenet_samples"
CLASSES = 1000
KNOWN = {500: 2, 1000: 1}
"""How many photographs a folder may hold, and how far apart their classes are."""

SIDE, SHORT = 224, 256
"""The photograph is scaled to 256 on its short side, and its centre of 224 is kept."""


def imagenet(count: int | None = None, side: int = SIDE, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Images (N, 3, side, side) in [0, 1] and labels (N,): `count` of them drawn from a seed, or all in the order of their classes.

    A side below 224 shrinks the images by an area's mean.
    """
    listed = photographs()
    stride = KNOWN[len(listed)]
    if count is not None and not 0 < count <= len(listed):
        raise InputError(f"There are {len(listed)} photographs of ImageNet in the folder: ask for 1 to {len(listed)}, not {count}.")
    order = (
        torch.arange(len(listed)) if count is None else torch.randperm(len(listed), generator=torch.Generator().manual_seed(seed))[:count]
    )
    images = torch.stack([read_photograph(listed[row]) for row in order.tolist()])
    values = images.permute(0, 3, 1, 2).contiguous().float() / 255.0
    if side != SIDE:
        values = torch.nn.functional.interpolate(values, (side, side), mode="area")
    return values, order * stride


def photographs() -> list[Path]:
    """The photographs' paths in the order of their classes."""
    folder = files.find(FOLDER, ORIGIN)
    found = sorted(folder.glob("n*_*.JPEG"))
    ids = {path.name.partition("_")[0] for path in found}
    if len(found) not in KNOWN or len(ids) != len(found):
        raise InputError(
            f"{folder} holds {len(found)} photographs of {len(ids)} classes, but labels are known for one of each of 500 or 1,000 classes: "
            f"get them from {ORIGIN}."
        )
    return found


def class_names() -> tuple[str, ...]:
    """A name for each of the 1,000 classes: from the file's name, or its number where there is no photograph."""
    listed = photographs()
    return names_of([path.stem for path in listed], KNOWN[len(listed)])


def names_of(stems: Sequence[str], stride: int) -> tuple[str, ...]:
    """Names of classes from file names that are `stride` classes apart.

    >>> names_of(["n01440764_tench", "n01484850_great_white_shark"], stride=2)
    ('tench', 'class 1', 'great white shark', 'class 3')
    """
    found = {row * stride: stem.partition("_")[2].replace("_", " ") for row, stem in enumerate(stems)}
    return tuple(found.get(number, f"class {number}") for number in range(len(stems) * stride))


def read_photograph(path: Path) -> Tensor:
    """One image (224, 224, 3) of bytes: 256 on the short side, then the centre; one of 224 is taken as it is."""
    from PIL import Image

    with Image.open(path) as picture:
        image = picture.convert("RGB")
        if image.size != (SIDE, SIDE):
            scale = SHORT / min(image.size)
            image = image.resize(
                (max(SHORT, round(image.width * scale)), max(SHORT, round(image.height * scale))), Image.Resampling.BICUBIC
            )
            left, top = (image.width - SIDE) // 2, (image.height - SIDE) // 2
            image = image.crop((left, top, left + SIDE, top + SIDE))
    return torch.from_numpy(np.array(image))
