"""What a dry run says, against what the run takes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from small import series_inputs, small_net
from veracity import Audit
from veracity.engine.memory import ACTIVATIONS, EXPLAINED, forget_outputs
from veracity.explain import SmoothGrad, TopK


def slow(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Five milliseconds per input."""
    time.sleep(0.005 * len(inputs))
    return inputs


def test_seconds_and_disk_are_measured(tmp_path: Path) -> None:
    audit = Audit(models=small_net(), inputs=series_inputs(400), explainers=[slow], scores=["sparseness"], controls=False, companions=False)
    said = audit.forecast(progress=False)
    start = time.perf_counter()
    audit.run(tmp_path / "run", progress=False)
    took = time.perf_counter() - start
    assert 1.0 < said.seconds < 3 * took  # sleep takes 2 s, and the machine may be busy
    assert took < 3 * said.seconds
    written = sum(file.stat().st_size for file in (tmp_path / "run").rglob("*") if file.is_file())
    assert said.disk == pytest.approx(written, rel=0.4)
    assert said.memory > 1 << 20


class Many(Dataset[Any]):
    """Many samples, which count what is read."""

    def __init__(self) -> None:
        self.reads = 0

    def __len__(self) -> int:
        return 40_000

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        self.reads += 1
        return torch.full((1, 12), number / 40_000), number % 3


@pytest.mark.filterwarnings("ignore:.*taken for the labels")
def test_of_many_samples_the_first_are_read() -> None:
    data = Many()
    audit = Audit(models=small_net(), inputs=data, explainers=["saliency"], scores=["sparseness"], controls=False, companions=False)
    said = audit.forecast(progress=False)
    assert data.reads < 9400
    assert (said.forward, said.backward) == (40_000, 40_000)
    assert said.cells == 79  # blocks of 512


def test_nothing_is_kept_after_a_forecast() -> None:
    forget_outputs()
    source = SmoothGrad(draws=2)
    explainers = {"smooth": source, "largest": TopK(explainer=source, k=2)}
    audit = Audit(models=small_net(), inputs=series_inputs(8), explainers=explainers, scores=["sparseness"], controls=False)
    audit.forecast(progress=False)
    assert (len(ACTIVATIONS.kept), len(EXPLAINED.kept)) == (0, 0)
