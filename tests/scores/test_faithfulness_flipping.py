"""Pixel flipping, region perturbation, deletion and insertion: by hand, step by step the slow way, and what must hold of them."""

from itertools import permutations

import numpy as np
import pytest
import torch

from masked import DEFAULTS, bare, explained, higher, inputs, linear, measure, pair, reading, small_mlp, value
from veracity.core.errors import SpecError
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Measured
from veracity.perturb.masks import OrderedMasks
from veracity.scores.common import as_score
from veracity.scores.faithfulness.curves import Deletion, Insertion, PixelFlipping, RegionPerturbation, area, area_over
from veracity.scores.faithfulness.masked import ModelFaithfulness
from veracity.walk import MonteCarlo

ALL = (PixelFlipping, RegionPerturbation, Deletion, Insertion)


def test_by_hand():
    before = reading(torch.tensor([[2.0, 2.0]]), explanation=torch.zeros(1, 3))
    after = reading(torch.tensor([[0.0, np.log(3.0)]]))
    assert PixelFlipping().observe(pair(before, after)).tolist() == pytest.approx([0.25])
    assert PixelFlipping(softmax=False).observe(pair(before, after)).tolist() == [0.0]
    assert RegionPerturbation().observe(pair(before, after)).tolist() == pytest.approx([0.25])
    assert RegionPerturbation(softmax=False).observe(pair(before, after)).tolist() == [2.0]
    curve = Measured({"prediction": np.array([[[0.8, 0.4, 0.2, 0.2]]]), "drop": np.array([[[0.2, 0.6, 0.8, 0.8]]])})
    assert PixelFlipping(dx=1.0).values(curve).item() == pytest.approx(1.1)
    assert PixelFlipping().values(curve).item() == pytest.approx(1.1 / 3)
    assert Deletion().values(curve).item() == pytest.approx(1.1 / 3)
    assert RegionPerturbation().values(curve).item() == pytest.approx(2.4 / 5)


def test_areas():
    curve = np.array([[3.0, np.nan, 2.0, 1.0], [0.0, 1.0, 4.0, 9.0]])
    assert area(curve, dx=0.5).tolist() == pytest.approx([np.nan, 0.5 * np.trapezoid(curve[1])], nan_ok=True)
    assert area(np.full((2, 7), 0.3)).tolist() == pytest.approx([0.3, 0.3])
    assert area(np.array([[0.4]])).tolist() == [0.4]
    assert area(np.array([[0.4]]), dx=1.0).tolist() == [0.0]
    assert np.isnan(area_over(np.array([[np.nan, 1.0]]))).all()


def flipped(net, x, target, explanation, features, softmax, baseline):
    """The prediction after each step, one sample and one step at a time."""
    x = x.clone().flatten()
    left, predictions = sorted(range(len(x)), key=lambda i: -explanation.flatten()[i].item()), []
    while left:
        now, left = left[:features], left[features:]
        for i in now:
            x[i] = baseline
        out = net(x[None])[0]
        predictions.append((out.softmax(dim=0) if softmax else out)[target].item())
    return predictions


@pytest.mark.parametrize(("features", "softmax", "baseline"), [(1, True, "black"), (5, False, "white"), (4, True, 0.5)])
def test_pixel_flipping_step_by_step(features, softmax, baseline):
    x, explanation, net, target = inputs(3, 1, 4, 4), inputs(3, 1, 4, 4, seed=2), small_mlp(16), torch.tensor([0, 2, 1])
    score = PixelFlipping(features_in_step=features, softmax=softmax, perturb_baseline=baseline, dx=1.0)
    measured = measure(score, net, x, target, explanation)
    for i in range(3):
        at = {"black": x[i].min(), "white": x[i].max()}.get(baseline, 0.5)
        curve = flipped(net, x[i], target[i], explanation[i], features, softmax, at)
        assert measured["prediction"][i, 0].tolist() == pytest.approx(curve)
        assert score.values(measured)[i, 0] == pytest.approx(np.trapezoid(curve))


