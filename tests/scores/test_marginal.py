"""Scores by random values of features: monotonicity correlation, non-sensitivity, effective complexity."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from masked import DEFAULTS, bare, explained, inputs, linear, measure, small_mlp, value
from veracity import Audit
from veracity.core.errors import SpecError
from veracity.core.features import Features
from veracity.core.measures import Direction
from veracity.core.randomness import Draws
from veracity.core.scores import Measured, Score
from veracity.inputs import TableInputs
from veracity.perturb.replaced import RandomValues
from veracity.scores import EffectiveComplexity, MonotonicityCorrelation, NonSensitivity
from veracity.scores.common import as_score
from veracity.testing import ScoreConformance

ALL = (MonotonicityCorrelation, NonSensitivity, EffectiveComplexity)


def test_by_hand() -> None:
    measured = Measured({"attributed": np.array([[[3.0, 0.0, 1.0]] * 2]), "loss": np.array([[[0.1, 0.2, 0.0], [0.5, 0.0, 0.0]]])})
    assert MonotonicityCorrelation().values(measured).item() == pytest.approx(0.5)  # ranks 3 1 2 of attributions, 3 2 1 of losses
    assert NonSensitivity().values(measured).item() == pytest.approx(2 / 3)
    kept = Measured({"attributed": np.array([[[0.0, 0.5, 1.0]] * 2]), "loss": np.array([[[0.3, 0.02, 0.0], [0.1, 0.0, 0.0]]])})
    assert EffectiveComplexity(eps=0.1).values(kept).item() == 0.5
    assert EffectiveComplexity(eps=0.05).values(kept).item() == 1.0
    assert EffectiveComplexity(eps=0.5).values(kept).item() == 0.0


def uniform(x: torch.Tensor, units: int, draws: int) -> np.ndarray:
    """The quantiles of the engine's stand-in, (samples, draws, units)."""
    made = [torch.special.ndtr(Draws.of(0, torch.arange(len(x)), draw).normal(units, stream="walk").double()) for draw in range(draws)]
    return torch.stack(made, dim=1).numpy()


def with_range(score: Score, low: float, high: float) -> Score:
    """The score, whose space knows the range of the data as it does in a run."""

    class Ranged(type(score)):  # type: ignore[misc]
        def masks(self, shape: torch.Size) -> RandomValues:
            return super().masks(shape).within(low, high)  # type: ignore[no-any-return]

    return Ranged(**{item.name: getattr(score, item.name) for item in fields(score)})  # type: ignore[return-value]


def test_one_feature_and_one_value_at_a_time() -> None:
    x, maps, net, target = inputs(2, 5), inputs(2, 5, seed=2) - 0.5, small_mlp(5), torch.tensor([0, 2])
    quantile = uniform(x, 5, 4)
    losses = np.zeros((2, 5))
    for i in range(2):
        before = net(x[i][None]).softmax(1)[0, target[i]].item()
        for place in range(5):
            for draw in range(4):
                moved = x[i].clone()
                moved[place] = -1.0 + 3.0 * quantile[i, draw, place]
                losses[i, place] += (before - net(moved[None]).softmax(1)[0, target[i]].item()) ** 2 / 4
    given = maps.abs().numpy()
    found = value(with_range(MonotonicityCorrelation(nr_samples=4, softmax=True), -1.0, 2.0), net, x, target, maps)
    assert found.tolist() == pytest.approx([spearmanr(given[i], losses[i]).statistic for i in range(2)])
    eps = float(np.sqrt(np.median(losses)))
    wrong = ((given <= eps * given.max(1, keepdims=True)) != (losses <= eps**2)).mean(1)
    missed = value(with_range(NonSensitivity(nr_samples=4, softmax=True, eps=eps), -1.0, 2.0), net, x, target, maps)
    assert missed.tolist() == pytest.approx(wrong.tolist())
    assert 0 < missed.mean() < 1


def test_effective_complexity_feature_by_feature() -> None:
    x, maps, net, target = inputs(3, 5), inputs(3, 5, seed=2) - 0.5, small_mlp(5), torch.tensor([0, 2, 1])
    quantile = uniform(x, 5, 4)
    found = value(with_range(EffectiveComplexity(nr_samples=4, softmax=True, eps=0.2), 0.0, 1.0), net, x, target, maps)
    for i in range(3):
        order, needed = maps[i].abs().argsort(descending=True).tolist(), 5
        before = net(x[i][None]).softmax(1)[0, target[i]].item()
        for kept in range(4, -1, -1):
            loss = 0.0
            for draw in range(4):
                moved = x[i].clone()
                for place in order[kept:]:
                    moved[place] = quantile[i, draw, place]
                loss += (before - net(moved[None]).softmax(1)[0, target[i]].item()) ** 2 / 4
            if loss > 0.2**2:
                break
            needed = kept
        assert found[i] == pytest.approx(needed / 5)


def test_a_linear_model_with_one_feature() -> None:
    net, x, target = linear(4), inputs(3, 4), torch.zeros(3, dtype=torch.long)
    net.weight[0] = torch.tensor([0.0, 2.0, 0.0, 0.0])
    right, wrong = torch.tensor([[0.0, 1.0, 0.0, 0.0]] * 3), torch.tensor([[1.0, 0.0, 0.0, 0.0]] * 3)
    for score, good, bad in (
        (NonSensitivity(softmax=False), 0.0, 0.5),
        (EffectiveComplexity(softmax=False, steps=4, eps=1e-6), 0.25, 0.5),
        (MonotonicityCorrelation(softmax=False), 1.0, -1 / 3),
    ):
        ranged = with_range(score, 0.0, 1.0)
        assert value(ranged, net, x, target, right).tolist() == pytest.approx([good] * 3)
        assert value(ranged, net, x, target, wrong).tolist() == pytest.approx([bad] * 3)
    constant = measure(with_range(MonotonicityCorrelation(softmax=False), 0.0, 1.0), net, x, target, torch.ones(3, 4))
    assert MonotonicityCorrelation().no_response(constant).all()


