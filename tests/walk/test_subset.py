from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from driving import CPU, cap_event, drive, last, linear_event, ln_p, search_of, unit_box
from scipy import stats
from torch import Size, Tensor
from walk_fakes import Line

from veracity.core.errors import SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import WALKS
from veracity.core.walks import Ask
from veracity.perturb import Ball, Rotation
from veracity.walk import CrankNicolson, SimpleMonteCarlo, SubsetSimulation, Window
from veracity.walk.probability import Levels, variance_factor

SLOPES = torch.tensor([1.0, 1.5, 2.0], dtype=torch.float64)
TAILS = (1e-2, 1e-4, 1e-8, 1e-12)
REACHED, STUCK, SUNK = 1.0, 2.0, 3.0
WALK = SubsetSimulation(population=200, steps=10)


def covered(value: Tensor, error: Tensor, truth: float) -> Tensor:
    return (value - truth).abs() <= 1.96 * error


# Closed forms


@pytest.mark.parametrize("tail", TAILS)
def test_a_corner_of_a_box(tail: float) -> None:
    merit, target = linear_event(SLOPES, tail)
    value, error = ln_p(search_of(SubsetSimulation(), unit_box(3), merit, target=target).trace())
    assert covered(value, error, math.log(tail)).all()


@pytest.mark.parametrize("tail", TAILS)
def test_a_cap_of_a_ball(tail: float) -> None:
    merit, target = cap_event(20, tail)
    space = Ball(radius=1.0, norm="l2").fit(Size([20]))
    value, error = ln_p(search_of(SubsetSimulation(), space, merit, target=target).trace())
    assert covered(value, error, math.log(tail)).all()


@pytest.mark.parametrize("tail", [1e-2, 1e-4, 1e-12])
def test_intervals_on_a_box_cover(tail: float) -> None:
    merit, target = linear_event(SLOPES, tail)
    value, error = ln_p(search_of(WALK, unit_box(3), merit, target=target, samples=50).trace())
    assert covered(value, error, math.log(tail)).double().mean() >= 0.9
    assert abs(float(value.std() / error.mean()) - 1) < 0.25
    assert abs(float(value.mean()) - math.log(tail)) < 0.5 * float(error.mean())


@pytest.mark.parametrize("tail", [1e-2, 1e-4])
def test_intervals_on_a_cap_cover(tail: float) -> None:
    merit, target = cap_event(12, tail)
    space = Ball(radius=1.0, norm="l2").fit(Size([12]))
    value, error = ln_p(search_of(WALK, space, merit, target=target, samples=50).trace())
    assert covered(value, error, math.log(tail)).double().mean() >= 0.9
    assert abs(float(value.mean()) - math.log(tail)) < 0.5 * float(error.mean())


def test_few_steps_leave_copies_alike_and_the_factor_says_so() -> None:
    merit, target = linear_event(SLOPES, 1e-12)
    found = [
        search_of(SubsetSimulation(population=100, steps=steps), unit_box(3), merit, target=target, samples=30) for steps in (1, 3, 10)
    ]
    factors = [float(one.trace().quantities["factor"].mean()) for one in found]
    assert factors[0] > 1.5 * factors[1] > 1.5 * factors[2] * 0.8
    shares = [float(covered(*ln_p(one.trace()), math.log(1e-12)).double().mean()) for one in found]
    assert shares[0] < 0.85 < 0.9 <= shares[2]


def test_the_window_kernel_finds_the_same_probability() -> None:
    merit, target = linear_event(SLOPES, 1e-4)
    walk = SubsetSimulation(population=200, steps=10, kernel=Window())
    value, error = ln_p(search_of(walk, unit_box(3), merit, target=target, samples=30).trace())
    assert covered(value, error, math.log(1e-4)).double().mean() >= 0.8
    assert abs(float(value.mean()) - math.log(1e-4)) < 0.35


