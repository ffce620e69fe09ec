"""Objects along an orbit of shifts: boxes move against the window and are cut off at its edge.

First boxes as rows of numbers (overlap, clipping, the best of a class, which detections find an object), then the outputs of detectors of
other libraries as rows x0 y0 x1 y1 score class, then the metrics and the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from veracity.core.errors import InputError
from veracity.core.registry import TASKS
from veracity.core.settings import Count, Whole
from veracity.core.spaces import InputSpace
from veracity.orbits.tasks.base import Metric, Task, orbit_mean
from veracity.perturb.output_actions import ShiftedBoxes

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


def clip(boxes: Tensor, window: float) -> Tensor:
    """Boxes (..., 4 or more) cut off at a window [0, window]^2; a row of NaN where nothing of one is left.

    >>> clip(torch.tensor([[-2.0, 1.0, 3.0, 9.0, 7.0], [-3.0, 0.0, -1.0, 2.0, 7.0]]), 8.0).tolist()
    [[0.0, 1.0, 3.0, 8.0, 7.0], [nan, nan, nan, nan, nan]]
    """
    found = torch.cat((boxes[..., :4].clamp(0.0, window), boxes[..., 4:]), dim=-1)
    return found.masked_fill(~(area(found) > 0)[..., None], float("nan"))


def inside(boxes: Tensor, window: float) -> Tensor:
    """Which boxes (..., 4) lie wholly in the window [0, window]^2, bool (...); a missing one does not."""
    corners = boxes[..., :4]
    return ((corners >= 0.0) & (corners <= window)).all(dim=-1)


def visible_sides(boxes: Tensor, window: float) -> Tensor:
    """Which sides of boxes (..., 4 or more) lie inside of their own border of the window [0, window]^2 by more than a pixel, bool (..., 4).

    A side at the border may be where the window ends instead of the object. A missing box shows no side.

    >>> visible_sides(torch.tensor([0.0, 3.0, 5.0, 7.5]), 8.0).tolist()
    [False, True, True, False]
    """
    return torch.cat((boxes[..., :2] > BORDER, boxes[..., 2:4] < window - BORDER), dim=-1)


def most_confident(detections: Tensor, top: int) -> Tensor:
    """The `top` most confident of the detections (R, M, 6), the best first, filled up with rows of NaN: (R, top, 6).

    >>> most_confident(torch.tensor([[[0.0, 0.0, 1.0, 1.0, 0.2, 3.0], [0.0, 0.0, 2.0, 2.0, 0.9, 1.0]]]), 1)[0, 0, 4:]
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
        found, advice = raw.detach().float(), "its last column must number classes from 0"
    elif all(key in raw if isinstance(raw, Mapping) else hasattr(raw, key) for key in ("logits", "pred_boxes")):
        raise InputError(
            "The detector gives logits and pred_boxes, which do not say how they are to be read: wrap it as "
            "veracity.orbits.TransformersDetector(model, labels=...), with score=torch.sigmoid where it has no class for nothing."
        )
    elif isinstance(raw, Sequence) and raw and all(isinstance(one, Mapping) and all(key in one for key in PARTS) for one in raw):
        rows = [torch.cat((one["boxes"], one["scores"][:, None], one["labels"][:, None] - first), dim=1).detach().float() for one in raw]
        found = pad_sequence(rows, batch_first=True, padding_value=float("nan"))
        advice = f"its labels must begin with first={first}: pass Detection(first=...) to fit it"
    else:
        raise InputError(f"The detector must give {EXPECTED}, not {type(raw).__name__}.")
    below = found[..., CLASS][found[..., CLASS] < 0]
    if len(below):
        raise InputError(f"The detector gives the class {float(below[0]):g}: {advice}.")
    return found


OVERLAP = 0.5
"""The least overlap with an object that finds it."""
SURE = 0.5
"""The least score of a detection that precision and recall count."""


def iou(output: Tensor, truth: Tensor) -> Tensor:
    """The overlap of the key object (row 0 of truth (R, T, 5)) with the most confident detection of its class, (R,).

    0 where nothing of that class was found, NaN where the key object is not in the window.

    >>> output = torch.tensor([[[0.0, 0.0, 2.0, 2.0, 0.9, 7.0], [0.0, 0.0, 4.0, 2.0, 0.8, 3.0]]])
    >>> iou(output, torch.tensor([[[0.0, 0.0, 4.0, 4.0, 3.0]]]))
    tensor([0.5000])
    """
    return at_key(overlap(best_of(output, truth[:, 0, -1]), truth[:, 0, :4]), truth)


def confidence(output: Tensor, truth: Tensor) -> Tensor:
    """The score of the most confident detection of the key object's class, (R,): 0 for none, NaN as for `iou`."""
    return at_key(best_of(output, truth[:, 0, -1])[:, SCORE], truth)


def iou_confidence(output: Tensor, truth: Tensor) -> Tensor:
    """Overlap times score of the most confident detection of the key object's class, (R,)."""
    return iou(output, truth) * confidence(output, truth)


