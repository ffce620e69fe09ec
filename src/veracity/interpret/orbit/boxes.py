"""Boxes as rows of numbers: overlap, clipping, the best of a class, and which detections find an object."""

from __future__ import annotations

import torch
from torch import Tensor

SCORE, CLASS = 4, 5
"""Columns of a detection x0 y0 x1 y1 score class; in a true object x0 y0 x1 y1 class, the class stands last too."""
BORDER = 1.0
"""How near to the window's border, in pixels, a side of a box touches it."""


def overlap(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of boxes (..., 4), x0 y0 x1 y1, that broadcast: from 0 to 1, NaN where a box is missing.

    >>> overlap(torch.tensor([0.0, 0.0, 2.0, 2.0]), torch.tensor([1.0, 0.0, 3.0, 2.0]))
    tensor(0.3333)
    """
    common = area(torch.cat((torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:4], b[..., 2:4])), dim=-1))
    union = area(a) + area(b) - common
    return torch.where(union == 0, torch.zeros_like(union), common / union)


def area(boxes: Tensor) -> Tensor:
    """How large boxes (..., 4) are; an empty one has none."""
    return (boxes[..., 2:4] - boxes[..., :2]).clamp(min=0).prod(dim=-1)


def clipped(boxes: Tensor, window: float) -> Tensor:
    """Boxes (..., 4 or more) cut off at a window [0, window]^2; a row of NaN where nothing of one is left.

    >>> clipped(torch.tensor([[-2.0, 1.0, 3.0, 9.0, 7.0], [-3.0, 0.0, -1.0, 2.0, 7.0]]), 8.0).tolist()
    [[0.0, 1.0, 3.0, 8.0, 7.0], [nan, nan, nan, nan, nan]]
    """
    found = torch.cat((boxes[..., :4].clamp(0.0, window), boxes[..., 4:]), dim=-1)
    return found.masked_fill(~(area(found) > 0)[..., None], float("nan"))


def inside(boxes: Tensor, window: float) -> Tensor:
    """Which boxes (..., 4) lie wholly in the window [0, window]^2, bool (...); a missing one does not."""
    corners = boxes[..., :4]
    return ((corners >= 0.0) & (corners <= window)).all(dim=-1)


def unclipped(boxes: Tensor, window: float) -> Tensor:
    """Which sides of boxes (..., 4 or more) lie inside of their own border of the window [0, window]^2 by more than a pixel, bool (..., 4).

    A side at the border may be where the window ends instead of the object. A missing box shows no side.

    >>> unclipped(torch.tensor([0.0, 3.0, 5.0, 7.5]), 8.0).tolist()
    [False, True, True, False]
    """
    return torch.cat((boxes[..., :2] > BORDER, boxes[..., 2:4] < window - BORDER), dim=-1)


def ranked(detections: Tensor, top: int) -> Tensor:
    """The `top` most confident of the detections (R, M, 6), the best first, filled up with rows of NaN: (R, top, 6).

    >>> ranked(torch.tensor([[[0.0, 0.0, 1.0, 1.0, 0.2, 3.0], [0.0, 0.0, 2.0, 2.0, 0.9, 1.0]]]), 1)[0, 0, 4:]
    tensor([0.9000, 1.0000])
    """
    missing = detections.isnan().any(dim=2)
    order = detections[..., SCORE].masked_fill(missing, float("-inf")).argsort(dim=1, descending=True, stable=True)[:, :top]
    best = detections.masked_fill(missing[..., None], float("nan")).gather(1, order[..., None].expand(-1, -1, 6))
    return torch.nn.functional.pad(best, (0, 0, 0, top - best.shape[1]), value=float("nan"))


def best_of(detections: Tensor, key: Tensor) -> Tensor:
    """The most confident of the detections (R, M, 6) whose class is the key (R,), (R, 6); NaN where there is none."""
    if detections.shape[1] == 0:
        return detections.new_full((len(detections), 6), float("nan"))
    right = detections[..., CLASS] == key[:, None]
    score = detections[..., SCORE].masked_fill(~right, float("-inf"))
    found = detections.gather(1, score.argmax(dim=1)[:, None, None].expand(-1, 1, 6)).squeeze(1)
    return found.masked_fill(~right.any(dim=1)[:, None], float("nan"))


def found_objects(claims: Tensor, objects: Tensor, least: float) -> Tensor:
    """How many true boxes (R, T, 4) the claimed boxes (R, M, 4), the most confident first, find: (R,).

    A claim finds the object still free that it overlaps most, if by `least`; a missing box, NaN, finds nothing.

    >>> claims = torch.tensor([[[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9]]])
    >>> found_objects(claims, claims[:, :1], 0.5)
    tensor([1])
    """
    shared = overlap(claims[:, :, None], objects[:, None]).nan_to_num(nan=0.0)
    count = torch.zeros(len(claims), dtype=torch.int64, device=claims.device)
    if objects.shape[1] == 0:
        return count
    for rank in range(claims.shape[1]):
        value, place = shared[:, rank].max(dim=1)
        hit = value >= least
        count += hit
        taken = torch.nn.functional.one_hot(place, objects.shape[1]).bool() & hit[:, None]
        shared = shared.masked_fill(taken[:, None], 0.0)
    return count