def test_a_million_points_agree_at_moderate_rarity() -> None:
    def ripples(ask: Ask) -> Tensor:
        z = ask.element.double()
        return torch.sin(3 * z[:, 0]) * torch.exp(z[:, 1]) + z[:, 2] * z[:, 3] - z[:, 4].square()

    space, target = Ball(radius=1.0).fit(Size([5])), 2.9
    (value,), (error,) = ln_p(search_of(SubsetSimulation(population=1000), space, ripples, target=target).trace())
    (counted,), (spread,) = ln_p(search_of(SimpleMonteCarlo(draws=10**6, population=10**5), space, ripples, target=target).trace())
    assert 5e-4 < math.exp(counted) < 5e-3
    assert spread < 0.05
    assert abs(float(value - counted)) < 1.96 * float(error)
    both = value - 1.96 * error, counted - 1.96 * spread, value + 1.96 * error, counted + 1.96 * spread
    assert max(both[0], both[1]) < min(both[2], both[3])


def test_an_arc_of_rotations() -> None:
    # The angle is uniform on the circle: it lies within h of pi / 3 with probability h / pi.
    for half in (1e-2, 1e-5):
        walk = SubsetSimulation(population=200, steps=5)
        searcher = search_of(walk, Rotation(), lambda ask: -(ask.element[:, 0] - math.pi / 3).abs(), target=-half, samples=20)
        value, error = ln_p(searcher.trace())
        assert covered(value, error, math.log(half / math.pi)).double().mean() >= 0.8
        assert abs(float(value.mean()) - math.log(half / math.pi)) < 0.5


# One level, chain by chain


def test_one_level_equals_a_loop_over_chains() -> None:
    walk = SubsetSimulation(population=10, steps=3, rho=0.3)
    space, sample, seed = unit_box(2), 7, 5
    searcher = walk.searcher(space, torch.tensor([sample]), seed, 99.0, CPU)

    def merit_of(latent: Tensor) -> float:
        return float(space.decode(latent[None])[0].sum())

    def noise(evaluation: int) -> Tensor:
        return Draws(seed, torch.tensor([sample]), torch.tensor([evaluation])).normal(2, stream="subset")[0]

    chains = [noise(number) for number in range(10)]
    merits = [merit_of(chain) for chain in chains]
    threshold = sorted(merits, reverse=True)[2]
    inside = [number for number in range(10) if merits[number] >= threshold]
    keys = Draws(seed, torch.tensor([sample]), torch.tensor([10])).uniform(10, stream="subset.copies")[0].tolist()
    shuffled = sorted(inside, key=lambda number: keys[number])
    parents = [shuffled[number % 3] for number in range(10)]
    chains, merits = [chains[parent] for parent in parents], [merits[parent] for parent in parents]
    width = walk.kernel.width
    for step in range(3):
        accepted = 0
        for number in range(10):
            proposal = math.sqrt(1 - width**2) * chains[number] + width * noise(10 + 10 * step + number)
            if merit_of(proposal) >= threshold:
                chains[number], merits[number], accepted = proposal, merit_of(proposal), accepted + 1
        width = min(0.999, max(1e-6, width * math.exp(accepted / 10 - 0.44)))

    rows = 0
    while rows < 40:
        ask = searcher.ask()
        assert ask is not None
        assert ask.draw.tolist() == list(range(rows, rows + 10))
        merit = ask.element.sum(dim=1)
        if rows == 30:
            found = list(searcher.latent[0]), searcher.merit[0].tolist(), searcher.threshold.item()
            assert found[2] == pytest.approx(threshold, rel=1e-6)
        searcher.tell(merit, merit[:, None])
        rows += 10
    trace = searcher.trace()
    best = sorted(merits, reverse=True)[2]
    assert trace.quantities["threshold"].tolist() == pytest.approx([threshold, best], rel=1e-5)
    assert trace.quantities["probability"].tolist() == pytest.approx([0.3, 0.3])
    assert float(searcher.width) == pytest.approx(width, rel=1e-6)


