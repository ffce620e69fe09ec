"""Score families on torchvision's ResNet-50 and ViT-B/16 on a GPU: time over the floor of bare passes in the same precision.

    python -m benchmarks.gpu [--network resnet50] [--precision float32,tf32] [--seconds 3] [--only mprt,equivariance:IG] [--quantus]

The floor comes from benchmarks/gpu_floor.py, which does not import veracity: the passes that a score needs, forward and backward,
times the seconds per row of the fastest of three batch sizes. Everything else counts as ours: checks, masks, noise, copies,
comparisons and files. In TF32 an audit measures 16 samples once more in float32; a second ratio counts the bare passes of these in
the floor. The number of images is chosen so that the floor takes about `--seconds`. With `--quantus`, Quantus does the same work on
a few images in TF32, and the ratio of seconds per image is printed.
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
import warnings
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu_floor import LAYERS, network, set_precision
from benchmarks.timing import CONSOLE, quiet
from veracity import Audit
from veracity.core.explainers import Cost, Explainer
from veracity.core.scores import Score
from veracity.engine.memory import MEMORY
from veracity.engine.precision import CHECKED
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

RUNS, SUBSET, STEP, DRAWS, SIGMA = 100, 224, 1568, 10, 0.02
"""Subsets and entries per subset, entries per flip, draws of noise, and their strength, which TF32 resolves."""

SCORES: dict[str, Score] = {
    "faithfulness_correlation": FaithfulnessCorrelation(nr_runs=RUNS, subset_size=SUBSET),
    "pixel_flipping": PixelFlipping(features_in_step=STEP),
    "deletion": Deletion(),
    "relative_input_stability": RelativeInputStability(walk=MonteCarlo(draws=DRAWS), sigma=SIGMA),
    "max_sensitivity": MaxSensitivity(walk=MonteCarlo(draws=DRAWS)),
    "equivariance": Equivariance(),
    "fast_gef": FastGEF(sigma=0.05),
    "mprt": MPRT(walk=MonteCarlo(draws=1)),
}
"""Scores by name."""

MOST, WHOLE, PEER = 2048, 64, 8
"""The most images, the number of which larger numbers are multiples, and how many Quantus gets."""


def explainers(name: str) -> dict[str, Explainer]:
    """A gradient, 50 of them along a path, and one of a layer with maps, which a ViT does not have."""
    mapped: dict[str, Explainer] = {} if name.startswith("vit") else {"Grad-CAM": GradCam(layer=LAYERS[name])}
    return {"gradient": Gradient(), "IG": IntegratedGradients(steps=50), **mapped}


def floor_of(name: str, precision: str) -> dict[str, float]:
    """Seconds per row, measured by a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("gpu_floor.py")), name, precision]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    CONSOLE.print(found["seconds"], soft_wrap=True)
    best: dict[str, float] = found["best"]
    return best


def floor_seconds(cost: Cost, floor: dict[str, float], label: str) -> float:
    """The seconds of the passes: backward ones with their forward, the rest forward alone."""
    return cost.backward * floor["layer" if label == "Grad-CAM" else "backward"] + (cost.forward - cost.backward) * floor["forward"]


def timed(audit: Audit) -> tuple[float, int]:
    """The seconds of a run, and how many rows a call took."""
    MEMORY.forget()
    torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        audit.run(Path(folder) / "run", progress=False)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        return seconds, next(iter(json.loads(next((Path(folder) / "run" / "rows").glob("*.json")).read_text()).values()))


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


def peers() -> dict[str, Any]:
    """Quantus's metrics with the same amount of work."""
    quantus: Any = import_module("quantus")
    noise = {"perturb_func": quantus.functions.perturb_func.batch_gaussian_noise}
    noise["perturb_func_kwargs"] = {"perturb_mean": 0.0, "perturb_std": SIGMA}
    return {
        "faithfulness_correlation": quantus.FaithfulnessCorrelation(nr_runs=RUNS, subset_size=SUBSET),
        "pixel_flipping": quantus.PixelFlipping(features_in_step=STEP, return_auc_per_sample=False),
        "relative_input_stability": quantus.RelativeInputStability(nr_samples=DRAWS, **noise),
        "max_sensitivity": quantus.MaxSensitivity(nr_samples=DRAWS),
    }


