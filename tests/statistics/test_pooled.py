from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from interval_oracles import skewed
from veracity.core.errors import InputError, SpecError
from veracity.core.scores import Measured
from veracity.scores.stability import MeGe, ReCo, ReCoAUC, ReCoKS
from veracity.statistics import resampling
from veracity.statistics.pooled import bootstrap_values, permutation_null, pooled_differences, pooled_estimate, pooled_value
from veracity.statistics.resampling import expanded_hull, permutations, resamplings

CONSISTENCY = [ReCo(), ReCoAUC(), ReCoKS()]
ALL = [MeGe(), *CONSISTENCY]


def measured(distance: np.ndarray, right: np.ndarray, other: np.ndarray) -> Measured:
    quantities = {"distance": distance, "right": right, "other_right": other, "same": (right == other).astype(float)}
    return Measured({name: np.asarray(values, dtype=float)[:, :, None] for name, values in quantities.items()})


def drawn(generator: np.random.Generator, samples: int = 60, pairs: int = 4, shift: float = 0.0, easy: float = 1.0) -> Measured:
    """Pairs whose distances, and who is right about them, go together within a sample; `shift` moves those of S!=."""
    hard = generator.normal(size=(samples, 1))
    right = np.repeat(generator.normal(size=(samples, 1)) + easy > hard, pairs, axis=1)
    other = generator.normal(size=(samples, pairs)) + 2 * easy > hard
    distance = generator.normal(size=(samples, 1)) + 0.5 * generator.normal(size=(samples, pairs)) + shift * (right != other)
    return measured(1 / (1 + np.exp(-distance)), right, other)


def rows(found: Measured, order: np.ndarray) -> Measured:
    return Measured({name: values[order] for name, values in found.quantities.items()})


@pytest.mark.parametrize("score", ALL, ids=lambda score: score.name)
def test_replicates_are_the_scores_of_repeated_samples(score: MeGe) -> None:
    found = drawn(np.random.default_rng(0), samples=25, shift=1.0)
    (weights,) = resamplings(25)
    literal = [pooled_value(score, rows(found, np.repeat(np.arange(25), times.astype(int)))) for times in weights[:40]]
    np.testing.assert_allclose(bootstrap_values(score, [found], 25)[:40, 0], literal, rtol=1e-12)


def test_pairs_of_one_sample_are_not_several_samples() -> None:
    """Each pair counted twice tells nothing new; each sample counted twice would."""
    found = drawn(np.random.default_rng(1), shift=1.0)
    twice = Measured({name: np.concatenate([values, values], axis=1) for name, values in found.quantities.items()})
    for score in (MeGe(), ReCoKS()):
        one, two = (pooled_estimate(score, given, score.bounds) for given in (found, twice))
        assert (two.estimate.value, two.estimate.low, two.estimate.high) == pytest.approx(
            (one.estimate.value, one.estimate.low, one.estimate.high)
        )
        assert two.sizes == (2 * one.sizes[0], 2 * one.sizes[1])


def test_the_interval_of_mege_is_that_of_its_mean_distance_by_clusters() -> None:
    """Each sample's part of the mean, the slow way; the bootstrap has the same error."""
    found = drawn(np.random.default_rng(2), samples=400)
    distance, member = MeGe().sets(found)
    alike = member == 0
    mean = distance[alike].mean()
    parts = np.array(
        [sum(d - mean for d, a in zip(row, flags, strict=True) if a) for row, flags in zip(distance, alike, strict=True) if flags.any()]
    )
    parts /= alike.sum()
    n = len(parts)
    error = math.sqrt(n / (n - 1) * (parts**2).sum())
    low, high = skewed(mean, error, (1 + 12 / math.sqrt(n)) * (parts**3).sum(), n - 1)
    estimate = pooled_estimate(MeGe(), found, (0.0, 1.0)).estimate
    assert estimate.value == pytest.approx(1 / (1 + mean))
    assert (estimate.low, estimate.high) == pytest.approx((1 / (1 + high), 1 / (1 + low)))
    assert bootstrap_values(MeGe(), [found], 400)[:, 0].std() == pytest.approx(error / (1 + mean) ** 2, rel=0.08)
    assert math.isnan(estimate.unseen)


def test_the_hull_holds_both_intervals() -> None:
    replicates = np.random.default_rng(3).gamma(2.0, size=1000)
    value = 1.0
    low, high = np.quantile(replicates, [0.025, 0.975])
    assert expanded_hull(value, replicates, 10**12, 0.95) == pytest.approx((min(low, 2 - high), max(high, 2 - low)))


