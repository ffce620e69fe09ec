"""What a dry run says against what the run takes, on three audits: python -m benchmarks.forecast

Both are measured in seconds of the processor, which do not depend on what else the machine does: start it with OMP_NUM_THREADS=1. The
audits are masks and noise on digits, the fidelity of digits with its calibration, and a dataset of 40,000 samples that is read by blocks.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor, nn

from benchmarks.million import audit as waves
from benchmarks.timing import CONSOLE, empty_table, quiet
from veracity import Audit
from veracity.demo import digits


def network() -> nn.Module:
    """Two convolutions over digits of any size."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first, second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 10)).eval()


def audits() -> dict[str, Audit]:
    """The three audits."""
    x, y = digits("test")
    small: Tensor = x[:96, :, ::2, ::2]
    masked = ["pixel_flipping", "max_sensitivity"]
    return {
        "masks and noise": Audit(
            models=network(), inputs=x[:128], targets=y[:128], explainers=["saliency", "integrated_gradients"], scores=masked
        ),
        "GEF with calibration": Audit(
            models=network(), inputs=small, targets=y[:96], explainers=["saliency"], scores=["fast_gef"], controls=False
        ),
        "40,000 samples by blocks": waves(40_000),
    }


def size_of(folder: Path) -> int:
    """The bytes of a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main() -> None:
    """Print the table."""
    table = empty_table("Dry runs", "audit", "said, s", "took, s", "ratio", "dry run, s", "said, MiB on disk", "took")
    with tempfile.TemporaryDirectory() as place, patch("time.perf_counter", time.process_time), quiet():
        for name, audit in audits().items():
            start = time.process_time()
            said = audit.forecast(progress=False)
            dry, start = time.process_time() - start, time.process_time()
            audit.run(Path(place) / name, progress=False)
            took, disk = time.process_time() - start, size_of(Path(place) / name)
            ratio, sizes = said.seconds / took, (f"{said.disk / 2**20:.2f}", f"{disk / 2**20:.2f}")
            table.add_row(name, f"{said.seconds:.1f}", f"{took:.1f}", f"{ratio:.2f}", f"{dry:.1f}", *sizes)
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
