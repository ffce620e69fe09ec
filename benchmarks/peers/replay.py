"""Quantus with given randomness: its perturbations, subsets and randomised models come from here."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np
from torch import Tensor, nn

from benchmarks.peers.subject import Array

quantus: Any = import_module("quantus")
PYTORCH = "quantus.helpers.model.pytorch_model.PyTorchModel"


class Replay:
    """A `perturb_func` that gives back perturbed inputs (samples, draws, ...) draw by draw, whatever it is given."""

    def __init__(self, perturbed: Tensor) -> None:
        self.perturbed, self.calls = perturbed.flatten(2).numpy(), 0

    def __call__(self, arr: Array, **settings: Any) -> Array:
        """The next draw of every sample, (samples, entries)."""
        found: Array = self.perturbed[:, self.calls].copy()
        self.calls += 1
        return found


@contextmanager
def choosing(masks: Tensor) -> Iterator[None]:
    """Masks (samples, draws, entries) instead of the subsets that Quantus draws by np.random.choice: draw by draw, all samples."""
    subsets = iter([np.flatnonzero(mask) for draw in masks.transpose(0, 1).numpy() for mask in draw])
    with mock.patch("numpy.random.choice", side_effect=lambda *_, **__: next(subsets)):
        yield


@contextmanager
def randomised(models: Sequence[nn.Module]) -> Iterator[None]:
    """These models instead of the ones that Quantus makes by randomising layer after layer."""

    def given(self: Any, order: str = "", seed: int = 0) -> Iterator[tuple[str, nn.Module]]:
        return ((str(number), model) for number, model in enumerate(models))

    length = mock.PropertyMock(return_value=len(models))
    with mock.patch(f"{PYTORCH}.get_random_layer_generator", given), mock.patch(f"{PYTORCH}.random_layer_generator_length", length):
        yield


def scores(metric: Any, **given: Any) -> Array:
    """What a metric says of each sample, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(metric(**given), dtype=np.float64)