def test_what_is_counted() -> None:
    found = drawn(np.random.default_rng(4))
    found["distance"][3] = np.nan
    found["distance"][5, 0] = np.nan
    for values in found.quantities.values():
        values[7] = np.nan
    result = pooled_estimate(ReCo(), found, (-1.0, 1.0))
    member = ReCo().sets(found)[1]
    assert result.sizes == (int((member == 0).sum()), int((member == 1).sum()))
    assert (result.estimate.n, result.estimate.undefined) == (int((member >= 0).any(axis=1).sum()), 2)
    assert (result.estimate.undefined_draws, result.estimate.draws) == (5, pytest.approx(4 * 59 / 60))
    assert math.isnan(result.estimate.draws_low)
    assert math.isnan(result.estimate.draws_high)


def test_too_little_has_no_interval() -> None:
    one = measured(np.array([[0.2, 0.4]]), np.ones((1, 2)), np.ones((1, 2)))
    found = pooled_estimate(MeGe(), one, (0.0, 1.0)).estimate
    assert (found.value, found.n) == (pytest.approx(1 / 1.3), 1)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    other = np.ones((30, 2))
    other[0] = 0.0
    rare = pooled_estimate(ReCoKS(), measured(np.random.default_rng(5).random((30, 2)), np.ones((30, 2)), other), (0.0, 1.0))
    assert math.isfinite(rare.estimate.value)
    assert math.isnan(rare.estimate.low)
    assert rare.undefined_replicates == pytest.approx(1000 / math.e, abs=60)


@pytest.mark.parametrize("score", CONSISTENCY, ids=lambda score: score.name)
def test_all_right_is_undefined_without_a_null(score: ReCo) -> None:
    ones = np.ones((10, 3))
    found = pooled_estimate(score, measured(np.random.default_rng(6).random((10, 3)), ones, ones), score.bounds)
    assert math.isnan(found.estimate.value)
    assert math.isnan(found.estimate.low)
    assert found.null is None
    assert (found.sizes, found.undefined_replicates) == ((30, 0), 1000)


@pytest.mark.parametrize("score", CONSISTENCY, ids=lambda score: score.name)
def test_the_null_is_that_of_labels_moved_from_sample_to_sample(score: ReCo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "REPLICATES", 150)
    found = drawn(np.random.default_rng(7), samples=20, shift=0.7)
    found["distance"][4] = np.nan
    (orders,) = permutations(np.isfinite(found["distance"]).any(axis=(1, 2)))
    assert (orders[:, 4] == 4).all()
    assert (np.sort(orders, axis=1) == np.arange(20)).all()
    literal = np.array(
        [pooled_value(score, Measured({**rows(found, order).quantities, "distance": found["distance"]})) for order in orders]
    )
    null, value = permutation_null(score, found, pooled_value(score, found)), pooled_value(score, found)
    assert null is not None
    assert (null.mean, null.high) == pytest.approx((literal.mean(), np.quantile(literal, 0.95)))
    assert null.p_value == (1 + (literal >= value - 1e-12).sum()) / 151


def test_mege_has_no_null() -> None:
    assert pooled_estimate(MeGe(), drawn(np.random.default_rng(8)), (0.0, 1.0)).null is None


def test_no_signal_gives_uniform_p_values_by_sample_and_not_by_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """250 data sets whose distances, and whose labels, go together within a sample, but not with each other.

    ReCo has few values where the largest distances decide it, so that ties are broken at random before p is held against uniform.
    """
    monkeypatch.setattr(resampling, "REPLICATES", 99)
    generator = np.random.default_rng(9)
    sets = [drawn(generator, samples=40, pairs=3) for _ in range(250)]
    (orders,) = permutations(np.ones(40, dtype=bool))
    for score in CONSISTENCY:
        values, nulls = (
            np.array([pooled_value(score, one) for one in sets])[:, None],
            np.array([score.permuted(one, orders) for one in sets]),
        )
        above, tied = (nulls > values + 1e-12).sum(axis=1), (np.abs(nulls - values) <= 1e-12).sum(axis=1)
        null = permutation_null(score, sets[0], float(values[0, 0]))
        assert null is not None
        assert null.p_value == pytest.approx((1 + above[0] + tied[0]) / 100)
        assert stats.kstest((above + generator.random(250) * (1 + tied)) / 100, "uniform").pvalue > 0.01
    single = [Measured({name: values.reshape(-1, 1, 1) for name, values in one.quantities.items()}) for one in sets[:125]]
    wrong = [permutation_null(ReCoAUC(), one, pooled_value(ReCoAUC(), one)) for one in single]
    assert np.mean([null.p_value <= 0.05 for null in wrong if null is not None]) > 0.12


