"""Robustness of interpretation through whole audits: exact numbers on tiny models, exact counts, and what is said when it goes wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import special
from torch import Size, Tensor, nn

from hunted import LINEAR, SEED, audit_of, by_hand, counted, grid, images, linear_net, tanh_net
from veracity import Result
from veracity.core.draws import Draws
from veracity.core.errors import InputError, Note, SpecError
from veracity.core.scores import Score
from veracity.core.spaces import InputSpace
from veracity.core.targets import Class, Neuron
from veracity.engine.memory import Memory
from veracity.interpret import Equivariance
from veracity.interpret.robustness import LnPHat, LnPMisclassified, LnPTilde, SolHat, SolTilde, WorstLoss
from veracity.interpret.sensitivity import MaxSensitivity
from veracity.measure import mse, ssim
from veracity.perturb import Ball, CyclicShift, GaussianNoise, Rotation
from veracity.perturb.weights import ParameterNoise, WeightNeighbourhood
from veracity.walk import (
    Adaptive,
    CrankNicolson,
    Genetic,
    GradientSearch,
    MonteCarlo,
    SimpleMonteCarlo,
    Strongest,
    SubsetSimulation,
)

AROUND = {"radius": 0.4, "range": (0.0, 1.0)}
GENETIC = Genetic(population=20, generations=5, elites=4)
SUBSET = SubsetSimulation(population=40, steps=3, floor=-12.0)
BOTH = Strongest(searches=(GENETIC, GradientSearch(population=2, steps=4)))


def one(result: Result, score: str) -> dict[str, float]:
    (row,) = result.table().query(f"score == '{score}'").to_dict("records")
    return row


def values(result: Result, score: str) -> list[float]:
    return result.samples(score)["value"].tolist()


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
    result = audit_of(linear_net(), SEED, [LnPHat(**AROUND, walk=SimpleMonteCarlo(draws=40000))]).run(tmp_path, progress=False)
    (row,) = result.samples("ln_p_f_hat").to_dict("records")
    assert abs(row["value"] - math.log(float(((agreement < 0.4) & (lost < 0)).double().mean()))) < 1.96 * row["error"]
    assert one(result, "ln_p_f_hat")["evaluations"] == 40000


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
    moved = ball.act(ball.drawn(Draws(4, row, draw)), SEED[row])
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
    """A first look, the outputs, a few of them twice, the scores and maps to compare with."""
    return 1 + samples + 2 * min(4, samples) + samples + samples


def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No trial of the explainers, and no outputs that an earlier audit of the process left behind."""
    monkeypatch.setattr("veracity.audit.examined", lambda problem: (problem.explainers, []))
    for place in ("loop", "perturbed"):
        monkeypatch.setattr(f"veracity.engine.{place}.MEMORY", Memory())


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
    assert found == sorted(found, reverse=not score.kept)


