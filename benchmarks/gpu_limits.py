"""Limits of audits on a GPU: memory against its budget, a co-tenant, growing data, TF32, and networks that are bound by launches.

    python -m benchmarks.gpu_limits [memory] [tenant] [scale] [precision] [small]

Networks have random weights, which take as long and as much memory as any others. `--device cpu` tries the script with small networks.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.gpu import SCORES
from benchmarks.gpu_floor import network
from benchmarks.timing import CONSOLE, quiet, synchronise
from veracity import Audit
from veracity.core.explainers import Cost
from veracity.core.inputs import Inputs, Signals, TensorInputs
from veracity.core.models import evaluating
from veracity.core.scores import Score
from veracity.engine.memory import MEMORY
from veracity.engine.precision import CHECKED
from veracity.engine.store import RunFolder
from veracity.explain import Gradient, IntegratedGradients
from veracity.inputs import TextInputs
from veracity.perturb import Dihedral
from veracity.scores import MPRT, FaithfulnessCorrelation, FastGEF, MaxSensitivity, RelativeInputStability
from veracity.walk import MonteCarlo
from veracity_papers.zoo.transformers import load_tokenizer, text_config

GIB = 1 << 30
TENANT = "import sys, torch; x = torch.empty(int(sys.argv[1]), dtype=torch.uint8, device='cuda'); print('ready', flush=True); input()"
"""Another program that takes this many bytes of the GPU until it reads a line."""


def images(count: int, side: int = 224) -> Tensor:
    """Images of noise."""
    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(0))


def audit_of(model: nn.Module, x: Any, *scores: Score, **settings: Any) -> Audit:
    """Scores of gradients alone."""
    about: dict[str, Any] = {"explainers": {"gradient": Gradient()}, "controls": False, "companions": False, **settings}
    return Audit(models=model, inputs=x, scores=list(scores), **about)


def timed(audit: Audit, folder: Path, **settings: Any) -> float:
    """The seconds of a run."""
    MEMORY.forget()
    start = time.perf_counter()
    with quiet():
        audit.run(folder, progress=False, **settings)
    return time.perf_counter() - start


def memory(model: nn.Module, sizes: tuple[int, ...] = (224, 448)) -> None:
    """The peak of allocated bytes, without the model's own, beside budgets."""
    for side in sizes:
        for budget in (2 * GIB, 8 * GIB, None):
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            before, allowed = torch.cuda.memory_allocated(), budget or torch.cuda.mem_get_info()[0] // 2
            with tempfile.TemporaryDirectory() as folder:
                seconds = timed(
                    audit_of(model, images(64, side), MaxSensitivity(walk=MonteCarlo(draws=10))), Path(folder) / "run", memory=budget
                )
            peak = torch.cuda.max_memory_allocated() - before
            CONSOLE.print(f"memory side {side} budget {allowed / GIB:5.1f} GiB peak {peak / GIB:5.1f} GiB in {seconds:.1f} s")