def peer_seconds(metric: Any, model: nn.Module, x: Tensor, precision: str) -> float:
    """The seconds of a metric of Quantus on the same images, with Captum's gradient as it comes with Quantus."""
    quantus: Any = import_module("quantus")
    set_precision(precision)
    with torch.no_grad():
        targets = model(x.cuda()).argmax(1).cpu()
    settings = {"explain_func": quantus.explain, "explain_func_kwargs": {"method": "Gradient"}, "device": "cuda", "channel_first": True}
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        for images in (x[:2], x):  # the first call only warms up
            start = time.perf_counter()
            metric(model=model, x_batch=images.numpy().copy(), y_batch=targets[: len(images)].numpy(), batch_size=len(images), **settings)
            torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    """Print a line for each precision, score and explainer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--explainers", default="gradient,IG,Grad-CAM")
    parser.add_argument("--quantus", action="store_true")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    precisions = given.precision.split(",")
    floors = {one: floor_of(given.network, one) for one in ("float32", *(one for one in precisions if one != "float32"))}
    model = network(given.network)
    x = torch.rand(MOST, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with quiet():  # compiles the kernels of random numbers, and finds memory
        drawn = [SCORES[name] for name in ("faithfulness_correlation", "relative_input_stability", "fast_gef")]
        timed(Audit(models=model, explainers=[Gradient()], scores=drawn, inputs=x[:64], controls=False, companions=False))
    for precision in precisions:
        for name, label in cases(given.only, [one for one in given.explainers.split(",") if one in explainers(given.network)]):
            CONSOLE.print(f"{given.network} {measure(model, x, name, label, precision, floors, given)}", soft_wrap=True)


def cases(only: str, labels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Scores with explainers: all, or those that `only` names as score or score:explainer.

    >>> list(cases("mprt:IG,deletion", ["gradient"]))
    [('deletion', 'gradient'), ('mprt', 'IG')]
    """
    asked = [one.split(":") for one in only.split(",") if one] or [[name] for name in SCORES]
    for name in SCORES:
        wanted = {label for case in asked if case[0] == name for label in (case[1:] or labels)}
        yield from ((name, label) for label in ("gradient", "IG", "Grad-CAM") if label in wanted)


def measure(
    model: nn.Module, x: Tensor, name: str, label: str, precision: str, floors: dict[str, dict[str, float]], given: argparse.Namespace
) -> str:
    """One line: the passes of a score, the floor, our time, and Quantus's if it is asked for."""
    floor, strict = floors[precision], floors["float32"]
    about: dict[str, Any] = {"models": model, "explainers": {label: explainers(given.network)[label]}, "scores": [SCORES[name]]}
    about |= {"symmetry": Dihedral() if name == "equivariance" else None, "precision": precision, "controls": False, "companions": False}
    with quiet():
        few = cost_of(Audit(**about, inputs=x[:4]).prepare(batch=4), 4)
        each = floor_seconds(few, floor, label) / 4
        images = min(MOST, max(2, round(given.seconds / each)))
        images = images if images < WHOLE else round(images / WHOLE) * WHOLE
        if given.profile:
            profiled(Audit(**about, inputs=x[:images]))
        seconds, rows = timed(Audit(**about, inputs=x[:images]))
    bare = each * images
    passes = f"rows {few.forward * images // 4:7} / {few.backward * images // 4:7} at once {rows:5}"
    times = f"floor {bare:6.2f} s ours {seconds:6.2f} s ratio {seconds / bare:5.2f}"
    line = f"{precision} {name:26} {label:9} images {images:4} {passes} {times}"
    if precision != "float32":
        check = floor_seconds(few, strict, label) / 4 * min(CHECKED, images)
        line += f" with the check {seconds / (bare + check):5.2f}"
    metric = peers().get(name) if given.quantus and label == "gradient" and precision == "tf32" else None
    if metric is not None:
        theirs = peer_seconds(metric, model, x[:PEER], precision) / PEER
        line += f" Quantus {theirs * 1e3:8.1f} ms per image, {theirs * images / seconds:6.1f} times as long"
    return line


def cost_of(prepared: AuditPlan, images: int) -> Cost:
    """The passes of an audit: of its jobs, and one per image for the class that is explained."""
    return sum((job.cost for job in prepared.jobs), Cost(forward=images))


if __name__ == "__main__":
    main()
