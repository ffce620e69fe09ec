"""Explainers that only change another one's explanations share its passes, and their numbers stay the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from text_models import text_model, tokenizer
from veracity import Audit
from veracity.core.explainers import finished, source_of
from veracity.engine.memory import EXPLAINED, forget_outputs
from veracity.explain import KernelShap, PartitionShap, SmoothGrad, TopK
from veracity.inputs import TextInputs
from veracity.scores import GEF, FastGEF

ROWS: list[int] = []


class Counted(nn.Module):
    """A network that counts its rows, and those of its copies."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.layers = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, 3)."""
        ROWS.append(len(x))
        scores: Tensor = self.layers(x)
        return scores


def run(explainers: Mapping[str, Any], folder: Path, scores: Mapping[str, Any], parts: Mapping[str, Any] | None = None) -> Any:
    """The result of an audit, and the rows of all passes besides those that prepare it."""
    x = torch.randn(70, 6, generator=torch.Generator().manual_seed(1))
    given = {"models": {"m": Counted().eval()}, "inputs": x} if parts is None else dict(parts)
    audit = Audit(**given, explainers=dict(explainers), scores=dict(scores), companions=False, controls=False)
    forget_outputs()
    ROWS.clear()
    audit.prepare()
    before = sum(ROWS)
    result = audit.run(folder, progress=False)
    return result, sum(ROWS) - 2 * before


def numbers(result: Any, label: str) -> list[np.ndarray]:
    return [one.per_sample for one in result.series if one.explainer == label]


def cut(explainer: Any) -> dict[str, Any]:
    return {"x": explainer, "top 2": TopK(explainer=explainer, k=2), "top 4": TopK(explainer=explainer, k=4)}


SCORES = {"fast": FastGEF(sigma=0.3, steps=3, draws=2), "whole": GEF(sigma=0.3, steps=3, segments=2, draws=2, common_draws=False)}


@pytest.mark.parametrize("explainer", [PartitionShap(), KernelShap(samples=12), SmoothGrad(draws=3)])
def test_three_explainers_need_the_passes_of_one(explainer: Any, tmp_path: Path) -> None:
    """Also of random explainers, whose numbers belong to samples and draws, whoever asks; with common draws or new ones per copy."""
    together, rows = run(cut(explainer), tmp_path / "all", SCORES)
    alone = {label: run({label: one}, tmp_path / label, SCORES) for label, one in cut(explainer).items()}
    assert rows == alone["x"][1] == alone["top 2"][1]
    assert EXPLAINED.held == 0
    for label, (result, _) in alone.items():
        for one, other in zip(numbers(together, label), numbers(result, label), strict=True):
            np.testing.assert_array_equal(one, other)
        assert torch.equal(together.explanations("m", label), result.explanations("m", label))


def test_the_order_of_explainers_does_not_matter_and_other_settings_share_nothing(tmp_path: Path) -> None:
    _, rows = run(dict(reversed(cut(PartitionShap()).items())), tmp_path / "a", SCORES)
    _, single = run({"x": PartitionShap()}, tmp_path / "b", SCORES)
    assert rows == single
    few, more = KernelShap(samples=12), KernelShap(samples=13)
    _, both = run({"x": few, "top": TopK(explainer=more, k=2)}, tmp_path / "c", SCORES)
    _, plain = run({"x": few, "y": more}, tmp_path / "d", SCORES)
    assert both == plain


def test_without_room_every_explainer_makes_its_own_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together, rows = run(cut(PartitionShap()), tmp_path / "all", SCORES)
    monkeypatch.setattr(EXPLAINED, "limit", 0)
    apart, more = run(cut(PartitionShap()), tmp_path / "none", SCORES)
    assert more > 2 * rows
    for label in ("x", "top 2", "top 4"):
        for one, other in zip(numbers(together, label), numbers(apart, label), strict=True):
            np.testing.assert_array_equal(one, other)


def test_texts_of_different_lengths(tmp_path: Path) -> None:
    """Cut maps never name a token that does not exist."""
    parts = {"models": {"m": text_model()}, "inputs": TextInputs(["dull", "a fine film", "a dull film with no heart"], tokenizer())}
    scores = {"fast": SCORES["fast"]}
    together, _ = run(cut(PartitionShap(evaluations=10)), tmp_path / "all", scores, parts)
    for label, one in cut(PartitionShap(evaluations=10)).items():
        alone, _ = run({label: one}, tmp_path / label, scores, parts)
        for found, other in zip(numbers(together, label), numbers(alone, label), strict=True):
            np.testing.assert_array_equal(found, other)
    assert together.explanations("m", "top 2")[0].tolist()[1:] == [0.0] * 5


def test_explainers_around_explainers_are_finished_from_the_innermost() -> None:
    inner = PartitionShap()
    outer = TopK(explainer=TopK(explainer=inner, k=3), k=2)
    assert source_of(outer) == inner
    assert finished(outer, torch.tensor([[0.1, 0.4, 0.3, 0.2]]), None).tolist() == [[0.0, 1.0, 1.0, 0.0]]