def precision(output: Tensor, truth: Tensor) -> Tensor:
    """Which share of the detections of the key class with a score of at least .5 find an object of that class (IoU >= .5); NaN for none."""
    claims, objects = of_key_class(output, truth)
    found = found_objects(claims, objects, OVERLAP)
    return at_key(found / box_counts(claims), truth, missing=float("nan"))


def recall(output: Tensor, truth: Tensor) -> Tensor:
    """Which share of the objects of the key class in the window a detection of that class with a score of at least .5 finds (IoU >= .5)."""
    claims, objects = of_key_class(output, truth)
    return at_key(found_objects(claims, objects, OVERLAP) / box_counts(objects), truth)


IOU = Metric(name="iou", function=iou, label="IoU", consensus_label="IoU with the consensus", bounds=(0.0, 1.0))
CONFIDENCE = Metric(name="confidence", function=confidence, label="confidence", bounds=(0.0, 1.0))
IOU_CONFIDENCE = Metric(name="iou_confidence", function=iou_confidence, label="IoU x confidence", bounds=(0.0, 1.0))
PRECISION = Metric(name="precision", function=precision, label="precision", bounds=(0.0, 1.0))
RECALL = Metric(name="recall", function=recall, label="recall", bounds=(0.0, 1.0))


@TASKS.add
@dataclass(frozen=True, kw_only=True)
class Detection(Task):
    """Outputs are detections (R, top, 6), x0 y0 x1 y1 score class, the most confident first, NaN for none.

    The truth (samples, T, 5), x0 y0 x1 y1 class, is in pixels of the unmoved window, row 0 the key object and NaN for none;
    objects outside the window have coordinates outside it. Moved, it is cut off at the window's edge. `read` takes tensors, lists
    of {boxes, scores, labels} whose first class has the label `first`.

    The consensus is the mean of the undone most confident boxes of one class over the elements that have one, and how many have
    none: the key object's class where the truth is given, else that of the most confident detections along the orbit, added up.
    A side of a box that lies at the window's border says nothing of where the object ends, so that each side is averaged over the
    elements that show it inside.
    """

    name = "detection"
    kind = "detection"
    action = ShiftedBoxes()

    classes: tuple[str, ...] = ()
    window: Count = 128
    top: Count = 5
    first: Whole = 1
    metrics: tuple[Metric, ...] = (IOU, CONFIDENCE, IOU_CONFIDENCE, PRECISION, RECALL)

    def read(self, raw: Any) -> Tensor:
        """The most confident detections, (R, top, 6)."""
        found = detections(raw, first=self.first)
        number = found[..., CLASS]
        beyond = number[number.isfinite() & (number >= (len(self.classes) or float("inf")))]
        if len(beyond):
            raise InputError(
                f"The detector gives the class {float(beyond[0]):g}, but there are only {len(self.classes)}: pass Detection(classes=...) "
                "all of its classes, or wrap it as veracity.orbits.TorchvisionDetector(model, labels=...), which keeps those of interest."
            )
        return most_confident(found, self.top)

    def check(self, truth: Tensor, samples: int) -> Tensor:
        """Objects (samples, T, 5), float32, each sample with a key object."""
        if not isinstance(truth, Tensor) or truth.ndim != 3 or truth.shape[0] != samples or truth.shape[1] < 1 or truth.shape[2] != 5:
            what = tuple(truth.shape) if isinstance(truth, Tensor) else type(truth).__name__
            raise InputError(f"The targets of a detection must be boxes x0 y0 x1 y1 class of shape ({samples}, objects, 5), not {what}.")
        if bool(truth[:, 0].isnan().any()):
            first = int(truth[:, 0].isnan().any(dim=1).nonzero()[0])
            raise InputError(f"Sample {first} has no key object: row 0 of every sample's boxes must be it, without NaN.")
        given = truth.float()
        there = ~given.isnan().any(dim=2)
        empty = (there & ~(area(given) > 0)).any(dim=1).nonzero()
        if len(empty):
            raise InputError(f"Sample {int(empty[0])} has a box without area: x0 < x1 and y0 < y1, and NaN in rows without an object.")
        number = given[..., -1]
        wrong = number[there & ((number < 0) | (number != number.floor()) | (number >= (len(self.classes) or float("inf"))))]
        if len(wrong):
            most = len(self.classes) or "the number of classes"
            raise InputError(f"The classes of boxes must be whole numbers from 0, below {most}; found {float(wrong[0]):g}.")
        return given

    def truth(self, space: InputSpace, elements: Tensor, y: Tensor) -> Tensor:
        """Objects moved and cut off at the window; NaN where nothing is left."""
        return clip(super().truth(space, elements, y), float(self.window))

    def consensus(self, space: InputSpace, elements: Tensor, outputs: Tensor, truth: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The mean box, its mean score and its class, (B, 6), NaN without any detection; and how many elements have none, (B,).

        Each side is the mean over the elements that show it more than a pixel inside of the window, over all if none does.
        """
        count, length = outputs.shape[:2]
        key = majority_class(outputs[:, :, 0]) if truth is None else truth[:, 0, -1].to(outputs)
        best = best_of(outputs.flatten(0, 1), key.repeat_interleave(length))
        undone = self.undo(space, elements.repeat(count, 1), best[:, None]).reshape(count, length, 6)
        mean, missing = orbit_mean(undone)
        seen = visible_sides(best, float(self.window)).reshape(count, length, 4)
        sides = undone[..., :4].masked_fill(~seen, float("nan")).nanmean(dim=1)
        sides = torch.where(sides.isnan(), mean[:, :4], sides)
        sides = torch.where((area(sides) > 0)[:, None], sides, mean[:, :4])
        number = torch.where(mean[:, SCORE].isnan(), mean[:, SCORE], key)
        return torch.cat((sides, mean[:, SCORE, None], number[:, None]), dim=1), missing

    def as_truth(self, consensus: Tensor) -> Tensor:
        """The consensus as the only object, (B, 1, 5)."""
        return consensus[:, None, [0, 1, 2, 3, CLASS]]

    def distance(self, space: InputSpace, elements: Tensor, output: Tensor, unmoved: Tensor) -> Tensor:
        """How far apart what is found in the moved and in the unmoved window is, both cut off to what the two windows share.

        Undefined, NaN, where nothing of what the unmoved output is surest of is left in the moved window, and where neither finds
        anything: a perfect detector has 0 wherever its distance is defined.
        """
        here, there = self.shared(space, elements, self.undo(space, elements, output)), self.shared(space, elements, unmoved)
        gone = ~unmoved[:, 0, SCORE].isnan() & there[:, 0, SCORE].isnan()
        return self.apart(here, there).masked_fill(gone, float("nan"))

    def apart(self, a: Tensor, b: Tensor) -> Tensor:
        """1 - IoU of what b is surest of and the most confident detection of the same class in a.

        1 where a has none of that class, or b has none at all and a has some; NaN where neither has any. Another object that becomes
        the surer one does not count, as long as the first is still found.
        """
        surest = b[:, 0]
        overlapping = overlap(best_of(a, surest[:, CLASS]), surest).nan_to_num(nan=0.0)
        neither = a[..., SCORE].isnan().all(dim=1) & surest[:, SCORE].isnan()
        return (1.0 - overlapping).masked_fill(neither, float("nan"))

    def shared(self, space: InputSpace, elements: Tensor, boxes: Tensor) -> Tensor:
        """Boxes (R, M, 4 or more) of the unmoved frame, cut off to what both the unmoved and the moved window show."""
        inside_both = self.truth(space, elements, clip(boxes, float(self.window)))
        return self.undo(space, elements, inside_both)

    def whole(self, space: InputSpace, elements: Tensor, y: Tensor) -> Tensor:
        """Where the key object's box is not cut off."""
        return inside(self.action.act(space, elements, y)[:, 0], float(self.window))


def at_key(values: Tensor, truth: Tensor, missing: float = 0.0) -> Tensor:
    """Values (R,), `missing` where nothing was found, and NaN where the key object is not in the window."""
    return values.nan_to_num(nan=missing).masked_fill(truth[:, 0].isnan().any(dim=1), float("nan"))


def of_key_class(output: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Boxes of the confident detections (R, M, 4) and of the objects (R, T, 4) of the key class; the others are NaN."""
    key = truth[:, 0, -1][:, None]
    claimed = (output[..., CLASS] == key) & (output[..., SCORE] >= SURE)
    boxes, objects = output[..., :4], truth[..., :4]
    return boxes.masked_fill(~claimed[..., None], float("nan")), objects.masked_fill((truth[..., -1] != key)[..., None], float("nan"))


def box_counts(boxes: Tensor) -> Tensor:
    """How many of the boxes (R, M, 4) are not missing, float (R,)."""
    return (~boxes.isnan().any(dim=2)).sum(dim=1).to(boxes)


def majority_class(best: Tensor) -> Tensor:
    """The class (B,) with the largest sum of scores among the detections (B, K, 6); NaN where there is none.

    >>> majority_class(torch.tensor([[[0.0, 0.0, 1.0, 1.0, 0.9, 2.0], [0.0, 0.0, 1.0, 1.0, 0.5, 4.0], [0.0, 0.0, 1.0, 1.0, 0.5, 4.0]]]))
    tensor([4.])
    """
    there = ~best.isnan().any(dim=2)
    number = best[..., CLASS].nan_to_num(nan=0.0).long()
    score = best[..., SCORE].masked_fill(~there, 0.0)
    votes = score.new_zeros(len(best), int(number.max()) + 1).scatter_add_(1, number, score)
    return votes.argmax(dim=1).to(best).masked_fill(~there.any(dim=1), float("nan"))
