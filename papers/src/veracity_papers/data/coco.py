"""Photographs of COCO (Lin et al. 2014) with boxes around objects of 80 classes, and COCO's average precision.

Six annotated photographs are at hand: five from the samples of IceVision, one from the tests of transformers. A key object, as
in section 3.1 of the NERO paper, is annotated on its own, takes between 1 and 75 % of a window, and is at least twice as
large as whatever other objects of its class show wherever the window moves. The window is 4/3 times as wide as the object and at
least 128 pixels, if the photograph allows; its centre is as near to the object's as shifts over real pixels allow. Ten objects
qualify. Windows are scaled to 256 pixels.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from veracity.core.errors import InputError
from veracity.orbits.tasks.detection import area, clip, overlap
from veracity_papers.data import files
from veracity_papers.data.scenes import Boxed

ORIGIN = (
    "github.com/airctic/icevision (the photographs of samples/ and annotations.json) and github.com/huggingface/transformers "
    "(tests/fixtures/tests_samples/COCO: the photograph, and its annotations as hf_coco_annotations.txt)"
)
FOLDER, ANNOTATIONS = "coco_samples", "annotations.json"
SINGLE, SINGLE_ANNOTATIONS = "000000039769.png", "hf_coco_annotations.txt"
"""A photograph whose annotations are a file of their own."""

NAMES = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light", "fire hydrant", "",
    "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe", "",
    "backpack", "umbrella", "", "", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard", "sports ball", "kite",
    "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle", "", "wine glass", "cup", "fork", "knife",
    "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "chair",
    "couch", "potted plant", "bed", "", "dining table", "", "", "toilet", "", "tv", "laptop", "mouse", "remote", "keyboard",
    "cell phone", "microwave", "oven", "toaster", "sink", "refrigerator", "", "book", "clock", "vase", "scissors", "teddy bear",
    "hair drier", "toothbrush",
)  # fmt: skip
"""COCO's names of the categories 1 to 90; ten numbers are not in use."""
CATEGORIES = tuple(number for number, name in enumerate(NAMES, start=1) if name)
"""COCO's numbers of the 80 classes."""
CLASSES = tuple(filter(None, NAMES))

WINDOW, REACH = 256, 32
ROOM, LEAST = 4 / 3, 128.0
"""How wide a window is, in longest sides of its key object, and how wide at least, in pixels of the photograph."""
SHARES = (0.01, 0.75)
"""The smallest and the largest share of the window that a key object takes."""
LEADS = 2.0
"""How many times as large as any other object of its class in view a key object is."""


@dataclass(frozen=True)
class Photograph:
    """A photograph (H, W, 3) of bytes; its objects (T, 5) and its crowds, each one box around many objects (C, 5).

    Boxes are x0, y0, x1, y1 in pixels and class.
    """

    name: str
    image: Tensor
    objects: Tensor
    crowds: Tensor


def photographs() -> list[Photograph]:
    """The annotated photographs, in the order of their names."""
    folder = files.find(FOLDER, ORIGIN)
    listed = load(folder / ANNOTATIONS)
    named = {image["id"]: image["file_name"] for image in listed["images"]}
    found: dict[str, list[Any]] = {}
    for one in listed["annotations"]:
        found.setdefault(named[one["image_id"]], []).append(one)
    if (folder / SINGLE).exists():
        found[SINGLE] = load(folder / SINGLE_ANNOTATIONS)
    return [read_photograph(folder / name, found[name]) for name in sorted(found)]


