"""The limit on what torch may take of a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from veracity.engine import memory
from veracity.engine.memory import gpu_limit, gpus_of

GPU = torch.device("cuda:0")


class FakeGpu:
    """A GPU of 1,000 bytes, of which torch holds 200."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fraction = 0.9
        monkeypatch.setattr(memory, "gpus_of", lambda _models: [GPU])
        monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda _gpu: self.fraction)
        monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", self.set)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _gpu: self)
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _gpu: 200)
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)

    total_memory = 1000

    def set(self, fraction: float, _gpu: Any) -> None:
        self.fraction = fraction


def test_a_limit_is_set_and_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu(monkeypatch)
    with gpu_limit([], 300):
        assert gpu.fraction == 0.5  # (200 held + 300) of 1,000 bytes
    assert gpu.fraction == 0.9
    with gpu_limit([], 5000):
        assert gpu.fraction == 1.0


def test_a_limit_is_taken_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu(monkeypatch)
    with pytest.raises(ZeroDivisionError), gpu_limit([], 300):
        _ = 1 / 0
    assert gpu.fraction == 0.9


@pytest.mark.parametrize("given", [None, "2 GB"])
def test_no_limit_without_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch, given: Any) -> None:
    gpu = FakeGpu(monkeypatch)
    with gpu_limit([], given):
        assert gpu.fraction == 0.9


def test_models_on_a_cpu_have_no_gpus() -> None:
    assert gpus_of([nn.Linear(2, 2), print]) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_convolutions_stay_within_the_limit() -> None:
    model = nn.Sequential(nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.Conv2d(64, 64, 3, padding=1)).eval().cuda()
    x, limit = torch.rand(2, 3, 448, 448, device="cuda"), 512 << 20
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with torch.no_grad(), gpu_limit([model], limit):
        model(x)
    assert torch.cuda.max_memory_allocated() - before <= limit
