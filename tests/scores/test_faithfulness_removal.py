"""IROF and ROAD: superpixels, and positions imputed from their neighbours."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from masked import DEFAULTS, bare, explained, inputs, measure, small_mlp, value
from veracity import Audit
from veracity.core.errors import InputError, SpecError
from veracity.core.measures import Direction
from veracity.core.scores import Measured, Score
from veracity.perturb.replaced import LinearImputation, SegmentMasks, impute, slic_segments
from veracity.scores import IROF, ROAD
from veracity.scores.common import as_score
from veracity.scores.faithfulness.masked import ModelFaithfulness
from veracity.testing import ScoreConformance

WEIGHTS = {(a, b): (1 / 6 if 0 in (a, b) else 1 / 12) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)}


def solved(image: Tensor, removed: Tensor) -> np.ndarray:
    """One channel (H, W) by a dense system, one equation after the other."""
    height, width = image.shape
    holes = [tuple(place) for place in removed.nonzero().tolist()]
    matrix, right = np.zeros((len(holes), len(holes))), np.zeros(len(holes))
    for row, (y, x) in enumerate(holes):
        for (dy, dx), weight in WEIGHTS.items():
            there = (y + dy, x + dx)
            if not (0 <= there[0] < height and 0 <= there[1] < width):
                continue
            matrix[row, row] += weight
            if there in holes:
                matrix[row, holes.index(there)] -= weight
            else:
                right[row] += weight * image[there].item()
    found = image.numpy().copy()
    if holes:
        found[tuple(np.array(holes).T)] = np.linalg.solve(matrix, right)
    return found


def test_imputation_solves_the_equations() -> None:
    x, removed = inputs(5, 2, 6, 7), inputs(5, 1, 6, 7, seed=3) < torch.tensor([0.1, 0.4, 0.7, 0.95, 0.0]).reshape(5, 1, 1, 1)
    removed = removed.expand_as(x)
    found = impute(x, removed)
    for i in range(5):
        for channel in range(2):
            np.testing.assert_allclose(found[i, channel], solved(x[i, channel], removed[i, channel]), atol=1e-5)
        assert torch.equal(impute(x[i : i + 1], removed[i : i + 1])[0], found[i])
    assert torch.equal(found[~removed], x[~removed])


def test_by_hand() -> None:
    line, hole = torch.tensor([[[0.0, 9.0, 9.0, 9.0, 8.0]]]), torch.tensor([[[False, True, True, True, False]]])
    torch.testing.assert_close(impute(line, hole), torch.tensor([[[0.0, 2.0, 4.0, 6.0, 8.0]]]))
    assert ROAD().values(Measured({"kept": np.array([[[1.0, 1.0, 0.0, 0.0]], [[1.0, np.nan, 0.0, 0.0]]])}))[:, 0].tolist() == pytest.approx(
        [0.5, np.nan], nan_ok=True
    )
    curves = Measured(
        {
            "ratio": np.array([[[1.0, 0.5, 0.2, 0.2]], [[1.0, 0.5, 0.0, 0.1]]]),
            "masked": np.array([[[0, 0.5, 1.0, 1.0]], [[0, 0.2, 0.5, 1.0]]]),
        }
    )
    assert IROF().values(curves)[:, 0].tolist() == pytest.approx([1 - (0.75 + 0.35) / 2, 1 - (0.75 + 0.25 + 0.05) / 3])


def test_the_most_relevant_positions_are_removed_with_all_channels() -> None:
    x, maps = inputs(2, 3, 4, 4), inputs(2, 3, 4, 4, seed=2)
    space = LinearImputation(percentages=(0.0, 25.0, 99.0), noise=0.5).fit(x.shape[1:])
    noise = inputs(2, 48, seed=5)
    guide = space.guide(x, maps)
    by_place = maps.sum(1).flatten(1)
    for level, count in enumerate((0, 4, 15)):
        element = space.steer(space.at(noise, torch.full((2,), level)), guide)
        moved = space.act(element, x)
        for i in range(2):
            removed = torch.zeros(16, dtype=torch.bool)
            removed[by_place[i].argsort(descending=True)[:count]] = True
            for channel in range(3):
                expected = (
                    solved(x[i, channel], removed.reshape(4, 4))
                    + 0.5 * (noise[i].reshape(3, 4, 4)[channel] * removed.reshape(4, 4)).numpy()
                )
                np.testing.assert_allclose(moved[i, channel], expected, atol=1e-5)
    least = LinearImputation(percentages=(25.0,), ascending=True).fit(x.shape[1:]).guide(x, maps)
    assert torch.equal(least, 15 - guide)


def test_road_percentage_by_percentage() -> None:
    x, maps, net, target = inputs(4, 1, 5, 5), inputs(4, 1, 5, 5, seed=2), small_mlp(25), torch.tensor([0, 2, 1, 1])
    score = ROAD(percentages=(20.0, 60.0), noise=0.0)
    found = measure(score, net, x, target, maps)["kept"][:, 0]
    for i in range(4):
        for level, count in enumerate((5, 15)):
            removed = torch.zeros(25, dtype=torch.bool)
            removed[maps[i].flatten().argsort(descending=True)[:count]] = True
            image = torch.tensor(solved(x[i, 0], removed.reshape(5, 5)))
            assert found[i, level] == float(net(image[None])[0].argmax() == target[i])
    assert value(score, net, x, target, maps).tolist() == found.mean(1).tolist()


def test_superpixels_are_masked_by_their_mean_relevance() -> None:
    x, maps = inputs(3, 2, 8, 8), inputs(3, 2, 8, 8, seed=2)
    space = SegmentMasks(features=1, segments=6, origin=True, baseline=-1.0).fit(x.shape[1:])
    pieces, guide = slic_segments(x, 6), space.guide(x, maps)
    for i in range(3):
        count = int(pieces[i].max()) + 1
        assert count > 1
        means = [maps[i][:, pieces[i] == piece].mean().item() for piece in range(count)]
        order = sorted(range(count), key=lambda piece: -means[piece])
        for level in range(space.levels):
            element = space.steer(space.at(space.enumerate(), torch.tensor([level])), guide[i : i + 1])
            moved = space.act(element, x[i : i + 1])[0]
            if count <= 6:
                gone = torch.isin(pieces[i], torch.tensor(order[:level], dtype=torch.long))
                assert torch.equal(moved, torch.where(gone, -1.0, x[i]))
        assert bool((moved == -1.0).all())


def test_irof_superpixel_by_superpixel() -> None:
    x, maps, net, target = inputs(2, 1, 8, 8), inputs(2, 1, 8, 8, seed=2), small_mlp(64), torch.tensor([0, 2])
    found, pieces = value(IROF(segments=4, softmax=True), net, x, target, maps), slic_segments(x, 4)
    for i in range(2):
        count = int(pieces[i].max()) + 1
        assert count <= 4
        order = sorted(range(count), key=lambda piece, i=i: -maps[i, 0][pieces[i] == piece].mean().item())  # type: ignore[misc]
        here, first = x[i].clone(), net(x[i][None]).softmax(1)[0, target[i]].item()
        curve = [1.0]
        for piece in order:
            here[:, pieces[i] == piece] = x[i].mean()
            curve.append(net(here[None]).softmax(1)[0, target[i]].item() / first)
        assert found[i] == pytest.approx(1 - np.trapezoid(curve) / count)


def test_a_share_of_a_negative_score_is_undefined() -> None:
    net = lambda x: torch.stack((x.flatten(1).sum(1), -x.flatten(1).sum(1)), dim=1)  # noqa: E731
    x = inputs(2, 1, 8, 8)
    found = value(IROF(segments=4, softmax=False), net, x, torch.tensor([0, 1]), x)
    assert np.isfinite(found[0])
    assert np.isnan(found[1])


def test_a_regression_has_no_road(tmp_path) -> None:  # type: ignore[no-untyped-def]
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 1)).eval()
    audit = Audit(models=net, inputs=torch.rand(3, 1, 4, 4), explainers=["gradient"], scores=["road"], outputs="raw", controls=False)
    (row,) = audit.run(tmp_path, progress=False).table().to_dict("records")
    assert (row["n"], row["undefined"]) == (0, 3)


def test_how_to_read_them() -> None:
    assert (IROF().direction, ROAD().direction, ROAD(order="lerf").direction) == (Direction.HIGHER, Direction.LOWER, Direction.HIGHER)
    assert IROF().bounds == (-np.inf, 1.0)
    assert IROF().assumption == ModelFaithfulness(patch_size=None, perturb_baseline="mean", softmax=True)
    for score in (IROF(segments=9), ROAD(percentages=(5.0, 50.0))):
        assert not score.requests(bare((1, 28, 28)), DEFAULTS)
        assert as_score(score.about()["spec"]) == score


def test_bad_input_is_told() -> None:
    for score in (IROF(), ROAD()):
        with pytest.raises(InputError, match=r"which inputs of shape \(12,\) do not have: use it for images"):
            score.requests(explained((12,)), DEFAULTS)
    with pytest.raises(SpecError, match=r"Unknown order of score 'road' 'mrof'. Did you mean 'morf'"):
        ROAD(order="mrof").requests(explained((1, 8, 8)), DEFAULTS)
    with pytest.raises(SpecError, match="at least one percentage"):
        ROAD(percentages=()).requests(explained((1, 8, 8)), DEFAULTS)
    with pytest.raises(SpecError, match="The setting 'percentages' of score 'road'"):
        ROAD(percentages=(50.0, 100.0))


class TestIROF(ScoreConformance):
    def score(self) -> Score:
        return IROF(segments=8)


class TestROAD(ScoreConformance):
    def score(self) -> Score:
        return ROAD(percentages=(10.0, 50.0, 90.0))
