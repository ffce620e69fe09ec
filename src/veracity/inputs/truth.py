"""Ground truth in other forms than masks: boxes in images, and features of tables.

An audit turns features into masks when it is prepared, and boxes into masks block by block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Size, Tensor

from veracity.core import fingerprint
from veracity.core.errors import InputError, SpecError, unknown
from veracity.core.features import Features
from veracity.core.settings import short_repr

BOX = "(x0, y0, x1, y1)"


@dataclass(frozen=True, eq=False)
class Boxes:
    """Ground truth as boxes: for each image a list of boxes (x0, y0, x1, y1), which may be empty, or None if nothing is known.

    Numbers are pixels of the inputs as the model gets them: x from the left, y from the top, and x1, y1 are the first column and row after
    the box, so (0, 0, width, height) is the whole image. Every pixel that a box touches belongs to it. One box of an image may stand
    without a list. An array (samples, boxes, 4) has NaN for boxes that are not there. Images without a box are undefined for scores of
    localisation, and counted.

    >>> Boxes([[(0, 0, 2, 1)], None]).masks(Size((3, 2, 3)), 2)[:].int().tolist()
    [[[[1, 1, 0], [0, 0, 0]]], [[[0, 0, 0], [0, 0, 0]]]]
    """

    boxes: Any

    def masks(self, shape: Size, size: int) -> BoxMasks:
        """Masks (samples, 1, H, W) of `size` images of this shape (C, H, W); raises if a box is none, or lies outside."""
        if len(shape) != 3:
            raise InputError(f"Boxes are for images (channels, height, width), but an input has shape {tuple(shape)}: pass masks as truth.")
        images = listed(self.boxes, f"one list of boxes {BOX} per image")
        if len(images) != size:
            raise InputError(f"There are boxes of {len(images)} images for {size} inputs: give one list per image, or None for it.")
        found = [as_boxes(given, number, shape[2], shape[1]) for number, given in enumerate(images)]
        ends = np.concatenate([np.zeros((0, 4)), *found])
        pixels = np.concatenate([np.floor(ends[:, :2]), np.ceil(ends[:, 2:])], axis=1).astype(np.int64)
        starts = np.cumsum([0, *map(len, found)])
        return BoxMasks(torch.from_numpy(pixels), torch.from_numpy(starts), Size((size, 1, *shape[1:])))


@dataclass(frozen=True, eq=False)
class BoxMasks:
    """Masks (samples, 1, H, W) that are made when they are asked for, by an index of samples: only their boxes are held.

    `pixels` are the boxes (boxes, 4) of all images in whole pixels; those of image i are the rows starts[i] to starts[i + 1].
    """

    pixels: Tensor
    starts: Tensor
    shape: Size

    @property
    def device(self) -> torch.device:
        """Where masks are made."""
        return self.pixels.device

    def any(self) -> bool:
        """Whether there is a box at all."""
        return len(self.pixels) > 0

    def __getitem__(self, samples: Tensor | slice) -> Tensor:
        """The masks (n, 1, H, W) of some samples, by number or as a slice."""
        places = torch.arange(self.shape[0])[samples]
        found = torch.zeros(len(places), *self.shape[1:], dtype=torch.bool)
        for row, (start, stop) in enumerate(zip(self.starts[places].tolist(), self.starts[places + 1].tolist(), strict=True)):
            for x0, y0, x1, y1 in self.pixels[start:stop].tolist():
                found[row, 0, y0:y1, x0:x1] = True
        return found

    def spec(self) -> dict[str, Any]:
        """The boxes as a content hash."""
        return {"boxes": fingerprint.of_json([fingerprint.of_tensor(one) for one in (self.pixels, self.starts)]), "shape": list(self.shape)}


def as_boxes(given: Any, number: int, width: int, height: int) -> NDArray[np.float64]:
    """The boxes (boxes, 4) of one image; raises unless each lies inside the image and holds a pixel.

    >>> as_boxes((1, 0, 3, 2), 0, 4, 4)
    array([[1., 0., 3., 2.]])
    """
    if given is None:
        return np.zeros((0, 4))
    try:
        found = np.asarray(given.detach().cpu() if isinstance(given, Tensor) else given, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.zeros(1)
    found = found.reshape(0, 4) if found.size == 0 else found[None] if found.shape == (4,) else found
    if found.ndim != 2 or found.shape[1] != 4:
        raise InputError(f"The boxes of image {number} are {short_repr(given)}: give a list of boxes {BOX}, or None.")
    found = found[~np.isnan(found).all(axis=1)]
    x0, y0, x1, y1 = found.T
    fine = (x0 >= 0) & (y0 >= 0) & (x0 < x1) & (y0 < y1) & (x1 <= width) & (y1 <= height)
    if not fine.all():
        wrong = ", ".join(f"{value:g}" for value in found[~fine][0])
        raise InputError(
            f"The box ({wrong}) of image {number} does not fit an image of width {width} and height {height}: give {BOX} in pixels of the "
            f"inputs, with 0 <= x0 < x1 <= {width} and 0 <= y0 < y1 <= {height}."
        )
    return found


@dataclass(frozen=True, eq=False)
class RelevantFeatures:
    """Ground truth as features of a table: names or numbers of the relevant columns, one list for all rows, or one for each row.

    A feature of several columns, such as a one-hot category, goes by its own name, and numbers count features from 0. A row with None or
    without a feature is undefined for scores of localisation, and counted.

    >>> table = Features.measured(torch.zeros(2, 3), names=["age", "job"], groups=torch.tensor([0, 1, 1]))
    >>> RelevantFeatures(["job"]).masks(table, 2).int().tolist()
    [[0, 1, 1], [0, 1, 1]]
    >>> RelevantFeatures([["age", 1], None]).masks(table, 2).int().tolist()
    [[1, 1, 1], [0, 0, 0]]
    """

    features: Any

    def masks(self, known: Features | None, size: int) -> Tensor:
        """Masks (samples, d) over the values of `size` rows; raises if the inputs are no table, or do not have a feature."""
        if known is None:
            raise InputError("Features as truth are for rows of a table (samples, columns): pass masks or boxes for other inputs.")
        rows = [self.features] if isinstance(self.features, str) else listed(self.features, "a list of names or numbers of features")
        if not any(one is None or is_listed(one) for one in rows):
            return feature_mask(rows, known)[None].expand(size, -1)
        if len(rows) != size:
            raise InputError(
                f"There are features of {len(rows)} rows for {size} inputs: give one list per row, with None if nothing is known, or one "
                "list of names for all."
            )
        return torch.stack([feature_mask(() if one is None else listed(one, "a list of features per row"), known) for one in rows])


def feature_mask(given: Sequence[Any], known: Features) -> Tensor:
    """Which values (d,) belong to features that are given by name or number; raises if the table does not have one.

    >>> feature_mask(["age"], Features.measured(torch.zeros(2, 2), names=["age", "job"]))
    tensor([ True, False])
    """
    found, count = torch.zeros(len(known.groups), dtype=torch.bool), len(known.names)
    for one in given:
        if isinstance(one, str):
            if one not in known.names:
                raise unknown("feature of the table", one, known.names)
            place = known.names.index(one)
        elif isinstance(one, (int, np.integer)) and not isinstance(one, bool):
            place = int(one)
        else:
            raise SpecError(f"A feature of the truth is a name or a number, not {short_repr(one)}: pass masks as an array instead.")
        if not 0 <= place < count:
            raise InputError(f"The truth names feature {place} of a table with {count}: count from 0 to {count - 1}, or give names.")
        found |= known.groups == place
    return found


def is_listed(value: Any) -> bool:
    """Whether a value holds others: a list, a tuple, a set, an array, a column of a table."""
    return not isinstance(value, (str, bytes)) and hasattr(value, "__iter__")


def listed(value: Any, wanted: str) -> list[Any]:
    """The values of a list, a set, an array or a tensor, as Python's own; raises if it is none of these."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict) or not is_listed(value):
        raise InputError(f"The truth needs {wanted}, not {short_repr(value)}.")
    return list(value)
