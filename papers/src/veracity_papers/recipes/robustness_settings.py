"""Do a search's settings matter? Its size, the steps of subset simulation (Figures 7, 8), and the measure that guides it (Figure 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from veracity.audit import Audit
from veracity.core.measures import Measure
from veracity.core.scores import Score
from veracity.measure import mse, pearson, ssim
from veracity.recipe import Scale, recipe
from veracity.results import Result, Series
from veracity.scores import LnPHat, SolHat, SolTilde
from veracity.studies.several import Audits
from veracity.walk import Genetic, SimpleMonteCarlo, SubsetSimulation
from veracity_papers.recipes.robustness_methods import EFFORT, PAPER, first_correct, search_audit
from veracity_papers.zoo import lenet5

RADIUS, THRESHOLD = 0.3, 0.5
"""A ball and an event so wide that plain Monte Carlo sees it: ln P is about -7 to -4."""

TRUTH = "ln_p_f_hat, counted"
VARIED: Mapping[str, Mapping[str, Any]] = {
    "M = 1": {"steps": 1},
    "M = 5": {},
    "M = 10": {"steps": 10},
    "n = 50": {"population": 50},
    "n = 300": {"population": 300},
    "rho = 0.3": {"rho": 0.3},
    "rho = 0.5": {"rho": 0.5},
}
"""What of subset simulation is varied, one setting at a time, from M = 5, n = 100 and rho = 0.1."""


@dataclass(frozen=True)
class Extent:
    """How many seeds, how often each is repeated, how many draws a repetition counts, the genetic searches, and how many variations."""

    seeds: int
    repeats: int
    draws: int
    populations: tuple[int, ...]
    generations: tuple[int, ...]
    varied: int = len(VARIED)


EXTENT = {
    Scale.SMOKE: Extent(1, 2, 400, (6,), (1, 2), varied=1),
    Scale.SMALL: Extent(3, 10, 2000, (20, 50, 100), (5, 10, 20, 40, 60)),
    Scale.PAPER: Extent(5, 10, 100_000, (100, 300, 1000), (10, 50, 100, 200, 500)),
}


@recipe("robustness-convergence", reference=f"{PAPER}, section 8.7, Figures 7 and 8")
def robustness_convergence(folder: Path, scale: Scale) -> Audits:
    """How many generations a genetic search needs, and how many steps and points subset simulation, on Gradient x Input of digits.

    Within .3 of a digit, the radius of the authors' public code. The search: populations side by side, read after several
    generations; J is the loss at the worst point, which for F-tilde must reach 0. The probability of an agreement below .5,
    which plain Monte Carlo still sees: MH steps M, population n and rho varied one at a time from M = 5, n = 100 and rho = .1,
    each digit repeated, beside the count over all its repetitions as the truth. Small: 3 digits, 10 repetitions of 2,000 draws.
    Paper: 5 digits, 10 repetitions of 100,000 draws (published: 10^8 draws).
    """
    extent, model = EXTENT[scale], lenet5.pretrained()
    x, y = first_correct([model], lenet5.digits("test"), extent.seeds)
    repeated = tuple(part.repeat_interleave(extent.repeats, dim=0) for part in (x, y))
    about = {"recipe": "robustness-convergence", "scale": scale.value}

    def audit(title: str, data: tuple[Any, ...], scores: Mapping[str, Score]) -> Audit:
        return search_audit(title, {"lenet": model}, (data[0], data[1]), explainers=["input_x_gradient"], scores=scores, about=about)

    return Audits(
        audits={
            "worst-case": audit("When has a genetic search converged?", (x, y), genetic_scores(extent)),
            "probability": audit("When is the probability of a rare event right?", repeated, subset_scores(extent)),
        },
        title="When has a search converged, and when is a probability right?",
        summary=lambda results: pd.concat(
            [convergence_table(results["worst-case"], extent), accuracy_table(results["probability"], extent)], ignore_index=True
        ),
    )


def genetic_scores(extent: Extent) -> dict[str, Score]:
    """Genetic searches of several sizes for both events."""
    where: dict[str, Any] = {"radius": RADIUS, "range": lenet5.RANGE}
    scores: dict[str, Score] = {}
    for size in extent.populations:
        walk = Genetic(population=size, generations=max(extent.generations), elites=max(1, size // 10))
        scores |= {f"sol_f_hat, n = {size}": SolHat(walk=walk, **where), f"sol_f_tilde, n = {size}": SolTilde(walk=walk, **where)}
    return scores


def subset_scores(extent: Extent) -> dict[str, Score]:
    """Subset simulation with several settings, and plain counting."""
    one = LnPHat(radius=RADIUS, range=lenet5.RANGE, threshold=THRESHOLD)
    counted = SimpleMonteCarlo(draws=extent.draws, population=min(1000, extent.draws))
    base = SubsetSimulation(population=100, steps=5, floor=-30.0)
    changes = list(VARIED.items())[: extent.varied]
    return {
        TRUTH: replace(one, walk=counted),
        **{f"ln_p_f_hat, {name}": replace(one, walk=replace(base, **change)) for name, change in changes},
    }


def convergence_table(result: Result, extent: Extent) -> pd.DataFrame:
    """The worst agreement, the loss there and the share of seeds with a feasible point, after several generations of each search."""
    rows = []
    for one in result.series:
        agreement, lost, spent = (one.measured[name][:, 0] for name in ("agreement", "loss", "evaluations"))
        feasible = (lost < 0 if "f_hat" in one.score else lost >= 0) & np.isfinite(agreement)
        for generation in extent.generations:
            found = agreement[:, generation][feasible[:, generation]]
            rows.append(
                {
                    "audit": "worst-case",
                    "score": one.score,
                    "generations": generation,
                    "value": float(found.mean()) if len(found) else np.nan,
                    "J": float(lost[:, generation].mean()),
                    "feasible": float(feasible[:, generation].mean()),
                    "evaluations": int(spent[:, generation].sum()),
                }
            )
    return pd.DataFrame(rows)


def accuracy_table(result: Result, extent: Extent) -> pd.DataFrame:
    """How far ln P is from the truth on average, how much it varies from run to run, and how often its 95 % interval holds the truth."""
    by = {one.score: one for one in result.series}
    counted = by[TRUTH]
    hits = np.where(counted.remarks["censored"], 0.0, np.exp(counted.per_sample)).reshape(extent.seeds, extent.repeats)
    share = np.where(hits.any(axis=1), hits.mean(axis=1), np.nan)[:, None]
    truth, own = np.log(share), np.sqrt((1.0 - share) / (share * extent.draws * extent.repeats))
    spent = result.table().set_index("score")["evaluations"]
    rows = []
    for score, one in by.items():
        found, stated = by_seed(one, extent), by_seed(one, extent, errors=True)
        inside = np.abs(found - truth) <= 1.96 * np.sqrt(np.nan_to_num(stated) ** 2 + own**2)
        rows.append(
            {
                "audit": "probability",
                "score": score,
                "value": float(found.mean()),
                "truth": float(truth.mean()),
                "bias": float((found - truth).mean()),
                "spread": float(np.sqrt(found.var(axis=1, ddof=1).mean())),
                "stated": float(np.nanmean(stated)),
                "covered": float(inside.mean()),
                "evaluations": int(spent[score]),
            }
        )
    return pd.DataFrame(rows)


def by_seed(one: Series, extent: Extent, errors: bool = False) -> np.ndarray:
    """ln P, or its standard errors, as (seeds, repeats)."""
    values = one.errors if errors and one.errors is not None else one.per_sample
    return values.reshape(extent.seeds, extent.repeats)


MEASURES: Mapping[str, tuple[Measure, float]] = {"pcc": (pearson, 0.4), "ssim": (ssim, 0.4), "mse": (mse, 0.01)}
"""What leads a search, and from where on explanations count as different; that of MSE depends on the scale of the explanation."""

SEEDS = {Scale.SMOKE: 2, Scale.SMALL: 8, Scale.PAPER: 8}


@recipe("robustness-discrepancy", reference=f"{PAPER}, section 8.6 and Figure 6")
def robustness_discrepancy(folder: Path, scale: Scale) -> Audits:
    """Does it matter how two explanations are compared? The worst Gradient x Input maps of digits that PCC, SSIM and MSE lead to.

    The same search three times, of which the worst maps are judged by all three measures; beside each mean, how much
    the measure varies from digit to digit, as a share of its mean. The paper prefers PCC by eye: MSE depends on the scale of
    maps, and SSIM sees little of what the eye sees. 8 digits; searches as in `robustness-mnist`.
    """
    model = lenet5.pretrained()
    scores = {
        f"sol_f_hat, {name}": SolHat(
            measure=measure, threshold=threshold, walk=EFFORT[scale].worst, radius=lenet5.RADIUS, range=lenet5.RANGE
        )
        for name, (measure, threshold) in MEASURES.items()
    }
    audit = search_audit(
        "Does it matter how two explanations are compared?",
        {"lenet": model},
        first_correct([model], lenet5.digits("test"), SEEDS[scale]),
        explainers=["input_x_gradient"],
        scores=scores,
        about={"recipe": "robustness-discrepancy", "scale": scale.value},
    )
    return Audits(audits={"digits": audit}, title="Does it matter how two explanations are compared?", summary=discrepancy_table)


def discrepancy_table(results: Mapping[str, Result]) -> pd.DataFrame:
    """For every search its worst maps as each measure sees them: the mean over samples, and the standard deviation as a share of it."""
    rows = []
    for name, result in results.items():
        for score in result.manifest["scores"]:
            pairs = result.worst(score, count=max(SEEDS.values()))
            before, after = (torch.stack([getattr(pair, what) for pair in pairs]).abs() for what in ("explanation", "found"))
            seen = {label: measure(after, before).numpy() for label, (measure, _) in MEASURES.items()}
            rows.append({"audit": name, "led by": score, "samples": len(pairs), **columns(seen)})
    return pd.DataFrame(rows)


def columns(seen: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The mean and the relative spread of each measure over samples."""
    means = {label: float(values.mean()) for label, values in seen.items()}
    return means | {f"{label} varies": float(values.std()) / max(abs(means[label]), 1e-12) for label, values in seen.items()}
