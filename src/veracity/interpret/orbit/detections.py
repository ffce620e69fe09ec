"""What detectors of other libraries give, as rows x0 y0 x1 y1 score class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from veracity.core.errors import InputError
from veracity.interpret.orbit.boxes import CLASS

PARTS = ("boxes", "scores", "labels")
EXPECTED = "a tensor (rows, detections, 6) of x0 y0 x1 y1 score class, or a list of {boxes, scores, labels}"


def detections(raw: Any, *, first: int) -> Tensor:
    """What any detector gave for R windows, float32 (R, M, 6), NaN where there is no detection; in no special order.

    `first` is the label of class 0 in a torchvision-style output. Logits and pred_boxes are refused: whether logits are to be read with
    a softmax or with sigmoids, only the model's training tells.

    >>> one = {"boxes": torch.tensor([[0.0, 0.0, 4.0, 4.0]]), "scores": torch.tensor([0.5]), "labels": torch.tensor([1])}
    >>> detections([one], first=1).tolist()
    [[[0.0, 0.0, 4.0, 4.0, 0.5, 0.0]]]
    """
    if isinstance(raw, Tensor):
        if raw.ndim != 3 or raw.shape[2] != 6:
            raise InputError(f"The detector must give {EXPECTED}, not a tensor of shape {tuple(raw.shape)}.")
        return numbered(raw.detach().float(), "its last column must number classes from 0")
    if all(key in raw if isinstance(raw, Mapping) else hasattr(raw, key) for key in ("logits", "pred_boxes")):
        raise InputError(
            "The detector gives logits and pred_boxes, which do not say how they are to be read: wrap it as "
            "veracity.orbits.TransformersDetector(model, labels=...), with score=torch.sigmoid where it has no class for nothing."
        )
    if isinstance(raw, Sequence) and raw and all(isinstance(one, Mapping) and all(key in one for key in PARTS) for one in raw):
        return numbered(from_lists(raw, first), f"its labels must begin with first={first}: pass Detection(first=...) to fit it")
    raise InputError(f"The detector must give {EXPECTED}, not {type(raw).__name__}.")


def numbered(found: Tensor, advice: str) -> Tensor:
    """Detections (R, M, 6), if none has a class below 0."""
    number = found[..., CLASS]
    if bool((number < 0).any()):
        raise InputError(f"The detector gives the class {float(number[number < 0][0]):g}: {advice}.")
    return found


def from_lists(raw: Sequence[Mapping[str, Tensor]], first: int) -> Tensor:
    """torchvision's form: for each window boxes (m, 4) in pixels, scores (m,) and labels (m,), where `first` is class 0."""
    rows = [torch.cat((one["boxes"], one["scores"][:, None], one["labels"][:, None] - first), dim=1).detach().float() for one in raw]
    return pad_sequence(rows, batch_first=True, padding_value=float("nan"))
