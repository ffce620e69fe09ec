"""Boxes against literal ones, counted pixel by pixel and matched one by one."""

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veracity.core.errors import InputError
from veracity.orbits.tasks.detection import best_of, clip, detections, found_objects, inside, most_confident, overlap

NAN = float("nan")
side = st.integers(0, 7)
ends = st.tuples(side, side).map(sorted)
box = st.tuples(ends, ends).map(lambda pair: tuple(float(pair[axis][end]) for end in (0, 1) for axis in (0, 1)))
maybe = st.one_of(box, st.just((NAN, NAN, NAN, NAN)))


def pixels(one):
    if math.isnan(one[0]):
        return None
    x0, y0, x1, y1 = (int(value) for value in one)
    return {(x, y) for x in range(x0, x1) for y in range(y0, y1)}


def literal(a, b):
    a, b = pixels(a), pixels(b)
    if a is None or b is None:
        return NAN
    return len(a & b) / len(a | b) if a | b else 0.0


@settings(max_examples=60, deadline=None)
@given(maybe, maybe)
def test_overlap_counts_pixels(a, b):
    found = overlap(torch.tensor(a), torch.tensor(b)).item()
    assert found == pytest.approx(literal(a, b), abs=1e-6, nan_ok=True)


@settings(max_examples=60, deadline=None)
@given(st.lists(maybe, min_size=1, max_size=4), st.lists(maybe, min_size=1, max_size=3))
def test_each_object_is_found_once_by_the_most_confident(claims, objects):
    free, expected = dict(enumerate(objects)), 0
    for claim in claims:
        shares = {number: literal(claim, one) for number, one in free.items()}
        best = max(shares, key=lambda number: -1.0 if math.isnan(shares[number]) else shares[number], default=None)
        if best is not None and shares[best] >= 0.5:
            expected += 1
            del free[best]
    assert found_objects(torch.tensor([claims]), torch.tensor([objects]), 0.5).item() == expected


def test_half_an_overlap_is_enough():
    claim, half, less = [0.0, 0.0, 4.0, 2.0], [0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 4.1]
    assert found_objects(torch.tensor([[claim], [claim]]), torch.tensor([[half], [less]]), 0.5).tolist() == [1, 0]


def test_rows_do_not_mix():
    generator = torch.Generator().manual_seed(0)
    corner = torch.rand(20, 7, 2, generator=generator) * 6
    boxes = torch.cat((corner, corner + 3), dim=2)
    together = found_objects(boxes[:, :4], boxes[:, 4:], 0.3)
    assert together.tolist() == [found_objects(one[None, :4], one[None, 4:], 0.3).item() for one in boxes]
    assert together.max() > 0


def test_no_objects_and_no_detections_are_no_mistake():
    assert found_objects(torch.rand(2, 3, 4), torch.empty(2, 0, 4), 0.5).tolist() == [0, 0]
    assert found_objects(torch.empty(2, 0, 4), torch.rand(2, 3, 4), 0.5).tolist() == [0, 0]
    assert best_of(torch.empty(2, 0, 6), torch.zeros(2)).isnan().all()


def test_clipping_and_what_lies_inside():
    boxes = torch.tensor([[0.0, 0.0, 8.0, 8.0, 1.0], [-1.0, 2.0, 3.0, 9.0, 2.0], [8.0, 0.0, 9.0, 2.0, 3.0], [NAN] * 5])
    found = clip(boxes, 8.0)
    assert found[:2].tolist() == [[0.0, 0.0, 8.0, 8.0, 1.0], [0.0, 2.0, 3.0, 8.0, 2.0]]
    assert found[2:].isnan().all()
    assert inside(boxes, 8.0).tolist() == [True, False, False, False]


def test_the_best_come_first_and_the_rest_is_filled_up():
    raw = torch.tensor([[[0, 0, 1, 1, 0.3, 0], [0, 0, 2, 2, NAN, 1], [0, 0, 3, 3, 0.8, 2]]])
    found = most_confident(raw, 4)
    assert found[0, :2, 4:].tolist() == [[pytest.approx(0.8), 2.0], [pytest.approx(0.3), 0.0]]
    assert found[0, 2:].isnan().all()
    assert most_confident(raw, 1).shape == (1, 1, 6)
    assert most_confident(torch.empty(3, 0, 6), 2).isnan().all()
    assert best_of(found, torch.tensor([0.0]))[0, 4] == pytest.approx(0.3)


def test_torchvision_style_lists():
    one = {
        "boxes": torch.tensor([[0.0, 0.0, 4.0, 4.0], [1.0, 1.0, 2.0, 2.0]]),
        "scores": torch.tensor([0.5, 0.75]),
        "labels": torch.tensor([1, 3]),
    }
    none = {"boxes": torch.empty(0, 4), "scores": torch.empty(0), "labels": torch.empty(0, dtype=torch.int64)}
    found = detections([none, one, none], first=1)
    assert found.shape == (3, 2, 6)
    assert found[1].tolist() == [[0.0, 0.0, 4.0, 4.0, 0.5, 0.0], [1.0, 1.0, 2.0, 2.0, 0.75, 2.0]]
    assert found[[0, 2]].isnan().all()
    assert detections([none], first=0).shape == (1, 0, 6)


@pytest.mark.parametrize("mapping", [True, False])
def test_queries_are_refused_since_they_do_not_say_how_logits_are_read(mapping):
    """A detector trained with sigmoids would give wrong scores in a softmax, silently."""
    parts = {"logits": torch.rand(1, 2, 3), "pred_boxes": torch.rand(1, 2, 4)}
    with pytest.raises(InputError, match=r"wrap it as veracity\.orbits\.TransformersDetector\(model, labels=\.\.\.\)"):
        detections(parts if mapping else SimpleNamespace(**parts), first=1)


def test_classes_below_the_first_are_refused():
    one = {"boxes": torch.rand(1, 4), "scores": torch.rand(1), "labels": torch.tensor([0])}
    with pytest.raises(InputError, match=r"class -1: its labels must begin with first=1: pass Detection\(first=\.\.\.\)"):
        detections([one], first=1)
    assert detections([one], first=0)[0, 0, 5] == 0.0
    with pytest.raises(InputError, match="class -2: its last column must number classes from 0"):
        detections(torch.tensor([[[0.0, 0.0, 1.0, 1.0, 0.5, -2.0]]]), first=1)


@pytest.mark.parametrize(
    "raw", [torch.rand(2, 5), torch.rand(2, 3, 5), [], [{"boxes": torch.rand(1, 4)}], {"logits": torch.rand(1, 2, 3)}, None]
)
def test_anything_else_is_refused_in_one_sentence(raw):
    with pytest.raises(InputError, match=r"must give a tensor \(rows, detections, 6\)"):
        detections(raw, first=1)
