"""Searches for misinterpretations: evaluations per second over their floor, python -m benchmarks.robustness [cuda]

An evaluation is one perturbed input, predicted, explained and compared. The floor is the bare batched calls that it cannot do
without, as many rows in each: one forward and backward pass on the largest logit for an explainer that sees the inputs alone
(Gradient x Input; Grad-CAM, whose own backward pass ends earlier, at its layer), else a forward pass for the class and the
explainer's own call. Random numbers, crossover and chains, moving inputs, comparing maps and writing results are no part of it.
The network is the robustness paper's LeNet, untrained where its weights are missing. On a GPU also the batch of Table 4: 1,000
evaluations beside the published seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.timing import CONSOLE, chunks, empty_table, in_turns, new_folder, quiet
from veracity import Audit
from veracity.core.errors import InputError
from veracity.core.explainers import Context, Explainer
from veracity.core.randomness import Draws
from veracity.core.walks import Search
from veracity.explain import DeepLift, GradCam, InputXGradient, IntegratedGradients
from veracity.results import Result
from veracity.scores.rare_events import LnPHat
from veracity.scores.robustness import SolHat
from veracity.trainers.training import initialised
from veracity.walk import Genetic, SimpleMonteCarlo, SubsetSimulation
from veracity_papers.zoo import lenet5, resnet

SEEDS = 10
NEVER = -1.0
"""No agreement of two maps lies below it, so that no search ends early."""

WALKS: dict[str, tuple[Search, Search]] = {
    "genetic": (Genetic(population=200, elites=20, generations=5), Genetic(population=20, generations=4, elites=2)),
    "subset_simulation": (
        SubsetSimulation(population=200, steps=4, floor=-4.5),
        SubsetSimulation(population=50, steps=1, floor=-4.5),
    ),
}
"""Searches for explainers of one pass, and for those of several: about 1,000 and 100 evaluations a seed."""

TABLE4 = {
    "LeNet": {"gradient x input": 0.0202, "integrated gradients": 0.0512, "grad-cam": 0.0342, "deep-lift": 0.0382},
    "ResNet20": {"gradient x input": 0.0909, "integrated gradients": 0.3329, "grad-cam": 0.1222, "deep-lift": 0.1307},
}
"""Seconds for N = 1000 interpretation discrepancies on an A100, as published."""

BATCH, BATCHES = 1000, 10


def explainers(layer: str) -> dict[str, Explainer]:
    """The four of the paper."""
    return {
        "gradient x input": InputXGradient(),
        "integrated gradients": IntegratedGradients(steps=20),
        "grad-cam": GradCam(layer=layer),
        "deep-lift": DeepLift(),
    }


def subject(device: torch.device) -> tuple[str, nn.Module, Tensor]:
    """The authors' LeNet and digits that it classifies correctly; without files, an untrained one and noise."""
    try:
        name, model, (x, y) = "the authors' LeNet", lenet5.pretrained(), lenet5.digits("test")
        right = model(x[:100]).argmax(1) == y[:100]
        x = x[:100][right][:SEEDS]
    except InputError:
        name, model = "an untrained LeNet", initialised(lenet5.lenet5, seed=0)
        x = torch.rand(SEEDS, 1, 32, 32, generator=torch.Generator().manual_seed(0)) * 2.0 - 1.0
    return name, model.eval().requires_grad_(False).to(device), x.to(device)


def searched(model: nn.Module, x: Tensor, explainer: Explainer, score: SolHat | LnPHat) -> Audit:
    """One search of one explainer and nothing else."""
    return Audit(models=model, inputs=x, explainers=[explainer], scores=[score], controls=False, companions=False)


def ours(audit: Audit) -> int:
    """A run into a new folder; its evaluations."""
    with quiet():
        found: Result = audit.run(new_folder(), progress=False)
        return int(found.table()["evaluations"].sum())


