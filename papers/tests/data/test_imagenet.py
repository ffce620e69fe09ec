from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from veracity.core.errors import InputError
from veracity_papers.data import files
from veracity_papers.data.imagenet import class_names, imagenet, read_photograph

AT_HAND = pytest.mark.skipif(files.locate("imagenet_samples") is None, reason="the photographs are not at hand")


@AT_HAND
def test_a_few_photographs_have_their_classes() -> None:
    x, y = imagenet(count=3, seed=1)
    again, _ = imagenet(count=3, seed=1)
    assert x.shape == (3, 3, 224, 224)
    assert torch.equal(x, again)
    assert 0 <= x.min() < 0.2 < 0.8 < x.max() <= 1
    assert (y % 2 == 0).all()
    assert len(set(y.tolist())) == 3


@AT_HAND
def test_smaller_images_are_means_of_areas() -> None:
    whole, _ = imagenet(count=1)
    small, _ = imagenet(count=1, side=56)
    assert torch.allclose(small[0, :, 0, 0], whole[0, :, :4, :4].mean(dim=(1, 2)), atol=1e-6)


@AT_HAND
def test_classes_are_named_by_their_place() -> None:
    names = class_names()
    assert len(names) == 1000
    assert names[:3] == ("tench", "class 1", "great white shark")
    assert names[998] == "ear"


def test_a_photograph_of_any_size_is_scaled_and_cut(tmp_path: Path) -> None:
    wide = Image.new("RGB", (640, 320), (255, 0, 0))
    wide.paste((0, 0, 255), (320, 0, 640, 320))
    wide.save(tmp_path / "n0_wide.JPEG", quality=95)
    image = read_photograph(tmp_path / "n0_wide.JPEG")
    assert image.shape == (224, 224, 3)
    assert image[:, :100, 0].float().mean() > 240
    assert image[:, 124:, 2].float().mean() > 240


@pytest.mark.parametrize("count", [0, 501, 5000])
@AT_HAND
def test_more_photographs_than_there_are_is_one_sentence(count: int) -> None:
    with pytest.raises(InputError, match=f"ask for 1 to 500, not {count}"):
        imagenet(count=count)


def test_a_folder_with_other_counts_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    (tmp_path / "imagenet_samples").mkdir()
    (tmp_path / "imagenet_samples" / "n01_tench.JPEG").touch()
    with pytest.raises(InputError, match="holds 1 photographs of 1 classes, but labels are known for one of each of 500 or 1,000 classes"):
        imagenet()
