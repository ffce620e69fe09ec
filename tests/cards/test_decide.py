"""Words from numbers, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from veracity.cards.decide import FEWEST, Terms, Word, combine, decide, level_for, more_samples, most_needed
from veracity.core.errors import InputError
from veracity.statistics.intervals import Interval


def column(values: list[float]) -> np.ndarray:
    return np.array(values, dtype=np.float64)[:, None]


def test_a_word_by_hand() -> None:
    """Symmetric gaps 0.4 and 0.6 of a room of 1: mean 0.5, standard deviation sqrt(0.1 / 9), no skewness."""
    gap = column([0.4, 0.6] * 5)
    found = Terms(gap, np.ones_like(gap)).standing(0.1, 0.95)
    reach = stats.t.ppf(0.975, 9) * math.sqrt(0.1 / 9 / 10)
    assert found.word is Word.HOLDS
    assert found.value == pytest.approx(0.5)
    assert (found.low, found.high) == (pytest.approx(0.5 - reach), pytest.approx(0.5 + reach))
    assert Terms(gap, np.ones_like(gap)).standing(0.5 + 1.01 * reach, 0.95).word is Word.SHORT
    assert Terms(gap, np.ones_like(gap)).standing(0.5 + 0.99 * reach, 0.95).word is Word.UNTOLD


def test_a_share_is_a_ratio_of_means_and_its_interval_agrees_with_the_word() -> None:
    gap, room = column([0.1, 0.3, 0.2, 0.4] * 4), column([0.5, 0.7, 0.6, 0.6] * 4)
    for line in (0.1, 0.3, 0.4, 0.45, 0.9):
        found = Terms(gap, room).standing(line, 0.99)
        assert found.value == pytest.approx(0.25 / 0.6)
        assert found.word is decide(found.low - line, found.high - line)


def test_more_comparisons_widen_the_interval() -> None:
    gap = column([0.12, 0.16, 0.1, 0.18] * 4)
    terms = Terms(gap, np.ones_like(gap))
    assert terms.standing(0.12, level_for(1)).word is Word.HOLDS
    assert terms.standing(0.12, level_for(1000)).word is Word.UNTOLD
    assert level_for(20, 0.9) == pytest.approx(1 - 0.1 / 20)


def test_shared_draws_are_not_averaged_out_by_samples() -> None:
    """Two copies at 0 and 0.4 for every one of 200 samples: the mean of copies is not known, however many samples there are."""
    values = np.tile([0.0, 0.4], (200, 1)) + np.linspace(-0.01, 0.01, 200)[:, None]
    assert Terms(values, np.ones_like(values)).standing(0.1, 0.95).word is Word.HOLDS
    assert Terms(values, np.ones_like(values), crossed=True).standing(0.1, 0.95).word is Word.UNTOLD


def test_a_single_shared_draw_has_no_interval() -> None:
    found = Terms(column([0.5, 0.6] * 8), np.ones((16, 1)), crossed=True).standing(0.1, 0.95)
    assert found.word is Word.UNTOLD
    assert "single shared draw" in found.why


@pytest.mark.parametrize(
    ("gap", "room", "word", "why"),
    [
        ([math.nan] * 10, [1.0] * 10, Word.NOT_ASKED, "undefined on every sample"),
        ([0.01] * 10, [0.01] * 10, Word.NOT_ASKED, "no room"),
        ([0.5] * (FEWEST - 1), [1.0] * (FEWEST - 1), Word.UNTOLD, "fewer than"),
        ([0.5] * 9 + [math.nan] * 10, [1.0] * 19, Word.UNTOLD, "only 9 of 19 samples"),
    ],
)
def test_too_little_data_says_why(gap: list[float], room: list[float], word: Word, why: str) -> None:
    found = Terms(column(gap), column(room)).standing(0.1, 0.95)
    assert found.word is word
    assert why in found.why


def test_few_patients_say_nothing_however_many_samples_they_have() -> None:
    equal = Terms(np.full((20, 1), 0.5), np.ones((20, 1)), units=np.arange(20) // 10, unit="patient").standing(0.1, 0.95)
    assert (equal.word, equal.why) == (Word.UNTOLD, "the 20 samples are of only 2 patients, and a word needs 8")
    balanced = Terms(np.tile([0, 0, 0, 0.48], 8)[:, None], np.ones((32, 1)), units=np.repeat(np.arange(8), 4)).standing(0.1, 0.997)
    assert balanced.word is Word.UNTOLD
    assert math.isnan(balanced.unseen)


def test_more_patients_would_tell() -> None:
    """Each of 30 values twice: as many more patients are needed as of samples if each has one."""
    gap = 0.15 + 0.15 * np.random.default_rng(2).standard_normal((30, 1))
    alone = Terms(gap, np.ones_like(gap)).standing(0.1, 0.999)
    found = Terms(np.repeat(gap, 2, axis=0), np.ones((60, 1)), units=np.arange(60) // 2, unit="patient").standing(0.1, 0.999)
    assert alone.more is not None
    assert (found.more_units, found.unit, alone.more_units, alone.unit) == (alone.more, "patient", None, "")
    assert found.more == pytest.approx(2 * alone.more, rel=0.1)


def test_equal_samples_decide_without_a_width() -> None:
    found = Terms(np.zeros((12, 1)), np.ones((12, 1))).standing(0.1, 0.999)
    assert (found.word, found.value, found.low) == (Word.SHORT, 0.0, pytest.approx(0.0))
    assert found.unseen == pytest.approx(1 - 0.001 ** (1 / 12))


def test_about_as_many_more_samples_tell_as_are_said() -> None:
    generator = np.random.default_rng(0)
    gap = 0.15 + 0.25 * generator.standard_normal((60, 1))
    few = Terms(gap, np.ones_like(gap)).standing(0.1, 0.999)
    assert few.word is Word.UNTOLD
    assert few.more is not None
    again = np.tile(gap, (1 + math.ceil(few.more / 60), 1))
    assert Terms(again, np.ones_like(again)).standing(0.1, 0.999).word is Word.HOLDS


def test_more_samples_by_hand() -> None:
    """A mean of -0.2 whose upper end is 0.1: the reach 0.3 must shrink to 0.2, so n grows by (3/2)^2 = 2.25."""
    assert more_samples(Interval(value=-0.2, low=-0.5, high=0.1, n=100)) == 130
    assert more_samples(Interval(value=0.001, low=-0.5, high=0.5, n=100)) is None
    assert more_samples(Interval(value=0.1, low=math.nan, high=math.nan, n=1)) is None


def test_one_check_that_falls_short_decides() -> None:
    assert combine([Word.HOLDS, Word.HOLDS, Word.SHORT]) is Word.SHORT
    assert combine([Word.NOT_ASKED, Word.NOT_ASKED]) is Word.NOT_ASKED
    assert most_needed([20, 50]) == 50
    assert most_needed([20, None]) is None


def test_wrong_words_are_rarer_than_the_confidence_allows() -> None:
    """Values exactly on the line: any word but "cannot tell yet" is wrong."""
    generator = np.random.default_rng(1)
    gap = 0.1 + 0.3 * generator.standard_normal((400, 32, 1))
    said = [Terms(one, np.ones_like(one)).standing(0.1, 0.95).word for one in gap]
    assert sum(word is not Word.UNTOLD for word in said) <= 0.08 * len(said)


def test_shapes_must_match() -> None:
    with pytest.raises(InputError, match=r"\(3, 1\) and \(4, 1\)"):
        Terms(np.zeros((3, 1)), np.zeros((4, 1)))
