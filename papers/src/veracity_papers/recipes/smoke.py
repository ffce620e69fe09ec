"""Classifiers that a recipe trains on the spot, in seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from veracity.core.inputs import Inputs
from veracity.recipe import trained_once
from veracity.trainers.training import initialised, train


def trained_classifier(
    folder: Path, name: str, build: Callable[[], nn.Module], data: tuple[Tensor | Inputs, Tensor], *, epochs: int, **settings: Any
) -> nn.Module:
    """A classifier trained on inputs and labels with the `settings` of `train`, or loaded where an earlier run left it in the folder."""

    def fit(model: nn.Module, report: Callable[[int, float], None]) -> nn.Module:
        return train(model, *data, epochs=epochs, report=report, **settings)

    return trained_once(folder, name, lambda: initialised(build, seed=0), epochs, fit)