def tenant(model: nn.Module, spare: int = 6 * GIB) -> None:
    """A run whose rows per call were measured on an empty GPU goes on where another program has taken nearly all of its memory."""
    x, few, many = images(128), MaxSensitivity(walk=MonteCarlo(draws=1)), MaxSensitivity(walk=MonteCarlo(draws=10))
    with tempfile.TemporaryDirectory() as folder:
        timed(audit_of(model, x, few), Path(folder) / "shared")
        alone = timed(audit_of(model, x, many), Path(folder) / "alone")
        torch.cuda.empty_cache()
        taken = torch.cuda.mem_get_info()[0] - spare
        with subprocess.Popen(
            [sys.executable, "-c", TENANT, str(taken)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout is not None
            assert other.stdin is not None
            other.stdout.readline()
            free = torch.cuda.mem_get_info()[0]
            beside = timed(audit_of(model, x, many), Path(folder) / "shared")
            other.stdin.write("\n")
        found = [
            audit_of(model, x, many).run(Path(folder) / name, progress=False).samples("max_sensitivity") for name in ("alone", "shared")
        ]
    apart = float(np.abs(found[0]["value"].to_numpy() - found[1]["value"].to_numpy()).max())
    CONSOLE.print(
        f"tenant {taken / GIB:.1f} GiB taken, {free / GIB:.1f} GiB left: {beside:.1f} s, alone {alone:.1f} s, apart by {apart:.1e}"
    )


def scale(model: nn.Module, counts: tuple[int, ...] = (64, 512, 4096)) -> None:
    """Seconds per image as the data grow."""
    x = images(max(counts))
    for count in (min(counts), *counts):  # the first one only warms up
        with tempfile.TemporaryDirectory() as folder:
            seconds = timed(audit_of(model, x[:count], MaxSensitivity(walk=MonteCarlo(draws=3))), Path(folder) / "run")
        CONSOLE.print(f"scale {count:5} images {seconds:6.2f} s, {1e3 * seconds / count:6.2f} ms per image")


def precision(model: nn.Module, name: str) -> None:
    """What TF32 changes in every score: means over 16 images in both precisions, and the largest difference of one image."""
    audit = audit_of(model, images(CHECKED), *SCORES.values(), symmetry=Dihedral(), precision="tf32")
    with tempfile.TemporaryDirectory() as folder:
        seconds = timed(audit, Path(folder) / "run")
        for one in RunFolder(str(Path(folder) / "run")).manifest()["strict"]:
            found = f"tf32 {one['tf32']:9.4f} float32 {one['float32']:9.4f} largest difference {one['largest']:.1e}"
            CONSOLE.print(f"precision {name} {one['score']:26} {found}", soft_wrap=True)
    CONSOLE.print(f"precision {name} took {seconds:.1f} s")


def row_seconds(model: nn.Module, inputs: Inputs, sizes: tuple[int, ...]) -> dict[str, float]:
    """Seconds per row, forward alone and with a backward pass, of the fastest of some batch sizes."""
    device = next(model.parameters()).device
    best = {"forward": float("inf"), "backward": float("inf")}
    adapted = inputs.adapt(model)
    for rows in sizes:
        x = inputs.take(torch.arange(rows) % inputs.size()).to(device)

        def forward(x: Signals = x) -> None:
            with torch.no_grad():
                x.through(adapted)

        def backward(x: Signals = x) -> None:
            leaf = x.values.detach().clone().requires_grad_()
            found: Any = Signals(leaf, x.structure, x.present).through(adapted)
            torch.autograd.grad(getattr(found, "logits", found)[:, 0].sum(), leaf)

        for kind, call in (("forward", forward), ("backward", backward)):
            best[kind] = min(best[kind], repeated(call, device) / rows)
    return best


def repeated(call: Callable[[], None], device: torch.device) -> float:
    """Seconds per call, after a warm-up."""
    for _ in range(3):
        call()
    synchronise(device)
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < 0.3:
        call()
        synchronise(device)
        count += 1
    return (time.perf_counter() - start) / count


def small(device: torch.device, tiny: bool) -> None:
    """A text classifier as large as DistilBERT and an MLP of a table: time over bare passes of the fastest of three batch sizes."""
    torch.manual_seed(0)
    from transformers import DistilBertForSequenceClassification

    sizes: dict[str, int] = {"dim": 64, "hidden_dim": 128, "n_layers": 1, "n_heads": 2} if tiny else {}
    config = text_config("sst2", **{"dim": 768, "hidden_dim": 3072, "n_layers": 6, "n_heads": 12, **sizes})
    text = DistilBertForSequenceClassification(config).eval().to(device)
    tokenizer = load_tokenizer("sst2")
    known = sorted(word for word in tokenizer.get_vocab() if word.isalpha())
    chosen = torch.randint(len(known), (16 if tiny else 256, 20)).tolist()
    texts = TextInputs([" ".join(known[word] for word in words) for words in chosen], tokenizer, length=64, truncate=True)
    table = nn.Sequential(nn.Linear(14, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2)).eval().to(device)
    rows = TensorInputs(torch.randn(256 if tiny else 16384, 14))
    cases: list[tuple[str, Any, Inputs, Any, Score, tuple[int, ...]]] = [
        ("text", text, texts, IntegratedGradients(steps=20), FastGEF(sigma=0.05), (64, 256, 1024)),
        ("text", text, texts, Gradient(), FaithfulnessCorrelation(nr_runs=100, subset_size=4), (64, 256, 1024)),
        ("table", table, rows, Gradient(), FaithfulnessCorrelation(nr_runs=100, subset_size=4), (4096, 16384, 65536)),
        ("table", table, rows, Gradient(), RelativeInputStability(walk=MonteCarlo(draws=50)), (4096, 16384, 65536)),
        ("table", table, rows, Gradient(), FastGEF(sigma=0.05), (4096, 16384, 65536)),
        ("table", table, rows, Gradient(), MPRT(), (4096, 16384, 65536)),
    ]
    for name, model, inputs, explainer, score, batches in cases:
        settings: dict[str, Any] = {"explainers": {"e": explainer}, "controls": False, "companions": False}
        audit = Audit(models=model, inputs=inputs, scores=[score], **settings)
        with quiet():
            plan = audit.prepare()
        cost = sum((job.cost for job in plan.jobs), Cost(forward=inputs.size()))
        with evaluating(model):
            each = row_seconds(model, inputs, batches)
        floor = cost.backward * each["backward"] + (cost.forward - cost.backward) * each["forward"]
        with tempfile.TemporaryDirectory() as folder:
            timed(audit, Path(folder) / "first")
            seconds = timed(audit, Path(folder) / "run")
        passes = f"rows {cost.forward} / {cost.backward} at {1e6 * each['forward']:.2f} / {1e6 * each['backward']:.2f} us"
        found = f"floor {floor:.2f} s ours {seconds:.2f} s ratio {seconds / floor:.2f}"
        CONSOLE.print(f"small {name} {score.name} {passes} at once {next(iter(plan.budgets.values())).rows} {found}", soft_wrap=True)


def main() -> None:
    """Run the named parts, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["memory", "tenant", "scale", "precision", "small"])
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    tiny = given.device == "cpu"
    if "small" in given.parts:
        small(torch.device(given.device), tiny)
    if tiny or given.parts == ["small"]:
        return
    model = network("resnet50")
    for name, part in (("memory", memory), ("tenant", tenant), ("scale", scale)):
        if name in given.parts:
            part(model)
    if "precision" in given.parts:
        precision(model, "resnet50")
        precision(network("vit_b_16"), "vit_b_16")


if __name__ == "__main__":
    main()
