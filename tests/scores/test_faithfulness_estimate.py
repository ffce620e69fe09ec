"""Faithfulness estimate, sensitivity-n, monotonicity and selectivity."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from masked import DEFAULTS, bare, explained, inputs, linear, measure, small_mlp, value
from veracity import Audit
from veracity.core.errors import InputError, SpecError
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Measured, Score
from veracity.inputs import TableInputs
from veracity.perturb.masks import OrderedMasks
from veracity.scores import FaithfulnessEstimate, Monotonicity, Selectivity, SensitivityN
from veracity.scores.common import as_score
from veracity.scores.faithfulness.masked import ModelFaithfulness
from veracity.testing import ScoreConformance

ALL = (FaithfulnessEstimate, SensitivityN, Monotonicity, Selectivity)


def test_by_hand() -> None:
    steps = Measured({"attributed": np.array([[[3.0, 1.0, 2.0]]]), "drop": np.array([[[1.0, 0.0, 0.0]]])})
    assert FaithfulnessEstimate().values(steps).item() == pytest.approx(np.sqrt(3) / 2)
    sizes = Measured(
        {"attributed": np.array([[[1.0, 4.0], [2.0, 4.0], [3.0, 5.0]]]), "drop": np.array([[[1.0, 1.0], [2.0, 2.0], [3.0, 1.0]]])}
    )
    assert SensitivityN().values(sizes).item() == pytest.approx((1.0 - 0.5) / 2)
    curve = Measured({"prediction": np.array([[[0.2, 0.2, 0.7]], [[0.2, 0.1, 0.7]], [[0.2, np.nan, 0.7]]])})
    assert Monotonicity().values(curve)[:, 0].tolist() == pytest.approx([1.0, 0.0, np.nan], nan_ok=True)
    assert Monotonicity(tolerance=0.2).values(curve)[1].item() == 1.0
    assert Selectivity().values(Measured({"prediction": np.array([[[1.0, 0.5, 0.0]]])})).item() == 0.5


def test_masks_of_single_steps() -> None:
    masks = OrderedMasks(features=2, alone=True).fit(torch.Size([5]))
    guide = masks.guide(torch.zeros(1, 5), torch.tensor([[0.1, 0.9, 0.5, 0.3, 0.0]]))
    steps = [masks.steer(masks.at(masks.enumerate(), torch.tensor([level])), guide)[0].nonzero().flatten().tolist() for level in range(3)]
    assert steps == [[1, 2], [0, 3], [4]]
    assert "alone" not in OrderedMasks(features=2).spec()
    with pytest.raises(SpecError, match=r"alone=True needs features=\.\.\."):
        OrderedMasks(steps=2, alone=True).fit(torch.Size([5]))


@pytest.mark.parametrize(("features", "softmax", "baseline"), [(1, True, "black"), (3, False, "white")])
def test_estimate_one_feature_at_a_time(features: int, softmax: bool, baseline: str) -> None:
    x, maps, net, target = inputs(3, 1, 3, 4), inputs(3, 1, 3, 4, seed=2), small_mlp(12), torch.tensor([0, 2, 1])
    found = value(FaithfulnessEstimate(features_in_step=features, softmax=softmax, perturb_baseline=baseline), net, x, target, maps)

    def predicted(one: torch.Tensor, c: int) -> float:
        out = net(one[None])[0]
        return float((out.softmax(0) if softmax else out)[c])

    for i in range(3):
        fill, sums, drops = (x[i].min() if baseline == "black" else x[i].max()), [], []
        order = sorted(range(12), key=lambda place, i=i: -maps[i].flatten()[place].item())  # type: ignore[misc]
        for first in range(0, 12, features):
            masked = x[i].clone().flatten()
            masked[order[first : first + features]] = fill
            sums.append(maps[i].flatten()[order[first : first + features]].sum().item())
            drops.append(predicted(x[i], int(target[i])) - predicted(masked.reshape(1, 3, 4), int(target[i])))
        assert found[i] == pytest.approx(np.corrcoef(sums, drops)[0, 1])


def test_sensitivity_n_size_by_size() -> None:
    x, maps, net, target = inputs(2, 10), inputs(2, 10, seed=2), small_mlp(10), torch.tensor([0, 2])
    score = SensitivityN(nr_runs=7, steps=4, n_max_percentage=0.8)
    (request,) = score.requests(explained((10,)), DEFAULTS)
    space = request.space
    assert [int(space.count(torch.tensor(level))) for level in range(space.levels)] == [2, 4, 6, 8]  # type: ignore[attr-defined]
    measured, found = measure(score, net, x, target, maps), value(score, net, x, target, maps)
    for i in range(2):
        by_size = [np.corrcoef(measured["attributed"][i, :, n], measured["drop"][i, :, n])[0, 1] for n in range(4)]
        assert found[i] == pytest.approx(np.mean(by_size))


@pytest.mark.parametrize(("size", "largest"), [(64, 51), (784, 627), (3072, 2457)])
def test_sensitivity_n_has_ten_sizes_up_to_80_percent(size: int, largest: int) -> None:
    space = SensitivityN().masks(torch.Size([size]))
    assert (space.levels, int(space.count(torch.tensor(9)))) == (10, largest)


def test_sensitivity_n_counts_the_features_of_a_table(tmp_path: Path) -> None:
    """Six features in 74 columns: sizes are 1 to 4 features, where a tenth of the columns would be all features at once."""
    rng, columns, values = np.random.default_rng(0), ["age", "hours", "gain"], [np.random.default_rng(1).normal(size=(5, 3))]
    for name, count in (("job", 15), ("edu", 16), ("country", 40)):
        values.append(np.eye(count)[rng.integers(0, count, 5)])
        columns += [f"{name}_{level}" for level in range(count)]
    table = TableInputs.of_array(np.concatenate(values, axis=1).astype("float32"), columns, groups="_")
    net = linear(len(columns)).float().eval()
    kept: dict[str, Any] = {"models": net, "inputs": table, "explainers": ["gradient"], "controls": False, "companions": False}
    result = Audit(**kept, scores=[SensitivityN(nr_runs=8)]).run(tmp_path / "run", progress=False)
    assert result.samples("sensitivity_n")["value"].notna().all()
    space: Any = Audit(**kept, scores=["sensitivity_n"]).prepare().jobs[-1].cells[0].request.space
    assert space.count(torch.arange(space.levels)).tolist() == [1, 2, 3, 4]
    with pytest.raises(InputError, match="Subsets of 5 features are too large for samples of 6 features"):
        Audit(**kept, scores=[SensitivityN(features_in_step=5)]).prepare()


def test_a_linear_model_and_its_contributions_are_perfect() -> None:
    net, x = linear(6), inputs(2, 6)
    contribution = net.weight[0] * (x - x.amin(1, keepdim=True))
    target = torch.tensor([0, 0])
    for score in (FaithfulnessEstimate(softmax=False), SensitivityN(nr_runs=20, steps=3)):
        assert value(score, net, x, target, contribution).tolist() == pytest.approx([1.0, 1.0])
        assert value(score, net, x, target, -contribution).tolist() == pytest.approx([-1.0, -1.0])
        constant = measure(score, net, x, target, torch.ones_like(x))
        assert np.isnan(score.values(constant)).all()
        assert score.no_response(constant).all()
        assert not score.no_response(measure(score, net, x, target, contribution)).any()


def test_monotonicity_step_by_step_and_unlike_quantus() -> None:
    x, maps, net, target = inputs(4, 6), inputs(4, 6, seed=2), small_mlp(6), torch.tensor([0, 2, 1, 1])
    found = measure(Monotonicity(softmax=True), net, x, target, maps)["prediction"][:, 0]
    for i in range(4):
        there, curve = torch.full((6,), x[i].min().item(), dtype=torch.float64), []
        for place in sorted(range(6), key=lambda place, i=i: maps[i, place].item()):  # type: ignore[misc]
            there[place] = x[i, place]
            curve.append(net(there[None]).softmax(1)[0, target[i]].item())
        assert found[i].tolist() == pytest.approx(curve)
        assert np.ptp(found[i]) > 1e-3  # a curve that nothing is added to is flat, and always passes
    line, point, zeros = linear(4), inputs(24, 4), torch.zeros(24, dtype=torch.long)
    orders = torch.tensor(list(permutations(range(4))), dtype=torch.float64)
    for sign, passed in ((1.0, 1.0), (-1.0, 0.0)):
        line.weight.copy_(sign * line.weight.abs())
        assert set(value(Monotonicity(softmax=False), line, point, zeros, orders)) == {passed}


def test_monotonicity_begins_with_the_first_step_as_in_aix360() -> None:
    """The baseline alone is not compared: here it is predicted with more confidence than anything else."""
    net, x, target = linear(3), torch.ones(1, 3, dtype=torch.float64), torch.tensor([0])
    net.weight[0] = torch.tensor([-9.0, 1.0, 2.0])
    maps = torch.tensor([[0.0, 1.0, 2.0]])
    base, order, curve = torch.zeros(3, dtype=torch.float64), maps[0].argsort().tolist(), []
    start = net(base[None])[0, 0].item()
    for place in order:
        base[place] = x[0, place]
        curve.append(net(base[None])[0, 0].item())
    assert start > curve[0]
    assert bool((np.diff(curve) >= 0).all())
    assert value(Monotonicity(softmax=False, perturb_baseline=0.0), net, x, target, maps).item() == 1.0


def test_selectivity_patch_by_patch() -> None:
    x, maps, net, target = inputs(2, 2, 4, 4), inputs(2, 2, 4, 4, seed=2), small_mlp(32), torch.tensor([0, 2])
    found = value(Selectivity(patch_size=2, softmax=True), net, x, target, maps)
    for i in range(2):
        patches = [(slice(None), slice(a, a + 2), slice(b, b + 2)) for a in (0, 2) for b in (0, 2)]
        patches.sort(key=lambda patch, i=i: -maps[i][patch].sum().item())  # type: ignore[misc]
        here, curve = x[i].clone(), [net(x[i][None]).softmax(1)[0, target[i]].item()]
        for patch in patches:
            here[patch] = x[i].min()
            curve.append(net(here[None]).softmax(1)[0, target[i]].item())
        assert found[i] == pytest.approx(np.trapezoid(curve) / 4)
    (request,) = Selectivity().requests(explained((12,)), DEFAULTS)
    assert (request.space.patch, request.space.levels) == (1, 13)  # type: ignore[attr-defined]


def test_how_to_read_them() -> None:
    assert [score().direction for score in ALL] == [Direction.HIGHER, Direction.HIGHER, Direction.HIGHER, Direction.LOWER]
    assert [score().bounds for score in ALL] == [(-1.0, 1.0), (-1.0, 1.0), (0.0, 1.0), (0.0, 1.0)]
    assert FaithfulnessEstimate(features_in_step=4).assumption == ModelFaithfulness(features_in_step=4, softmax=True)
    assert SensitivityN().assumption == ModelFaithfulness(features_in_step=0.08)
    assert Selectivity(softmax=False).assumption == ModelFaithfulness(patch_size=8)
    for score in ALL:
        assert not score().requests(bare((1, 28, 28)), DEFAULTS)
        assert score.name in set(SCORES)
        assert score.reference
        assert as_score(score().about()["spec"]) == score()


def test_bad_settings_are_told() -> None:
    with pytest.raises(InputError, match="Subsets of 9 features are too large for samples of 10 features"):
        SensitivityN(features_in_step=9).requests(explained((10,)), DEFAULTS)
    with pytest.raises(SpecError, match="The setting 'n_max_percentage' of score 'sensitivity_n' must be a number"):
        SensitivityN(n_max_percentage=1.5)
    with pytest.raises(SpecError, match="The setting 'features_in_step' of score 'faithfulness_estimate' must be a whole number"):
        FaithfulnessEstimate(features_in_step=0)
    with pytest.raises(SpecError, match="The patch of the space 'ordered_masks' is 30"):
        Selectivity(patch_size=30).requests(explained((1, 28, 28)), DEFAULTS)
    with pytest.raises(SpecError, match="The setting 'tolerance' of score 'monotonicity'"):
        Monotonicity(tolerance=-1.0)


class TestFaithfulnessEstimate(ScoreConformance):
    def score(self) -> Score:
        return FaithfulnessEstimate(features_in_step=8)


class TestSensitivityN(ScoreConformance):
    def score(self) -> Score:
        return SensitivityN(nr_runs=6, steps=3)


class TestMonotonicity(ScoreConformance):
    def score(self) -> Score:
        return Monotonicity(features_in_step=16)


class TestSelectivity(ScoreConformance):
    def score(self) -> Score:
        return Selectivity(patch_size=4)
