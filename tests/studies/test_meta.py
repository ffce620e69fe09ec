"""Meta-evaluation on arrays of scores: by hand, against scipy and loops, and what perfect and useless scores must get."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from veracity.core.errors import InputError, SpecError
from veracity.core.measures import Direction
from veracity.studies.consistency import inter_consistency, intra_consistency, left_out, meta_consistency, signed_rank_p

HIGHER, LOWER = Direction.HIGHER, Direction.LOWER
NAN = np.nan


def scores(perturbations=4, methods=3, samples=30, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    before, after = rng.random((methods, samples)), rng.random((perturbations, methods, samples))
    kept = rng.random((perturbations, samples)) < 0.7
    return (before.round(1), after.round(1), kept) if ties else (before, after, kept)


def slow_intra(before, after, kept, disruptive):
    found = []
    for k in range(len(after)):
        for m in range(len(before)):
            p = stats.wilcoxon(before[m][kept[k]], after[k][m][kept[k]], zero_method="zsplit", method="asymptotic").pvalue
            found.append(1 - p if disruptive else p)
    return np.mean(found)


def slow_inter(before, after, kept, direction, disruptive):
    found = []
    for k in range(len(after)):
        hits = []
        for n in np.flatnonzero(kept[k]):
            if disruptive:
                sign = 1 if direction is HIGHER else -1
                hits += [sign * before[m, n] > sign * after[k, m, n] for m in range(len(before))]
            else:
                hits += list(stats.rankdata(before[:, n]) == stats.rankdata(after[k, :, n]))
        found.append(np.mean(hits))
    return np.mean(found)


def test_signed_ranks_by_hand():
    """Ranks 1, 2, 3 and 4 with the largest negative: z = (1 + 2 + 3 - 4) / sqrt(30)."""
    found = signed_rank_p(np.array([1.0, 2.0, 3.0, -4.0]))
    assert found.item() == pytest.approx(2 * stats.norm.sf(2 / math.sqrt(30)))
    split = signed_rank_p(np.array([0.0, 0.0, 5.0, 5.0]))
    assert split.item() == pytest.approx(2 * stats.norm.sf(7 / math.sqrt(2 * 1.5**2 + 2 * 3.5**2)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=2, max_size=60))
def test_signed_ranks_with_ties_and_zeros_are_scipys(differences):
    d = np.array(differences, dtype=float)
    expected = stats.wilcoxon(d, zero_method="zsplit", method="asymptotic").pvalue
    assert signed_rank_p(d).item() == pytest.approx(expected, abs=1e-12)
    assert signed_rank_p(np.append(d, [NAN, NAN])).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("samples", "near"), [(20, 0.025), (50, 0.01)])
def test_the_normal_approximation_is_near_the_exact_test(samples, near):
    rng = np.random.default_rng(0)
    d = rng.standard_normal((200, samples)) + 0.4 * rng.standard_normal((200, 1))
    exact = stats.wilcoxon(d, zero_method="zsplit", method="exact", axis=1).pvalue
    assert np.abs(signed_rank_p(d) - exact).max() < near


def test_intra_consistency_by_hand():
    before = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.5, 0.5, 0.5]])
    after = np.array([[0.2, 0.4, 0.6, 0.0], [0.5, 0.5, 0.5, 0.5]])
    p = 2 * stats.norm.sf(2 / math.sqrt(30))
    assert intra_consistency(before, after, disruptive=False) == pytest.approx((p + 1) / 2)
    assert intra_consistency(before, after, disruptive=True) == pytest.approx((1 - p) / 2)
    kept = np.array([True, True, True, False])
    assert intra_consistency(before[:1], after[:1], disruptive=False, kept=kept) == pytest.approx(2 * stats.norm.sf(6 / math.sqrt(14)))


def test_inter_consistency_by_hand():
    """Sample 0 keeps its ranks; in sample 1 the two lower methods swap; sample 2 is not kept."""
    before = np.array([[0.9, 0.8, 0.3], [0.5, 0.1, 0.2], [0.1, 0.3, 0.1]])
    after = np.array([[0.8, 0.9, 0.1], [0.6, 0.3, 0.2], [0.2, 0.1, 0.3]])
    kept = np.array([True, True, False])
    assert inter_consistency(before, after, direction=HIGHER, disruptive=False, kept=kept) == pytest.approx(4 / 6)
    assert inter_consistency(before, after, direction=HIGHER, disruptive=True, kept=kept) == pytest.approx(2 / 6)
    assert inter_consistency(before, after, direction=LOWER, disruptive=True, kept=kept) == pytest.approx(4 / 6)
    every = inter_consistency(before, after, direction=HIGHER, disruptive=True)
    assert every == pytest.approx(3 / 9)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("disruptive", [False, True])
@pytest.mark.parametrize("direction", Direction)
def test_against_loops(ties, disruptive, direction):
    before, after, kept = scores(ties=ties)
    found = intra_consistency(before, after, disruptive=disruptive, kept=kept)
    assert found == pytest.approx(slow_intra(before, after, kept, disruptive), abs=1e-12)
    found = inter_consistency(before, after, direction=direction, disruptive=disruptive, kept=kept)
    assert found == pytest.approx(slow_inter(before, after, kept, direction, disruptive), abs=1e-12)


def test_meta_consistency_is_the_mean_of_four():
    assert meta_consistency(1.0, 0.5, 0.25, 0.75) == 0.625
    assert meta_consistency(1.0, 1.0, 1.0, 1.0) == 1.0
    assert math.isnan(meta_consistency(1.0, NAN, 1.0, 1.0))


@pytest.mark.parametrize("direction", Direction)
def test_a_score_that_never_changes_is_resilient_and_notices_nothing(direction):
    before, _, _ = scores()
    after = np.stack([before, before])
    assert intra_consistency(before, after, disruptive=False) == 1.0
    assert inter_consistency(before, after, direction=direction, disruptive=False) == 1.0
    assert intra_consistency(before, after, disruptive=True) == 0.0
    assert inter_consistency(before, after, direction=direction, disruptive=True) == 0.0


@pytest.mark.parametrize(("direction", "worse"), [(HIGHER, -1.0), (LOWER, 1.0)])
def test_a_perfect_score_gets_one(direction, worse):
    """Unmoved by what is minor, and clearly worse after what is disruptive; read the wrong way it gets half."""
    before, _, _ = scores()
    ruined = np.stack([before + worse * (1 + before)] * 2)
    minor = intra_consistency(before, before, disruptive=False), inter_consistency(before, before, direction=direction, disruptive=False)

    def total(read):
        disruptive = intra_consistency(before, ruined, disruptive=True), inter_consistency(before, ruined, direction=read, disruptive=True)
        return meta_consistency(minor[0], disruptive[0], minor[1], disruptive[1])

    assert total(direction) == pytest.approx(1.0, abs=1e-4)
    assert total(LOWER if direction is HIGHER else HIGHER) == pytest.approx(0.75, abs=1e-4)


def test_a_score_that_is_drawn_at_random_gets_what_chance_gives():
    """p is uniform, a rank among three methods is kept in a third of cases, and half of the scores are worse."""
    before, after, _ = scores(perturbations=200, samples=60)
    before = np.random.default_rng(9).random((3, 60))
    found = [
        np.mean([intra_consistency(x, y, disruptive=False) for x, y in zip(after[::2], after[1::2], strict=True)]),
        inter_consistency(before, after, direction=HIGHER, disruptive=False),
        np.mean([inter_consistency(x, y, direction=LOWER, disruptive=True) for x, y in zip(after[::2], after[1::2], strict=True)]),
    ]
    assert found == pytest.approx([1 / 2, 1 / 3, 1 / 2], abs=0.04)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.booleans())
def test_turning_scores_and_direction_changes_nothing(seed, disruptive):
    before, after, kept = scores(seed=seed, ties=True)
    one = inter_consistency(before, after, direction=HIGHER, disruptive=disruptive, kept=kept)
    other = inter_consistency(-before, -after, direction=LOWER, disruptive=disruptive, kept=kept)
    assert one == other
    assert 0.0 <= one <= 1.0
    assert intra_consistency(-before, -after, disruptive=disruptive, kept=kept) == pytest.approx(
        intra_consistency(before, after, disruptive=disruptive, kept=kept)
    )


def test_samples_without_a_score_are_left_out_and_counted():
    before, after, kept = scores()
    kept[:, 5], kept[:, 7], kept[:, 9] = True, True, False
    holed_before, holed_after = before.copy(), after.copy()
    holed_before[1, 5], holed_after[2, :, 7], holed_before[:, 9] = NAN, NAN, NAN
    assert left_out(holed_before, holed_after, kept=kept) == 4 + 3
    assert left_out(holed_before, holed_after) == 4 + 3 + 12
    assert left_out(before, after, kept=kept) == 0
    without = kept.copy()
    without[:, 5], without[2, 7] = False, False
    minor = inter_consistency(holed_before, holed_after, direction=HIGHER, disruptive=False, kept=kept)
    assert minor == inter_consistency(before, after, direction=HIGHER, disruptive=False, kept=without)
    disruptive = inter_consistency(
        holed_before[1:2].repeat(2, 0), holed_after[:, 1:2].repeat(2, 1), direction=HIGHER, disruptive=True, kept=kept
    )
    assert disruptive == inter_consistency(
        before[1:2].repeat(2, 0), after[:, 1:2].repeat(2, 1), direction=HIGHER, disruptive=True, kept=without
    )
    alone = intra_consistency(holed_before[1:2], holed_after[:, 1:2], disruptive=False, kept=kept)
    assert alone == pytest.approx(intra_consistency(before[1:2], after[:, 1:2], disruptive=False, kept=without))


def test_nothing_left_is_undefined_and_does_not_spoil_other_perturbations():
    before, after, kept = scores()
    kept[1:] = False
    for disruptive in (False, True):
        assert inter_consistency(before, after, direction=HIGHER, disruptive=disruptive, kept=kept) == inter_consistency(
            before, after[0], direction=HIGHER, disruptive=disruptive, kept=kept[0]
        )
        assert intra_consistency(before, after, disruptive=disruptive, kept=kept) == pytest.approx(
            intra_consistency(before, after[0], disruptive=disruptive, kept=kept[0])
        )
        none = np.zeros(before.shape[1], dtype=bool)
        assert math.isnan(inter_consistency(before, after, direction=HIGHER, disruptive=disruptive, kept=none))
        assert math.isnan(intra_consistency(before, after, disruptive=disruptive, kept=none))


def test_mistakes_are_named():
    before, after, kept = scores()
    with pytest.raises(InputError, match=r"One explainer alone always ranks first, .* pass at least two"):
        inter_consistency(before[:1], after[:, :1], direction=HIGHER, disruptive=False)
    with pytest.raises(SpecError, match="'higher' or 'lower', whichever is better, not 'up'"):
        inter_consistency(before, after, direction="up", disruptive=True)
    assert inter_consistency(before, after, direction="higher", disruptive=True) == inter_consistency(
        before, after, direction=HIGHER, disruptive=True
    )
    with pytest.raises(InputError, match=r"\(methods, samples\) before and .* not \(3, 30\) and \(4, 2, 30\)"):
        intra_consistency(before, after[:, :2], disruptive=False)
    with pytest.raises(InputError, match=r"booleans of shape \(30,\) or \(4, 30\), not by int64 of shape \(1, 30\)"):
        intra_consistency(before, after, disruptive=False, kept=np.ones(30, dtype=int))
    with pytest.raises(InputError, match=r"not by bool of shape \(3, 30\)"):
        left_out(before, after, kept=kept[:3])
