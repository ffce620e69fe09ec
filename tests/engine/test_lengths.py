"""Texts of different lengths under copies of a model: what scores see, and how often they are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from text_models import text_model, tokenizer
from veracity import Audit
from veracity.core.spaces import SampleSpace
from veracity.engine.perturbation.base import OwnValues, Perturbation
from veracity.explain import InputXGradient
from veracity.explain.sparse import LinearEncoder, SparseFeatures
from veracity.inputs import TextInputs
from veracity.measure import cosine_distance
from veracity.scores import GEF, FastGEF

TEXTS = ["dull", "a fine film", "not a fine film", "a dull film with no heart at all", "no heart", "fine"]
LENGTHS = 5
COPIES = 6


def split_always(self: Perturbation[Any]) -> OwnValues | None:
    """The rows of each length apart, whatever scores read."""
    present = self.block.x.present
    return None if present is None or isinstance(self.space, SampleSpace) else OwnValues(present, None, self.block.frame)


def values(explainer: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[np.ndarray], list[int]]:
    """Fast-GEF and GEF per text, and the rows of every call of Fast-GEF's `observe`."""
    seen: list[int] = []
    observe = FastGEF.observe
    with monkeypatch.context() as patch:
        patch.setattr(FastGEF, "observe", lambda self, pair: (seen.append(len(pair.element)), observe(self, pair))[1])
        scores = {
            "fast": FastGEF(sigma=0.3, steps=3, draws=2, measure=cosine_distance, normalise=False),
            "whole": GEF(sigma=0.3, steps=3, segments=2, draws=2),
        }
        parts = {"models": {"m": text_model()}, "inputs": TextInputs(TEXTS, tokenizer()), "explainers": {"e": explainer}}
        result = Audit(**parts, scores=scores, companions=False, controls=False).run(folder, progress=False)
    return [one.per_sample for one in result.series], seen


def test_features_of_a_layer_are_compared_without_regard_to_lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = LinearEncoder(torch.randn(16, 24, generator=torch.Generator().manual_seed(0)))
    explainer = SparseFeatures(encoder=encoder, layer="distilbert.transformer.layer.0")
    found, calls = values(explainer, tmp_path / "one", monkeypatch)
    monkeypatch.setattr(Perturbation, "own_length", property(split_always))
    monkeypatch.setattr("veracity.engine.perturbation.weights.at_once", lambda *_args, **_settings: 1)
    apart, slow = values(explainer, tmp_path / "two", monkeypatch)
    assert calls == [len(TEXTS)] * COPIES
    assert len(slow) == LENGTHS * COPIES
    for one, other in zip(found, apart, strict=True):
        np.testing.assert_array_equal(one, other)
        assert np.isfinite(one).any()


def test_maps_of_one_length_are_compared_for_several_copies_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a level is compared with the one before it, as in GEF with segments."""
    found, calls = values(InputXGradient(), tmp_path / "one", monkeypatch)
    monkeypatch.setattr("veracity.engine.perturbation.weights.at_once", lambda *_args, **_settings: 1)
    apart, slow = values(InputXGradient(), tmp_path / "two", monkeypatch)
    assert len(calls) == LENGTHS
    assert len(slow) == LENGTHS * COPIES
    assert sum(calls) == sum(slow) == len(TEXTS) * COPIES
    for one, other in zip(found, apart, strict=True):
        np.testing.assert_array_equal(one, other)
        assert np.isfinite(one).any()
