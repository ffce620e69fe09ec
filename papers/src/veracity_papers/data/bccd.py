"""BCCD (Shenggan and others): 364 photographs of blood smears, 640x480, with boxes around red cells, white cells and platelets.

Images are halved here to 320x240 (each pixel the mean of 2x2), so that a white cell fits into a window of 128 pixels. The
published split has 205 images to learn from and 159 to judge by (its "val" and "test" together).

A key object is a white cell or platelet that is alone of its class wherever the window moves, so that "the detection of the
key's class" means one thing; red cells never are. It takes between .5 and 75 % of the window, and windows moved by up to 32
pixels lie within the photograph. 35 objects of the 159 images qualify: 24 white cells, 11 platelets.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from veracity.core.errors import InputError
from veracity_papers.data import files
from veracity_papers.data.labelled import check_split
from veracity_papers.data.scenes import WINDOW, Boxed, crop

ORIGIN = "github.com/Shenggan/BCCD_Dataset (zipped: BCCD/Annotations, BCCD/ImageSets, BCCD/JPEGImages)"
FILE, PREPARED = "bccd_boxes/BCCD.zip", "bccd_boxes/bccd_{split}.npz"
SPLITS = {"train": ("train",), "test": ("val", "test")}
CLASSES = ("RBC", "WBC", "Platelets")
REACH = 32
SIZE = (240, 320)
SHARES = (0.005, 0.75)
"""The smallest and the largest share of the window that a key object takes."""


def object_boxes(split: str = "test") -> Tensor:
    """The objects (N, T, 5) of a split's images as x0, y0, x1, y1, class, in pixels of the halved images; absent rows are NaN."""
    ready = load_prepared(split, "boxes")
    if ready is not None:
        return ready
    with zipfile.ZipFile(files.find(FILE, ORIGIN)) as archive:
        found = [objects(archive.read(f"BCCD/Annotations/{name}.xml").decode()) for name in image_names(archive, split)]
    most = max(map(len, found))
    halved = torch.tensor([0.5, 0.5, 0.5, 0.5, 1.0])
    return torch.stack([pad(one * halved, (0, 0, 0, most - len(one)), value=torch.nan) for one in found])


def photographs(split: str = "test", rows: Tensor | None = None) -> Tensor:
    """The halved images (N, 3, 240, 320) of a split, "train" or "test", as bytes: all of them, or those of the rows (N,)."""
    ready = load_prepared(split, "images")
    if ready is not None:
        return ready if rows is None else ready[rows]
    with zipfile.ZipFile(files.find(FILE, ORIGIN)) as archive:
        names = image_names(archive, split)
        chosen = names if rows is None else [names[row] for row in rows.tolist()]
        return torch.stack([photograph(archive.read(f"BCCD/JPEGImages/{name}.jpg")) for name in chosen])


def load_prepared(split: str, part: str) -> Tensor | None:
    """The "images" or "boxes" of a file that `prepare` wrote, if there is one."""
    path = files.locate(PREPARED.format(split=check_split(split)))
    if path is None:
        return None
    with np.load(path) as file:
        return torch.from_numpy(file[part])


def image_names(archive: zipfile.ZipFile, split: str) -> list[str]:
    """The names of a split's images."""
    return [name for part in SPLITS[split] for name in archive.read(f"BCCD/ImageSets/Main/{part}.txt").decode().split()]


