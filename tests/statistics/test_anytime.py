from __future__ import annotations

import math

import numpy as np
import pytest

from veracity.core.errors import InputError
from veracity.statistics.anytime import LARGEST_BET, Betting, betting_interval, plug_in_bets

UNIT = (0.0, 1.0)


def slow_bets(values: list[float], alpha: float) -> list[float]:
    """The predictable plug-in, one draw at a time."""
    bets, squares = [], 0.25
    for t, x in enumerate(values, start=1):
        bets.append(math.sqrt(2 * math.log(2 / alpha) / (squares / t * t * math.log(1 + t))))
        squares += (x - (0.5 + sum(values[:t])) / (t + 1)) ** 2
    return bets


def slow_interval(values: list[float], alpha: float, population: int | None, steps: int = 4000) -> tuple[float, float]:
    """Both capitals on a grid of candidate means, one draw at a time; the candidates at which neither reaches 2 / alpha."""
    kept = []
    for m in np.linspace(0.0, 1.0, steps + 1):
        up = down = 1.0
        possible = True
        for t, (x, bet) in enumerate(zip(values, slow_bets(values, alpha), strict=True)):
            here = m if population is None else (population * m - sum(values[:t])) / (population - t)
            if not -1e-9 <= here <= 1 + 1e-9:
                possible = False
                break
            here = min(max(here, 1e-12), 1 - 1e-12)
            up *= 1 + min(bet, LARGEST_BET / here) * (x - here)
            down *= 1 - min(bet, LARGEST_BET / (1 - here)) * (x - here)
        total = sum(values)
        if population is not None:
            possible &= total <= population * m + 1e-9 and population * m <= total + population - len(values) + 1e-9
        if possible and max(up, down) < 2 / alpha:
            kept.append(m)
    return min(kept), max(kept)


