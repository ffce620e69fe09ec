"""Quantus with given randomness: its perturbations, subsets and randomised models come from here."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from io import StringIO
from typing import Any
from unittest import mock

import numpy as np
import torch
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


@contextmanager
def double_precision() -> Iterator[None]:
    """Quantus makes its tensors by torch.Tensor(x), in the default precision: here double."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def answer(metric: Any, **given: Any) -> Any:
    """What a metric says, in double precision and without what it prints."""
    with warnings.catch_warnings(), redirect_stdout(StringIO()), double_precision():
        warnings.simplefilter("ignore")
        return metric(**given)


def scores(metric: Any, **given: Any) -> Array:
    """What a metric says of each sample."""
    return np.asarray(answer(metric, **given), dtype=np.float64)


def raised(metric: Any, error: type[Exception], message: str, **given: Any) -> str:
    """The error of this kind, with these words in its message, that a metric ends with; others are raised."""
    try:
        answer(metric, **given)
    except error as found:
        if message not in str(found):
            raise
        return f"raises {error.__name__}"
    return "does not raise"


def made(name: str, **settings: Any) -> Any:
    """A metric of Quantus by its class, without what its constructor prints."""
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        return getattr(quantus, name)(**settings)
