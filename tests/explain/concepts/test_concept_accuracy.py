from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from veracity.core.explainers import BARE
from veracity.core.inputs import TensorInputs
from veracity.core.training import Training
from veracity.explain.concepts import CAR
from veracity.explain.concepts.base import above_chance, exact_interval


@pytest.mark.parametrize(("correct", "total"), [(0, 5), (5, 5), (3, 7), (120, 200), (199, 200)])
def test_interval_is_the_exact_one(correct: int, total: int) -> None:
    low, high = exact_interval([correct], [total])
    expected = binomtest(correct, total).proportion_ci(0.95, method="exact")
    np.testing.assert_allclose([low[0], high[0]], [expected.low, expected.high], rtol=1e-9)


def test_nothing_counted_says_nothing() -> None:
    low, high = exact_interval([0], [0])
    assert (low[0], high[0]) == (0.0, 1.0)


def test_a_coin_is_trusted_at_most_once_in_forty() -> None:
    correct = np.arange(201)
    chance = np.array([math.comb(200, int(k)) / 2.0**200 for k in correct])
    assert 0.005 < chance[above_chance(correct, np.full(201, 200))].sum() <= 0.025


def test_facts_name_what_is_wrong() -> None:
    learnt = {
        "fitted": torch.tensor([100, 100, 3, 9]),
        "held_out": torch.tensor([200, 50, 0, 6]),
        "correct": torch.tensor([180, 26, 0, 6]),
        "trusted": torch.tensor([True, False, False, True]),
    }
    concepts = {name: torch.ones(1, dtype=torch.bool) for name in ("good", "bad", "untested", "few")}
    training = Training(TensorInputs(torch.zeros(1, 1)), torch.zeros(1).long(), concepts)
    good, bad, untested, few = CAR(layer="conv").facts(learnt, replace(BARE, training=training))
    assert good["accuracy"] == 0.9
    assert "warning" not in good
    assert good["low"] < 0.9 < good["high"]
    assert "The layer 'conv' does not separate the concept 'bad'" in bad["warning"]
    assert "0.52 (0.37 to 0.66) on 50 held-out examples" in bad["warning"]
    assert math.isnan(untested["accuracy"])
    assert "too few examples (3 per side)" in untested["warning"]
    assert "fitted to 9 examples per side, since there were too few for 100" in few["warning"]
    assert [row["trusted"] for row in (good, bad, untested, few)] == [True, False, False, True]
