"""A class that is explained and never predicted is named in one sentence."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import veracity
from veracity.core.errors import InputError, Note


class Never(nn.Module):
    """Three classes, of which the last has the lowest score of all."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.linear(x)
        return torch.cat((scores, scores.amin(1, keepdim=True) - 1), dim=1)


def run(folder: Path, **settings: Any) -> veracity.Result:
    given: dict[str, Any] = {"models": {"net": Never().eval()}, "inputs": torch.randn(6, 4), "explainers": ["gradient"]}
    scores = [veracity.scores.FastGEF(sigma=0.5)]
    return veracity.Audit(**{**given, "scores": scores, "controls": False, **settings}).run(folder, progress=False)


def test_a_class_that_is_never_predicted_is_named(tmp_path: Path) -> None:
    with pytest.warns(Note, match="net / outputs: class 2 is explained, .* for none of the 6 samples: .*; add samples of it"):
        result = run(tmp_path, target=2)
    assert [note["text"][:20] for note in result.manifest["notes"]] == ["class 2 is explained"]


def test_nothing_is_said_about_values_and_about_predicted_classes(tmp_path: Path) -> None:
    run(tmp_path / "raw", target=2, outputs="raw")
    run(tmp_path / "predicted")


def test_a_class_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"The target class must lie between 0 and 2, because the model has 3 outputs; found 7"):
        run(tmp_path, target=7)
