from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.fingerprint import of_model
from veracity.orbits.detectors import TorchvisionDetector, TransformersDetector
from veracity.orbits.tasks.detection import Detection


class Listing(nn.Module):
    """A double of a torchvision detector: one box around the brightest pixel, one of a class nobody asked for, none in the dark."""

    def forward(self, images: list[Tensor]) -> list[dict[str, Tensor]]:
        found = []
        for image in images:
            assert image.shape == (3, 8, 8)
            bright = (image[0] > 0.5).nonzero()[:, [1, 0]].float()
            boxes = torch.cat((bright, bright + 1), dim=1)
            found.append(
                {
                    "boxes": boxes.repeat(2, 1),
                    "scores": torch.linspace(0.9, 0.8, 2 * len(boxes)),
                    "labels": torch.tensor([62, 7])[: 2 * len(boxes)],
                }
            )
        return found


class Querying(nn.Module):
    """A double of a detector of transformers: two queries with fixed logits and boxes."""

    def forward(self, pixel_values: Tensor) -> SimpleNamespace:
        self.seen = pixel_values
        logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 4.0]]).expand(len(pixel_values), 2, 3)
        boxes = torch.tensor([[0.5, 0.25, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]]).expand(len(pixel_values), 2, 4)
        return SimpleNamespace(logits=logits, pred_boxes=boxes)


def test_lists_of_results_become_rows_with_own_classes() -> None:
    x = torch.zeros(2, 1, 8, 8)
    x[0, 0, 3, 5] = 1.0
    found = TorchvisionDetector(Listing(), labels=(3, 62))(x)
    assert found.shape == (2, 2, 6)
    assert found[0, 0].tolist() == pytest.approx([5.0, 3.0, 6.0, 4.0, 0.9, 1.0])
    assert found[0, 1].isnan().all()
    assert found[1].isnan().all()
    read = Detection(classes=("car", "chair"), window=8, top=1).read(found)
    assert read[0, 0, 5] == 1.0


def test_queries_become_rows_in_pixels() -> None:
    model = Querying()
    found = TransformersDetector(model, labels=(0, 1), mean=(0.5,) * 3, deviation=(0.25,) * 3)(torch.ones(2, 1, 8, 8))
    assert model.seen.shape == (2, 3, 8, 8)
    assert (model.seen == 2.0).all()
    first, second = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 4.0]]).softmax(dim=1)[:, :2].max(dim=1).values.tolist()
    assert found[1, 0].tolist() == pytest.approx([2.0, 0.0, 6.0, 4.0, first, 0.0])
    assert found[1, 1].tolist() == pytest.approx([0.0, 0.0, 8.0, 8.0, second, 1.0])


def test_scores_may_be_sigmoids() -> None:
    found = TransformersDetector(Querying(), labels=(0, 1, 2), score=torch.sigmoid)(torch.ones(1, 3, 8, 8))
    assert found[0, :, 4].tolist() == pytest.approx(torch.tensor([2.0, 4.0]).sigmoid().tolist())
    assert found[0, :, 5].tolist() == [0.0, 2.0]


def test_another_choice_of_classes_is_another_model() -> None:
    one, same, other = (of_model(TorchvisionDetector(Listing(), labels=labels)) for labels in ((3, 62), (3, 62), (62, 3)))
    assert one == same != other
    one, other = (of_model(TransformersDetector(Querying(), labels=(0,), score=score)) for score in (None, torch.sigmoid))
    assert one != other
    halves = (
        of_model(TransformersDetector(Querying(), labels=(0,), score=lambda logits, by=by: logits.sigmoid() / by)) for by in (1, 1, 2)
    )
    one, same, other = halves
    assert one == same != other


def test_a_model_in_training_mode_is_told_off() -> None:
    class Losses(nn.Module):
        def forward(self, images: list[Tensor]) -> dict[str, Tensor]:
            return {"loss": torch.zeros(())}

    with pytest.raises(InputError, match=r"one result for each image in evaluation mode, but for 2 it gave dict\."):
        TorchvisionDetector(Losses(), labels=(1,))(torch.zeros(2, 3, 8, 8))
