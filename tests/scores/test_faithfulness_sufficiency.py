"""Sufficiency: by hand, and against a literal count over all pairs."""

import math

import numpy as np
import pytest
import torch

from masked import DEFAULTS, bare, explained, higher, inputs, pair, reading
from veracity.core.registry import SCORES
from veracity.core.scores import Measured
from veracity.core.spaces import SampleSpace
from veracity.scores.common import as_score
from veracity.scores.faithfulness.content import Sufficiency, distance, share_alike
from veracity.walk import Exhaustive, MonteCarlo


def test_by_hand():
    here = torch.tensor([[3.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    there = torch.tensor([[7.0, 0.0], [0.0, 2.0], [-1.0, 0.0], [-1.0, -1.0], [1.0, 0.0]])
    one, two = torch.tensor([[2.0, 1.0]] * 5), torch.tensor([[5.0, 0.0], [0.0, 5.0], [0.0, 5.0], [1.0, 0.0], [1.0, 0.0]])
    seen = Sufficiency().observe(pair(reading(one, explanation=here), reading(two, explanation=there)))
    assert seen[:, 0].tolist() == pytest.approx([0.0, math.sqrt(0.5), 1.0, 1.0, math.nan], nan_ok=True)
    assert seen[:, 1].tolist() == [1.0, 0.0, 0.0, 1.0, 1.0]
    seen = Sufficiency(abs=True).observe(pair(reading(one, explanation=here), reading(two, explanation=there)))
    assert seen[:, 0].tolist() == pytest.approx([0.0, math.sqrt(0.5), 0.0, 0.0, math.nan], nan_ok=True, abs=1e-15)


def test_where_there_are_no_classes_nothing_is_predicted_alike():
    maps = torch.ones(2, 3)
    number = reading(None, explanation=maps, output=torch.ones(2, 1))
    assert Sufficiency().observe(pair(number, number))[:, 1].isnan().all()


def test_half_the_distance_of_unit_vectors():
    a, b = inputs(6, 2, 3) - 0.5, inputs(6, 2, 3, seed=3) - 0.5
    for i in range(6):
        u, v = a[i].flatten() / a[i].norm(), b[i].flatten() / b[i].norm()
        assert distance(a, b)[i].item() == pytest.approx((u - v).norm().item() / 2)
    assert distance(a, a).tolist() == [0.0] * 6
    assert distance(a, -3.0 * a).tolist() == pytest.approx([1.0] * 6)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.6, 1.0])
def test_as_a_count_over_pairs(threshold):
    rng = np.random.default_rng(0)
    maps, classes = rng.normal(size=(12, 4)), rng.integers(0, 3, size=12)
    maps[7] = 0.0
    far, same, expected = np.full((12, 11, 1), np.nan), np.zeros((12, 11, 1)), []
    for i in range(12):
        close = alike = 0
        for offset in range(1, 12):
            j = (i + offset) % 12
            outputs = torch.eye(3)[torch.tensor([[classes[i]], [classes[j]]])]
            readings = [reading(None, explanation=torch.tensor(maps[[k]]), output=outputs[n]) for n, k in enumerate((i, j))]
            far[i, offset - 1, 0], same[i, offset - 1, 0] = Sufficiency().observe(pair(*readings))[0].tolist()
            if 7 not in (i, j):
                u, v = maps[i] / np.linalg.norm(maps[i]), maps[j] / np.linalg.norm(maps[j])
                close += np.linalg.norm(u - v) / 2 <= threshold
                alike += np.linalg.norm(u - v) / 2 <= threshold and classes[i] == classes[j]
        expected.append(alike / close if close else np.nan)
    found = Sufficiency(threshold=threshold).values(Measured({"distance": far, "same": same}))
    assert found.shape == (12, 1)
    np.testing.assert_allclose(found[:, 0], expected)


def test_samples_that_were_not_drawn_do_not_count():
    far = np.array([[0.1, np.nan, 0.2], [np.nan, np.nan, np.nan]])
    assert share_alike(far, np.array([[1.0, np.nan, 0.0], [1.0, 1.0, 1.0]]), 0.5).tolist() == pytest.approx([0.5, np.nan], nan_ok=True)


def test_what_it_asks_for_and_how_to_read_it():
    (request,) = Sufficiency().requests(explained((1, 4)), DEFAULTS)
    assert isinstance(request.space, SampleSpace)
    assert request.walk == MonteCarlo(draws=50)
    assert not Sufficiency().requests(bare((1, 4)), DEFAULTS)
    assert higher(Sufficiency())
    assert Sufficiency().bounds == (0.0, 1.0)
    score = Sufficiency(threshold=0.2, abs=True, walk=Exhaustive())
    assert as_score(score.about()["spec"]) == score
    assert "sufficiency" in set(SCORES)
