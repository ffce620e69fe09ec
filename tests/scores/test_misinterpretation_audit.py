"""Robustness of interpretation through whole audits: exact numbers on tiny models, and exact counts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import special
from torch import Size, Tensor, nn

from search_audits import (
    AROUND,
    BOTH,
    GENETIC,
    LINEAR,
    SEED,
    SUBSET,
    audit_of,
    by_hand,
    counted,
    grid,
    images,
    linear_net,
    one,
    tanh_net,
    values,
)
from veracity import Result
from veracity.core.randomness import Draws
from veracity.engine.memory import Memory
from veracity.measure import mse
from veracity.perturb import Ball, Rotation
from veracity.perturb.weights import WeightNeighbourhood
from veracity.scores.rare_events import LnPHat, LnPMisclassified, LnPTilde
from veracity.scores.robustness import SolHat, SolTilde, WorstLoss
from veracity.scores.sensitivity import MaxSensitivity
from veracity.walk import Genetic, MonteCarlo, SimpleMonteCarlo, SubsetSimulation

# A linear model, where everything is known


@pytest.fixture(scope="module")
def fine() -> Tensor:
    return grid(SEED, 0.4, 120)


@pytest.fixture(scope="module")
def walls() -> Tensor:
    return grid(SEED, 0.4, 81, walls=True)


def test_ln_p_is_the_volume_of_the_event(fine: Tensor, tmp_path: Path) -> None:
    # The same input 24 times over, each time with random numbers of its own.
    agreement, lost = by_hand(LINEAR, SEED, fine)
    before, _ = by_hand(LINEAR, SEED, fine, follow=False)
    walk = SubsetSimulation(population=150)
    scores = {"hat": LnPHat(**AROUND, walk=walk), "tilde": LnPTilde(**AROUND, walk=walk, follow=False)}
    result = audit_of(linear_net(), SEED.repeat(24, 1), scores).run(tmp_path, progress=False)
    for name, event in (("hat", (agreement < 0.4) & (lost < 0)), ("tilde", (before > 0.6) & (lost >= 0))):
        truth, table = math.log(float(event.double().mean())), result.samples(name)
        assert -8.0 < truth < -5.5
        assert (np.abs(table["value"] - truth) < 1.96 * table["error"]).mean() >= 0.86
        assert abs(table["value"].mean() - truth) < 0.6 * table["error"].mean()
        assert one(result, name)["value"] == pytest.approx(table["value"].median())
        assert one(result, name)["low"] < truth < one(result, name)["high"]
        assert one(result, name)["censored"] == 0


def test_a_count_finds_the_same_volume(fine: Tensor, tmp_path: Path) -> None:
    agreement, lost = by_hand(LINEAR, SEED, fine)
    result = audit_of(linear_net(), SEED, [LnPHat(**AROUND, walk=SimpleMonteCarlo(draws=20000))]).run(tmp_path, progress=False)
    (row,) = result.samples("ln_p_f_hat").to_dict("records")
    assert abs(row["value"] - math.log(float(((agreement < 0.4) & (lost < 0)).double().mean()))) < 1.96 * row["error"]
    assert one(result, "ln_p_f_hat")["evaluations"] == 20000


def test_the_class_at_the_point_or_the_class_before(walls: Tensor, tmp_path: Path) -> None:
    # A point of another class is explained alike only if the old class is explained there.
    fixed, lost = by_hand(LINEAR, SEED, walls, follow=False)
    follow, _ = by_hand(LINEAR, SEED, walls)
    fixed, follow = fixed[lost > 1e-9], follow[lost > 1e-9]
    walk = Genetic(population=40, generations=20)
    scores = {
        "fixed": SolTilde(**AROUND, walk=walk, follow=False),
        "follow": SolTilde(**AROUND, walk=walk),
        "rare": LnPTilde(**AROUND, walk=SubsetSimulation(population=100, steps=5, floor=-30.0)),
    }
    result = audit_of(linear_net(), SEED, scores).run(tmp_path, progress=False)
    assert float(follow.max()) < 0.0 < 0.6 < float(fixed.max())
    assert values(result, "fixed")[0] == pytest.approx(float(fixed.max()), abs=0.02)
    assert values(result, "follow")[0] == pytest.approx(float(follow.max()), abs=0.02)
    assert one(result, "rare")["censored"] == 1


def test_the_worst_case_is_that_of_a_fine_grid(walls: Tensor, tmp_path: Path) -> None:
    agreement, lost = by_hand(LINEAR, SEED, walls)
    worst, found = float(agreement[lost < 0].min()), Genetic(population=60, generations=30)
    result = audit_of(linear_net(), SEED, [SolHat(**AROUND, walk=found), WorstLoss(**AROUND, walk=found)]).run(tmp_path, progress=False)
    assert values(result, "sol_f_hat")[0] == pytest.approx(worst, abs=0.02)
    # J = -1.5 x_0 + x_1 - 2 x_2 is largest in the corner (.4, .9, 0).
    assert values(result, "worst_loss")[0] == pytest.approx(0.3, abs=1e-3)
    (pair,) = result.worst("sol_f_hat")
    again, kept = by_hand(LINEAR, SEED, pair.moved[None])
    assert again.item() == pytest.approx(pair.value, abs=1e-9)
    assert pair.value == pytest.approx(values(result, "sol_f_hat")[0], abs=1e-9)
    assert kept.item() < 0
    assert (pair.moved - SEED[0]).abs().max() <= 0.4 + 1e-9


def test_ln_p_of_monte_carlo_is_the_count(tmp_path: Path) -> None:
    score = LnPMisclassified(radius=0.45, range=(0.0, 1.0), walk=MonteCarlo(draws=3000))
    hat = LnPHat(radius=0.45, range=(0.0, 1.0), walk=MonteCarlo(draws=3000), threshold=0.6)
    result = audit_of(linear_net(), SEED, [score, hat], seed=4).run(tmp_path, progress=False)
    ball = Ball(radius=0.45, range=(0.0, 1.0)).fit(Size([3]))
    row, draw = torch.zeros(3000, dtype=torch.int64), torch.arange(3000)
    moved = ball.act(ball.sample(Draws(4, row, draw)), SEED[row])
    agreement, lost = by_hand(LINEAR, SEED, moved)
    hits, misled = int((lost >= 0).sum()), int(((agreement < 0.6) & (lost < 0)).sum())
    assert min(hits, misled) > 5
    assert values(result, "ln_p_misclassified")[0] == pytest.approx(math.log(hits / 3000))
    assert values(result, "ln_p_f_hat")[0] == pytest.approx(math.log(misled / 3000))
    assert result.samples("ln_p_f_hat")["error"].item() == pytest.approx(math.sqrt((1 - misled / 3000) / misled))


def test_signs_matter_where_they_flip(tmp_path: Path) -> None:
    # With inputs around zero, gradient times input changes its sign while its size stays.
    x, net = torch.tensor([[0.3, -0.2, 0.4]], dtype=torch.float64), linear_net()
    around = {"radius": 0.2, "range": (-1.0, 1.0), "walk": Genetic(population=40, generations=15)}
    scores = {"sizes": SolHat(**around), "signed": SolHat(**around, signed=True), "distance": SolHat(**around, measure=mse, threshold=0.1)}
    result = audit_of(net, x, scores).run(tmp_path, progress=False)
    moved = x[0] + torch.cartesian_prod(*[torch.linspace(-0.2, 0.2, 61, dtype=torch.float64)] * 3)
    sizes, lost = by_hand(LINEAR, x, moved)
    maps, base = LINEAR[0] * moved, LINEAR[0] * x[0]
    centred = maps - maps.mean(dim=1, keepdim=True)
    own = base - base.mean()
    correlation = (centred * own).sum(dim=1) / (centred.norm(dim=1) * own.norm())
    assert values(result, "sizes")[0] == pytest.approx(float(sizes[lost < 0].min()), abs=0.05)
    assert values(result, "signed")[0] == pytest.approx(float(correlation[lost < 0].min()), abs=0.05)
    assert abs(values(result, "sizes")[0] - values(result, "signed")[0]) > 0.2
    far = float((maps.abs() - base.abs()).square().mean(dim=1)[lost < 0].max())
    assert values(result, "distance")[0] == pytest.approx(far, rel=0.05)


# Other spaces


def test_weight_noise_against_its_closed_form(tmp_path: Path) -> None:
    # w' = w (1 + sigma u), one class with weights and one without: J = -sum w_i x_i (1 + sigma u_i) is normal.
    net = nn.Sequential(nn.Linear(3, 2, bias=False)).double().eval()
    net[0].weight.data.copy_(torch.tensor([[1.0, 2.0, -1.0], [0.0, 0.0, 0.0]]))
    x = torch.tensor([[0.5, 0.6, 0.2], [0.9, 0.3, 0.1]], dtype=torch.float64)
    space = WeightNeighbourhood(sigma=0.4)
    score = LnPMisclassified(space=space, walk=SubsetSimulation(population=200, steps=5))
    before = net[0].weight.detach().clone()
    result = audit_of(net, x, [score]).run(tmp_path, progress=False)
    terms = net[0].weight.detach()[0] * x
    truth = special.log_ndtr((-terms.sum(dim=1) / (0.4 * terms.norm(dim=1))).numpy())
    table = result.samples("ln_p_misclassified")
    assert (truth < -4).all()
    assert (np.abs(table["value"] - truth) < 1.96 * table["error"]).all()
    assert torch.equal(net[0].weight, before)


def test_a_search_among_weights(tmp_path: Path) -> None:
    net, x = tanh_net(), images(2)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    result = audit_of(net, x, [SolHat(space=WeightNeighbourhood(sigma=0.2), walk=Genetic(population=8, generations=3, elites=2))]).run(
        tmp_path, progress=False
    )
    assert all(value < 0.999 for value in values(result, "sol_f_hat"))
    assert one(result, "sol_f_hat")["evaluations"] == 2 * (8 + 3 * 6)
    first = next(series for series in result.series if series.score == "sol_f_hat").measured["agreement"][:, 0]
    assert (np.diff(first, axis=1) <= 1e-12).all()
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_rotations_by_levels_and_by_counting_out(tmp_path: Path) -> None:
    net, x = tanh_net(6), images(4)
    angles = (torch.arange(4000, dtype=torch.float64)[:, None] + 0.5) * 2 * math.pi / 4000
    with torch.no_grad():
        label = net(x).argmax(dim=1)
        turned = [net(Rotation().act(angles, each[None].expand(4000, -1, -1, -1))).argmax(dim=1) for each in x]
    shares = [float((found != label[row]).double().mean()) for row, found in enumerate(turned)]
    scores = [LnPMisclassified(space=Rotation(), walk=SubsetSimulation(population=500)), SolHat(space=Rotation(), walk=GENETIC)]
    result = audit_of(net, x, scores).run(tmp_path, progress=False)
    table = result.samples("ln_p_misclassified")
    assert min(shares) > 0.1
    assert (np.abs(table["value"] - np.log(shares)) < 1.96 * table["error"]).all()
    (pair,) = result.worst("sol_f_hat")
    assert pair.value == pytest.approx(np.corrcoef(pair.found.abs().flatten(), pair.expected.abs().flatten())[0, 1], abs=1e-9)
    assert torch.allclose(pair.moved, Rotation().act(torch.tensor([pair.element]), pair.input[None])[0])


# Exact counts, and the same numbers however samples are batched


def base_rows(samples: int) -> int:
    """A first look, the outputs, which are the scores to compare with, a few of them twice together and once alone, and the maps."""
    return 1 + samples + 3 * min(4, samples) + samples


def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No trial of the explainers, and no outputs that an earlier audit of the process left behind."""
    monkeypatch.setattr("veracity.audit.try_explainers", lambda problem, budgets, heard: (problem, []))
    monkeypatch.setattr("veracity.engine.reader.MEMORY", Memory())


