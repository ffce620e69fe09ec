from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from veracity.core.walks import within
from veracity.perturb.noise import GaussianNoise
from veracity.walk.sampling import rows_for


def test_an_ask_on_a_gpu_takes_a_part_of_the_memory_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: SimpleNamespace(total_memory=128 << 30))
    gpu, space = torch.device("cuda"), GaussianNoise(sigma=1.0).fit(torch.Size([3, 448, 448]))
    assert rows_for(space, gpu) == (128 << 30) // 512 // space.latents
    with within(2 << 30):
        assert rows_for(space, gpu) == (2 << 30) // 256 // space.latents
    assert rows_for(space) == 2**22 // space.latents
