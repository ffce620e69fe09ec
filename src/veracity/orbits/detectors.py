"""Detectors of other libraries as models of windows (N, C, H, W), whatever they ask for and give.

Both adapters give boxes (N, M, 6): x0, y0, x1, y1 in pixels, score, class, NaN where a window has fewer than M.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from veracity.core.errors import InputError

Queries = Callable[[Tensor], Tensor]


class TorchvisionDetector(nn.Module):
    """A detector that takes a list of images in [0, 1] and gives a list of {boxes, scores, labels}, as torchvision's do.

    `labels` are the model's labels of the classes wanted, in the order in which they are numbered here; detections of others are
    left out. Five classes of COCO, say, as in section 3.1 of the NERO paper (car, bottle, cup, chair, book):
    TorchvisionDetector(fasterrcnn_resnet50_fpn(weights="DEFAULT"), labels=(3, 44, 47, 62, 84)). Grey images are
    repeated three times if `colour` says that the model wants three channels.
    """

    def __init__(self, model: nn.Module, labels: Sequence[int], *, colour: bool = True) -> None:
        super().__init__()
        self.model, self.labels, self.colour = model, tuple(labels), colour

    def extra_repr(self) -> str:
        """The settings."""
        return f"labels={self.labels}, colour={self.colour}"

    def forward(self, x: Tensor) -> Tensor:
        """Boxes (N, M, 6), M the largest number of detections in a window."""
        found = self.model(list(as_colour(x) if self.colour else x))
        if not isinstance(found, Sequence) or len(found) != len(x):
            what = len(found) if isinstance(found, Sequence) else type(found).__name__
            raise InputError(
                f"A torchvision-style detector gives one result for each image in evaluation mode, but for {len(x)} it gave {what}."
            )
        rows = [torch.cat((one["boxes"], one["scores"][:, None], one["labels"][:, None].to(x)), dim=1) for one in found]
        return select_classes(pad_sequence(rows, batch_first=True, padding_value=torch.nan), self.labels)


class TransformersDetector(nn.Module):
    """A detector that takes pixel_values and gives logits and pred_boxes, as DETR, YOLOS and others of transformers do.

    Images in [0, 1] are standardised by `mean` and `deviation`, one number per channel, by default those of ImageNet. `score` turns logits
    (N, Q, C) into scores of the classes: a softmax that leaves out the last, "nothing", or `torch.sigmoid` where the model was
    trained so (Deformable DETR, RT-DETR). `labels` are as for TorchvisionDetector.
    """

    def __init__(
        self,
        model: nn.Module,
        labels: Sequence[int],
        *,
        mean: Sequence[float] = (0.485, 0.456, 0.406),
        deviation: Sequence[float] = (0.229, 0.224, 0.225),
        score: Queries | None = None,
    ) -> None:
        super().__init__()
        self.model, self.labels, self.score = model, tuple(labels), score or without_nothing
        self.register_buffer("mean", torch.tensor(list(mean))[:, None, None], persistent=False)
        self.register_buffer("deviation", torch.tensor(list(deviation))[:, None, None], persistent=False)

    def extra_repr(self) -> str:
        """The settings that are no numbers of the model's own."""
        return f"labels={self.labels}, score={getattr(self.score, '__name__', type(self.score).__name__)}"

    def forward(self, x: Tensor) -> Tensor:
        """Boxes (N, Q, 6), one per query."""
        found = self.model(pixel_values=(as_colour(x) - self.get_buffer("mean")) / self.get_buffer("deviation"))
        score, number = self.score(found.logits).max(dim=2)
        centre, size = found.pred_boxes[..., :2], found.pred_boxes[..., 2:]
        corners = torch.cat((centre - size / 2, centre + size / 2), dim=2) * x.new_tensor([x.shape[-1], x.shape[-2]]).repeat(2)
        return select_classes(torch.cat((corners, score[..., None], number[..., None].to(corners)), dim=2), self.labels)


def without_nothing(logits: Tensor) -> Tensor:
    """The softmax of logits (N, Q, C + 1) without the last class, which stands for no object.

    >>> without_nothing(torch.zeros(1, 1, 4))
    tensor([[[0.2500, 0.2500, 0.2500]]])
    """
    return logits.softmax(dim=2)[..., :-1]


def as_colour(x: Tensor) -> Tensor:
    """Images (N, 3, H, W): a single channel is repeated three times."""
    return x.expand(-1, 3, -1, -1) if x.shape[1] == 1 else x


def select_classes(boxes: Tensor, labels: tuple[int, ...]) -> Tensor:
    """Boxes (N, M, 6) with their labels' places among the labels as classes; NaN where a label is not among them.

    >>> select_classes(torch.tensor([[[0.0, 0.0, 1.0, 1.0, 0.9, 44.0], [0.0, 0.0, 1.0, 1.0, 0.8, 5.0]]]), (3, 44))[0, :, 5]
    tensor([1., nan])
    """
    same = boxes[..., 5, None] == boxes.new_tensor(labels)
    renamed = torch.cat((boxes[..., :5], same.int().argmax(dim=-1, keepdim=True).to(boxes)), dim=-1)
    return renamed.masked_fill(~same.any(dim=-1, keepdim=True), torch.nan)