def photograph(content: bytes) -> Tensor:
    """A JPEG file halved by the means of its 2x2 blocks, as bytes (3, H / 2, W / 2)."""
    from PIL import Image

    pixels = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"), dtype=np.float32)
    height, width = (side // 2 for side in pixels.shape[:2])
    means = pixels[: 2 * height, : 2 * width].reshape(height, 2, width, 2, 3).mean(axis=(1, 3))
    return torch.from_numpy(means.round().astype(np.uint8)).permute(2, 0, 1)


def objects(content: str) -> Tensor:
    """The boxes (T, 5) of a Pascal VOC annotation as x0, y0, x1, y1, class; boxes without an area are left out.

    >>> box = "<bndbox><xmin>2</xmin><ymin>3</ymin><xmax>8</xmax><ymax>9</ymax></bndbox>"
    >>> objects(f"<annotation><object><name>WBC</name>{box}</object></annotation>")
    tensor([[2., 3., 8., 9., 1.]])
    """
    corners = ("xmin", "ymin", "xmax", "ymax")
    try:
        found = [
            [*(float(item.findtext(f"bndbox/{corner}") or "nan") for corner in corners), float(CLASSES.index(item.findtext("name") or ""))]
            for item in ElementTree.fromstring(content).iter("object")
        ]
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(
            f"This is no Pascal VOC annotation of {', '.join(CLASSES)} ({error}): get the files again from {ORIGIN}."
        ) from None
    boxes = torch.tensor(found).reshape(-1, 5)
    return boxes[(boxes[:, 2:4] > boxes[:, :2]).all(dim=1)]


def keys(boxes: Tensor, *, window: int = WINDOW, reach: int = REACH, alone: bool = True) -> Tensor:
    """Which objects (K, 2), as image and row, can be key objects: white cells and platelets of the right size, far from the border.

    `alone` asks as well that no other object of the same class is in view at any shift.
    """
    half = window / 2 + reach
    centre, area = (boxes[..., :2] + boxes[..., 2:4]) / 2, (boxes[..., 2:4] - boxes[..., :2]).prod(dim=-1) / window**2
    good = (centre >= half).all(dim=-1) & (centre[..., 0] <= SIZE[1] - half) & (centre[..., 1] <= SIZE[0] - half)
    good &= (area >= SHARES[0]) & (area <= SHARES[1]) & (boxes[..., 4] > 0)
    if alone:
        low, high = centre[:, :, None] - half, centre[:, :, None] + half
        seen = ((boxes[:, None, :, 2:4] > low) & (boxes[:, None, :, :2] < high)).all(dim=-1)
        good &= (seen & (boxes[:, :, None, 4] == boxes[:, None, :, 4])).sum(dim=2) == 1
    return good.nonzero()


def cells(count: int | None = None, split: str = "test", *, window: int = WINDOW, reach: int = REACH) -> Boxed:
    """Scenes (N, 3, window + 2 reach, window + 2 reach) around key objects, the two classes taking turns while both last."""
    boxes = object_boxes(split)
    chosen = keys(boxes, window=window, reach=reach)
    if not len(chosen):
        raise InputError(f"No object of the BCCD {split} images lies {window // 2 + reach} pixels from the border: lower window or reach.")
    image, row = chosen.unbind(dim=1)
    classes = boxes[image, row, 4].long()
    place = torch.stack([(classes == one).cumsum(0) for one in range(len(CLASSES))])[classes, torch.arange(len(classes))]
    order = (place * len(CLASSES) + classes).argsort()[:count]
    image, row, classes = image[order], row[order], classes[order]
    boxes = boxes[image]
    key = boxes.gather(1, row[:, None, None].expand(-1, 1, 5))
    others = boxes.scatter(1, row[:, None, None].expand(-1, 1, 5), boxes[:, :1])
    boxes = torch.cat((key, others[:, 1:]), dim=1)
    corners = ((key[:, 0, :2] + key[:, 0, 2:4]) / 2 - window / 2 - reach).floor().long()
    images = crop(photographs(split, image), corners, window + 2 * reach).float() / 255.0
    moved = torch.cat((boxes[..., :4] - (corners + reach).repeat(1, 2)[:, None], boxes[..., 4:]), dim=2)
    return Boxed(images, moved, classes)


def prepare(folder: Path, split: str = "train", *, window: int = WINDOW, reach: int = REACH) -> Path:
    """Write a split as one file of arrays that needs no picture library to be read; VERACITY_DATA may name the folder then.

    Pixels that no window around a key object reaches are black, which keeps the file small.
    """
    boxes = object_boxes(split)
    image, row = keys(boxes, window=window, reach=0, alone=False).unbind(dim=1)
    centre = (boxes[image, row, :2] + boxes[image, row, 2:4]) / 2
    near = [(torch.arange(side) - centre[:, axis, None]).abs() <= window / 2 + reach + 1 for side, axis in zip(SIZE, (1, 0), strict=True)]
    seen = torch.zeros(len(boxes), *SIZE, dtype=torch.int32).index_add_(0, image, (near[0][:, :, None] & near[1][:, None]).int())
    path = folder / PREPARED.format(split=split)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, images=(photographs(split) * (seen > 0)[:, None]).numpy(), boxes=boxes.numpy())
    return path
