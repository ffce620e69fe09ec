"""Equation (21): by hand, free of scale, and each sample by itself."""

from __future__ import annotations

import pytest
import torch

from veracity.core.randomness import Draws
from veracity.measure.distance import normalised


def maps(dtype=torch.float64):
    return Draws.of(5, torch.arange(5)).normal(3, 4, 6, stream="e").to(dtype)


def test_by_hand():
    e = torch.tensor([[[1.0, 7.0]], [[0.0, 0.0]], [[-2.0, 2.0]]])
    assert normalised(e).flatten().tolist() == pytest.approx([0.2, 1.4, 0.0, 0.0, -1.0, 1.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mean_square_is_one_and_the_direction_stays(dtype):
    e = maps(dtype)
    found = normalised(e)
    assert found.dtype == dtype
    assert found.shape == e.shape
    torch.testing.assert_close(found.square().mean(dim=(1, 2, 3)), torch.ones(5, dtype=dtype))
    torch.testing.assert_close(torch.cosine_similarity(found.flatten(1), e.flatten(1)), torch.ones(5, dtype=dtype))
    torch.testing.assert_close(normalised(found), found)


def test_scale_and_batch_mates_do_not_matter():
    e = maps(torch.float32)
    scale = torch.tensor([1e-30, 1e-4, 1.0, 1e4, 1e30]).reshape(-1, 1, 1, 1)
    torch.testing.assert_close(normalised(scale * e), normalised(e))
    assert torch.equal(torch.cat([normalised(row[None]) for row in e]), normalised(e))


def test_undefined_stays_in_its_row_and_nothing_is_changed_in_place():
    e = maps()
    e[1, 0, 0, 0] = float("nan")
    before = e.clone()
    found = normalised(e)
    assert found.isnan().flatten(1).all(dim=1).tolist() == [False, True, False, False, False]
    assert torch.equal(e.nan_to_num(9.0), before.nan_to_num(9.0))
    assert normalised(torch.zeros(2, 0)).shape == (2, 0)
