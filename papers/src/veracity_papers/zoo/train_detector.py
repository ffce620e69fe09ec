"""Train the detectors of the orbit recipes: python -m veracity_papers.zoo.train_detector OUT [--only NAME ...] [--steps N]

Four for digits on canvases, four for blood cells: the key object lies at the window's centre (0 % jitter), or is shifted
uniformly by up to 25, 50 or 100 % of the reach. Needs torch, numpy and safetensors, MNIST and BCCD where VERACITY_DATA says (BCCD
as the archive with Pillow, or as `--prepare FOLDER` writes it). Names may run side by side; about a minute each on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, l1_loss

from veracity.trainers.training import initialised
from veracity_papers.data import bccd
from veracity_papers.data.mnist import mnist
from veracity_papers.data.scenes import WINDOW, Boxed, clip_boxes, compose, crop, scenes
from veracity_papers.zoo.detector import DATA, JITTERS, STRIDE, Detector, build
from veracity_papers.zoo.scripts import Report, command, halve, one_cycle, progress, say, write

NAMES = {f"detector-{data}-{jitter}": (data, jitter) for data in DATA for jitter in JITTERS}
REACH = {"digits": WINDOW // 2, "cells": bccd.REACH}
VISIBLE, LEAST = 0.15, 3.0
"""What must be left of an object at the window's border for it to be learnt: a share of its area, pixels of each side."""
Batches = Iterator[tuple[Tensor, Tensor]]


def digit_batches(jitter: float, generator: torch.Generator, batch: int, images: Tensor, labels: Tensor, window: int = WINDOW) -> Batches:
    """Endless batches of windows (N, 1, window, window) over fresh scenes of digits, and their objects (N, T, 5)."""
    reach = window // 2
    while True:
        made = compose(images, labels, batch, window=window, generator=generator)
        most = round(jitter * reach)
        shift = torch.randint(-most, most + 1, (batch, 2), generator=generator, device=images.device)
        yield crop(made.images, shift + reach, window), shift_boxes(made.boxes, shift)


def cell_batches(jitter: float, generator: torch.Generator, batch: int, images: Tensor, boxes: Tensor) -> Batches:
    """Endless batches of windows around white cells and platelets, half of each, turned and mirrored, slightly brighter or darker.

    A shift goes as far as the photograph does.
    """
    device, (height, width) = images.device, images.shape[-2:]
    found = bccd.keys(boxes, reach=0, alone=False)
    key = boxes[found[:, 0], found[:, 1]]
    share = (1.0 / key[:, 4].long().bincount(minlength=len(bccd.CLASSES)))[key[:, 4].long()]
    most = round(jitter * bccd.REACH)
    room = torch.tensor([width - WINDOW, height - WINDOW], device=device)
    while True:
        chosen = share.multinomial(batch, replacement=True, generator=generator)
        corner = ((key[chosen, :2] + key[chosen, 2:4] - WINDOW) / 2).floor().long()
        low, high = (corner - most).clamp(min=0), torch.minimum(corner + most, room)
        corner = low + (torch.rand(batch, 2, generator=generator, device=device) * (high - low + 1)).long()
        image = found[chosen, 0]
        seen, objects = random_flips(crop(images[image], corner, WINDOW).float() / 255.0, shift_boxes(boxes[image], corner), generator)
        light = 1 + 0.2 * (torch.rand(batch, 3, 1, 1, generator=generator, device=device) - 0.5)
        yield (seen * light).clamp(0, 1), objects


def shift_boxes(boxes: Tensor, shift: Tensor) -> Tensor:
    """Objects (N, T, 5) as a window sees them that was moved by whole pixels (N, 2)."""
    return torch.cat((boxes[..., :4] - shift.repeat(1, 2)[:, None], boxes[..., 4:]), dim=2)


