"""Stability by cross-training: python -m benchmarks.stability [cuda]

Three tables. Spearman's correlation of 10,000 pairs of 784-dimensional maps, batched, beside SciPy called pair by pair: continuous
maps, and maps of which half the entries are tied. RISE with 1,000 masks over its floor, the same forward passes as bare batched
calls: drawing, interpolating and applying masks is no part of it. MeGe and ReCo of a cross-trained digit classifier over the
floor of the explanations that they cannot do without: every sample under every fold's model, once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from benchmarks.timing import CONSOLE, bare_passes, empty_table, in_turns, new_folder, quiet
from veracity import Audit
from veracity.core.explainers import Context, Cost, Explainer
from veracity.core.randomness import Draws
from veracity.core.training import CrossTrained
from veracity.demo import digits
from veracity.explain import InputXSaliency, IntegratedGradients, Rise, Saliency
from veracity.measure import spearman
from veracity.trainers.small_cnn import SmallCNN
from veracity.trainers.training import initialised
from veracity_papers.zoo import resnet
from veracity_papers.zoo.lenet import lenet

PAIRS, SIZE = 10_000, 784
LOOPED = 1_000
"""Pairs that SciPy's loop is timed on; its time grows with their number."""

ROWS = {"cpu": 1024, "cuda": 16_384}
"""Model rows at a time."""

FOLDS, SAMPLES = 5, 500


def maps(kind: str, device: torch.device) -> tuple[Tensor, Tensor]:
    """Pairs of maps that agree a little; half of the entries of the tied ones are zero."""
    generator = torch.Generator().manual_seed(0)
    shared, one, other = torch.randn(3, PAIRS, SIZE, generator=generator)
    found = shared + one, shared + other
    a, b = ((x.clamp(min=0.0) if kind == "half tied" else x).to(device) for x in found)
    return a, b


def looped(a: Tensor, b: Tensor) -> list[float]:
    """SciPy, pair by pair."""
    return [float(spearmanr(one, other).statistic) for one, other in zip(a.numpy(), b.numpy(), strict=True)]


def ranks(device: torch.device) -> None:
    """Print Spearman's correlation, batched and looped, and how far the two lie apart."""
    table = empty_table(
        f"Spearman's correlation of {PAIRS:,} pairs of {SIZE}-dimensional maps",
        "maps",
        "ours s",
        "SciPy's loop s",
        "ratio",
        "largest difference",
    )
    for kind in ("continuous", "half tied"):
        a, b = maps(kind, device)
        ours = in_turns({"ours": partial(spearman, a, b)}, device)["ours"]
        few = a[:LOOPED].cpu(), b[:LOOPED].cpu()
        theirs = looped(*few)
        loop = in_turns({"loop": partial(looped, *few)}, few[0].device, repeats=1)["loop"] * PAIRS / LOOPED
        apart = (spearman(a[:LOOPED], b[:LOOPED]).cpu() - torch.tensor(theirs, dtype=torch.float64)).abs().max()
        table.add_row(kind, f"{ours:.3f}", f"{loop:.2f}", f"{loop / ours:.1f}", f"{float(apart):.1e}")
    CONSOLE.print(table)
    CONSOLE.print(f"The loop was timed on {LOOPED:,} pairs.")


def networks() -> dict[str, tuple[nn.Module, tuple[int, ...], int]]:
    """Untrained networks, the shape of their inputs, and how many of these are explained."""
    return {
        "LeNet, 28 x 28": (initialised(lenet, seed=0), (1, 28, 28), 4),
        "ResNet20, 32 x 32": (initialised(resnet.resnet, seed=0), (3, 32, 32), 1),
    }


