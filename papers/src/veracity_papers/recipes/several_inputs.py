"""A model of an image and a table: explanations of the image alone, and of both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor, nn

from veracity.audit import Audit
from veracity.core.measures import Direction
from veracity.core.scores import Score
from veracity.explain import IntegratedGradients, KernelShap
from veracity.inputs import SeveralInputs
from veracity.recipe import Scale, recipe
from veracity.results import Result
from veracity.scores import FaithfulnessCorrelation, FastGEF, MaxSensitivity
from veracity.studies import Audits
from veracity.walk import MonteCarlo
from veracity_papers.recipes.smoke import trained_classifier

SIZES = {Scale.SMOKE: (4, 8, 20), Scale.SMALL: (48, 60, 200), Scale.PAPER: (300, 60, 1000)}
LEARNT = 1400


class DigitAboveLimit(nn.Module):
    """Logits of "no" and "yes" for the question whether the digit on an image (N, 1, 8, 8) is above the first column (N, 2)."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(1024, width), nn.ReLU())
        self.decide = nn.Sequential(nn.Linear(width + 2, width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, image: Tensor, columns: Tensor) -> Tensor:
        """Logits (N, 2)."""
        decided: Tensor = self.decide(torch.cat((self.look(image), columns), dim=1))
        return decided


def digits_and_limits() -> tuple[Tensor, Tensor, Tensor]:
    """Images of digits (1797, 1, 8, 8) from 0 to 1, two columns (1797, 2), and whether the digit is above the limit (1797,).

    The first column is the limit, from -1 (the digit 0) to 1 (the digit 9). The second one is noise that says nothing.
    """
    from sklearn.datasets import load_digits

    bunch, random = load_digits(), torch.Generator().manual_seed(0)
    images = torch.as_tensor(bunch.images, dtype=torch.float32).unsqueeze(1) / 16
    digits = torch.as_tensor(bunch.target)
    limits = torch.randint(9, (len(digits),), generator=random)
    columns = torch.stack((limits / 4.5 - 1, torch.randn(len(digits), generator=random)), dim=1)
    return images, columns, (digits > limits).long()


@recipe("two-inputs", reference="Hedström et al. 2025, with two arrays per sample; Alpaydin and Kaynak 1998 (digits)")
def two_inputs(folder: Path, scale: Scale) -> Audits:
    """Gradients and KernelSHAP of a network that compares the digit on an image with a limit in a table, for the image and for both.

    The table's second column is noise, so an explanation should give it nothing. With the image alone, the table is carried along
    unchanged. The network is trained on the spot. Smoke: 4 samples. Small: 48. Paper: 300.
    """
    samples, epochs, coalitions = SIZES[scale]
    images, columns, truth = digits_and_limits()
    learnt = SeveralInputs({"image": images[:LEARNT], "columns": columns[:LEARNT]})
    model = trained_classifier(folder, "network", DigitAboveLimit, (learnt, truth[:LEARNT]), epochs=epochs, batch=100)
    rows = slice(LEARNT, LEARNT + samples)
    parts = {"image": images[rows], "columns": columns[rows]}
    smoke = scale is Scale.SMOKE
    scores: list[Score] = [
        FaithfulnessCorrelation(subset_size=8, nr_runs=20 if smoke else 100, perturb_baseline=0.0),
        MaxSensitivity(walk=MonteCarlo(draws=2 if smoke else 5)),
        FastGEF(sigma=1.0 if smoke else None, draws=2 if smoke else 5),
    ]
    audits = {
        name: Audit(
            title=f"Which explanations of {'an image beside a table' if name == 'image' else 'an image and a table'} can be trusted?",
            models={"network": model},
            inputs=SeveralInputs(parts, explain="image" if name == "image" else None),
            targets=truth[rows],
            explainers={
                "gradient": "gradient",
                "input_x_gradient": "input_x_gradient",
                "integrated_gradients": IntegratedGradients(),
                "kernel_shap": KernelShap(samples=coalitions, patch=1),
            },
            scores=scores,
            about={"recipe": "two-inputs", "scale": scale.value, "explained": name},
        )
        for name in ("image", "both")
    }
    return Audits(audits=audits, title="Can explanations of a model with two inputs be trusted?", summary=findings)


def findings(results: Mapping[str, Result]) -> pd.DataFrame:
    """One sentence per audit and score on the explainer that comes first, as far as paired differences support it."""
    rows = [
        {"explained": name, "score": score, "finding": finding(result, score)}
        for name, result in results.items()
        for score in dict.fromkeys(row.score for row in result.rows if row.explainer and not row.control)
    ]
    return pd.DataFrame(rows, columns=["explained", "score", "finding"])


def finding(result: Result, score: str) -> str:
    """Which explainer comes first, and which ones it cannot be told apart from.

    Who is ahead of whom is read off the samples that both have, so the first is the one with the best mean of those with the fewest ahead.
    """
    means = {row.explainer: row.value for row in result.rows if row.score == score and row.explainer and not row.control}
    known = {name: value for name, value in means.items() if math.isfinite(value)}
    if len(known) < 2:
        return "There are fewer than two explainers to compare."
    sign = 1.0 if result.score(score).direction is Direction.HIGHER else -1.0
    pairs = result.differences(score)
    apart = pairs[pairs["differs"].astype(bool) & pairs["first"].isin(known) & pairs["second"].isin(known)]
    sides = zip(apart["first"], apart["second"], sign * apart["difference"], strict=True)
    wins = {(first, second) if gap > 0 else (second, first) for first, second, gap in sides}
    best = min(known, key=lambda name: (sum((other, name) in wins for other in known), -sign * known[name]))
    same = [name for name in known if name != best and (best, name) not in wins]
    if not same:
        return f"{best} is ahead of every other explainer."
    if any((name, best) in wins for name in same):
        return "No explainer comes first: each is behind another one on the samples that both have."
    rest = len(known) - 1 - len(same)
    ahead = f" and is ahead of {rest} of {len(known) - 1} others" if rest else ""
    return f"{best} comes first{ahead}, but cannot be told apart from {' and '.join(same)}."
