"""Alignment on the authors' own stored distortions."""

from __future__ import annotations

import numpy as np
import pytest

from veracity.core.scores import per_sample_mean
from veracity.scores.gef import alignment
from veracity_papers.data import files

GOLDEN = files.locate("golden_gef")
STORED = sorted(GOLDEN.glob("*.npz")) if GOLDEN else []


@pytest.mark.skipif(not STORED, reason="The stored distortions (golden_gef) are not in the data folder.")
@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_distortions_give_the_stored_scores(path):
    with np.load(path) as stored:
        model, explanation = (np.moveaxis(stored[f"{name}_distortion"], 2, 0) for name in ("model", "explanation"))
        found = alignment(model, explanation)
        assert found.shape == model.shape[:2]
        np.testing.assert_allclose(per_sample_mean(found), stored["score"], atol=1e-6, rtol=0)
        assert np.std(stored["score"]) > 0.01
