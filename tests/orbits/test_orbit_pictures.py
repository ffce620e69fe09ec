from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Size

from orbit_small import detection, digits_like, flow, images
from small import set_net
from veracity import OrbitEvaluation
from veracity.core.errors import SpecError
from veracity.orbits import Classification, DiskOrbit, GroupOrbit, RotationOrbit
from veracity.orbits.pictures import Picture, draw_inputs, picture_of, restore_inputs, thumbnails
from veracity.perturb import CyclicShift


@pytest.mark.parametrize(
    ("shape", "layout", "window", "expected"),
    [
        ((1, 28, 28), "polar", None, "image"),
        ((3, 8, 8), "line", None, "image"),
        ((3, 16, 16), "heatmap", 8, "scene"),
        ((1, 8, 8), "heatmap", None, "image"),
        ((2, 8, 8), "tiles", None, "pair"),
        ((64, 3), "disk", None, "cloud"),
        ((64, 3), "line", None, "series"),
        ((1, 187), "line", None, "series"),
        ((187,), "line", None, "series"),
        ((5, 8, 8), "line", None, "none"),
        ((2, 2, 8, 8), "line", None, "none"),
    ],
)
def test_how_inputs_are_drawn_is_inferred(shape: tuple[int, ...], layout: str, window: int | None, expected: str) -> None:
    assert picture_of(Size(shape), layout, window) == expected


def test_how_inputs_are_drawn_may_be_said() -> None:
    assert picture_of(Size([64, 3]), "line", None, "cloud") is Picture.CLOUD
    with pytest.raises(SpecError, match="A picture is one of image, scene, pair, cloud, series, none, not 'film'"):
        picture_of(Size([64, 3]), "line", None, "film")
    with pytest.raises(SpecError, match=r"Inputs of shape \(64, 3\) cannot be drawn as 'image'"):
        picture_of(Size([64, 3]), "line", None, "image")


def test_pixels_are_bytes_of_the_data_s_own_range() -> None:
    x = torch.tensor([-1.0, 0.0, 1.0, 3.0]).reshape(1, 1, 1, 4)
    assert draw_inputs(Picture.IMAGE, x, (-1.0, 3.0)).flatten().tolist() == [0, 64, 128, 255]
    assert torch.allclose(restore_inputs(Picture.IMAGE, draw_inputs(Picture.IMAGE, x, (-1.0, 3.0)), (-1.0, 3.0)), x, atol=4 / 255)
    flat = torch.full((1, 1, 2, 2), 7.0)
    assert draw_inputs(Picture.IMAGE, flat, (7.0, 7.0)).unique().tolist() == [0]


def test_thumbnails_are_small_square_and_of_the_right_part() -> None:
    wide = torch.zeros(1, 64, 128, 1, dtype=torch.uint8)
    wide[:, :, 64:] = 200
    small = thumbnails(Picture.IMAGE, wide)
    assert small.shape == (1, 32, 32, 1)
    assert small[0, :8].max() == 0
    assert small[0, 16, :, 0].tolist() == [0] * 16 + [200] * 16
    scene = torch.zeros(1, 16, 16, 3, dtype=torch.uint8)
    scene[:, 4:12, 4:12, 1] = 9
    assert (thumbnails(Picture.SCENE, scene, window=8)[..., 1] == 9).all()
    pair = torch.stack((torch.full((4, 4), 5), torch.full((4, 4), 6)))[None].to(torch.uint8)
    assert (thumbnails(Picture.PAIR, pair) == 5).all()
    cloud = torch.tensor([[[1.0, 1.0, 0.0], [1.0, 1.0, 5.0], [-1.0, -1.0, 0.0]]])
    seen = thumbnails(Picture.CLOUD, cloud)[0, ..., 0]
    assert seen[0, 31] == 255
    assert seen[31, 0] == 180
    assert (seen > 0).sum() == 2
    assert thumbnails(Picture.SERIES, torch.zeros(2, 1, 9)) is None


def test_images_of_a_run_and_their_moved_frames(tmp_path: Path) -> None:
    x = images()
    result = digits_like(orbit=RotationOrbit(step=90.0)).run(tmp_path, progress=False)
    assert result.picture_kind == "image"
    pixels = (x[4, 0] * 255).round().to(torch.uint8).numpy()
    assert np.array_equal(result.picture(4)["input"][..., 0], pixels)
    assert result.thumbnails().shape == (6, 4, 4, 1)
    frames = result.frames(4)
    assert frames.shape == (4, 4, 4, 1)
    assert all(np.abs(frames[turn, ..., 0].astype(int) - np.rot90(pixels, turn)).max() <= 1 for turn in range(4))


def test_scenes_pairs_clouds_and_series_of_runs(tmp_path: Path) -> None:
    scene = detection().run(tmp_path / "scene", progress=False)
    assert (scene.picture_kind, scene.window, scene.picture(0)["input"].shape) == ("scene", 8, (16, 16, 1))
    assert scene.picture(0)["truth"].tolist() == [[4.0, 3.0, 5.0, 4.0, 1.0]]
    assert scene.frames(0) is None
    assert scene.thumbnails().shape == (3, 8, 8, 1)
    pair = flow().run(tmp_path / "pair", progress=False)
    assert (pair.picture_kind, pair.picture(2)["input"].shape) == ("pair", (2, 8, 8))
    points = torch.randn(2, 10, 3, generator=torch.Generator().manual_seed(0))
    net = set_net()
    cloud = OrbitEvaluation(models=net, inputs=points, orbit=DiskOrbit(step=90.0), task=Classification())
    found = cloud.run(tmp_path / "cloud", progress=False)
    assert (found.picture_kind, found.layout, found.plane) == ("cloud", "disk", "xy")
    assert np.array_equal(found.picture(1)["input"], points[1].numpy())
    waves = torch.randn(2, 1, 6, generator=torch.Generator().manual_seed(0))
    shifted = OrbitEvaluation(
        models=lambda x: x[:, 0, :3], inputs=waves, orbit=GroupOrbit(space=CyclicShift()), task=Classification(outputs=None)
    ).run(tmp_path / "series", progress=False)
    assert shifted.picture_kind == "series"
    assert np.allclose(shifted.frames(1), np.stack([np.roll(waves[1].numpy(), by, axis=-1) for by in range(6)]), atol=1e-6)
    assert shifted.thumbnails() is None
