"""Scenes larger than a window that moves over them: digits on canvases, with their boxes.

A scene is twice as wide as the window. The key digit sits at its centre, and digits of other classes lie in the band around the
unmoved window, so that shifts by up to half a window bring real pixels into view.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from veracity.core.errors import InputError
from veracity.demo import digits
from veracity_papers.data.labelled import check_split
from veracity_papers.data.mnist import mnist

WINDOW = 128
INK = 0.25
"""How bright a pixel of a digit is to belong to its box."""
SIDES = (0.3, 0.45)
"""The smallest and the largest side of a digit's own square, as shares of the window."""
PRESENT = 0.3
SOURCES: dict[str, Callable[[str], tuple[Tensor, Tensor]]] = {"mnist": mnist, "digits": partial(digits, padding=1)}


@dataclass(frozen=True)
class Boxed:
    """Images (N, C, H, W) in [0, 1], their objects (N, T, 5) as x0, y0, x1, y1, class, and the key object's class (N,).

    Row 0 of an image's objects is its key object, at the centre of the image or near it; absent rows are NaN. Coordinates are pixels of
    the unmoved window, the one around the centre, so that an object beside it has coordinates outside it.
    """

    images: Tensor
    boxes: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: Tensor | slice) -> Boxed:
        """Some of the images, in the order given."""
        return Boxed(self.images[rows], self.boxes[rows], self.labels[rows])


def scenes(count: int, split: str = "test", *, source: str = "mnist", window: int = WINDOW, seed: int = 0) -> Boxed:
    """`count` scenes (N, 1, 2 window, 2 window) from a seed, of "mnist" or scikit-learn's "digits"."""
    if source not in SOURCES:
        raise InputError(f"There are no digits named '{source}' to make scenes of: choose {' or '.join(SOURCES)}.")
    images, labels = SOURCES[source](check_split(split))
    return compose(images, labels, count, window=window, generator=torch.Generator().manual_seed(seed))


def compose(images: Tensor, labels: Tensor, count: int, *, window: int, generator: torch.Generator) -> Boxed:
    """Scenes of digits (M, 1, h, w) with labels (M,), drawn with a generator on the digits' device.

    The scene is cut into 4x4 cells of half a window. Each of the twelve outer cells holds a digit of another class than the key's
    with probability .27; the key digit lies over the four inner cells.
    """
    if window % 4:
        raise InputError(f"A scene needs a window whose side is a multiple of 4, not {window}.")
    device, cell = images.device, window // 2
    drawn = partial(torch.rand, generator=generator, device=device)
    chosen = torch.randint(len(labels), (count, 13), generator=generator, device=device)
    classes = labels[chosen]
    there = (drawn(count, 13) < PRESENT) & (classes != classes[:, :1])
    there[:, 0] = True
    side = (SIDES[0] + (SIDES[1] - SIDES[0]) * drawn(count, 13)) * window
    room = (cell - side)[..., None] / 2
    places = (2 * drawn(count, 13, 2) - 1) * room
    places[:, 0] = 0.0
    tiles = place_digits(images[chosen.flatten()], side.flatten(), places.flatten(0, 1), cell).reshape(count, 13, cell, cell)
    tiles = tiles * there[..., None, None]
    number = torch.arange(16, device=device)
    outer = number[~(((number // 4) % 3 > 0) & ((number % 4) % 3 > 0))]
    grid = tiles.new_zeros(count, 16, cell, cell)
    grid[:, outer] = tiles[:, 1:]
    canvas = grid.reshape(count, 4, 4, cell, cell).transpose(2, 3).reshape(count, 1, 4 * cell, 4 * cell)
    inner = slice(4 * cell // 2 - cell // 2, 4 * cell // 2 + cell // 2)
    canvas[:, 0, inner, inner] = tiles[:, 0]
    corners = torch.stack((outer % 4, outer // 4), dim=1) * cell - cell
    corners = torch.cat((corners.new_full((1, 2), cell // 2), corners))
    boxes = bounding_boxes(tiles > INK) + corners.repeat(1, 2)
    boxes = torch.cat((boxes, classes[..., None].float()), dim=2).masked_fill(~there[..., None], torch.nan)
    return Boxed(canvas, boxes, classes[:, 0])


def place_digits(images: Tensor, side: Tensor, places: Tensor, cell: int) -> Tensor:
    """Images (M, 1, h, w) scaled to squares of sides (M,), their ink at places (M, 2) from the centre of a cell: (M, cell, cell)."""
    height, width = images.shape[-2:]
    box = bounding_boxes(images[:, 0] > INK)
    middle = (box[:, :2] + box[:, 2:]) / images.new_tensor([width, height]) - 1
    at = torch.arange(cell, device=images.device) + 0.5 - cell / 2
    grid = torch.stack(torch.meshgrid(at, at, indexing="xy"), dim=-1)
    source = (grid - places[:, None, None]) / (side / 2)[:, None, None, None] + middle[:, None, None]
    return grid_sample(images, source, align_corners=False)[:, 0]


def bounding_boxes(marked: Tensor) -> Tensor:
    """The boxes (..., 4) around the marked pixels of masks (..., H, W), as x0, y0, x1, y1; NaN where none is marked.

    >>> bounding_boxes(torch.tensor([[0, 0, 0, 0], [0, 1, 1, 0]]).bool())
    tensor([1., 1., 3., 2.])
    """
    found = []
    for axis in (-2, -1):
        line = marked.any(dim=axis)
        place = torch.arange(line.shape[-1], device=marked.device)
        low = torch.where(line, place, line.shape[-1]).amin(dim=-1)
        high = torch.where(line, place, -1).amax(dim=-1) + 1
        found.append((low, high))
    (x0, x1), (y0, y1) = found
    box = torch.stack((x0, y0, x1, y1), dim=-1).float()
    return box.masked_fill(~marked.flatten(-2).any(dim=-1)[..., None], torch.nan)


def crop(images: Tensor, corners: Tensor, side: int) -> Tensor:
    """Windows (N, C, side, side) of images (N, C, H, W) whose upper left corners (N, 2) are whole pixels x, y.

    >>> crop(torch.arange(9.0).reshape(1, 1, 3, 3), torch.tensor([[1, 0]]), 2)
    tensor([[[[1., 2.],
              [4., 5.]]]])
    """
    steps = torch.arange(side, device=images.device)
    columns, rows = (corners[:, axis, None] + steps for axis in (0, 1))
    number = torch.arange(len(images), device=images.device)[:, None, None]
    return images.movedim(1, -1)[number, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)


def clip_boxes(boxes: Tensor, side: float, *, visible: float = 0.0, least: float = 0.0) -> Tensor:
    """Objects (N, T, 5) cut off at a window's borders; NaN where less than a share of the area or `least` pixels of a side are left.

    >>> clip_boxes(torch.tensor([[[-5.0, 0.0, 5.0, 10.0, 3.0], [-9.0, 0.0, -1.0, 10.0, 1.0]]]), 32)[0, :, :4]
    tensor([[ 0.,  0.,  5., 10.],
            [nan, nan, nan, nan]])
    """
    inside = boxes[..., :4].clamp(0, side)
    size, whole = inside[..., 2:] - inside[..., :2], boxes[..., 2:4] - boxes[..., :2]
    kept = (size.prod(dim=-1) > visible * whole.prod(dim=-1)) & (size > least).all(dim=-1)
    return torch.cat((inside, boxes[..., 4:]), dim=-1).masked_fill(~kept[..., None], torch.nan)
