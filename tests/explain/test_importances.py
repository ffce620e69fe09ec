from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from shift_invariant import context_of

from veracity.core.inputs import TensorInputs
from veracity.core.randomness import Draws
from veracity.core.training import Training
from veracity.explain import PermutationImportance
from veracity.models import as_model


def test_shuffles_of_a_feature_are_one_call_and_average_as_in_a_loop() -> None:
    x, calls = np.random.default_rng(1).normal(size=(40, 2)), list[int]()
    y = (x[:, 0] > 0).astype(int)

    def score(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        calls.append(len(values))
        return np.stack([-values[:, 0], values[:, 0]], axis=1)

    context = replace(context_of(1), training=Training(TensorInputs(torch.tensor(x)), torch.tensor(y)))
    learnt = PermutationImportance(draws=3).learn(as_model("model", score), context)
    assert calls[-3:] == [40, 120, 120]
    order = Draws.of(context.draws.seed, torch.arange(40), 0).normal(3, stream="permutation_importance").argsort(0).numpy()
    loop = np.mean([1 - ((x[order[:, draw], 0] > 0) == y).mean() for draw in range(3)])
    assert learnt["importances"].tolist() == pytest.approx([loop, 0.0])