def over_floor(model: nn.Module, x: Tensor, explainer: Explainer, rows: int) -> dict[str, float]:
    """Seconds of an explainer, and of its model passes as bare calls."""
    targets, cost = torch.zeros(len(x), dtype=torch.int64, device=x.device), explainer.cost(x.shape[1:]) * len(x)
    batch, context = x[torch.arange(rows, device=x.device) % len(x)], Context(Draws.of(0, torch.arange(len(x))), rows)
    works: Mapping[str, Callable[[], Any]] = {
        "floor": partial(bare_passes, model, batch, targets[:1, None].expand(rows, 1), cost, rows),
        "ours": partial(explainer.explain, model, x, targets, context),
    }
    return in_turns(works, x.device)


def masks(device: torch.device) -> None:
    """Print RISE over its floor."""
    explainer = Rise(masks=1000)
    table = empty_table(
        f"RISE with {explainer.masks:,} masks over its bare forward passes", "network", "images", "forward", "floor s", "ours s", "ratio"
    )
    for name, (model, shape, count) in networks().items():
        many = count if device.type == "cpu" else 64
        x = torch.rand(many, *shape, generator=torch.Generator().manual_seed(0)).to(device)
        seconds = over_floor(model.eval().requires_grad_(False).to(device), x, explainer, ROWS[device.type])
        floor, ours = seconds["floor"], seconds["ours"]
        passes = f"{explainer.cost(x.shape[1:]).forward * many:,}"
        table.add_row(name, str(many), passes, f"{floor:.3f}", f"{ours:.3f}", f"{ours / floor:.3f}")
    CONSOLE.print(table)


def folds(device: torch.device) -> tuple[CrossTrained, Tensor, Tensor]:
    """A digit classifier of every fold, trained for a moment, and as many digits of each."""
    parts = [digits(split, padding=0) for split in ("train", "test")]
    x, y = (torch.cat(both)[:SAMPLES].to(device) for both in zip(*parts, strict=True))
    member = torch.arange(SAMPLES) % FOLDS
    trainer = SmallCNN(epochs=3, patience=None)
    models = [trainer(x[member != fold], y[member != fold], 0).eval().requires_grad_(False) for fold in range(FOLDS)]
    return CrossTrained(models=models, folds=member), x, y


def ours(audit: Audit) -> None:
    """A run into a new folder."""
    with quiet():
        audit.run(new_folder(), progress=False)


def cross_trained(device: torch.device) -> None:
    """Print MeGe and ReCo, with their intervals and null, over the bare explanations."""
    models, x, y = folds(device)
    table = empty_table(
        f"MeGe and ReCo of {SAMPLES} digits and {FOLDS} folds over the bare model passes",
        "explainer",
        "forward",
        "backward",
        "floor s",
        "ours s",
        "ratio",
    )
    rows = ROWS[device.type]
    batch = x[torch.arange(rows, device=device) % SAMPLES]
    targets = models.models[0](batch).argmax(1)[:, None]
    for explainer in (Saliency(), InputXSaliency(), IntegratedGradients(steps=60, method="trapezoid"), Rise(masks=100)):
        audit = Audit(
            models={"cnn": models}, inputs=x, targets=y, explainers=[explainer], scores=["mege", "reco"], controls=False, companions=False
        )
        own = explainer.cost(x.shape[1:])
        cost = (own if explainer.local else own + Cost(forward=1)) * (FOLDS * SAMPLES)
        works = {"floor": partial(bare_passes, models.models[0], batch, targets, cost, rows), "ours": partial(ours, audit)}
        seconds = in_turns(works, device, repeats=2)
        floor, one = seconds["floor"], seconds["ours"]
        table.add_row(explainer.name, f"{cost.forward:,}", f"{cost.backward:,}", f"{floor:.3f}", f"{one:.3f}", f"{one / floor:.3f}")
    CONSOLE.print(table)


def main(device: str = "cpu") -> None:
    """Print the tables."""
    where = torch.device(device)
    with torch.no_grad():
        ranks(where)
        masks(where)
    cross_trained(where)


if __name__ == "__main__":
    main(*sys.argv[1:2])