def load(path: Path) -> Any:
    """A file of annotations."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no file of COCO's annotations ({error}): get it again from {ORIGIN}.") from None


def read_photograph(path: Path, annotations: Sequence[dict[str, Any]]) -> Photograph:
    """One photograph with its annotations."""
    from PIL import Image

    with Image.open(path) as picture:
        image = torch.from_numpy(np.array(picture.convert("RGB")))
    objects, crowds = (boxes([one for one in annotations if bool(one["iscrowd"]) == crowd]) for crowd in (False, True))
    return Photograph(path.name, image, objects, crowds)


def boxes(annotations: Sequence[dict[str, Any]]) -> Tensor:
    """The boxes (T, 5) of COCO's annotations, which say x, y, width, height and category.

    >>> boxes([{"bbox": [10, 20, 30, 5], "category_id": 13}])
    tensor([[10., 20., 40., 25., 11.]])
    """
    corners = torch.tensor([one["bbox"] for one in annotations], dtype=torch.float32).reshape(-1, 4)
    number = torch.tensor([CATEGORIES.index(one["category_id"]) for one in annotations], dtype=torch.float32)
    return torch.cat((corners[:, :2], corners[:, :2] + corners[:, 2:], number[:, None]), dim=1)


def key_windows(objects: Tensor, crowds: Tensor, size: tuple[int, int]) -> Iterator[tuple[int, Tensor, float]]:
    """For each key object of a photograph of this height and width: its row, the corner (2,) of its scene, and the scene's side.

    A scene is what a window and its shifts show.

    >>> one = torch.tensor([[252.0, 152.0, 348.0, 248.0, 0.0]])
    >>> [(row, corner.tolist(), side) for row, corner, side in key_windows(one, one[:0], (400, 640))]
    [(0, [220.0, 120.0], 160.0)]
    """
    margin = 1 + 2 * REACH / WINDOW
    height, width = size
    limits = torch.tensor([width, height], dtype=torch.float32)
    for row, one in enumerate(objects):
        longest = float((one[2:4] - one[:2]).max())
        window = min(max(LEAST, ROOM * longest), min(size) / margin)
        side = margin * window
        corner = ((one[:2] + one[2:4] - side) / 2).clamp(min=torch.zeros(2), max=limits - side)
        gap = REACH / WINDOW * window
        seen = one[:4] - corner.repeat(2) - gap
        whole = bool((seen[:2] >= 0).all() and (seen[2:] <= window).all())
        if whole and SHARES[0] <= float(area(one)) / window**2 <= SHARES[1] and leads(row, objects, crowds, corner, side):
            yield row, corner, side


def leads(row: int, objects: Tensor, crowds: Tensor, corner: Tensor, side: float) -> bool:
    """Whether an object is much larger than what a scene shows of any other of its class, and no crowd of its class is in view."""
    same = torch.cat((objects[:row], objects[row + 1 :], crowds))
    crowd = torch.arange(len(same)) >= len(objects) - 1
    shown = area(clip(same[:, :4] - corner.repeat(2), side)).nan_to_num(nan=0.0)
    shown = shown * (same[:, 4] == objects[row, 4])
    return not bool((crowd & (shown > 0)).any() or (LEADS * shown > area(objects[row])).any())


def key_objects(count: int | None = None) -> Boxed:
    """Scenes (N, 3, window + 2 reach, window + 2 reach) around key objects, those that fill most of their window first."""
    from PIL import Image

    images, truths, shares = [], [], []
    for photo in photographs():
        height, width = photo.image.shape[:2]
        picture = Image.fromarray(photo.image.numpy())
        for row, corner, side in key_windows(photo.objects, photo.crowds, (height, width)):
            left, top = corner.tolist()
            pixels = WINDOW + 2 * REACH
            box = (left, top, min(left + side, width), min(top + side, height))
            scene = picture.resize((pixels, pixels), Image.Resampling.BILINEAR, box=box)
            order = [row, *(other for other in range(len(photo.objects)) if other != row)]
            moved = (photo.objects[order, :4] - corner.repeat(2)) * (pixels / side)
            visible = ~clip(moved, pixels).isnan().any(dim=1)
            images.append(torch.from_numpy(np.array(scene)).permute(2, 0, 1).float() / 255.0)
            truths.append(torch.cat((moved - REACH, photo.objects[order, 4:]), dim=1)[visible])
            shares.append(float(area(moved[0])))
    if not images:
        raise InputError(f"None of the photographs in {FOLDER} has a key object: get them again from {ORIGIN}.")
    chosen = torch.tensor(shares).argsort(descending=True, stable=True)[:count]
    truth = pad_sequence(truths, batch_first=True, padding_value=torch.nan)[chosen]
    return Boxed(torch.stack(images)[chosen], truth, truth[:, 0, 4].long())


def average_precision(found: Sequence[Tensor], photos: Sequence[Photograph], least: float = 0.5) -> dict[str, float]:
    """The average precision of each class that has objects, of detections (M, 6) in each photograph (COCO's, at one IoU).

    The most confident detection goes first and takes the free object of its class that it overlaps most, if by `least`. Detections of
    which a crowd of their class covers that share are left out. Precision at a recall is the best one at this recall or a higher one,
    averaged over the recalls 0, .01 ... 1.
    """
    return {
        name: mean_precision(*claims(number, found, photos, least))
        for number, name in enumerate(CLASSES)
        if any(bool((photo.objects[:, 4] == number).any()) for photo in photos)
    }


def claims(number: int, found: Sequence[Tensor], photos: Sequence[Photograph], least: float) -> tuple[Tensor, Tensor, int]:
    """Of one class: the scores (M,) of the detections that count, which of them find an object, and how many objects there are."""
    scores, hits, total = [], [], 0
    for rows, photo in zip(found, photos, strict=True):
        rows = rows[rows[:, 5] == number]
        objects, crowds = (boxes[boxes[:, 4] == number] for boxes in (photo.objects, photo.crowds))
        free = torch.ones(len(objects), dtype=torch.bool)
        total += len(objects)
        for row in rows[rows[:, 4].argsort(descending=True, stable=True)]:
            shared = overlap(row[:4], objects[:, :4]) * free
            hit = bool((shared >= least).any())
            if hit:
                free[shared.argmax()] = False
            elif bool((covered(row[:4], crowds[:, :4]) >= least).any()):
                continue
            scores.append(float(row[4]))
            hits.append(hit)
    return torch.tensor(scores), torch.tensor(hits, dtype=torch.bool), total


def covered(box: Tensor, others: Tensor) -> Tensor:
    """The share of a box (4,) that lies in each of the others (N, 4).

    >>> covered(torch.tensor([0.0, 0.0, 4.0, 2.0]), torch.tensor([[1.0, 0.0, 9.0, 9.0]]))
    tensor([0.7500])
    """
    common = torch.cat((torch.maximum(box[:2], others[:, :2]), torch.minimum(box[2:], others[:, 2:])), dim=1)
    return area(common) / area(box)


def mean_precision(scores: Tensor, hits: Tensor, objects: int) -> float:
    """The mean over the recalls 0, .01 ... 1 of the best precision at that recall or a higher one; 0 where no threshold reaches it.

    >>> round(mean_precision(torch.tensor([0.9, 0.8, 0.7]), torch.tensor([True, False, True]), 2), 4)  # (51 + 50 * 2 / 3) / 101
    0.835
    """
    right = hits[scores.argsort(descending=True, stable=True)].double().cumsum(0)
    precision = right / torch.arange(1, len(right) + 1)
    best = precision.flip(0).cummax(0).values.flip(0) if len(right) else precision
    at = torch.linspace(0, 1, 101, dtype=torch.float64)
    place = torch.searchsorted(right / objects, at - 1e-9)
    return float(torch.cat((best, torch.zeros(1, dtype=best.dtype)))[place].mean())
