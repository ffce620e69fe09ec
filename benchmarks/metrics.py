"""Further established metrics: time over the floor of bare batched passes, on a CPU or a GPU, beside Quantus if it is installed.

    python -m benchmarks.metrics [cpu|cuda] [--quantus] [--only road,irof] [--seconds 2] [--profile]

On the CPU a LeNet with images of 28 x 28, on the GPU torchvision's ResNet-50 with images of 224 x 224. The floor is the model passes
that a score cannot do without, as bare batched calls: every image once for the class that is explained, explanations forward and
backward, perturbed outputs forward. The pass for the class also gives the unperturbed output, which is not counted again. The floor's
calls have as many rows as the audit allows; the audit's own first pass on a CPU has calls of 64. Everything else counts as ours: masks,
noise, ranks, statistics and files. Two parts have no pass to be compared with and are timed apart: the imputation of ROAD, and the
superpixels of IROF, which scikit-image makes on the CPU; the ratio is of the time without them. With one thread on a CPU
(OMP_NUM_THREADS=1) all times are the process's own. The number of images is chosen
so that the floor takes about `--seconds`. Quantus does the same work on fewer images, and its time per image is compared.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.gpu import floor_of, floor_seconds
from benchmarks.gpu_floor import network
from benchmarks.timing import CONSOLE, bare_passes, empty_table, in_turns, now, ours, quantus_metric, quiet, synchronise
from veracity import Audit
from veracity.core.explainers import Cost
from veracity.core.scores import Reads, Score, reads_before
from veracity.perturb import replaced
from veracity.scores import (
    AUC,
    IROF,
    PGI,
    PGU,
    ROAD,
    AttributionLocalisation,
    AverageDrop,
    AverageGain,
    AverageIncrease,
    Comprehensiveness,
    Consistency,
    Continuity,
    EffectiveComplexity,
    FaithfulnessEstimate,
    Focus,
    InputInvariance,
    Monotonicity,
    MonotonicityCorrelation,
    NonSensitivity,
    PointingGame,
    RationaleSufficiency,
    RelevanceMassAccuracy,
    RelevanceRankAccuracy,
    Selectivity,
    SensitivityN,
    TauLOO,
    TopKIntersection,
)
from veracity.trainers.training import initialised
from veracity.walk import MonteCarlo
from veracity_papers.zoo.lenet import lenet

MOST = {"cpu": 8192, "cuda": 2048}
"""The most images."""
PEER = 4
"""How many images Quantus gets."""
APART = {"road": "impute", "irof": "slic_segments"}
"""Functions of veracity.perturb.replaced that are timed apart."""


def scores(device: str) -> tuple[Score, ...]:
    """Every score with as many steps as fit the network: 28 x 28 entries on a CPU, 3 x 224 x 224 on a GPU."""
    cpu = device == "cpu"
    step, patch, few = (7, 4, 28) if cpu else (1568, 28, 5376)
    return (
        FaithfulnessEstimate(features_in_step=step),
        TauLOO(features_in_step=step),
        Monotonicity(features_in_step=step),
        MonotonicityCorrelation(features_in_step=few, nr_samples=5),
        NonSensitivity(features_in_step=few, nr_samples=5),
        EffectiveComplexity(nr_samples=5),
        Selectivity(patch_size=patch),
        SensitivityN(nr_runs=20),
        IROF(segments=50),
        ROAD(),
        Comprehensiveness(),
        RationaleSufficiency(),
        AverageDrop(),
        AverageIncrease(),
        AverageGain(),
        PGI(nr_samples=10),
        PGU(nr_samples=10),
        Continuity(),
        Consistency(walk=MonteCarlo(draws=20)),
        InputInvariance(),
        PointingGame(),
        TopKIntersection(),
        RelevanceRankAccuracy(),
        RelevanceMassAccuracy(),
        AttributionLocalisation(),
        AUC(),
        Focus(),
    )


def peer_of(quantus: Any, score: Any) -> Any:
    """Quantus's metric of the same name with the same amount of work; None if it has none."""
    step = getattr(score, "features_in_step", None)
    metrics: dict[str, Callable[[], Any]] = {
        "faithfulness_estimate": lambda: quantus.FaithfulnessEstimate(features_in_step=step),
        "monotonicity": lambda: quantus.Monotonicity(features_in_step=step),
        "monotonicity_correlation": lambda: quantus.MonotonicityCorrelation(features_in_step=step, nr_samples=5),
        "non_sensitivity": lambda: quantus.NonSensitivity(features_in_step=step),
        "selectivity": lambda: quantus.Selectivity(patch_size=score.patch_size),
        "irof": lambda: quantus.IROF(),
        "road": lambda: quantus.ROAD(percentages=list(score.percentages)),
        "continuity": lambda: quantus.Continuity(nr_steps=score.nr_steps),
        "input_invariance": lambda: quantus.InputInvariance(),
        "pointing_game": lambda: quantus.PointingGame(),
        "top_k_intersection": lambda: quantus.TopKIntersection(),
        "relevance_rank_accuracy": lambda: quantus.RelevanceRankAccuracy(),
        "relevance_mass_accuracy": lambda: quantus.RelevanceMassAccuracy(),
        "attribution_localisation": lambda: quantus.AttributionLocalisation(),
        "auc": lambda: quantus.AUC(),
    }
    made = metrics.get(score.name)
    return made and made()


@contextmanager
def timed_apart(name: str, device: torch.device) -> Iterator[list[float]]:
    """The seconds of every call of a function of `veracity.perturb.replaced`, which is put back afterwards."""
    function, spent = getattr(replaced, name), list[float]()

    def timed(*given: Any, **more: Any) -> Any:
        synchronise(device)
        start = now(device)
        found = function(*given, **more)
        synchronise(device)
        spent.append(now(device) - start)
        return found

    setattr(replaced, name, timed)
    try:
        yield spent
    finally:
        setattr(replaced, name, function)