def bare(explainer: Explainer, model: nn.Module, x: Tensor, count: int, rows: int) -> None:
    """The calls alone: `count` evaluations, `rows` model rows at a time."""
    cost = explainer.cost(x.shape[1:])
    each = max(1, rows // cost.forward)
    batch = x[torch.arange(each, device=x.device) % len(x)]
    for size in chunks(count, each):
        some = batch[:size]
        if explainer.local:
            leaf = some.detach().requires_grad_()
            torch.autograd.grad(model(leaf).amax(1).sum(), leaf)
            continue
        with torch.no_grad():
            targets = model(some).argmax(1)
        explainer.explain(model, some, targets, Context(Draws.of(0, torch.arange(size)), rows))


def measured(model: nn.Module, x: Tensor, explainer: Explainer, walk: str) -> tuple[int, dict[str, float]]:
    """The evaluations of one search, and the seconds that it and its floor take."""
    search = WALKS[walk][explainer.cost(x.shape[1:]).forward > 1]
    kind: Callable[..., SolHat | LnPHat] = SolHat if isinstance(search, Genetic) else LnPHat
    audit = searched(model, x, explainer, kind(walk=search, radius=lenet5.RADIUS, range=lenet5.RANGE, threshold=NEVER))
    with quiet():
        rows = audit.prepare().budgets["model"].rows
    count = ours(audit)
    works: Mapping[str, Callable[[], Any]] = {"floor": partial(bare, explainer, model, x, count, rows), "ours": partial(ours, audit)}
    return count, in_turns(works, x.device)


def a_batch(model: nn.Module, x: Tensor, explainer: Explainer, radius: float, bounds: tuple[float, float]) -> float:
    """Seconds for 1,000 evaluations around one seed, averaged over ten batches: what eleven take beyond one."""

    def work(batches: int) -> Audit:
        walk = SimpleMonteCarlo(draws=BATCH * batches, population=BATCH)
        return searched(model, x[:1], explainer, LnPHat(walk=walk, radius=radius, range=bounds))

    seconds = in_turns({"one": partial(ours, work(1)), "more": partial(ours, work(1 + BATCHES))}, x.device)
    return (seconds["more"] - seconds["one"]) / BATCHES


def overhead(name: str, model: nn.Module, x: Tensor) -> None:
    """Print both searches over their floor."""
    where = torch.cuda.get_device_name() if x.is_cuda else f"{torch.get_num_threads()} threads"
    table = empty_table(
        f"Searches around {len(x)} digits on {name}, {where}",
        "search",
        "explainer",
        "evaluations",
        "per second",
        "ours s",
        "floor s",
        "ratio",
        left=2,
    )
    for walk in WALKS:
        for label, explainer in explainers(lenet5.LAYER).items():
            count, seconds = measured(model, x, explainer, walk)
            one, floor = seconds["ours"], seconds["floor"]
            table.add_row(walk, label, f"{count:,}", f"{count / one:,.0f}", f"{one:.3f}", f"{floor:.3f}", f"{one / floor:.3f}")
    CONSOLE.print(table)


def table_four(device: torch.device) -> None:
    """Print the batch of Table 4; ResNet20 without its weights takes as long."""
    table = empty_table(
        f"Seconds for {BATCH:,} evaluations, {torch.cuda.get_device_name()}; published: A100",
        "network",
        "explainer",
        "ours s",
        "published s",
        left=2,
    )
    _, net, digits = subject(device)
    deep = initialised(resnet.resnet, seed=0).eval().requires_grad_(False).to(device)
    photos = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0)).to(device)
    cases = {
        "LeNet": (net, digits, lenet5.LAYER, lenet5.RADIUS, lenet5.RANGE),
        "ResNet20": (deep, photos, resnet.LAYER, resnet.RADIUS, (0.0, 1.0)),
    }
    for network, (model, x, layer, radius, bounds) in cases.items():
        for label, explainer in explainers(layer).items():
            table.add_row(network, label, f"{a_batch(model, x, explainer, radius, bounds):.4f}", f"{TABLE4[network][label]:.4f}")
    CONSOLE.print(table)


def main(device: str = "cpu") -> None:
    """Print the tables."""
    where = torch.device(device)
    overhead(*subject(where))
    if where.type == "cuda":
        table_four(where)


if __name__ == "__main__":
    main(*sys.argv[1:2])
