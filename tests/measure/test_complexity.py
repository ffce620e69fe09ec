"""Complexity, sparseness and the histogram's entropy: by hand, against numpy and scipy, and their extremes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from veracity.core.errors import InputError, SpecError
from veracity.core.randomness import Draws
from veracity.measure.complexity import complexity, discrete_entropy, sparseness

MEASURES = [complexity, sparseness, discrete_entropy]


def maps(count=6, dtype=torch.float64):
    return Draws.of(4, torch.arange(count)).normal(2, 7, 9, stream="e").to(dtype)


def lorenz(a):
    """The Gini index as one minus twice the area below the Lorenz curve, by trapezoids."""
    shares = np.concatenate(([0.0], np.cumsum(np.sort(a)) / np.sum(a)))
    return 1 - np.sum(shares[1:] + shares[:-1]) / len(a)


def test_by_hand():
    e = torch.tensor([[1.0, -2.0, 0.0, 1.0]])
    assert complexity(e).item() == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(4))
    assert sparseness(e).item() == pytest.approx((-3 * 0 - 1 * 1 + 1 * 1 + 3 * 2) / (4 * 4))
    assert discrete_entropy(e, bins=3).item() == pytest.approx(0.25 * math.log(4) + 0.75 * math.log(4 / 3))
    assert discrete_entropy(e, bins=1).item() == 0.0


def test_against_scipy_numpy_and_the_lorenz_curve():
    e = maps()
    rows = e.flatten(1).numpy()
    size = np.abs(rows)
    np.testing.assert_allclose(complexity(e), [stats.entropy(row / row.sum()) for row in size], rtol=1e-12)
    np.testing.assert_allclose(sparseness(e), [lorenz(row) for row in size], rtol=1e-12)
    for bins in (2, 10, 100, 1000):
        expected = [stats.entropy(np.histogram(row, bins=bins)[0]) for row in rows]
        np.testing.assert_allclose(discrete_entropy(e, bins=bins), expected, rtol=1e-12)


def test_values_on_the_edges_of_bins_are_put_as_numpy_puts_them():
    e = torch.cat((torch.arange(101.0, dtype=torch.float64) / 100, torch.tensor([0.3, 0.3, 0.57, 1.0], dtype=torch.float64)))
    for bins in (4, 7, 10, 25, 100):
        assert discrete_entropy(e[None], bins=bins).item() == pytest.approx(stats.entropy(np.histogram(e.numpy(), bins=bins)[0]), rel=1e-12)


def test_extremes():
    one, even = torch.zeros(1, 50), torch.full((1, 50), -0.3)
    one[0, 7] = -5.0
    assert complexity(one).item() == 0.0
    assert complexity(even).item() == pytest.approx(math.log(50))
    assert sparseness(one).item() == pytest.approx(1 - 1 / 50)
    assert sparseness(even).item() == pytest.approx(0.0, abs=1e-12)
    assert discrete_entropy(even).item() == 0.0
    assert discrete_entropy(torch.arange(50.0)[None], bins=50).item() == pytest.approx(math.log(50))


def test_undefined_is_nan_and_stays_in_its_row():
    e = maps(4)
    clean = [measure(e) for measure in MEASURES]
    broken = e.clone()
    broken[1, 0, 2, 2], broken[2] = float("nan"), 0.0
    for measure, before in zip(MEASURES, clean, strict=True):
        found = measure(broken)
        assert torch.equal(found[[0, 3]], before[[0, 3]])
        assert found[1].isnan()
        assert found[2].isnan() == (measure is not discrete_entropy)
    assert discrete_entropy(torch.tensor([[1.0, float("inf")]])).isnan().all()


@pytest.mark.parametrize("measure", MEASURES)
def test_neither_sign_nor_scale_nor_batch_matters(measure):
    e = maps()
    before = e.clone()
    scale = torch.tensor([1e-300, 1e-7, 1.0, -3.0, 1e7, 1e300], dtype=torch.float64).reshape(-1, 1, 1, 1)
    if measure is not discrete_entropy:
        torch.testing.assert_close(measure(scale * e), measure(e))
    torch.testing.assert_close(measure(8.0 * e), measure(e))
    torch.testing.assert_close(torch.cat([measure(row[None]) for row in e]), measure(e))
    assert measure(e.half()).dtype == torch.float64
    assert torch.equal(e, before)


def test_mistakes_are_named():
    with pytest.raises(InputError, match=r"shape \(samples, ...\) with at least one entry per sample, not \(3,\)"):
        complexity(torch.ones(3))
    with pytest.raises(InputError, match="at least one entry"):
        sparseness(torch.ones(3, 0))
    with pytest.raises(SpecError, match="at least one bin, not 0"):
        discrete_entropy(torch.ones(2, 3), bins=0)