@pytest.mark.parametrize(
    "score", [SolHat(**AROUND, walk=BOTH), LnPHat(**AROUND, threshold=0.7, walk=SUBSET), WorstLoss(**AROUND, walk=BOTH)]
)
def test_many_samples_at_once_or_one_at_a_time(score: SolHat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = tanh_net(), images(4)
    whole = audit_of(net, x, [score]).run(tmp_path / "whole", batch=256, progress=False)
    few = audit_of(net, x, [score]).run(tmp_path / "few", batch=7, progress=False)
    monkeypatch.setattr("veracity.core.searches.NUMBERS", 1)
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


# Trouble is said, in a sentence


def sentence(raised: pytest.ExceptionInfo[Exception]) -> None:
    text = str(raised.value)
    assert text.endswith((".", "?"))
    assert "\n" not in text
    assert "Traceback" not in text


def test_a_misclassified_seed_is_named_and_counted(tmp_path: Path) -> None:
    net, x = tanh_net(), images(5)
    labels = net(x).argmax(dim=1)
    labels[[1, 3]] = (labels[[1, 3]] + 1) % 3
    scores = [SolHat(**AROUND, walk=GENETIC), LnPHat(**AROUND, walk=SUBSET), LnPMisclassified(**AROUND, walk=MonteCarlo(draws=20))]
    with pytest.warns(Note, match=r"2 of 5 samples are misclassified and have no sol_f_hat, ln_p_f_hat, ln_p_misclassified: 1, 3\."):
        result = audit_of(net, x, scores, targets=labels).run(tmp_path, progress=False)
    for score in ("sol_f_hat", "ln_p_f_hat", "ln_p_misclassified"):
        assert np.isnan(values(result, score))[[1, 3]].all()
        assert np.isfinite(values(result, score))[[0, 2, 4]].all()
        assert one(result, score)["n"] == 3
        assert one(result, score)["undefined"] == 2
    assert one(result, "sol_f_hat")["evaluations"] == 3 * 100
    assert one(result, "sol_f_hat")["infeasible"] == 0
    assert any("misclassified" in note["text"] for note in result.manifest["notes"])


def test_no_seed_at_all(tmp_path: Path) -> None:
    net, x = tanh_net(), images(3)
    with pytest.raises(InputError, match="No model classifies any of the 3 samples correctly") as raised:
        audit_of(net, x, [SolHat(**AROUND, walk=GENETIC)], targets=(net(x).argmax(1) + 1) % 3).run(tmp_path, progress=False)
    sentence(raised)


def test_without_labels_the_predictions_stand_for_them(tmp_path: Path) -> None:
    with pytest.warns(Note, match="the labels are not known"):
        result = audit_of(tanh_net(), images(2), [WorstLoss(**AROUND, walk=GENETIC)], targets=None).run(tmp_path, progress=False)
    assert one(result, "worst_loss")["n"] == 2


def test_how_the_ball_was_cut_is_said(tmp_path: Path) -> None:
    x = images(2)
    result = audit_of(tanh_net(), x, [WorstLoss(radius=0.1, walk=GENETIC)]).run(tmp_path / "data", progress=False)
    assert any(f"between {float(x.min()):g} and {float(x.max()):g}" in note["text"] for note in result.manifest["notes"])
    with pytest.warns(Note, match="then clamped to the data range"):
        audit_of(tanh_net(), x, [WorstLoss(radius=0.1, norm="l2", range=(0.0, 1.0), walk=GENETIC)]).run(tmp_path / "l2", progress=False)


@pytest.mark.parametrize(
    ("score", "error", "said"),
    [
        (SolHat(radius=0.0, range=(0.0, 1.0)), SpecError, "radius of a ball must be a positive number"),
        (SolHat(radius=0.1, range=(0.4, 0.6)), InputError, r"samples leave the ball's range, 0\.4 to 0\.6"),
        (SolHat(radius=0.1, norm="l7", range=(0.0, 1.0)), SpecError, "norm of a ball"),
        (Equivariance(space=Rotation(), walk=Genetic()), SpecError, "'genetic' searches for what hurts a robustness score"),
        (MaxSensitivity(walk=SubsetSimulation()), SpecError, "'subset_simulation' searches for what hurts a robustness score"),
        (LnPHat(**AROUND, walk=Genetic()), SpecError, "tells no probability"),
        (SolHat(space=CyclicShift(axes=(-1,)), walk=GradientSearch()), SpecError, "use the walk 'genetic'"),
        (SolHat(**AROUND, walk=Genetic(population=1)), SpecError, "'population'"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_is_measured(
    score: SolHat, error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=said) as raised:
        audit_of(tanh_net(), images(2), [score]).run(tmp_path, progress=False)
    sentence(raised)
    assert not list(tmp_path.glob("**/*.parquet"))


def test_a_fixed_target_does_not_follow(tmp_path: Path) -> None:
    net, x = tanh_net(), images(2)
    with pytest.raises(SpecError, match="pass target='predicted', or give the score follow=False") as raised:
        audit_of(net, x, [SolHat(**AROUND, walk=GENETIC)], target=Class(index=1)).run(tmp_path, progress=False)
    sentence(raised)
    result = audit_of(net, x, [SolHat(**AROUND, walk=GENETIC, follow=False)], target=Class(index=1)).run(tmp_path, progress=False)
    assert np.isfinite(values(result, "sol_f_hat")).all()


def test_a_model_with_one_output(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 1)).double().eval()
    with pytest.raises(InputError, match="needs a model with an output for each of at least two classes, which 'net' has not"):
        audit_of(net, images(2), [WorstLoss(**AROUND, walk=GENETIC)], targets=None).prepare()


def test_numbers_are_no_classes() -> None:
    with pytest.raises(InputError, match="needs class numbers as targets"):
        audit_of(tanh_net(), images(2), [WorstLoss(**AROUND, walk=GENETIC)], targets=torch.tensor([0.5, 1.5])).prepare()


@pytest.mark.parametrize(
    ("score", "wrong"),
    [
        (WorstLoss(space=ParameterNoise(sigma=0.1), walk=GENETIC), "use WeightNeighbourhood"),
        (WorstLoss(space=GaussianNoise(sigma=0.1, levels=3), walk=GENETIC), "has 3 levels"),
        (SolHat(walk=Adaptive()), "stops when a mean is known"),
        (LnPHat(threshold=-2.0), "from -1 to 1, not -2.0"),
        (LnPHat(threshold="a"), "from -1 to 1, not 'a'"),
        (LnPHat(measure=mse), "give one in units of 'mse'"),
        (LnPHat(walk=SubsetSimulation(rho="a")), "'rho' of the walk"),
        (LnPHat(walk=SubsetSimulation(kernel=CrankNicolson(width=3.0))), "must lie between 0 and 1, not 3.0"),
        (SolHat(walk=Strongest(searches="genetic")), "takes searches"),
    ],
)
def test_settings_that_make_no_sense(score: Score, wrong: str) -> None:
    with pytest.raises(SpecError, match=wrong):
        audit_of(tanh_net(), images(2), [score]).prepare()


def test_a_neuron_has_no_label() -> None:
    with pytest.raises(SpecError, match="is about predicted classes"):
        audit_of(tanh_net(), images(2), [WorstLoss(**AROUND, walk=GENETIC)], target=Neuron(layer="1", unit=0)).prepare()


def holes(share: float) -> Callable[[nn.Module, Tensor, Tensor], Tensor]:
    """Gradient times input that is NaN wherever the first pixel has moved up by a share of the radius."""
    first = images(3)[:, 0, 0, 0]

    def explain(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        leaf = inputs.detach().clone().requires_grad_()
        (slope,) = torch.autograd.grad(model(leaf).gather(1, targets[:, None]).sum(), leaf)
        nearest = (inputs[:, 0, 0, 0][:, None] - first).abs().argmin(dim=1)
        gone = inputs[:, 0, 0, 0] > first[nearest] + share
        return torch.where(gone[:, None, None, None], torch.nan, slope * inputs)

    return explain


def test_an_explainer_that_fails_inside_the_ball_is_counted(tmp_path: Path) -> None:
    around = {"radius": 0.05, "range": (0.0, 1.0)}
    scores = [SolHat(**around, walk=GENETIC), LnPHat(**around, threshold=0.995, walk=SubsetSimulation(population=40, steps=3, floor=-12.0))]
    result = audit_of(tanh_net(), images(3), scores, explainers={"holes": holes(0.01)}).run(tmp_path, progress=False)
    for score in ("sol_f_hat", "ln_p_f_hat"):
        (series,) = [series for series in result.series if series.score == score]
        undefined = np.nanmax(series.measured["undefined"][:, 0], axis=1)
        assert ((undefined > 0) & (undefined < np.nanmax(series.measured["evaluations"][:, 0], axis=1))).all()
        assert np.isfinite(series.per_sample).all()


def test_an_explainer_that_always_fails_away_from_the_input(tmp_path: Path) -> None:
    around = {"radius": 0.05, "range": (0.0, 1.0)}
    scores = [SolHat(**around, walk=GENETIC), LnPHat(**around, walk=SUBSET)]
    result = audit_of(tanh_net(), images(3), scores, explainers={"holes": outside}).run(tmp_path, progress=False)
    for score in ("sol_f_hat", "ln_p_f_hat"):
        assert np.isnan(values(result, score)).all()
        assert one(result, score)["undefined"] == 3
    assert one(result, "ln_p_f_hat")["stuck"] == 3


def outside(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Defined on the data alone."""
    known = (inputs[:, None] == images(3)).flatten(2).all(dim=2).any(dim=1)
    return torch.where(known[:, None, None, None], inputs, torch.nan)


def test_a_search_in_vain_is_counted(tmp_path: Path) -> None:
    around = {"radius": 1e-4, "range": (0.0, 1.0)}
    scores = [SolTilde(**around, walk=GENETIC), LnPTilde(**around, walk=SUBSET), SolHat(**around, walk=GENETIC)]
    result = audit_of(tanh_net(), images(3), scores).run(tmp_path, progress=False)
    row = one(result, "sol_f_tilde")
    assert (row["infeasible"], row["n"], row["undefined"]) == (3, 0, 3)
    assert math.isnan(row["value"])
    assert one(result, "ln_p_f_tilde")["censored"] == 3
    assert values(result, "ln_p_f_tilde") == [-12.0] * 3
    assert one(result, "sol_f_hat")["infeasible"] == 0
    assert result.worst("sol_f_tilde") == []


def test_a_search_without_slopes_is_said(tmp_path: Path) -> None:
    with pytest.warns(Note, match="'sol_f_hat' is searched without gradients"):
        result = audit_of(tanh_net(), images(2), [SolHat(**AROUND, walk=BOTH)], explainers={"holes": outside}).run(tmp_path, progress=False)
    assert one(result, "sol_f_hat")["evaluations"] == 2 * 100


@dataclass(frozen=True, kw_only=True)
class Brighter(InputSpace):
    """A space of one's own, which nobody registered: every pixel brighter by up to a tenth."""

    name = "brighter"

    @property
    def latents(self) -> int:
        return 1

    def decode(self, latent: Tensor) -> Tensor:
        return 0.1 * torch.special.ndtr(latent)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        return x + elements.to(x).reshape(-1, 1, 1, 1)


def test_a_space_of_ones_own_is_searched_and_read(tmp_path: Path) -> None:
    scores = [SolHat(space=Brighter(), walk=GENETIC), LnPMisclassified(space=Brighter(), walk=SUBSET)]
    audit_of(tanh_net(), images(2), scores).run(tmp_path, progress=False)
    result = Result(tmp_path)
    assert one(result, "sol_f_hat")["evaluations"] == 2 * 100
    assert "2 of 2 feasible" in str(result)
    assert "2 of 2 censored" in str(result)


def test_a_ball_has_no_say_in_another_space() -> None:
    with pytest.raises(SpecError, match="looks in the space 'brighter', and not in a ball: leave out radius"):
        audit_of(tanh_net(), images(2), [SolHat(space=Brighter(), radius=0.3, walk=GENETIC)]).prepare()


def test_a_window_that_does_not_fit_is_said_before_anything_runs() -> None:
    with pytest.raises(InputError, match="The window of 'ssim'"):
        audit_of(tanh_net(), images(2), [SolHat(measure=ssim, **AROUND, walk=GENETIC)]).prepare()


def test_a_map_without_variance_is_undefined_and_not_in_vain(tmp_path: Path) -> None:
    around = {"radius": 5.0, "range": None}
    result = audit_of(tanh_net(), images(3), [SolTilde(**around, walk=GENETIC)], explainers=["constant_map", "input_x_gradient"]).run(
        tmp_path, progress=False
    )
    table = result.table().set_index("explainer")
    assert table.loc["constant_map", ["infeasible", "undefined"]].tolist() == [0, 3]
    assert table.loc["input_x_gradient", "n"] == 3


def test_labels_that_are_no_classes() -> None:
    with pytest.raises(InputError, match="The targets go from 20 to 21, and there are 3 classes"):
        audit_of(tanh_net(), images(2), [WorstLoss(**AROUND, walk=GENETIC)], targets=torch.tensor([20, 21])).prepare()