def test_a_baseline_makes_one_replacement() -> None:
    (request,) = MonotonicityCorrelation(perturb_baseline="black").for_subject(explained((6,))).requests(explained((6,)), DEFAULTS)
    assert request.walk.length(request.space) == 1
    x = inputs(2, 6)
    element = request.space.steer(request.space.at(torch.rand(2, 6), torch.tensor([0, 0])), request.space.guide(x, x))  # type: ignore[attr-defined]
    moved = request.space.act(element, x)  # type: ignore[attr-defined]
    assert ((moved != x).sum(1) == 1).all()
    assert torch.equal(moved.amin(1), x.amin(1))


def test_values_of_a_table_come_from_one_sample_of_its_column() -> None:
    rows = torch.tensor([[1.0, 1.0, 0.0], [2.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
    table = Features.measured(rows, groups=torch.tensor([0, 1, 1]))
    space = RandomValues(features=1, alone=True).fit(torch.Size([3])).over(table)
    assert (space.units, space.needs_range) == (2, False)
    x = torch.tensor([[9.0, 8.0, 7.0]]).expand(200, 3)
    draws = torch.rand(200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    guide = space.guide(x, torch.tensor([[5.0, 1.0, 1.0]]).expand(200, 3))
    first, second = (space.act(space.steer(space.at(draws, torch.full((200,), level)), guide), x) for level in (0, 1))
    assert set(first[:, 0].tolist()) == {1.0, 2.0, 3.0}
    assert (first[:, 1:] == x[:, 1:]).all()
    assert {tuple(pair) for pair in second[:, 1:].tolist()} == {(1.0, 0.0), (0.0, 1.0)}
    assert (second[:, 0] == 9.0).all()


def test_a_large_reference_set_is_not_carried_by_every_job() -> None:
    rows = torch.arange(20_000.0)[:, None] + torch.tensor([0.0, 0.5])
    audit = Audit(
        models=torch.nn.Linear(2, 2).eval(), inputs=rows, explainers=["gradient"], scores=["monotonicity_correlation"], controls=False
    )
    spaces: list[Any] = [c.request.space for j in audit.prepare().jobs for c in j.cells if c.score.name == "monotonicity_correlation"]
    kept = spaces[0].background
    assert all(space.background is kept for space in spaces)
    assert kept.shape == (1000, 2)
    assert torch.equal(kept[:, 1], kept[:, 0] + 0.5)
    assert len(kept[:, 0].unique()) == 1000
    assert abs(float(kept[:, 0].mean()) - 9999.5) < 4 * 20_000 / 12**0.5 / 1000**0.5
    assert torch.equal(Features.measured(rows).drawn, kept)
    assert torch.equal(Features.measured(rows[:1000]).drawn, rows[:1000])


def test_tables_run(tmp_path: Path) -> None:
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    result = Audit(
        models=torch.nn.Linear(4, 2).eval(),
        inputs=TableInputs.of_array(x.numpy()),
        explainers=["gradient"],
        scores=list(ALL),
        controls=False,
    ).run(tmp_path, progress=False)
    assert result.failures().empty
    assert np.isfinite(result.table()["value"]).all()


def test_effective_complexity_counts_a_category_as_one_feature(tmp_path: Path) -> None:
    """Three numbers and a category of 40 columns, which alone matters: one feature of four is enough."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(8, 3)), np.eye(40)[rng.integers(0, 40, 8)]], axis=1).astype("float32")
    table = TableInputs.of_array(rows, ["a", "b", "c", *(f"country_{level}" for level in range(40))], groups="_")
    net = torch.nn.Linear(43, 1).eval()
    with torch.no_grad():
        net.weight.zero_()
        net.weight[0, 3:] = torch.arange(40.0)
    score = EffectiveComplexity(eps=0.01, softmax=False)
    audit = Audit(models=net, inputs=table, explainers=["gradient"], scores=[score], outputs="raw", controls=False, companions=False)
    result = audit.run(tmp_path, progress=False)
    assert result.samples("effective_complexity")["value"].tolist() == [0.25] * 8


def test_how_to_read_them() -> None:
    assert [score().direction for score in ALL] == [Direction.HIGHER, Direction.LOWER, Direction.LOWER]
    for score in ALL:
        assert not score().requests(bare((1, 28, 28)), DEFAULTS)
        assert as_score(score().about()["spec"]) == score()
        assert "Nguyen" in score.reference


def test_bad_settings_are_told() -> None:
    with pytest.raises(SpecError, match=r"Unknown baseline of the space 'random_values' 'unifrom'. Did you mean 'uniform'"):
        NonSensitivity(perturb_baseline="unifrom").requests(explained((6,)), DEFAULTS)
    with pytest.raises(SpecError, match="does not know the range of the data yet"):
        RandomValues(features=1).fit(torch.Size([2])).act(torch.zeros(1, 2), torch.zeros(1, 2))
    with pytest.raises(SpecError, match="The setting 'eps' of score 'non_sensitivity'"):
        NonSensitivity(eps=0.0)


class TestMonotonicityCorrelation(ScoreConformance):
    def score(self) -> Score:
        return MonotonicityCorrelation(nr_samples=2, features_in_step=8)


class TestNonSensitivity(ScoreConformance):
    def score(self) -> Score:
        return NonSensitivity(nr_samples=2, features_in_step=8)


class TestEffectiveComplexity(ScoreConformance):
    def score(self) -> Score:
        return EffectiveComplexity(nr_samples=2, eps=0.01)
