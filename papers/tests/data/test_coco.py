from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from veracity.core.errors import InputError
from veracity_papers.data import coco, files
from veracity_papers.data.coco import Photograph, average_precision, key_objects, key_windows, mean_precision, photographs

AT_HAND = pytest.mark.skipif(files.locate(coco.FOLDER) is None, reason="the photographs of COCO are not at hand")
SIZE = (400, 640)
NONE = torch.zeros(0, 5)


def photo(objects: Sequence[Sequence[float]], crowds: Sequence[Sequence[float]] = ()) -> Photograph:
    return Photograph("made", torch.zeros(*SIZE, 3, dtype=torch.uint8), boxes(objects), boxes(crowds))


def boxes(rows: Sequence[Sequence[float]], columns: int = 5) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32).reshape(-1, columns)


def test_there_are_80_classes_with_gaps_between_their_numbers() -> None:
    assert len(coco.CLASSES) == len(coco.CATEGORIES) == len(set(coco.CLASSES)) == 80
    assert [coco.CLASSES[coco.CATEGORIES.index(number)] for number in (1, 3, 13, 44, 62, 90)] == [
        *("person", "car", "stop sign", "bottle", "chair", "toothbrush")
    ]


@AT_HAND
def test_the_classes_are_those_of_the_annotations() -> None:
    listed = json.loads((files.find(coco.FOLDER, "") / coco.ANNOTATIONS).read_text())["categories"]
    assert [(one["id"], one["name"]) for one in listed] == list(zip(coco.CATEGORIES, coco.CLASSES, strict=True))


@AT_HAND
def test_the_annotated_photographs() -> None:
    found = photographs()
    assert [one.name for one in found] == sorted(one.name for one in found)
    assert [len(one.objects) for one in found] == [6, 16, 3, 1, 2, 13]
    assert [len(one.crowds) for one in found] == [0, 0, 0, 0, 0, 1]
    for one in found:
        assert (one.objects[:, 2:4] <= torch.tensor([one.image.shape[1], one.image.shape[0]]) + 0.01).all()
    assert sorted(coco.CLASSES[int(number)] for number in found[0].objects[:, 4]) == ["bed", "cat", "cat", "couch", "remote", "remote"]


@AT_HAND
def test_ten_key_objects_stand_in_real_pixels() -> None:
    found = key_objects()
    side = coco.WINDOW + 2 * coco.REACH
    assert found.images.shape == (10, 3, side, side)
    names = [coco.CLASSES[number] for number in found.labels.tolist()]
    assert sorted(set(names)) == ["bear", "bottle", "car", "handbag", "motorcycle", "person", "remote", "skateboard"]
    key = found.boxes[:, 0]
    share = (key[:, 2:4] - key[:, :2]).prod(dim=1) / coco.WINDOW**2
    assert (share.diff() <= 0).all()
    assert (share >= 0.01).all()
    assert ((key[:, :4] >= 0) & (key[:, :4] <= coco.WINDOW)).all()
    assert torch.equal(key[:, 4].long(), found.labels)
    assert torch.equal(key_objects(2).images, found.images[:2])


@AT_HAND
def test_a_scene_is_the_photograph_around_its_key_object() -> None:
    found = key_objects(1)
    source = next(one for one in photographs() if one.name == "000000343934.jpg")
    height, width = source.image.shape[:2]
    [(row, corner, side)] = key_windows(source.objects, source.crowds, (height, width))
    assert (row, side) == (0, 480.0)  # as high as the photograph
    assert corner[1] == 0
    scale = side / found.images.shape[-1]
    x0, y0 = ((found.boxes[0, 0, :2] + coco.REACH) * scale + corner).tolist()
    assert [x0, y0] == pytest.approx(source.objects[0, :2].tolist(), abs=1e-3)
    left = int(corner[0])
    cut = source.image[:, left : left + 480].permute(2, 0, 1).float() / 255
    blocks = [torch.nn.functional.adaptive_avg_pool2d(one, 16) for one in (cut, found.images[0])]
    assert (blocks[0] - blocks[1]).abs().max() < 0.02


def test_a_window_keeps_its_shifts_within_the_photograph() -> None:
    [(_, corner, side)] = key_windows(boxes([[20, 300, 80, 360, 5]]), NONE, SIZE)
    assert side == 160
    assert corner.tolist() == [0.0, 240.0]  # with the object at its centre, the scene would begin at -30 and 250
    assert not list(key_windows(boxes([[10, 300, 70, 360, 5]]), NONE, SIZE))  # the unmoved window begins at 16