def measured(model: nn.Module, x: Tensor, score: Score, seconds: float, rates: dict[str, float] | None) -> dict[str, float]:
    """Images, passes, and the seconds of the floor, of our audit, and of what is timed apart.

    `rates` are the seconds per row of bare passes on a GPU; on a CPU they are measured here, in turns with our run.
    """
    device, mask = next(model.parameters()).device, x.mean(dim=1) > 0.5
    truth = Reads.TRUTH in reads_before(score)

    def audit(count: int) -> Audit:
        given: dict[str, Any] = {"models": model, "inputs": x[:count], "explainers": ["gradient"], "scores": [score]}
        return Audit(**given, truth=mask[:count] if truth else None, controls=False, companions=False)

    def cost(prepared: Any, count: int) -> Cost:
        return sum((job.cost for job in prepared.jobs), Cost(forward=count))

    few = 32
    passes = cost(audit(few).prepare(batch=few), few)
    if rates is None:
        batch = x[:64]
        targets = model(batch).argmax(1)[:, None]
        each = in_turns({"floor": partial(bare_passes, model, batch, targets, passes, 64)}, device, repeats=1)["floor"] / few
    else:
        each = floor_seconds(passes, rates, "gradient") / few
    count = int(min(len(x), max(few, seconds / each)))
    if count > 64:
        count -= count % 64
    whole = audit(count)
    if rates is None:
        prepared = whole.prepare()
        total, rows = cost(prepared, count), prepared.budgets["model"].rows
        batch = x[torch.arange(rows) % len(x)]
        bare = partial(bare_passes, model, batch, model(batch).argmax(1)[:, None], total, rows)
        found = in_turns({"floor": bare, "ours": partial(ours, whole)}, device, repeats=2)
    else:
        total = cost(whole.prepare(), count)
        found = {"floor": floor_seconds(total, rates, "gradient"), **in_turns({"ours": partial(ours, whole)}, device, repeats=1)}
    apart = 0.0
    if score.name in APART:
        with timed_apart(APART[score.name], device) as spent:
            found["ours"] = in_turns({"ours": partial(ours, whole)}, device, repeats=1)["ours"]
        apart = sum(spent[len(spent) // 2 :])  # of the second run, as the whole
    return {"images": count, "forward": total.forward, "backward": total.backward, "apart": apart, **found}


def profiled(model: nn.Module, x: Tensor, score: Score) -> None:
    """Print where the time of a run goes."""
    truth = x.mean(dim=1) > 0.5 if Reads.TRUTH in reads_before(score) else None
    audit = Audit(models=model, inputs=x, explainers=["gradient"], scores=[score], truth=truth, controls=False, companions=False)
    ours(audit)
    stats = cProfile.Profile(time.process_time)
    stats.runcall(ours, audit)
    for order in ("tottime", "cumtime"):
        pstats.Stats(stats).sort_stats(order).print_stats(r"veracity|method|built-in", 30)


def main() -> None:
    """Print a table with one row per score."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metrics", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("device", nargs="?", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--quantus", action="store_true", help="measure Quantus beside, if it is installed")
    parser.add_argument("--only", default="", help="names of scores, with commas")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long the floor of a score takes, about")
    parser.add_argument("--profile", type=int, default=0, metavar="IMAGES", help="print where the time goes on so many images instead")
    given = parser.parse_args()
    cpu = given.device == "cpu"
    model = initialised(lenet, seed=0).eval().requires_grad_(False) if cpu else network("resnet50").requires_grad_(False)
    shape = (1, 28, 28) if cpu else (3, 224, 224)
    x = torch.rand(MOST[given.device], *shape, generator=torch.Generator().manual_seed(0))
    rates = None if cpu else floor_of("resnet50", "float32")
    quantus: Any = import_module("quantus") if given.quantus and find_spec("quantus") else None
    peer = f"; theirs: Quantus {quantus.__version__}" if quantus else ""
    columns = ("score", "images", "forward", "backward", "floor s", "ours s", "apart s", "ratio", "theirs")
    where = f"a LeNet, {torch.get_num_threads()} threads" if cpu else f"a ResNet-50 on {torch.cuda.get_device_name()}"
    table = empty_table(f"Metrics of gradients of {where}{peer}", *columns)
    asked = {name for name in given.only.split(",") if name}
    with quiet():
        for score in scores(given.device):
            if asked and score.name not in asked:
                continue
            if given.profile:
                profiled(model, x[: given.profile], score)
                continue
            one = measured(model, x, score, given.seconds, rates)
            metric, beside = None if quantus is None else peer_of(quantus, score), ""
            if metric is not None:
                try:
                    call = partial(quantus_metric, quantus, metric, model, x[:PEER], x[:PEER].mean(dim=1) > 0.5)
                    their = in_turns({"theirs": call}, next(model.parameters()).device, repeats=1)["theirs"] / PEER
                    beside = f"{their * one['images'] / one['ours']:.1f} x"
                except Exception as error:  # whatever Quantus raises is part of the answer
                    beside = type(error).__name__
            ratio = (one["ours"] - one["apart"]) / one["floor"]
            counts = (f"{int(one[key]):,}" for key in ("images", "forward", "backward"))
            apart = f"{one['apart']:.3f}" if one["apart"] else ""
            table.add_row(score.name, *counts, f"{one['floor']:.3f}", f"{one['ours']:.3f}", apart, f"{ratio:.2f}", beside)
            CONSOLE.print(f"{score.name}: {ratio:.2f}{f', theirs {beside}' if beside else ''}")
    if table.row_count:
        CONSOLE.print(table)


if __name__ == "__main__":
    main()