def test_signal_is_found() -> None:
    found = drawn(np.random.default_rng(10), samples=150, shift=2.0)
    for score in CONSISTENCY:
        result = pooled_estimate(score, found, score.bounds)
        assert result.null is not None
        assert result.null.p_value < 0.05 < result.estimate.value
        assert result.null.mean < result.estimate.value


def explainers(count: int, samples: int = 80) -> dict[str, Measured]:
    """The same models and samples, explained ever less consistently."""
    generator = np.random.default_rng(11)
    base = drawn(generator, samples=samples, shift=1.0)
    noise = generator.random((count, samples, 4, 1))
    return {
        f"e{i}": Measured({**base.quantities, "distance": (1 - 0.25 * i) * base["distance"] + 0.25 * i * noise[i]}) for i in range(count)
    }


def test_all_pairs_on_common_resamplings() -> None:
    given = explainers(3)
    found = pooled_differences(MeGe(), given)
    assert [(row.first, row.second) for row in found] == [("e0", "e1"), ("e0", "e2"), ("e1", "e2")]
    values = {name: pooled_value(MeGe(), one) for name, one in given.items()}
    table = bootstrap_values(MeGe(), list(given.values()), 80)
    moved = np.stack([table[:, i] - table[:, j] for i, j in ((0, 1), (0, 2), (1, 2))], axis=1)
    gaps = np.array([values[row.first] - values[row.second] for row in found])
    errors = moved.std(axis=0, ddof=1)
    reach = np.quantile((np.abs(moved - gaps) / errors).max(axis=1), 0.95, method="higher")
    assert [row.difference for row in found] == pytest.approx(gaps)
    assert [(row.high - row.low) / 2 for row in found] == pytest.approx(reach * errors)
    assert [row.differs for row in found] == (np.abs(gaps) > reach * errors).tolist()
    assert {row.status for row in found} == {"ok"}


def test_more_pairs_make_wider_intervals_and_common_samples_narrower_ones() -> None:
    given = explainers(4)
    (alone,) = pooled_differences(ReCoAUC(), {name: given[name] for name in ("e0", "e1")})
    among = pooled_differences(ReCoAUC(), given)[0]
    assert among.high - among.low > alone.high - alone.low
    one, other = (pooled_estimate(ReCoAUC(), given[name], (-1.0, 1.0)).estimate for name in ("e0", "e1"))
    apart = math.hypot(one.high - one.low, other.high - other.low)
    assert alone.high - alone.low < 0.7 * apart


def test_the_same_twice_differs_by_exactly_nothing() -> None:
    given = explainers(2)
    found = pooled_differences(ReCoAUC(), {"a": given["e0"], "again": given["e0"], "b": given["e1"]})
    assert (found[0].status, found[0].difference, found[0].low, found[0].high) == ("no difference seen", 0.0, 0.0, 0.0)
    assert not found[0].differs
    assert found[0].unseen == pytest.approx(1 - (0.05 / 3) ** (1 / found[0].n))
    assert found[1].status == "ok"


def test_reco_has_a_value_and_a_null_but_no_interval_and_no_rank() -> None:
    given = explainers(2)
    found = pooled_estimate(ReCo(), given["e0"], (-1.0, 1.0))
    assert math.isfinite(found.estimate.value)
    assert found.null is not None
    assert math.isnan(found.estimate.low)
    (row,) = pooled_differences(ReCo(), given)
    assert (row.status, row.differs) == ("too few", False)
    assert math.isnan(row.low)


@pytest.mark.parametrize("score", [ReCoAUC(), ReCoKS()], ids=lambda score: score.name)
def test_no_interval_below_ten_samples_in_the_smaller_set(score: ReCo) -> None:
    generator = np.random.default_rng(3)
    right = np.ones((200, 4))
    for unlike, given in ((9, False), (10, True)):
        other = np.ones((200, 4))
        other[:unlike] = 0.0
        found = pooled_estimate(score, measured(generator.random((200, 4)), right, other), score.bounds)
        assert found.null is not None
        assert math.isfinite(found.estimate.low) == given


