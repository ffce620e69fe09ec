"""Which measure of discrepancy should lead the search? The paper's section 8.6, as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from veracity.core.measures import Measure
from veracity.measure import mse, pearson, ssim
from veracity.recipe import Scale, recipe
from veracity.results import Result
from veracity.scores import SolHat
from veracity.studies.several import Audits
from veracity_papers.recipes.robustness_methods import EFFORT, PAPER, first_correct, searched
from veracity_papers.zoo import lenet5

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
    audit = searched(
        "Does it matter how two explanations are compared?",
        {"lenet": model},
        first_correct([model], lenet5.digits("test"), SEEDS[scale]),
        explainers=["input_x_gradient"],
        scores=scores,
        about={"recipe": "robustness-discrepancy", "scale": scale.value},
    )
    return Audits(audits={"digits": audit}, title="Does it matter how two explanations are compared?", summary=judged)


def judged(results: Mapping[str, Result]) -> pd.DataFrame:
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
