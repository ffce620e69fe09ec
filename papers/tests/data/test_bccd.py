from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from veracity import Audit
from veracity.core.errors import InputError
from veracity.explain import Precomputed
from veracity.inputs import Boxes
from veracity_papers.data import bccd, files

real = pytest.mark.skipif(files.locate(bccd.FILE) is None, reason="needs the BCCD archive")
KEY = (300.0, 200.0, 360.0, 260.0)


def annotation(*objects: tuple[str, float, float, float, float]) -> str:
    corners = ("xmin", "ymin", "xmax", "ymax")
    boxes = ["".join(f"<{key}>{value:g}</{key}>" for key, value in zip(corners, box, strict=True)) for _, *box in objects]
    items = "".join(f"<object><name>{name}</name><bndbox>{box}</bndbox></object>" for (name, *_), box in zip(objects, boxes, strict=True))
    return f"<annotation>{items}</annotation>"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two photographs whose colours tell the place: one to learn from, one to judge by with a white cell and two red ones."""
    from PIL import Image

    path = tmp_path / bccd.FILE
    path.parent.mkdir(parents=True)
    rows, columns = np.mgrid[:480, :640]
    pixels = np.stack((columns // 3, rows // 3, 0 * rows), axis=2).astype(np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "JPEG", quality=95, subsampling=0)
    with zipfile.ZipFile(path, "w") as file:
        for name, split in (("a", "train"), ("b", "val")):
            file.writestr(f"BCCD/JPEGImages/{name}.jpg", content.getvalue())
            file.writestr(f"BCCD/ImageSets/Main/{split}.txt", f"{name}\n")
        file.writestr("BCCD/ImageSets/Main/test.txt", "")
        file.writestr("BCCD/Annotations/a.xml", annotation(("Platelets", *KEY)))
        file.writestr(
            "BCCD/Annotations/b.xml", annotation(("RBC", 0, 0, 90, 90), ("RBC", 250, 150, 330, 230), ("RBC", 5, 5, 5, 9), ("WBC", *KEY))
        )
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    return tmp_path


def test_a_scene_lies_around_its_key_object(archive: Path) -> None:
    found = bccd.cells()
    assert found.images.shape == (1, 3, 192, 192)
    assert found.labels.tolist() == [bccd.CLASSES.index("WBC")]
    # Halved, the cell is (150, 100) to (180, 130) with its centre at (165, 115): the scene begins at (69, 19), the window at (101, 51).
    assert found.boxes[0, 0].tolist() == [49.0, 49.0, 79.0, 79.0, 1.0]
    assert sorted(found.boxes[0, 1:, 0].tolist()) == [-101.0, 24.0]  # the box without an area is left out
    place = found.images[0, :2, 96, 96] * 255
    assert (place - torch.tensor([2 * 165 / 3, 2 * 115 / 3])).abs().max() < 3


def test_photographs_are_halved_by_means(archive: Path) -> None:
    from PIL import Image

    with zipfile.ZipFile(archive / bccd.FILE) as file:
        pixels = np.asarray(Image.open(io.BytesIO(file.read("BCCD/JPEGImages/a.jpg"))), dtype=np.float32)
    image = bccd.photographs("train")
    assert image.shape == (1, 3, 240, 320)
    assert image.dtype == torch.uint8
    assert int(image[0, 0, 7, 11]) == round(float(pixels[14:16, 22:24, 0].mean()))


def test_what_was_prepared_is_read_without_the_archive(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boxes, images = bccd.object_boxes("train"), bccd.photographs("train")
    bccd.prepare(tmp_path / "ready")
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path / "ready"))
    assert torch.equal(bccd.object_boxes("train"), boxes)
    read = bccd.photographs("train")
    assert torch.equal(read[..., 19:212, 69:262], images[..., 19:212, 69:262])  # all that a window reaches
    assert not read[..., :10].any()
    assert torch.equal(bccd.photographs("train", torch.tensor([0, 0])), read[[0, 0]])


def boxed(*rows: tuple[float, float, float, float, float]) -> torch.Tensor:
    return torch.tensor([rows])


def test_key_objects_are_alone_of_their_class_fit_in_and_are_no_red_cells() -> None:
    white, red = (145.0, 105.0, 175.0, 135.0, 1.0), (145.0, 105.0, 175.0, 135.0, 0.0)
    far, near, platelet = (0.0, 0.0, 40.0, 20.0, 1.0), (60.0, 100.0, 80.0, 120.0, 1.0), (100.0, 100.0, 120.0, 120.0, 2.0)
    assert bccd.keys(boxed(red, white)).tolist() == [[0, 1]]
    assert bccd.keys(boxed(white, far)).tolist() == [[0, 0]]  # the other is never in view
    assert bccd.keys(boxed(white, platelet)).tolist() == [[0, 0], [0, 1]]
    assert bccd.keys(boxed(white, near)).tolist() == []
    assert bccd.keys(boxed(white, near), alone=False).tolist() == [[0, 0]]  # the other lies too near the border itself
    assert bccd.keys(boxed(white, near), reach=0, alone=False).tolist() == [[0, 0], [0, 1]]
    assert bccd.keys(boxed((100.0, 60.0, 220.0, 180.0, 1.0))).tolist() == []  # 88 % of the window
    assert bccd.keys(boxed((155.0, 115.0, 162.0, 122.0, 2.0))).tolist() == []  # .3 % of it


def test_a_damaged_annotation_is_one_sentence() -> None:
    for wrong in ("no xml", annotation(("Yeast", *KEY))):
        with pytest.raises(InputError, match="This is no Pascal VOC annotation of RBC, WBC, Platelets"):
            bccd.objects(wrong)


@real
def test_thirty_five_objects_qualify() -> None:
    boxes = bccd.object_boxes("test")
    assert len(boxes) == 159
    image, row = bccd.keys(boxes).unbind(dim=1)
    assert boxes[image, row, 4].long().bincount().tolist() == [0, 24, 11]


@real
def test_the_boxes_of_white_cells_are_a_ground_truth(tmp_path: Path) -> None:
    boxes = bccd.object_boxes("test")
    white = torch.where((boxes[..., 4] == bccd.CLASSES.index("WBC"))[..., None], boxes[..., :4], torch.nan)
    rows = white[:, :, 0].isfinite().sum(dim=1).argsort(descending=True, stable=True)[[*range(11), -1]]
    photographs = bccd.photographs("test", rows).float() / 255.0
    purple = (photographs[:, 2] - photographs[:, 1])[:, None]  # white cells are stained: much blue, little green
    net = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(12, 2)).eval()
    truth = Boxes(white[rows])
    given: dict[str, Any] = {"models": net, "inputs": photographs, "explainers": {"purple": Precomputed(maps=purple)}, "truth": truth}
    audit = Audit(**given, scores=["auc", "pointing_game"], companions=False)
    table = audit.run(tmp_path, progress=False).table()
    table = table[table["explainer"] == "purple"].set_index("score")
    assert table["undefined"].tolist() == [1, 1]  # the last photograph has no white cell
    assert table["value"]["auc"] > 0.8
    assert table["value"]["pointing_game"] > 0.8
    assert abs(table["random_control"]["auc"] - 0.5) < 0.1