def test_the_ks_interval_follows_the_curve_and_not_the_maximum() -> None:
    """The slow way: the curve F= - F!= of every replicate, its moves up and down where the maximum might lie."""
    found = drawn(np.random.default_rng(14), samples=60, shift=1.0)
    distance, member = ReCoKS().sets(found)
    (weights,) = resamplings(60)
    thresholds = np.unique(distance[member >= 0])

    def curve(times: np.ndarray) -> np.ndarray:
        alike, unlike = ((member == kind) * times[:, None] for kind in (0, 1))
        below = distance[:, :, None] <= thresholds
        one, other = ((part[:, :, None] * below).sum((0, 1)) / part.sum() for part in (alike, unlike))
        return one - other

    base = curve(np.ones(60))
    moves = np.array([curve(times) - base for times in weights])
    reach = np.quantile(np.abs(moves).max(axis=1), 0.95)
    near = base >= base.max() - reach
    low = base.max() - np.quantile(moves[:, near].max(axis=1), 0.975)
    high = base.max() + np.quantile(-moves[:, near].min(axis=1), 0.975)
    estimate = pooled_estimate(ReCoKS(), found, (0.0, 1.0)).estimate
    assert (estimate.low, estimate.high) == pytest.approx((max(0.0, low), min(1.0, high)))


def test_only_samples_that_all_have_count_and_a_name_without_any_is_left_out() -> None:
    given = explainers(3)
    gone = given["e1"]["distance"].copy()
    gone[:10] = np.nan
    given["e1"] = Measured({**given["e1"].quantities, "distance": gone})
    given["none"] = Measured({**given["e0"].quantities, "distance": np.full_like(gone, np.nan)})
    found = {(row.first, row.second): row for row in pooled_differences(MeGe(), given)}
    left = {name: rows(given[name], np.arange(10, 80)) for name in ("e0", "e1", "e2")}
    plain = {(row.first, row.second): row for row in pooled_differences(MeGe(), left)}
    assert {pair: row for pair, row in found.items() if "none" not in pair} == plain
    assert {row.status for pair, row in found.items() if "none" in pair} == {"undefined"}
    assert plain["e0", "e2"].n == int((MeGe().sets(left["e0"])[1] == 0).any(axis=1).sum())


def test_undefined_values_have_no_differences() -> None:
    ones = np.ones((10, 3))
    given = {name: measured(np.random.default_rng(seed).random((10, 3)), ones, ones) for seed, name in enumerate("ab")}
    (row,) = pooled_differences(ReCo(), given)
    assert math.isnan(row.difference)
    assert math.isnan(row.low)
    assert (row.status, row.differs) == ("undefined", False)
    assert pooled_differences(ReCo(), {}) == [] == pooled_differences(ReCo(), {"a": given["a"]})


def test_numbers_come_again_and_the_global_state_stays() -> None:
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    found = drawn(np.random.default_rng(12), samples=30)
    assert pooled_estimate(MeGe(), found, (-1.0, 1.0)).estimate.low == pooled_estimate(MeGe(), found, (-1.0, 1.0)).estimate.low
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_rows_at_once_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole_table = np.concatenate(list(resamplings(7)))
    monkeypatch.setattr(resampling, "AT_ONCE", 7 * 300)
    pieces = list(resamplings(7))
    assert [len(piece) for piece in pieces] == [300, 300, 300, 100]
    assert sum(len(piece) for piece in permutations(np.ones(7, dtype=bool))) == 1000
    np.testing.assert_array_equal(np.concatenate(pieces), whole_table)


def test_mistakes_are_named() -> None:
    found = drawn(np.random.default_rng(13), samples=5)
    with pytest.raises(SpecError, match="confidence must lie between"):
        pooled_estimate(MeGe(), found, (0.0, 1.0), confidence=95)
    with pytest.raises(InputError, match=r"same samples from each, not \[4, 5\]"):
        pooled_differences(MeGe(), {"a": found, "b": rows(found, np.arange(4))})


def test_equal_distances_have_no_width_whatever_their_sums_round_to() -> None:
    generator = np.random.default_rng(15)
    for _ in range(20):
        right, other = generator.random((2, 30, 4)) < 0.8
        found = pooled_estimate(MeGe(), measured(np.full((30, 4), 0.3), right, other), (0.0, 1.0)).estimate
        assert found.low == found.high == found.value
        assert found.unseen == pytest.approx(1 - 0.05 ** (1 / found.n))


def test_differences_of_the_ks_form_come_from_intervals_that_hold_at_once() -> None:
    given = explainers(3)
    rows = {(row.first, row.second): row for row in pooled_differences(ReCoKS(), given)}
    level = 1 - 0.05 / 3
    own = {name: pooled_estimate(ReCoKS(), one, (-9.0, 9.0), level).estimate for name, one in given.items()}
    row = rows["e0", "e2"]
    assert (row.low, row.high) == pytest.approx((own["e0"].low - own["e2"].high, own["e0"].high - own["e2"].low))
    assert row.differs == (row.low > 0 or row.high < 0)