def test_likeness_by_hand() -> None:
    # Clusters (1, 1), (0, 0), (1, 0) around p = .5: sums 1, -1, 0; variance 2 / 36 * 3 / 2 over .25 / 6 is 2.
    inside = torch.tensor([[1, 1, 0, 0, 1, 0]], dtype=torch.bool)
    parent = torch.tensor([[4, 4, 2, 2, 0, 0]])
    assert variance_factor(inside, parent, torch.tensor([0.5], dtype=torch.float64)).item() == pytest.approx(2.0)
    alone = torch.arange(6)[None]
    assert variance_factor(inside, alone, torch.tensor([0.5], dtype=torch.float64)).item() == pytest.approx(1.2)
    assert variance_factor(torch.ones(1, 6, dtype=torch.bool), parent, torch.ones(1, dtype=torch.float64)).item() == 1.0


# HitCount


def test_evaluations_are_counted_to_the_last_one() -> None:
    merit, target = linear_event(SLOPES, 1e-4)
    walk = SubsetSimulation(population=50, steps=4)
    searcher = walk.searcher(unit_box(3), torch.arange(12), 0, target, CPU)
    rows = drive(searcher, merit)
    trace = searcher.trace()
    levels = torch.zeros(12, dtype=torch.int64).scatter_reduce_(0, trace.row, trace.level, reduce="amax")
    assert torch.equal(last(trace, "evaluations"), 50.0 * (1 + 4 * levels))
    assert last(trace, "evaluations").sum() == rows
    assert len(levels.unique()) > 1


def test_the_floor_censors_after_the_announced_length() -> None:
    walk = SubsetSimulation(population=20, steps=2, floor=-12.0)
    searcher = walk.searcher(Line(width=2), torch.arange(3), 0, 1e9, CPU)
    rows = drive(searcher, lambda ask: ask.element.sum(dim=1))
    assert walk.levels == 6
    assert rows == 3 * walk.length(Line(width=2)) == 3 * 20 * (1 + 2 * 5)
    value, _ = ln_p(searcher.trace())
    assert last(searcher.trace(), "state").tolist() == [SUNK] * 3
    assert (value <= -12.0).all()
    assert torch.allclose(value, torch.full((3,), 6 * math.log(0.1), dtype=torch.float64))


# Trouble


def test_a_flat_merit_is_stuck_below_one_of_all_points() -> None:
    trace = search_of(WALK, unit_box(2), lambda ask: torch.zeros(len(ask)), target=1.0, samples=2).trace()
    assert trace.quantities["state"].tolist() == [STUCK, STUCK]
    assert trace.quantities["probability"].tolist() == [1 / 200, 1 / 200]
    assert trace.quantities["variance"].isnan().all()
    assert trace.quantities["evaluations"].tolist() == [200.0, 200.0]


def test_a_merit_with_a_ceiling_is_stuck_there() -> None:
    searcher = search_of(WALK, unit_box(2), lambda ask: ask.element[:, 0].clamp(max=0.45), target=0.5)
    trace = searcher.trace()
    assert trace.quantities["state"].tolist()[-1] == STUCK
    assert trace.quantities["probability"][0] > 0.0
    assert trace.quantities["probability"][-1].isnan()
    assert searcher.worst()[1].item() == pytest.approx(0.45)


def test_a_plateau_that_most_points_share_is_left_behind() -> None:
    # 98 of 100 points have merit 0; of the rest, the event takes the upper half.
    merit, wide = lambda ask: (ask.element[:, 0].double() - 0.48).clamp(min=0.0), SubsetSimulation(population=1000, steps=10)
    value, error = ln_p(search_of(wide, unit_box(3), merit, target=0.01, samples=40).trace())
    assert covered(value, error, math.log(0.01)).double().mean() >= 0.9
    trace = search_of(wide, unit_box(3), merit, target=0.01).trace()
    assert trace.quantities["state"][-1] == REACHED
    assert 0.005 < trace.quantities["probability"][0] < 0.04


