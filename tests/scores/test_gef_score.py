"""Alignment and path length: by hand and by theory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from veracity.core.errors import InputError
from veracity.core.scores import Measured
from veracity.scores.gef import FastGEF, alignment, path_length


def distortions(samples=6, draws=4, levels=5):
    rng = np.random.default_rng(8)
    return rng.random((samples, draws, levels)), rng.random((samples, draws, levels))


def test_by_hand():
    model = np.array([[[1.0, 2.0, 3.0, 4.0, 5.0]] * 3])
    explanation = np.array([[[2.0, 1.0, 4.0, 3.0, 5.0], [9.0, 8.0, 7.0, 6.0, 5.0], [1.0, 1.0, 1.0, 1.0, 2.0]]])
    tied = 5 / np.sqrt(10 * 5)
    assert alignment(model, explanation).tolist() == [pytest.approx([0.8, -1.0, tied])]


def test_every_sample_and_draw_by_itself():
    model, explanation = distortions()
    expected = [[stats.spearmanr(*pair).statistic for pair in zip(*rows, strict=True)] for rows in zip(model, explanation, strict=True)]
    np.testing.assert_allclose(alignment(model, explanation), expected, atol=1e-12)


def test_only_the_order_of_levels_counts():
    model, explanation = distortions()
    np.testing.assert_allclose(alignment(7 * model**2, np.exp(explanation)), alignment(model, explanation))
    np.testing.assert_allclose(alignment(model, 3 * model), 1.0)


def test_an_explanation_unrelated_to_the_model_has_none_on_average():
    """Over all orders of five levels the mean is 0; if the first level always ranks lowest, as on a path from nearly no noise, it is .5."""
    orders = np.array(list(itertools.permutations(range(1, 6))), dtype=float)
    model = np.broadcast_to(np.arange(1.0, 6.0), orders.shape)
    assert alignment(model[None], orders[None]).mean() == pytest.approx(0.0, abs=1e-12)
    lowest = orders[orders[:, 0] == 1]
    assert alignment(model[None, : len(lowest)], lowest[None]).mean() == pytest.approx(0.5)


def test_no_response_is_undefined():
    model, explanation = distortions(2, 3)
    explanation[0], model[1, 2] = 0.7, 0.0
    explanation[1, 0, 3] = np.nan
    found = alignment(model, explanation)
    assert np.isnan(found).tolist() == [[True, True, True], [True, False, True]]  # a level is missing of the path (1, 0)
    assert found[1, 1] == pytest.approx(stats.spearmanr(model[1, 1], explanation[1, 1]).statistic)
    assert np.isnan(alignment(model[..., :1], explanation[..., :1])).all()


def test_paths_without_response_are_told_apart_from_samples_without():
    """A sample that moves along one of its paths has a value; its other paths are counted, and an undefined one is not."""
    moved = np.array([[[0.0, 0.0, 0.0], [0.0, 0.1, 0.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, np.nan, 0.0], [0.0, 0.0, 0.0]]])
    measured = Measured({"model": np.ones_like(moved), "explanation": moved})
    score = FastGEF(steps=3)
    assert score.silent_draws(measured).tolist() == [[True, False], [True, True], [False, True]]
    assert score.no_response(measured).tolist() == [False, True, False]


def test_path_length_is_that_of_the_curve():
    steps = np.arange(24.0).reshape(1, 2, 3, 4)
    assert path_length(steps)[0, 1].tolist() == [54.0, 70.0, 86.0]
    angle = np.linspace(0, np.pi, 1001)
    arc = np.linalg.norm(np.diff(np.stack((np.cos(angle), np.sin(angle))), axis=1), axis=0)
    assert path_length(arc[None, None, None]).item() == pytest.approx(np.pi, rel=1e-5)
    steps[0, 0, 1, 2] = np.nan
    assert np.isnan(path_length(steps)).sum() == 1


def test_mistakes_are_named():
    with pytest.raises(InputError, match=r"shape \(samples, draws, levels\), not \(2, 5\) and \(2, 5\)"):
        alignment(np.zeros((2, 5)), np.zeros((2, 5)))
    with pytest.raises(InputError, match=r"not \(2, 5, 1\) and \(2, 5, 2\)"):
        alignment(np.zeros((2, 5, 1)), np.zeros((2, 5, 2)))
    with pytest.raises(InputError, match=r"\(samples, draws, levels, segments\), not \(2, 5, 1\)"):
        path_length(np.zeros((2, 5, 1)))
