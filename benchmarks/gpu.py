"""Score families on torchvision's ResNet-50 and ViT-B/16 on a GPU: time over the floor of bare passes in the same precision.

    python -m benchmarks.gpu [--network resnet50] [--precision float32] [--seconds 4] [--only mprt]

The floor comes from benchmarks/gpu_floor.py, which does not import veracity: the passes that a score needs, forward and backward,
times the seconds per row of the fastest of three batch sizes. Everything else (masks, noise, copies, comparisons, files) counts as ours.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu_floor import network
from benchmarks.timing import CONSOLE, quiet
from veracity import Audit
from veracity.core.explainers import Cost, Explainer
from veracity.core.scores import Score
from veracity.engine.memory import MEMORY
from veracity.engine.prepare import AuditPlan
from veracity.explain import GradCam, Gradient, IntegratedGradients
from veracity.perturb import Dihedral
from veracity.scores import (
    MPRT,
    Deletion,
    Equivariance,
    FaithfulnessCorrelation,
    FastGEF,
    MaxSensitivity,
    PixelFlipping,
    RelativeInputStability,
)
from veracity.walk import MonteCarlo

LAYERS = {"resnet50": "layer4", "vit_b_16": "encoder.layers.encoder_layer_11.ln_1"}

SCORES: dict[str, Score] = {
    "faithfulness_correlation": FaithfulnessCorrelation(nr_runs=100, subset_size=224),
    "pixel_flipping": PixelFlipping(features_in_step=1568),
    "deletion": Deletion(),
    "relative_input_stability": RelativeInputStability(walk=MonteCarlo(draws=10)),
    "max_sensitivity": MaxSensitivity(walk=MonteCarlo(draws=10)),
    "equivariance": Equivariance(),
    "fast_gef": FastGEF(sigma=0.05),
    "mprt": MPRT(walk=MonteCarlo(draws=1)),
}
"""Scores by name."""

LEAST, MOST = 32, 1024
"""The fewest and the most images."""


def explainers(name: str) -> dict[str, Explainer]:
    """A gradient, 50 of them along a path, and one of a layer."""
    return {"gradient": Gradient(), "IG": IntegratedGradients(steps=50), "Grad-CAM": GradCam(layer=LAYERS[name])}


def floor_of(name: str, precision: str) -> dict[str, float]:
    """Seconds per row, measured by a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("gpu_floor.py")), name, precision]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    CONSOLE.print(found)
    best: dict[str, float] = found["best"]
    return best


def floor_seconds(cost: Cost, floor: dict[str, float]) -> float:
    """The seconds of the passes: backward ones with their forward, the rest forward alone."""
    return cost.backward * floor["backward"] + (cost.forward - cost.backward) * floor["forward"]


def timed(audit: Audit) -> float:
    """The seconds of a run into a folder that nobody keeps."""
    MEMORY.forget()
    torch.cuda.synchronize()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        audit.run(Path(folder) / "run", progress=False)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def profiled(audit: Audit) -> None:
    """Print where the time of a run goes, on the GPU and in Python."""
    stats = cProfile.Profile()
    with profile(activities=[ProfilerActivity.CUDA]) as kernels:
        stats.enable()
        timed(audit)
        stats.disable()
    print(kernels.key_averages().table(sort_by="cuda_time_total", row_limit=22, max_name_column_width=70))
    for order in ("tottime", "cumtime"):
        pstats.Stats(stats).sort_stats(order).print_stats(r"veracity|method|built-in", 40)


def main() -> None:
    """Print a line for each score and explainer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--explainers", default="gradient,IG,Grad-CAM")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    model, floor = network(given.network), floor_of(given.network, given.precision)
    x = torch.rand(MOST, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    for name, score in SCORES.items():
        for label, explainer in explainers(given.network).items():
            if (given.only and name not in given.only.split(",")) or label not in given.explainers.split(","):
                continue
            about: dict[str, Any] = {"models": model, "explainers": {label: explainer}, "scores": [score], "precision": given.precision}
            about |= {"symmetry": Dihedral() if name == "equivariance" else None, "controls": False, "companions": False}
            with quiet():
                each = floor_seconds(cost_of(Audit(**about, inputs=x[:4]).prepare(), 4), floor) / 4
                images = min(MOST, max(LEAST, round(given.seconds / each / 64) * 64))
                audit = Audit(**about, inputs=x[:images])
                if given.profile:
                    profiled(audit)
                seconds = timed(audit)
                prepared = audit.prepare()
            cost = cost_of(prepared, images)
            bare, rows = floor_seconds(cost, floor), next(iter(prepared.budgets.values())).rows
            line = f"{given.network} {given.precision} {name:26} {label:9} images {images:4} rows {cost.forward:7} / {cost.backward:7}"
            CONSOLE.print(f"{line} at once {rows:5} floor {bare:6.2f} s ours {seconds:6.2f} s ratio {seconds / bare:5.2f}", soft_wrap=True)


def cost_of(prepared: AuditPlan, images: int) -> Cost:
    """The passes of an audit: of its jobs, and one per image for the class that is explained."""
    return sum((job.cost for job in prepared.jobs), Cost(forward=images))


if __name__ == "__main__":
    main()
