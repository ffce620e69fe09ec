from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable
from multiprocessing import forkserver
from types import SimpleNamespace
from typing import Any

import pytest
from torch import Tensor, nn

from every_test import own_state, same_every_time
from small import series_inputs, small_net
from veracity import Audit
from veracity.engine.executors import local
from veracity.perturb import CyclicShift

__all__ = ["own_state", "same_every_time"]

collect_ignore_glob = ["conftest.py", "*/conftest.py"]
"""They hold no doctests, and modules of the same name get in each other's way."""


gc.disable()  # while modules are imported and tests are collected, which leaves little garbage and takes a tenth longer with it


def pytest_collection_finish() -> None:
    """Keep what thousands of tests and their modules hold out of every later garbage collection, each of which takes a second over it."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def x() -> Tensor:
    return series_inputs(6)


@pytest.fixture
def net() -> nn.Module:
    return small_net()


@pytest.fixture
def make_audit(x: Tensor, net: nn.Module) -> Callable[..., Audit]:
    def make(**settings: Any) -> Audit:
        given = {"models": {"net": net}, "inputs": x, "explainers": ["gradient", "smooth_grad"], "symmetry": CyclicShift(axes=(-1,))}
        return Audit(**{**given, **settings})

    return make


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes forked from a clean one that has imported everything, so that not each imports it anew."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["veracity.audit"])
    forkserver.ensure_running()  # with the error stream of this process, not that of its first worker
    monkeypatch.setattr(local, "multiprocessing", SimpleNamespace(get_context=lambda method: context))