def test_region_perturbation_step_by_step():
    x, explanation, net, target = inputs(2, 2, 6, 6), inputs(2, 2, 6, 6, seed=2) - 0.5, small_mlp(72), torch.tensor([0, 2])
    found = {order: value(RegionPerturbation(patch_size=3, order=order), net, x, target, explanation) for order in ("morf", "lerf")}
    few = value(RegionPerturbation(patch_size=3, regions_evaluation=2), net, x, target, explanation)
    for i in range(2):
        regions = [(slice(None), slice(a, a + 3), slice(b, b + 3)) for a in (0, 3) for b in (0, 3)]
        regions.sort(key=lambda region, i=i: -explanation[i][region].sum().item())
        for order, way in (("morf", regions), ("lerf", regions[::-1])):
            masked, drops = x[i].clone(), []
            for region in way:
                masked[region] = x[i].min()
                drops.append((net(x[i][None]).softmax(1) - net(masked[None]).softmax(1))[0, target[i]].item())
            assert found[order][i] == pytest.approx(sum(drops) / 5)
            if order == "morf":
                assert few[i] == pytest.approx(sum(drops[:2]) / 3)


def test_deletion_and_insertion_have_both_ends():
    x, explanation, net, target = inputs(3, 10), inputs(3, 10, seed=2), small_mlp(10), torch.tensor([0, 2, 1])
    whole = net(x).softmax(1).gather(1, target[:, None]).squeeze(1)
    nothing = net(x.amin(1, keepdim=True).expand(3, 10)).softmax(1).gather(1, target[:, None]).squeeze(1)
    deleted = measure(Deletion(steps=5), net, x, target, explanation)["prediction"][:, 0]
    inserted = measure(Insertion(steps=5), net, x, target, explanation)["prediction"][:, 0]
    assert deleted.shape == inserted.shape == (3, 6)
    np.testing.assert_allclose(np.stack((deleted[:, 0], inserted[:, -1])), np.stack((whole, whole)))
    np.testing.assert_allclose(np.stack((deleted[:, -1], inserted[:, 0])), np.stack((nothing, nothing)))


@pytest.mark.parametrize("steps", [1, 5, 10, 50])
def test_inserting_what_is_relevant_is_deleting_what_is_not_backwards(steps):
    x, explanation, net, target = inputs(3, 10), inputs(3, 10, seed=2), small_mlp(10), torch.tensor([0, 2, 1])
    inserted = value(Insertion(steps=steps), net, x, target, explanation)
    deleted = value(Deletion(steps=steps), net, x, target, -explanation)
    np.testing.assert_allclose(inserted, deleted)


def test_no_order_beats_the_contributions_of_a_linear_model():
    net, x = linear(5), inputs(2, 5)
    orders = torch.tensor(list(permutations(range(5))), dtype=torch.float64)
    for score, better in (
        (PixelFlipping(softmax=False), np.min),
        (Deletion(softmax=False, steps=5), np.min),
        (Insertion(softmax=False, steps=5), np.max),
        (RegionPerturbation(softmax=False, patch_size=1), np.max),
        (RegionPerturbation(softmax=False, patch_size=1, order="lerf"), np.min),
    ):
        assert higher(score) == (better is np.max)
        for i, target in enumerate(torch.tensor([0, 1])):
            contribution = net.weight[target] * (x[i] - x[i].min())
            rivals = value(score, net, x[i].expand(120, 5), target.expand(120), orders)
            assert value(score, net, x[i : i + 1], target[None], contribution[None]).item() == pytest.approx(better(rivals))
            assert rivals.std() > 0.01


def test_only_the_order_counts():
    x, explanation, net, target = inputs(3, 1, 4, 4), inputs(3, 1, 4, 4, seed=2), small_mlp(16), torch.tensor([0, 2, 1])
    for score, other in (
        (PixelFlipping(features_in_step=3), torch.exp(3.0 * explanation)),
        (Deletion(steps=4), explanation**3),
        (Insertion(steps=4), explanation - 9.0),
        (RegionPerturbation(patch_size=2), 4.0 * explanation),
    ):
        np.testing.assert_array_equal(value(score, net, x, target, explanation), value(score, net, x, target, other))


