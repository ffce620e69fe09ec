"""Mosaics: images of several classes side by side, which know where the images of the explained class are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.randomness import Draws

TILES = 4


@dataclass(frozen=True)
class Mosaics:
    """Inputs (M, C, 2 H, 2 W), the class (M,) that is explained, masks (M, 2 H, 2 W) of its tiles, and the source (M, 4) of each tile."""

    inputs: Tensor
    targets: Tensor
    truth: Tensor
    sources: Tensor


def mosaics(images: Any, labels: Any, *, per_class: int = 10, seed: int = 0) -> Mosaics:
    """`per_class` mosaics of two by two tiles for each class: two images of the class and two of other classes, in random order.

    Images (N, C, H, W), labels (N,). Classes with fewer than two images have no mosaics of their own. Pass the parts on as
    `Audit(inputs=made.inputs, targets=made.targets, truth=made.truth, target="label", scores=["focus"])`.

    >>> made = mosaics(torch.arange(4.0).reshape(4, 1, 1, 1), [0, 0, 1, 1], per_class=1)
    >>> made.inputs.shape, made.targets.tolist(), made.truth.flatten(1).sum(1).tolist()
    (torch.Size([2, 1, 2, 2]), [0, 1], [2, 2])

    Reference: Arias-Duart et al., Focus! Rating XAI methods and finding biases (FUZZ-IEEE 2022).
    """
    x, y = torch.as_tensor(images), torch.as_tensor(labels).flatten().cpu()
    if x.ndim != 4 or len(x) != len(y):
        raise InputError(
            f"Mosaics need images (samples, C, H, W) with one label each, not {len(y)} labels and images of shape {tuple(x.shape)}."
        )
    if isinstance(per_class, bool) or not isinstance(per_class, int) or per_class < 1:
        raise InputError(f"Mosaics need per_class, a whole number of at least 1, not {per_class!r}.")
    classes = [one for one in y.unique().tolist() if int((y == one).sum()) > 1 and int((y != one).sum()) > 1]
    if not classes:
        raise InputError("Mosaics need two images of a class and two of other classes: pass more images.")
    sources, targets = [], []
    for number, one in enumerate(classes):
        draws = Draws.of(seed, torch.arange(number * per_class, (number + 1) * per_class))
        own, others = (y == one).nonzero()[:, 0], (y != one).nonzero()[:, 0]
        chosen = torch.cat(
            (own[draws.choice(len(own), 2, stream="own tiles")], others[draws.choice(len(others), 2, stream="others")]), dim=1
        )
        sources.append(chosen.gather(1, draws.choice(TILES, TILES, stream="places")))
        targets.append(torch.full((per_class,), one, dtype=y.dtype))
    source, target = torch.cat(sources), torch.cat(targets)
    tiles = x[source.to(x.device)]
    rows = [torch.cat((tiles[:, left], tiles[:, left + 1]), dim=-1) for left in (0, 2)]
    return Mosaics(torch.cat(rows, dim=-2), target, tile_masks(y[source] == target[:, None], 2 * x.shape[-2], 2 * x.shape[-1]), source)


def tile_masks(tiles: Tensor, height: int, width: int) -> Tensor:
    """Masks (N, height, width) from which of the four tiles (N, 4) count, row by row.

    >>> tile_masks(torch.tensor([[True, False, False, True]]), 2, 4).int().tolist()
    [[[1, 1, 0, 0], [0, 0, 1, 1]]]
    """
    if tiles.ndim != 2 or tiles.shape[1] != TILES:
        raise InputError(f"A mosaic has four tiles, so there must be four numbers per sample, not the shape {tuple(tiles.shape)}.")
    row, column = (torch.arange(size) >= size // 2 for size in (height, width))
    return tiles.bool().cpu()[:, (2 * row[:, None].long() + column.long())]