def test_undefined_merits_are_counted_and_never_chosen() -> None:
    def half(ask: Ask) -> Tensor:
        z = ask.element.double()
        return torch.where(z[:, 1] < 0, torch.nan, z[:, 0])

    searcher = search_of(WALK, unit_box(2), half, target=0.49, samples=50)
    value, error = ln_p(searcher.trace())
    assert covered(value, error, math.log(0.005)).double().mean() >= 0.88
    assert (
        (last(searcher.trace(), "undefined") > 60) & (last(searcher.trace(), "undefined") < 0.6 * last(searcher.trace(), "evaluations"))
    ).all()
    ask, merit = searcher.worst()
    assert len(ask) == 50
    assert (ask.element[:, 1] >= 0).all()
    assert torch.equal(merit, ask.element[:, 0].double())


def test_a_few_defined_points_are_enough() -> None:
    # Defined on a share of .05, less than rho; the event is a fifth of that.
    def rarely(ask: Ask) -> Tensor:
        z = ask.element.double()
        return torch.where(z[:, 1] < 0.45, torch.nan, z[:, 0])

    value, error = ln_p(search_of(SubsetSimulation(population=500, steps=10), unit_box(2), rarely, target=0.3, samples=40).trace())
    assert covered(value, error, math.log(0.01)).double().mean() >= 0.88


def test_nothing_defined_is_nothing_known() -> None:
    searcher = search_of(WALK, unit_box(2), lambda ask: torch.full((len(ask),), torch.nan), target=0.5, samples=2)
    trace = searcher.trace()
    assert trace.quantities["state"].tolist() == [STUCK, STUCK]
    assert trace.quantities["probability"].isnan().all()
    assert trace.quantities["undefined"].tolist() == [200.0, 200.0]
    assert len(searcher.worst()[0]) == 0


def test_an_event_that_is_certain() -> None:
    trace = search_of(WALK, unit_box(2), lambda ask: torch.ones(len(ask)), target=0.5).trace()
    assert trace.quantities["probability"].tolist() == [1.0]
    assert trace.quantities["variance"].tolist() == [0.0]
    assert trace.quantities["state"].tolist() == [REACHED]


# Kernels


def test_crank_nicolson_keeps_the_normal_distribution() -> None:
    draws = Draws.of(3, torch.arange(4000))
    latent = draws.normal(3, stream="begin").reshape(1, 4000, 3)
    width = torch.tensor([0.6], dtype=torch.float64)
    start = latent.clone()
    for step in range(10):
        noise = Draws.of(3, torch.arange(4000), step).normal(3, stream="move").reshape(1, 4000, 3)
        latent, ratio = CrankNicolson().propose(latent, noise, width)
        assert ratio is None
    for entry in latent[0].T:
        assert stats.kstest(entry.numpy(), "norm").pvalue > 0.01
    correlation = np.corrcoef(start[0, :, 0], latent[0, :, 0])[0, 1]
    assert correlation == pytest.approx((1 - 0.36) ** 5, abs=0.05)


def test_the_window_keeps_the_uniform_distribution_and_eq_23_inverted_does_not() -> None:
    def chain(sign: float) -> Tensor:
        count, width = 20000, torch.tensor([0.45], dtype=torch.float64)
        latent = Draws.of(1, torch.arange(count)).normal(1, stream="begin").reshape(1, count, 1)
        for step in range(6):
            own = Draws.of(1, torch.arange(count), step)
            proposal, ratio = Window().propose(latent, own.normal(1, stream="move").reshape(1, count, 1), width)
            assert ratio is not None
            accept = own.uniform(1, stream="accept").log().reshape(1, count) < sign * ratio
            latent = torch.where(accept[:, :, None], proposal, latent)
        return torch.special.ndtr(latent.double()).flatten()

    assert stats.kstest(chain(1.0).numpy(), "uniform").pvalue > 0.01
    assert stats.kstest(chain(-1.0).numpy(), "uniform").pvalue < 1e-6


