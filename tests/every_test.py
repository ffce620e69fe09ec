"""Fixtures of all tests, those of the papers included."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks of run folders are kept in a folder of the test run, never in the user's own."""
    monkeypatch.setenv("VERACITY_STATE", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture(autouse=True)
def same_every_time() -> None:
    """One thread, and networks with the same random weights in every run of a test."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