def test_a_sample_does_not_depend_on_its_batch_mates():
    net, x, explanation, target = small_mlp(16), inputs(4, 1, 4, 4), inputs(4, 1, 4, 4, seed=2), torch.tensor([0, 1, 2, 0])
    for score in (PixelFlipping(), RegionPerturbation(patch_size=2), Deletion(steps=4), Insertion(steps=4)):
        together, alone = value(score, net, x, target, explanation), value(score, net, x[2:3], target[2:3], explanation[2:3], first=2)
        assert alone[0] == pytest.approx(together[2], abs=1e-12)


def test_what_they_ask_for():
    shape = torch.Size((1, 28, 28))
    wanted = {
        PixelFlipping(features_in_step=28): OrderedMasks(features=28),
        RegionPerturbation(patch_size=7): OrderedMasks(features=1, steps=100, patch=7),
        RegionPerturbation(order="lerf"): OrderedMasks(features=1, steps=100, patch=8, ascending=True),
        Deletion(perturb_baseline=0.0): OrderedMasks(steps=50, origin=True, baseline=0.0),
        Insertion(steps=28): OrderedMasks(steps=28, origin=True, insertion=True),
    }
    for score, space in wanted.items():
        (request,) = score.requests(explained((1, 28, 28)), DEFAULTS)
        assert request.space == space.fit(shape)
        assert request.walk == MonteCarlo(draws=1)
        assert not score.requests(bare((1, 28, 28)), DEFAULTS)
    with pytest.raises(SpecError, match=r"Unknown order of score 'region_perturbation' 'mrof'. Did you mean 'morf'"):
        RegionPerturbation(order="mrof").requests(explained((1, 28, 28)), DEFAULTS)


def test_how_to_read_them():
    directions = [Direction.LOWER, Direction.HIGHER, Direction.LOWER, Direction.HIGHER]
    assert [score().direction for score in ALL] == directions
    assert [score().bounds for score in ALL] == [(0.0, 1.0), (-1.0, 1.0), (0.0, 1.0), (0.0, 1.0)]
    assert [score(softmax=False).bounds for score in ALL] == [(-np.inf, np.inf)] * 4
    assert PixelFlipping(dx=1.0).bounds == (0.0, np.inf)
    assert PixelFlipping(dx=1.0, softmax=False).bounds == (-np.inf, np.inf)


def test_what_they_assume():
    assert PixelFlipping(features_in_step=28).assumption == ModelFaithfulness(features_in_step=28, softmax=True)
    assert RegionPerturbation(perturb_baseline="mean").assumption == ModelFaithfulness(patch_size=8, perturb_baseline="mean", softmax=True)
    assert Insertion(steps=20, softmax=False).assumption == ModelFaithfulness(features_in_step=0.05)
    (request,) = Deletion().assumption.requests(bare((1, 28, 28)), DEFAULTS)
    assert request.space.levels == 50
    (request,) = Deletion(steps=1).assumption.requests(bare((1, 28, 28)), DEFAULTS)
    assert request.space.levels == 1


@pytest.mark.parametrize(
    ("score", "setting", "value"),
    [
        (PixelFlipping, "features_in_step", 0), (PixelFlipping, "features_in_step", "a"), (PixelFlipping, "dx", -1.0),
        (Deletion, "steps", 0), (Insertion, "steps", None), (RegionPerturbation, "patch_size", 0),
    ],
)  # fmt: skip
def test_misuse_is_told(score, setting, value):
    with pytest.raises(SpecError, match=f"The setting '{setting}' of score '{score.name}' must be a .*number"):
        score(**{setting: value})


def test_they_survive_being_written_down():
    for score in (PixelFlipping(dx=1.0), RegionPerturbation(order="lerf"), Deletion(steps=3), Insertion(perturb_baseline="mean")):
        assert score.name in set(SCORES)
        assert as_score(score.about()["spec"]) == score
        assert score.reference