@pytest.mark.parametrize(
    "score", [SolHat(**AROUND, walk=GENETIC), LnPHat(**AROUND, walk=SUBSET), SolHat(**AROUND, walk=SimpleMonteCarlo(draws=30))]
)
def test_evaluations_in_the_table_are_the_rows_that_the_model_saw(score: SolHat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = tanh_net(), images(5)
    audit = audit_of(net, x, [score])
    alone(monkeypatch)
    with counted(net) as rows:
        result = audit.run(tmp_path, batch=64, progress=False)
    shown = len(result.worst(score.name, 99))
    assert one(result, score.name)["evaluations"] == sum(rows) - base_rows(5) - shown
    assert shown == 5
    if isinstance(score.walk, Genetic):
        assert one(result, score.name)["evaluations"] == 5 * score.walk.length(Ball(radius=0.4).fit(Size([16])))


def test_sensitivity_looks_at_the_same_points_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = tanh_net(), images(4)
    walk, space = MonteCarlo(draws=25), Ball(radius=0.4, range=(0.0, 1.0))
    hat, beside = LnPHat(space=space, walk=walk), MaxSensitivity(space=space, walk=walk, follow=True)

    def seen(name: str, scores: list[object]) -> tuple[int, Result]:
        audit = audit_of(net, x, scores)
        alone(monkeypatch)
        with counted(net) as rows:
            result = audit.run(tmp_path / name, batch=64, progress=False)
        return sum(rows), result

    first, _ = seen("first", [hat])
    both, result = seen("both", [hat, beside])
    assert first == both == base_rows(4) + 4 * 25
    assert all(value > 0 for value in values(result, "max_sensitivity"))


def test_plain_draws_are_evaluations_too(tmp_path: Path) -> None:
    scores = [LnPHat(**AROUND, walk=MonteCarlo(draws=25)), SolHat(**AROUND, walk=MonteCarlo(draws=25))]
    result = audit_of(tanh_net(), images(4), scores).run(tmp_path, progress=False)
    assert [one(result, score)["evaluations"] for score in ("ln_p_f_hat", "sol_f_hat")] == [100, 100]


def test_a_sample_has_one_result_whatever_its_levels(tmp_path: Path) -> None:
    result = audit_of(tanh_net(), images(4), [LnPHat(**AROUND, threshold=0.7, walk=SUBSET)]).run(tmp_path, progress=False)
    (series,) = result.series
    assert len(set(np.isfinite(series.measured["evaluations"][:, 0]).sum(axis=1))) > 1
    assert result.samples("ln_p_f_hat")["draws"].tolist() == [1] * 4
    assert result.samples("ln_p_f_hat")["undefined"].tolist() == [0] * 4


@pytest.mark.parametrize("score", [LnPHat(**AROUND, walk=SUBSET), LnPTilde(**AROUND, walk=SUBSET), SolHat(**AROUND, walk=GENETIC)])
def test_pairs_begin_with_the_worst(score: LnPHat, tmp_path: Path) -> None:
    found = [pair.value for pair in audit_of(tanh_net(), images(8), [score]).run(tmp_path, progress=False).worst(score.name, 8)]
    assert len(found) > 1
    assert found == sorted(found, reverse=not score.same_label)


@pytest.mark.parametrize(
    "score", [SolHat(**AROUND, walk=BOTH), LnPHat(**AROUND, threshold=0.7, walk=SUBSET), WorstLoss(**AROUND, walk=BOTH)]
)
def test_many_samples_at_once_or_one_at_a_time(score: SolHat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = tanh_net(), images(4)
    whole = audit_of(net, x, [score]).run(tmp_path / "whole", batch=256, progress=False)
    few = audit_of(net, x, [score]).run(tmp_path / "few", batch=7, progress=False)
    monkeypatch.setattr("veracity.core.walks.NUMBERS", 1)
    single = audit_of(net, x, [score]).run(tmp_path / "single", progress=False)
    for other in (few, single):
        assert values(other, score.name) == pytest.approx(values(whole, score.name), abs=1e-9, nan_ok=True)
        assert one(other, score.name)["evaluations"] == one(whole, score.name)["evaluations"]
        first, second = (next(iter(run.series)).measured for run in (whole, other))
        for name in first.quantities:
            assert np.allclose(first[name], second[name], atol=1e-9, equal_nan=True), name


def test_a_second_run_measures_nothing_again(tmp_path: Path) -> None:
    net, x = tanh_net(), images(3)
    scores = [SolHat(**AROUND, walk=BOTH), LnPHat(**AROUND, walk=SUBSET), LnPMisclassified(**AROUND, walk=SUBSET)]
    first = audit_of(net, x, scores).run(tmp_path, progress=False)
    with counted(net) as rows:
        second = audit_of(net, x, scores).run(tmp_path, progress=False)
    # The model is looked at, and its explainers are tried; nothing is searched.
    assert sum(rows) < 40 < one(first, "sol_f_hat")["evaluations"]
    for score in ("sol_f_hat", "ln_p_f_hat", "ln_p_misclassified"):
        assert values(first, score) == pytest.approx(values(second, score), nan_ok=True)


def test_the_model_and_its_inputs_come_back_untouched(tmp_path: Path) -> None:
    net, x = tanh_net(), images(2)
    before, kept = x.clone(), {name: value.clone() for name, value in net.state_dict().items()}
    state = torch.get_rng_state()
    audit_of(net, x, [SolHat(**AROUND, walk=BOTH)]).run(tmp_path, progress=False)
    assert torch.equal(x, before)
    assert all(torch.equal(value, kept[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in net.parameters())
    assert not net._forward_hooks
    assert not net._forward_pre_hooks
    assert torch.equal(torch.get_rng_state(), state)