def beta_table(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    centre = generator.beta(5, 2, size=(rows, 1))
    return generator.beta(6 * centre, 6 * (1 - centre), size=(rows, columns))


def test_bets_use_earlier_draws_alone() -> None:
    x = beta_table(1, 12)
    expected = slow_bets(x[0].tolist(), 0.05)
    assert plug_in_bets(x, np.ones_like(x, dtype=bool), 0.05)[0].tolist() == pytest.approx(expected)
    changed = x.copy()
    changed[0, 7:] = 0.0
    assert plug_in_bets(changed, np.ones_like(x, dtype=bool), 0.05)[0, :8].tolist() == pytest.approx(expected[:8])


def test_first_draw_by_hand() -> None:
    """alpha = 0.8 asks for a capital of 2.5; one draw of 1 earns 1 + 0.9 (1 - m) / m, which is 2.5 at m = 0.375."""
    low, high = betting_interval(np.array([[1.0]]), np.array([1]), bounds=UNIT, alpha=0.8)
    assert LARGEST_BET == 0.9
    assert high[0] == 1.0
    assert 0.375 - 2**-14 <= low[0] <= 0.375


@pytest.mark.parametrize("population", [None, 40, 25])
def test_interval_against_the_slow_grid(population: int | None) -> None:
    table = beta_table(3, 25)
    low, high = betting_interval(table[:, :18], np.full(3, 18), bounds=UNIT, alpha=0.1, population=population)
    for row in range(3):
        slow_low, slow_high = slow_interval(table[row, :18].tolist(), 0.1, population)
        assert slow_low - 6e-4 <= low[row] <= slow_low
        assert slow_high <= high[row] <= slow_high + 6e-4


def test_interval_moves_with_the_bounds() -> None:
    table = beta_table(4, 30)
    low, high = betting_interval(table, np.full(4, 30), bounds=UNIT, alpha=0.05)
    moved_low, moved_high = betting_interval(6 * table - 2, np.full(4, 30), bounds=(-2.0, 4.0), alpha=0.05)
    np.testing.assert_allclose(moved_low, 6 * low - 2, atol=1e-9)
    np.testing.assert_allclose(moved_high, 6 * high - 2, atol=1e-9)
    mirrored_low, mirrored_high = betting_interval(1 - table, np.full(4, 30), bounds=UNIT, alpha=0.05)
    np.testing.assert_allclose((mirrored_low, mirrored_high), (1 - high, 1 - low), atol=1e-9)


def test_samples_do_not_see_each_other() -> None:
    table, counts = beta_table(6, 30), np.array([30, 7, 0, 12, 30, 1])
    together = betting_interval(table, counts, bounds=UNIT, alpha=0.05, population=60)
    for row, count in enumerate(counts):
        alone = betting_interval(table[[row], :count], counts[[row]], bounds=UNIT, alpha=0.05, population=60)
        np.testing.assert_allclose((together[0][row], together[1][row]), (alone[0][0], alone[1][0]), atol=1e-12)


def test_nothing_drawn_says_nothing() -> None:
    low, high = betting_interval(np.empty((2, 0)), np.zeros(2, dtype=np.int64), bounds=(-1.0, 1.0), alpha=0.05)
    assert (low.tolist(), high.tolist()) == ([-1.0, -1.0], [1.0, 1.0])


def test_exhausted_population_leaves_no_doubt() -> None:
    table = beta_table(5, 33)
    low, high = betting_interval(table, np.full(5, 33), bounds=UNIT, alpha=0.05, population=33)
    np.testing.assert_allclose(low, table.mean(axis=1))
    np.testing.assert_array_equal(low, high)


def test_distinct_draws_say_more_than_independent_ones() -> None:
    table, counts = beta_table(50, 100), np.full(50, 100)
    independent = np.subtract(*betting_interval(table, counts, bounds=UNIT, alpha=0.05)[::-1])
    distinct = np.subtract(*betting_interval(table, counts, bounds=UNIT, alpha=0.05, population=120)[::-1])
    assert (distinct < 0.6 * independent).all()


def test_undefined_independent_draws_are_passed_over() -> None:
    table = beta_table(4, 20)
    holed = np.insert(table, [3, 3, 11], np.nan, axis=1)
    plain = betting_interval(table, np.full(4, 20), bounds=UNIT, alpha=0.05)
    np.testing.assert_allclose(betting_interval(holed, np.full(4, 23), bounds=UNIT, alpha=0.05), plain, atol=1e-12)


def test_undefined_draws_of_a_population_widen_to_whatever_they_might_be() -> None:
    table = beta_table(4, 20)
    holed = table.copy()
    holed[:, [2, 9]] = np.nan
    low, high = betting_interval(holed, np.full(4, 20), bounds=UNIT, alpha=0.05, population=50)
    generator = np.random.default_rng(1)
    for _ in range(20):
        filled = np.where(np.isnan(holed), generator.random((4, 20)), holed)
        mean = filled.mean(axis=1)
        assert (low <= mean).all()
        assert (mean <= high).all()
    done_low, done_high = betting_interval(holed, np.full(4, 20), bounds=UNIT, alpha=0.05, population=20)
    np.testing.assert_allclose(done_low, np.nanmean(holed, axis=1))
    np.testing.assert_array_equal(done_low, done_high)


def test_coverage_over_defined_elements_of_a_population_with_holes() -> None:
    generator = np.random.default_rng(5)
    population = beta_table(500, 60, seed=2)
    population[generator.random(population.shape) < 0.1] = np.nan
    truth = np.nanmean(population, axis=1)
    drawn = generator.permuted(population, axis=1)
    low, high = np.zeros(500), np.ones(500)
    for count in range(5, 61, 5):
        now = betting_interval(drawn[:, :count], np.full(500, count), bounds=UNIT, alpha=0.1, population=60)
        low, high = np.maximum(low, now[0]), np.minimum(high, now[1])
    assert np.mean((low <= truth + 1e-12) & (truth <= high + 1e-12)) >= 0.9


@pytest.mark.parametrize("population", [None, 100])
def test_coverage_at_every_time_at_once(population: int | None) -> None:
    """Bernoulli values, the hardest to bound: at level 80 % at most 20 % of the sequences may ever leave the mean out."""
    generator = np.random.default_rng(7)
    everything = (generator.random((800, 100)) < 0.3).astype(float)
    truth = np.full(800, 0.3) if population is None else everything.mean(axis=1)
    left_out = np.zeros(800, dtype=bool)
    for count in range(1, 101, 3):
        low, high = betting_interval(everything[:, :count], np.full(800, count), bounds=UNIT, alpha=0.2, population=population)
        left_out |= (truth < low) | (truth > high)
    assert 0.02 < left_out.mean() <= 0.2


@pytest.mark.parametrize("bounds", [(0.0, math.inf), (-math.inf, 1.0), (1.0, 1.0)])
def test_bounds_must_be_finite(bounds: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="finite bounds"):
        Betting.start(1, bounds=bounds, alpha=0.05)


def test_values_must_keep_to_their_bounds() -> None:
    with pytest.raises(InputError, match=r"between 0.0 and 1.0; found 1.5"):
        betting_interval(np.array([[1.5]]), np.array([1]), bounds=UNIT, alpha=0.05)
    low, high = betting_interval(np.array([[1.0 + 1e-9]]), np.array([1]), bounds=UNIT, alpha=0.05)
    assert low[0] <= high[0] == pytest.approx(1.0)


def test_state_is_the_running_intersection() -> None:
    table = beta_table(5, 48)
    state = Betting.start(5, bounds=UNIT, alpha=0.05, population=80)
    low, high = np.zeros(5), np.ones(5)
    for start in range(0, 48, 8):
        state.update(np.arange(5), table[:, start : start + 8])
        now = betting_interval(table[:, : start + 8], np.full(5, start + 8), bounds=UNIT, alpha=0.05, population=80)
        low, high = np.maximum(low, now[0]), np.minimum(high, now[1])
    np.testing.assert_allclose((state.lower, state.upper), (low, high), atol=1e-12)
    np.testing.assert_allclose(state.means, table.mean(axis=1))


def test_state_takes_samples_apart() -> None:
    table = beta_table(4, 24)
    together, apart = (Betting.start(4, bounds=UNIT, alpha=0.05) for _ in range(2))
    for start in (0, 12):
        together.update(np.arange(4), table[:, start : start + 12])
    for row in (2, 0, 3, 1):
        for start in (0, 12):
            apart.update(np.array([row]), table[[row], start : start + 12])
    np.testing.assert_allclose(together.interval(), apart.interval(), atol=1e-12)


def test_interval_always_holds_the_observed_mean() -> None:
    drifting = np.concatenate((np.ones((1, 60)), np.zeros((1, 400))), axis=1)
    state = Betting.start(1, bounds=UNIT, alpha=0.05)
    for start in range(0, 460, 20):
        state.update(np.array([0]), drifting[:, start : start + 20])
        low, high = state.interval()
        assert low[0] <= state.means[0] <= high[0]
    assert state.lower[0] > state.means[0]
