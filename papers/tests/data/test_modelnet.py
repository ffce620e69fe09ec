from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from veracity_papers.data import files
from veracity_papers.data.modelnet import CLASSES, cells, distinct, modelnet, normalise, sample_points, surface

REAL = files.locate("modelnet/modelnet10_voxels32_chair_monitor.npz") is not None


def box(low: int, high: int) -> np.ndarray:
    grid = np.zeros((32, 32, 32), dtype=bool)
    grid[low:high, low:high, low:high] = True
    return grid


def test_the_surface_is_what_has_an_empty_neighbour() -> None:
    grids = np.stack([box(10, 14), box(0, 32)])
    assert surface(grids).sum(axis=(1, 2, 3)).tolist() == [4**3 - 2**3, 32**3 - 30**3]
    random = np.random.default_rng(0).random((1, 32, 32, 32)) < 0.9
    slow = random[0].copy()
    for i, j, k in np.argwhere(random[0]):
        steps = ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1))
        around = [(i + a, j + b, k + c) for a, b, c in steps]
        slow[i, j, k] = not all(min(place) >= 0 and max(place) < 32 and random[0][place] for place in around)
    assert np.array_equal(surface(random)[0], slow)


def test_points_fill_the_grid_along_their_longest_extent() -> None:
    points = np.array([[[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [1.0, 0.5, 0.0]]], dtype=np.float32)
    assert np.argwhere(cells(points)[0]).tolist() == [[0, 0, 0], [16, 8, 0], [31, 0, 0]]


def test_drawn_points_lie_in_occupied_voxels_evenly_and_follow_from_the_seed() -> None:
    grids = np.stack([box(3, 5), box(8, 16)])
    points = sample_points(grids, 4000, seed=0)
    place = points.astype(np.int64)
    assert grids[np.arange(2)[:, None], place[..., 0], place[..., 1], place[..., 2]].all()
    counts = np.bincount(np.ravel_multi_index(place[0].T - 3, (2, 2, 2)), minlength=8)
    assert counts.min() > 400
    assert np.array_equal(points, sample_points(grids, 4000, seed=0))
    assert not np.array_equal(points, sample_points(grids, 4000, seed=1))


def test_clouds_are_centred_within_the_unit_ball() -> None:
    clouds = normalise(np.random.default_rng(0).random((3, 50, 3)).astype(np.float32) * 9)
    assert np.abs(clouds.mean(axis=1)).max() < 1e-6
    assert np.allclose(np.linalg.norm(clouds, axis=2).max(axis=1), 1.0)


def test_copies_are_left_out_and_every_fifth_shape_is_for_testing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    (tmp_path / "modelnet").mkdir()
    np.savez(tmp_path / "modelnet" / "modelnet40_bench_193x2048x6_f16.npz", points=generator.random((5, 64, 6)).astype(np.float16))
    chair = generator.integers(0, 256, (10, 4096), dtype=np.uint8)
    monitor = generator.integers(0, 256, (6, 4096), dtype=np.uint8)
    np.savez(
        tmp_path / "modelnet" / "modelnet10_voxels32_chair_monitor.npz",
        chair=np.concatenate((chair, chair[:3])),
        monitor=monitor[[0, *range(6)]],
    )
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    train, test = modelnet("train", points=40), modelnet("test", points=40)
    assert test.labels.tolist() == [0, 1, 1, 2]
    assert train.labels.bincount().tolist() == [4, 8, 5]
    assert test.inputs.shape == (40, 3)
    assert test.concepts["foot"].tolist() == [True, True, True, False]
    assert test.concepts["parallelepiped"].tolist() == [False, False, False, True]
    assert test.concepts["elongated"].tolist() == [True, False, False, False]
    assert len(distinct(np.concatenate((chair, chair[:3])))) == 10


@pytest.mark.skipif(not REAL, reason="needs the shapes")
def test_what_is_at_hand() -> None:
    test = modelnet("test", points=32)
    assert test.labels.bincount().tolist() == [38, 167, 90]
    assert len(CLASSES) == 3
    # A bench is longer than it is deep; a chair is not.
    extent = (lambda x: x.amax(1) - x.amin(1))(test.inputs.take(torch.arange(len(test))).values)
    ratio = extent[:, 0] / extent[:, 2]
    assert float(ratio[test.labels == 0].median()) > 1.3 > float(ratio[test.labels == 1].median())