def random_flips(x: Tensor, boxes: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Windows (N, C, S, S) and their objects, each mirrored, upside down and transposed with probability a half."""
    side = x.shape[-1]
    flips = torch.rand(3, len(x), 1, 1, generator=generator, device=x.device) < 0.5
    x = torch.where(flips[0][..., None], x.flip(-1), x)
    x = torch.where(flips[1][..., None], x.flip(-2), x)
    x = torch.where(flips[2][..., None], x.transpose(-1, -2), x)
    mirror = boxes[..., [2, 1, 0, 3, 4]] * boxes.new_tensor([-1, 1, -1, 1, 1]) + boxes.new_tensor([side, 0, side, 0, 0])
    boxes = torch.where(flips[0], mirror, boxes)
    over = boxes[..., [0, 3, 2, 1, 4]] * boxes.new_tensor([1, -1, 1, -1, 1]) + boxes.new_tensor([0, side, 0, side, 0])
    boxes = torch.where(flips[1], over, boxes)
    return x, torch.where(flips[2], boxes[..., [1, 0, 3, 2, 4]], boxes)


def loss(model: Detector, x: Tensor, boxes: Tensor) -> Tensor:
    """Focal loss of the heat (Zhou et al. 2019, eq. 1) and absolute errors of sizes and offsets at the objects' centres."""
    heat, sizes, offsets = model.maps(x)
    side, cells = x.shape[-1], heat.shape[-1]
    seen = clip_boxes(boxes, side, visible=VISIBLE, least=LEAST)
    there = ~seen[..., 0].isnan()
    seen = seen.nan_to_num(0.0)
    centre, size = (seen[..., :2] + seen[..., 2:4]) / (2 * STRIDE), (seen[..., 2:4] - seen[..., :2]).clamp(min=1.0)
    cell = centre.long().clamp(0, cells - 1)
    wanted = targets(cell, size / STRIDE, seen[..., 4].long(), there, model.classes, cells)
    sure = heat.sigmoid()
    weight = torch.where(wanted == 1, (1 - sure) ** 2, (1 - wanted) ** 4 * sure**2)
    focal = (weight * binary_cross_entropy_with_logits(heat, (wanted == 1).float(), reduction="none")).sum()
    row, column = cell[..., 1], cell[..., 0]
    number = torch.arange(len(x), device=x.device)[:, None].expand_as(row)
    at = (number[there], slice(None), row[there], column[there])
    place = l1_loss(offsets[at], (centre - cell - 0.5)[there], reduction="sum")
    extent = l1_loss(sizes[at], (size / side).log()[there], reduction="sum")
    return (focal + place + extent) / there.sum().clamp(min=1)


def targets(cell: Tensor, size: Tensor, classes: Tensor, there: Tensor, count: int, cells: int) -> Tensor:
    """Heat maps (N, classes, cells, cells): 1 at each object's cell, falling off as a Gaussian a sixth of the object wide."""
    place = torch.arange(cells, device=cell.device)
    width = (size / 6).clamp(min=0.4)
    falls = [(-((place - cell[..., axis, None]) ** 2) / (2 * width[..., axis, None] ** 2)).exp() for axis in (1, 0)]
    spot = falls[0][..., :, None] * falls[1][..., None, :] * there[..., None, None]
    which = classes[..., None] == torch.arange(count, device=cell.device)
    return (spot[:, :, None] * which[..., None, None]).amax(dim=1)


def fit(model: Detector, batches: Batches, steps: int, *, rate: float = 4e-3, report: Report | None = None) -> Detector:
    """Train in place, and return the detector in evaluation mode."""
    return one_cycle(model, lambda: loss(model, *next(batches)), steps, rate=rate, decay=1e-3, clip=5.0, report=report)


@torch.no_grad()
def evaluate(model: Detector, data: Boxed, reach: int, step: int) -> dict[str, float]:
    """How much the most confident box of the key's class overlaps the true one: unmoved, and on average over all shifts."""
    side = data.images.shape[-1] - 2 * reach
    line = torch.arange(-reach, reach, step, device=data.images.device)
    found = []
    for shift in torch.cartesian_prod(line, line):
        moves = shift.expand(len(data), 2)
        boxes = model(crop(data.images, moves + reach, side))
        found.append(overlap(boxes, clip_boxes(shift_boxes(data.boxes[:, :1], moves), side)[:, 0]))
    plot = torch.stack(found, dim=1)
    centre = int((torch.cartesian_prod(line, line) == 0).all(dim=1).nonzero()[0, 0])
    return {"iou_centre": round(float(plot[:, centre].mean()), 4), "iou_shifted": round(float(plot.mean()), 4)}


def overlap(boxes: Tensor, truth: Tensor) -> Tensor:
    """Intersection over union (N,) of the most confident of boxes (N, M, 6) of the true class and true objects (N, 5); 0 without one."""
    mine = boxes[..., 5] == truth[:, None, 4]
    best = torch.where(mine, boxes[..., 4], -1.0).argmax(dim=1)
    box = boxes[torch.arange(len(boxes)), best, :4]
    both = (torch.minimum(box[:, 2:], truth[:, 2:4]) - torch.maximum(box[:, :2], truth[:, :2])).clamp(min=0).prod(dim=1)
    area = sum((one[:, 2:4] - one[:, :2]).prod(dim=1) for one in (box, truth))
    return torch.where(mine.any(dim=1), both / (area - both), 0.0)


def train_one(name: str, out: Path, *, steps: int, batch: int, device: str, seed: int) -> dict[str, object]:
    """Train one detector, write its weights in half precision, and return its scores."""
    data, jitter = NAMES[name]
    start = time.perf_counter()
    generator = torch.Generator(device=device).manual_seed(seed)
    model = initialised(lambda: build(data), seed).to(device)
    if data == "digits":
        images, labels = (part.to(device) for part in mnist("train"))
        batches = digit_batches(jitter / 100, generator, batch, images, labels)
        test, judge = scenes(64), "test"
    else:
        batches = cell_batches(jitter / 100, generator, batch, bccd.photographs("train").to(device), bccd.object_boxes("train").to(device))
        test, judge = bccd.cells(split="train"), "train"

    fit(model, batches, steps, report=progress(name, start, 500, "loss"))
    halve(model)
    test = Boxed(test.images.to(device), test.boxes.to(device), test.labels.to(device))
    facts = {"jitter": jitter, "steps": steps, "batch": batch, "seed": seed, "judged_on": judge}
    return write(model, name, out, start, **facts, **evaluate(model, test, REACH[data], REACH[data] // 4))


def main() -> None:
    """Read the arguments, train, print one line per network."""
    parser = command("Train the detectors of the orbit recipes.", NAMES, steps=3000, batch=64)
    parser.add_argument("--prepare", action="store_true", help="only write BCCD's training images to OUT as one file of arrays")
    given = parser.parse_args()
    if given.prepare:
        say({"written": str(bccd.prepare(given.out))})
        return
    for name in given.only:
        say(train_one(name, given.out, steps=given.steps, batch=given.batch, device=given.device, seed=given.seed))


if __name__ == "__main__":
    main()
