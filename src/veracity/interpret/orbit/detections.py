"""What detectors of other libraries give, as rows x0 y0 x1 y1 score class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from veracity.core.errors import InputError

PARTS = ("boxes", "scores", "labels")
EXPECTED = (
    "a tensor (rows, detections, 6) of x0 y0 x1 y1 score class, a list of {boxes, scores, labels}, or an output with logits and pred_boxes"
)


def detections(raw: Any, *, window: float, first: int) -> Tensor:
    """What any detector gave for R windows, float32 (R, M, 6), NaN where there is no detection; in no special order.

    `window` is the side that boxes in [0, 1] are shares of; `first` the label of class 0 in a torchvision-style output.

    >>> one = {"boxes": torch.tensor([[0.0, 0.0, 4.0, 4.0]]), "scores": torch.tensor([0.5]), "labels": torch.tensor([1])}
    >>> detections([one], window=8.0, first=1).tolist()
    [[[0.0, 0.0, 4.0, 4.0, 0.5, 0.0]]]
    """
    if isinstance(raw, Tensor):
        if raw.ndim != 3 or raw.shape[2] != 6:
            raise InputError(f"The detector must give {EXPECTED}, not a tensor of shape {tuple(raw.shape)}.")
        return raw.detach().float()
    logits, boxes = (raw.get(key) if isinstance(raw, Mapping) else getattr(raw, key, None) for key in ("logits", "pred_boxes"))
    if isinstance(logits, Tensor) and isinstance(boxes, Tensor):
        return from_queries(logits.detach().float(), boxes.detach().float(), window)
    if isinstance(raw, Sequence) and raw and all(isinstance(one, Mapping) and all(key in one for key in PARTS) for one in raw):
        return from_lists(raw, first)
    raise InputError(f"The detector must give {EXPECTED}, not {type(raw).__name__}.")


def from_lists(raw: Sequence[Mapping[str, Tensor]], first: int) -> Tensor:
    """torchvision's form: for each window boxes (m, 4) in pixels, scores (m,) and labels (m,), where `first` is class 0."""
    rows = [torch.cat((one["boxes"], one["scores"][:, None], one["labels"][:, None] - first), dim=1).detach().float() for one in raw]
    return pad_sequence(rows, batch_first=True, padding_value=float("nan"))


def from_queries(logits: Tensor, boxes: Tensor, window: float) -> Tensor:
    """The form of transformers: logits (R, Q, C + 1) whose last class is "nothing", boxes (R, Q, 4) as centre and size in [0, 1].

    >>> found = from_queries(torch.tensor([[[0.0, 0.0, 0.0]]]), torch.tensor([[[0.5, 0.5, 1.0, 0.5]]]), 8.0)
    >>> found[0, 0, :4].tolist(), round(float(found[0, 0, 4]), 3)
    ([0.0, 2.0, 8.0, 6.0], 0.333)
    """
    score, number = logits.softmax(dim=2)[..., :-1].max(dim=2)
    corners = torch.cat((boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2), dim=2) * window
    return torch.cat((corners, score[..., None], number[..., None].to(corners)), dim=2)
