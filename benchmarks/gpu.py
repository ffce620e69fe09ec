"""Score families on torchvision's ResNet-50 and ViT-B/16 on a GPU: time over the floor of bare passes in the same precision.

    python -m benchmarks.gpu [--network resnet50] [--precision float32] [--images 64] [--only mprt]

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

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu_floor import network
from benchmarks.timing import CONSOLE, quiet
from veracity import Audit
from veracity.core.explainers import Cost, Explainer
from veracity.core.scores import Score
from veracity.engine.memory import MEMORY
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

SCORES: dict[str, tuple[Score, int]] = {
    "faithfulness_correlation": (FaithfulnessCorrelation(nr_runs=100, subset_size=224), 1),
    "pixel_flipping": (PixelFlipping(features_in_step=1568), 1),
    "deletion": (Deletion(), 1),
    "relative_input_stability": (RelativeInputStability(walk=MonteCarlo(draws=10)), 1),
    "max_sensitivity": (MaxSensitivity(walk=MonteCarlo(draws=10)), 1),
    "equivariance": (Equivariance(), 1),
    "fast_gef": (FastGEF(sigma=0.05), 1),
    "mprt": (MPRT(walk=MonteCarlo(draws=1)), 4),
}
"""Scores by name, and by how much their number of images is divided."""


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
    pstats.Stats(stats).sort_stats("tottime").print_stats(22)


def main() -> None:
    """Print a line for each score and explainer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--only", default="")
    parser.add_argument("--explainers", default="gradient,IG,Grad-CAM")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    model, floor = network(given.network), floor_of(given.network, given.precision)
    x = torch.rand(given.images, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    for name, (score, part) in SCORES.items():
        if given.only and name not in given.only.split(","):
            continue
        for label, explainer in explainers(given.network).items():
            if label not in given.explainers.split(","):
                continue
            images = max(4, x.shape[0] // part)
            audit = Audit(
                models=model,
                inputs=x[:images],
                explainers={label: explainer},
                scores=[score],
                symmetry=Dihedral() if name == "equivariance" else None,
                controls=False,
                companions=False,
            )
            with quiet():
                prepared = audit.prepare()
                cost = sum((job.cost for job in prepared.jobs), Cost(forward=images))
                if given.profile:
                    profiled(audit)
                seconds = timed(audit)
            bare = floor_seconds(cost, floor)
            line = f"{given.network} {given.precision} {name:26} {label:9} images {images:4} rows {cost.forward:7} / {cost.backward:7}"
            rows = next(iter(prepared.budgets.values())).rows
            CONSOLE.print(f"{line} at once {rows:5} floor {bare:7.2f} s ours {seconds:7.2f} s ratio {seconds / bare:5.2f}", soft_wrap=True)


if __name__ == "__main__":
    main()
