"""Who dominates whom, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from veracity.cards.dominate import MARGIN, USES, Dominance, Gains, dominance, fit_for
from veracity.cards.questions import QUESTIONS
from veracity.core.errors import InputError


def gains(*means: float, samples: int = 40) -> Gains:
    gap = np.repeat(np.array(means)[:, None], samples, axis=1)
    return Gains(gap, np.ones_like(gap))


def slow_dominance(tables: list[np.ndarray], margin: float) -> np.ndarray:
    rows, count = tables[0].shape
    found = np.zeros((rows, count, count), dtype=bool)
    for b in range(rows):
        for i in range(count):
            for j in range(count):
                pairs = [(table[b, i], table[b, j]) for table in tables if np.isfinite([table[b, i], table[b, j]]).all()]
                found[b, i, j] = any(x > y + margin for x, y in pairs) and all(x >= y - margin for x, y in pairs)
    return found


def test_as_written_the_slow_way() -> None:
    generator = np.random.default_rng(3)
    tables = [generator.random((20, 5)) for _ in range(2)]
    tables[0][:, 4] = np.nan
    differences = [table[:, :, None] - table[:, None, :] for table in tables]
    assert (dominance(differences, 0.2) == slow_dominance(tables, 0.2)).all()
    assert dominance(differences, 0.2).any()


def test_two_are_compared_on_the_samples_that_both_have() -> None:
    """The second one stopped after half of the samples, and the last half is easier for everybody."""
    gap = np.array([[0.3, 0.3, 0.9, 0.9], [0.3, 0.3, np.nan, np.nan], [0.1, 0.1, 0.7, 0.7]])
    whole = np.ones((1, 4))
    found = Gains(gap, np.ones((3, 4)), reach=np.array([4, 2, 4]))
    assert found.values(whole)[0] == pytest.approx([0.6, 0.3, 0.4])
    assert found.differences(whole)[0] == pytest.approx(np.array([[0.0, 0.0, 0.2], [0.0, 0.0, 0.2], [-0.2, -0.2, 0.0]]))


def test_better_once_and_never_worse() -> None:
    found = Dominance.of(["a", "b", "c"], [gains(0.9, 0.5, 0.4), gains(0.5, 0.5, 0.9)])
    assert found.above("b") == {"a": 1.0}
    assert found.undominated() == {"a": 1.0, "c": 1.0}


def test_differences_within_the_margin_count_as_none() -> None:
    close = Dominance.of(["a", "b"], [gains(0.5, 0.5 + 0.9 * MARGIN)])
    assert close.undominated() == {"a": 1.0, "b": 1.0}
    assert Dominance.of(["a", "b"], [gains(0.5, 0.5 + 1.1 * MARGIN)]).above("a") == {"b": 1.0}
    saved = Dominance.of(["a", "b"], [gains(0.5, 0.9), gains(0.5, 0.5 - 1.1 * MARGIN)])
    assert saved.undominated() == {"a": 1.0, "b": 1.0}


def test_what_is_not_sure_is_not_said() -> None:
    gap = np.array([[0.5] * 8, [0.9, 0.22] * 4])  # b is ahead by 0.06 on average, and behind on half of the samples
    found = Dominance.of(["a", "b"], [Gains(gap, np.ones_like(gap))])
    assert 0.05 < found.alone[0] < 0.95
    assert set(found.undominated()) == {"a", "b"}


def test_a_check_that_one_of_them_lacks_says_nothing_about_the_two() -> None:
    lacking = gains(0.9, 0.1)
    lacking.gap[1] = np.nan
    assert Dominance.of(["a", "b"], [lacking, gains(0.5, 0.5)]).undominated() == {"a": 1.0, "b": 1.0}


def test_fixed_values_do_not_depend_on_the_samples() -> None:
    fixed = Gains.fixed(np.array([1.0, 0.0]), samples=6)
    assert fixed.values(np.array([[1.0] * 6, [6.0] + [0.0] * 5])).tolist() == [[1.0, 0.0]] * 2
    assert Dominance.of(["proven", "open"], [fixed, gains(0.5, 0.5, samples=6)]).above("open") == {"proven": 1.0}
    assert not Dominance.of(["proven", "open"], [fixed, gains(0.5, 0.9, samples=6)]).above("open")


def test_values_are_ratios_of_weighted_sums() -> None:
    one = Gains(np.array([[1.0, 2.0, np.nan]]), np.array([[2.0, 2.0, 5.0]]))
    assert one.values(np.array([[1.0, 3.0, 9.0]])).tolist() == [[7.0 / 8.0]]
    assert np.isnan(one.values(np.array([[0.0, 0.0, 9.0]]))).all()


def test_nobody_and_nothing() -> None:
    assert Dominance.of(["a", "b"], []).undominated() == {"a": 1.0, "b": 1.0}
    with pytest.raises(InputError, match="at least one check"):
        dominance([])


def test_uses_name_questions_that_exist() -> None:
    known = {one.key for one in QUESTIONS}
    assert [set(use.questions) <= known for use in USES] == [True] * 3


def test_a_use_needs_proof_and_no_failure() -> None:
    words = {
        "good": {"model": "holds", "faithful": "holds", "calm": "does not apply", "robust": "holds"},
        "open": {"model": "holds", "faithful": "holds", "calm": "cannot tell yet", "robust": "holds"},
        "bad": {"model": "holds", "faithful": "holds", "calm": "falls short", "robust": "cannot tell yet"},
        "unproven": {"model": "does not apply", "faithful": "holds", "calm": "holds", "robust": "holds"},
    }
    assert fit_for(USES[1], words) == (["good"], ["open", "unproven"], ["bad"])


def test_without_a_word_on_faithfulness_nobody_is_fit() -> None:
    words = {"a": {one.key: "holds" for one in QUESTIONS} | {"faithful": "does not apply"}}
    assert [fit_for(use, words) for use in USES] == [([], ["a"], [])] * len(USES)
