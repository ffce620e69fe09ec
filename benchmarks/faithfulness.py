"""Faithfulness scores of a LeNet: time over their floor, and against Quantus on the same work where it is installed.

The floor is the model passes that a score cannot do without, as bare batched calls: every image once for the class that is
explained, explanations forward and backward, outputs forward. Drawing noise and masks, ranking and writing results are no part
of it. Each time is the shortest of a few runs taken in turns; with one thread on a CPU it is the process's own time, so that
what else the machine does counts for nobody.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.timing import CONSOLE, bare_passes, empty_table, in_turns, ours, quantus_metric
from veracity import Audit
from veracity.core.explainers import Cost
from veracity.core.scores import Score
from veracity.core.spaces import WeightSpace
from veracity.engine.plan import Job
from veracity.scores import MaxSensitivity
from veracity.scores.faithfulness.correlation import FaithfulnessCorrelation, Infidelity
from veracity.scores.faithfulness.curves import PixelFlipping, RegionPerturbation
from veracity.scores.gef import GEF, FastGEF
from veracity.scores.randomisation import MPRT
from veracity.scores.sensitivity import AvgSensitivity, LocalLipschitz, RelativeInputStability, RelativeOutputStability
from veracity.trainers.training import initialised
from veracity.walk import MonteCarlo
from veracity_papers.zoo.lenet import lenet

NOISE = {"perturb_mean": 0.0, "perturb_std": 0.001}

RUNS, STEP, DRAWS = 200, 7, 50
CASES: tuple[tuple[Score, int], ...] = (
    (FaithfulnessCorrelation(nr_runs=RUNS, subset_size=28), 64),
    (PixelFlipping(features_in_step=STEP), 64),
    (RelativeInputStability(walk=MonteCarlo(draws=DRAWS)), 192),
    (MaxSensitivity(walk=MonteCarlo(draws=DRAWS), radius=0.2, relative=True), 192),
    (MPRT(walk=MonteCarlo(draws=1)), 1920),
    (FastGEF(sigma=0.5), 128),
    (GEF(sigma=0.5), 32),
)
"""Scores, and on how many images."""

TEN: tuple[Score, ...] = (
    FaithfulnessCorrelation(nr_runs=20, subset_size=28),
    PixelFlipping(features_in_step=28),
    RegionPerturbation(patch_size=7),
    Infidelity(patch_size=7),
    RelativeInputStability(),
    RelativeOutputStability(),
    LocalLipschitz(),
    MaxSensitivity(),
    AvgSensitivity(),
    MPRT(walk=MonteCarlo(draws=1)),
)


def images(count: int) -> Tensor:
    """Images (count, 1, 28, 28) of noise, which take a network as long as any."""
    return torch.rand(count, 1, 28, 28, generator=torch.Generator().manual_seed(0))


def audit_of(
    model: nn.Module, x: Tensor, scores: tuple[Score, ...], companions: bool, explainers: tuple[str, ...] = ("gradient",)
) -> Audit:
    """These scores, alone or with the assumptions that come along."""
    return Audit(models=model, inputs=x, explainers=list(explainers), scores=list(scores), controls=False, companions=companions)


def peer_of(quantus: Any, score: Score) -> Any:
    """Quantus's metric of the same name with the same amount of work; None if it has none."""
    noise = {"perturb_func": quantus.functions.perturb_func.batch_gaussian_noise, "perturb_func_kwargs": NOISE}
    metrics: dict[str, Callable[[], Any]] = {
        "faithfulness_correlation": lambda: quantus.FaithfulnessCorrelation(nr_runs=RUNS, subset_size=28),
        "pixel_flipping": lambda: quantus.PixelFlipping(features_in_step=STEP, return_auc_per_sample=True),
        "relative_input_stability": lambda: quantus.RelativeInputStability(nr_samples=DRAWS, **noise),
        "max_sensitivity": lambda: quantus.MaxSensitivity(nr_samples=DRAWS),
        "mprt": lambda: quantus.MPRT(),
    }
    made = metrics.get(score.name)
    return made and made()


def on_copies(job: Job) -> bool:
    """Whether the job's passes go through copies of the model, of which none takes more rows than there are samples."""
    return any(isinstance(cell.request.space, WeightSpace) for cell in job.cells)


def measured(quantus: Any, model: nn.Module, score: Score, count: int) -> tuple[Cost, dict[str, float]]:
    """The passes of one score, and the seconds of its floor, of our audit and of Quantus."""
    x = images(count)
    audit = audit_of(model, x, (score,), companions=False)
    prepared = audit.prepare()
    cost = sum((job.cost for job in prepared.jobs), Cost(forward=count))
    rows = min(prepared.budgets["model"].rows, *(len(job.samples) if on_copies(job) else sys.maxsize for job in prepared.jobs))
    batch = x[torch.arange(rows) % len(x)]
    works: dict[str, Callable[[], Any]] = {
        "floor": partial(bare_passes, model, batch, model(batch).argmax(1)[:, None], cost, rows),
        "ours": partial(ours, audit),
    }
    metric = None if quantus is None else peer_of(quantus, score)
    if metric is not None:
        works["quantus"] = partial(quantus_metric, quantus, metric, model, x)
    return cost, in_turns(works, x.device)


def together(model: nn.Module) -> tuple[float, float]:
    """Seconds of ten scores of two explainers in one audit, and of ten audits with one each, with all that comes along."""
    x, explainers = images(16), ("gradient", "integrated_gradients")
    works = {
        "one": partial(ours, audit_of(model, x, TEN, True, explainers)),
        **{score.name: partial(ours, audit_of(model, x, (score,), True, explainers)) for score in TEN},
    }
    found = in_turns(works, x.device, repeats=1)
    one = found.pop("one")
    return one, sum(found.values())


def main() -> None:
    """Print the table, and the ten scores together and alone."""
    model = initialised(lenet, seed=0).eval().requires_grad_(False)
    quantus: Any = import_module("quantus") if find_spec("quantus") else None
    peer = f"Quantus {quantus.__version__}" if quantus else "Quantus (not installed: make peers)"
    table = empty_table(
        f"Faithfulness of gradients of a LeNet, {torch.get_num_threads()} threads; theirs: {peer}",
        "score",
        "images",
        "forward",
        "backward",
        "floor s",
        "ours s",
        "ratio",
        "theirs s",
        "their ratio",
    )
    for score, count in CASES:
        cost, seconds = measured(quantus, model, score, count)
        floor, their = seconds["floor"], seconds.get("quantus")
        beside = ("", "") if their is None else (f"{their:.3f}", f"{their / floor:.2f}")
        counts = (f"{count:,}", f"{cost.forward:,}", f"{cost.backward:,}", f"{floor:.3f}", f"{seconds['ours']:.3f}")
        table.add_row(score.name, *counts, f"{seconds['ours'] / floor:.3f}", *beside)
    CONSOLE.print(table)
    one, alone = together(model)
    CONSOLE.print(f"Ten scores in one audit: {one:.2f} s; in ten audits: {alone:.2f} s, {alone / one:.2f} times as long.")


if __name__ == "__main__":
    main()