def test_windows_are_lopsided_at_the_walls() -> None:
    # From t = .05 with w = .1 the window is [0, .15]; its middle, .075, has [0, .175].
    latent = torch.special.ndtri(torch.tensor(0.05)).reshape(1, 1, 1)
    proposal, ratio = Window().propose(latent, torch.zeros(1, 1, 1), torch.tensor([0.1]))
    assert torch.special.ndtr(proposal).item() == pytest.approx(0.075, rel=1e-4)
    assert ratio is not None
    assert ratio.item() == pytest.approx(math.log(0.15 / 0.175), rel=1e-4)


@pytest.mark.parametrize(("kernel", "wanted"), [(CrankNicolson(), 0.44), (Window(), 0.234)])
def test_widths_adapt_towards_their_acceptance(kernel: CrankNicolson | Window, wanted: float) -> None:
    merit, target = linear_event(SLOPES, 1e-9)
    searcher = search_of(SubsetSimulation(population=200, steps=20, kernel=kernel), unit_box(3), merit, target=target, samples=3)
    trace = searcher.trace()
    assert abs(float(trace.quantities["acceptance"][trace.level > 5].mean()) - wanted) < 0.08


# Many samples at once


def own_merit(samples: Tensor) -> object:
    def merit(ask: Ask) -> Tensor:
        return ask.element[:, 0].double() + 0.1 * torch.sin(samples[ask.row].double())

    return merit


@pytest.mark.parametrize("kernel", [CrankNicolson(), Window()])
def test_together_or_one_at_a_time(kernel: CrankNicolson | Window) -> None:
    samples, walk = torch.tensor([9, 2, 31, 4]), SubsetSimulation(population=30, steps=3, kernel=kernel)
    whole = search_of(walk, unit_box(4), own_merit(samples), target=0.495, samples=samples, seed=2)
    for number in range(4):
        one = search_of(walk, unit_box(4), own_merit(samples[[number]]), target=0.495, samples=samples[[number]], seed=2)
        here = whole.trace().row == number
        for name, value in one.trace().quantities.items():
            assert torch.equal(whole.trace().quantities[name][here].nan_to_num(-7.0), value.nan_to_num(-7.0)), name
        assert torch.equal(whole.worst()[0].element[number], one.worst()[0].element[0])


def test_seeds_differ_and_the_global_state_is_left_alone() -> None:
    merit, target = linear_event(SLOPES, 1e-2)
    before = torch.get_rng_state()
    first, second, third = (ln_p(search_of(WALK, unit_box(3), merit, target=target, seed=seed).trace())[0].item() for seed in (0, 0, 1))
    assert first == second != third
    assert torch.equal(torch.get_rng_state(), before)


# Settings


@pytest.mark.parametrize(
    ("setting", "value"), [("population", 5), ("steps", 0), ("rho", 0.0), ("rho", 0.7), ("floor", 1.0), ("kernel", 3), ("kernel", "windw")]
)
def test_settings_that_make_no_levels(setting: str, value: object) -> None:
    with pytest.raises(SpecError, match=f"'{setting}'|Did you mean 'window'"):
        SubsetSimulation(**{setting: value})


def test_it_comes_back_from_its_spec() -> None:
    walk = SubsetSimulation(population=40, kernel=Window(width=0.2))
    again = WALKS.build(walk.spec())
    assert again.spec() == walk.spec()
    assert isinstance(SubsetSimulation(kernel="window").searcher(unit_box(2), torch.arange(1), 0, 0.0, CPU), Levels)
    assert walk.points == 40