@pytest.mark.parametrize(("other", "crowd", "qualifies"), [
    ([300, 200, 340, 248, 7], False, True),  # 40 x 48 of another class
    ([300, 200, 340, 248, 0], False, True),  # less than a half
    ([300, 200, 370, 270, 0], False, False),  # 4,900 of 9,216
    ([375, 200, 475, 300, 0], False, True),  # only 5 of its columns are in view
    ([600, 350, 640, 400, 0], True, True),  # a crowd out of view
    ([370, 200, 470, 300, 0], True, False),
    ([370, 200, 470, 300, 7], True, True),
])  # fmt: skip
def test_a_key_object_is_much_larger_than_others_of_its_class(other: list[float], crowd: bool, qualifies: bool) -> None:
    key = [252, 152, 348, 248, 0]
    objects, crowds = (boxes([key]), boxes([other])) if crowd else (boxes([key, other]), NONE)
    assert (0 in [row for row, _, _ in key_windows(objects, crowds, SIZE)]) == qualifies


@pytest.mark.parametrize("side", [12, 399])
def test_objects_that_are_too_small_or_too_large_are_no_keys(side: int) -> None:
    assert not list(key_windows(boxes([[100, 0, 100 + side, side, 0]]), NONE, SIZE))


def test_average_precision_by_hand() -> None:
    photos = [photo([[0, 0, 10, 10, 0], [50, 0, 60, 10, 0]]), photo([[0, 0, 10, 10, 3]])]
    found = [
        boxes([[0, 0, 10, 10, 0.9, 0], [0, 0, 10, 9, 0.8, 0], [50, 0, 60, 6, 0.7, 0], [0, 0, 10, 10, 0.6, 3]], 6),
        boxes([[0, 0, 10, 4, 0.9, 3], [0, 0, 10, 5, 0.8, 3]], 6),
    ]
    # Class 0: a hit, the same object again, a hit. Class 3: too little overlap, a hit, and a detection in the other photograph.
    assert average_precision(found, photos) == pytest.approx({"person": (51 + 50 * 2 / 3) / 101, "motorcycle": 0.5})
    assert average_precision(found, photos, least=0.95) == pytest.approx({"person": 51 / 101, "motorcycle": 0.0})


def test_detections_in_a_crowd_count_neither_way() -> None:
    photos = [photo([[0, 0, 10, 10, 0]], crowds=[[100, 0, 200, 100, 0]])]
    crowd, alone = [110, 10, 130, 30, 0.9, 0], [300, 10, 330, 30, 0.9, 0]
    hit = [0, 0, 10, 10, 0.5, 0]
    assert average_precision([boxes([crowd, hit], 6)], photos) == {"person": 1.0}
    assert average_precision([boxes([alone, hit], 6)], photos) == {"person": 0.5}


@given(st.lists(st.booleans(), max_size=12), st.integers(0, 4))
def test_mean_precision_is_that_of_a_literal_reading(hits: list[bool], missed: int) -> None:
    objects = sum(hits) + missed
    if not objects:
        return
    points = [(sum(hits[: n + 1]) / objects, sum(hits[: n + 1]) / (n + 1)) for n in range(len(hits))]
    best = [max((precision for recall, precision in points if recall >= at / 100 - 1e-12), default=0.0) for at in range(101)]
    scores = torch.linspace(1, 0.1, len(hits))
    assert mean_precision(scores, torch.tensor(hits, dtype=torch.bool), objects) == pytest.approx(np.mean(best), abs=1e-9)


def test_missing_and_damaged_files_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(InputError, match=r"Looked for .*coco_samples .* and found nothing: get it from github.com/airctic/icevision"):
        photographs()
    folder = tmp_path / coco.FOLDER
    folder.mkdir()
    (folder / coco.ANNOTATIONS).write_text("{")
    with pytest.raises(InputError, match=r"annotations\.json is no file of COCO's annotations"):
        photographs()
    Image.new("RGB", (300, 200)).save(folder / "blank.jpg")
    listed = {"images": [{"id": 1, "file_name": "blank.jpg"}], "annotations": [annotation([10, 10, 5, 5])]}
    (folder / coco.ANNOTATIONS).write_text(json.dumps(listed))
    assert photographs()[0].objects.tolist() == [[10, 10, 15, 15, 0]]
    with pytest.raises(InputError, match="None of the photographs in coco_samples has a key object"):
        key_objects()


def annotation(box: list[int]) -> dict[str, object]:
    return {"image_id": 1, "bbox": box, "category_id": 1, "iscrowd": 0}
