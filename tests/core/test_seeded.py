from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from veracity.core.randomness import gpus_in_use, seeded


def states() -> tuple[list[int], list[int], object]:
    return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002


def test_all_states_follow_from_the_seed_and_come_back_after_an_error() -> None:
    def drawn() -> tuple[float, float, float]:
        return float(torch.rand(())), float(np.random.rand()), random.random()  # noqa: NPY002

    before = states()
    with seeded(3, gpus_in_use()):
        first = drawn()
    with pytest.raises(ValueError, match="inside"), seeded(3, gpus_in_use()):  # noqa: PT012 - all of it is undone
        assert drawn() == first
        torch.manual_seed(9)
        raise ValueError("inside")
    assert states() == before
    with seeded(4):
        assert drawn() != first


def test_a_gpu_that_nobody_uses_is_left_alone() -> None:
    if not torch.cuda.is_initialized():
        assert gpus_in_use() == []
