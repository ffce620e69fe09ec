"""A made-up run of faithfulness scores: paths, curves, assumptions, calibrations, and explainers that do not respond."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from report_fakes import FakeRun, manifest, result, sample_rows

from veracity.core.scores import Measured, Score
from veracity.scores.assumptions import ModelRobustness
from veracity.scores.faithfulness.content import Sparseness
from veracity.scores.faithfulness.curves import Insertion, PixelFlipping
from veracity.scores.faithfulness.masked import ModelFaithfulness
from veracity.scores.gef import GEF, FastGEF, PublicFastGEF
from veracity.scores.randomisation import MPRT
from veracity.scores.sensitivity import MaxSensitivity, RelativeInputStability

SCORES: dict[str, Score] = {
    "fast_gef": FastGEF(),
    "gef": GEF(segments=2),
    "fast_gef_public": PublicFastGEF(),
    "pixel_flipping": PixelFlipping(features_in_step=4),
    "insertion": Insertion(steps=8),
    "relative_input_stability": RelativeInputStability(),
    "max_sensitivity": MaxSensitivity(),
    "mprt": MPRT(),
    "sparseness": Sparseness(),
}
MODEL_SCORES: dict[str, Score] = {"model_faithfulness": ModelFaithfulness(), "model_robustness": ModelRobustness()}
ASSUMPTIONS = {
    "pixel_flipping": "model_faithfulness",
    "insertion": "model_faithfulness",
    "relative_input_stability": "model_robustness",
    "max_sensitivity": "model_robustness",
}
FOLLOWING = {"gradient": 0.9, "saliency": 0.6, "occlusion": 0.05}
CONTROLS = ("random_gaussian", "constant_map")
SHAPE = (1, 4, 4)
CROSSED = {"exhaustive": False, "population": None, "anytime": None, "nested": False}


@dataclass(frozen=True)
class FakeSeries:
    model: str
    explainer: str
    score: str
    measured: Measured
    pending: int = 0


def calibration(model: str, sigma: float = 1.5) -> dict[str, Any]:
    curve = [[0.5, 0.9], [1.0, 0.5], [sigma, 0.105], [2.0, 0.1]]
    return {
        "model": model, "space": "parameter_scaling", "sigma": sigma, "agreement": 0.105, "chance": 0.1, "tolerance": 0.01, "draws": 40,
        "curve": curve,
    }  # fmt: skip


def faithful_run(
    scores: Sequence[str] = tuple(SCORES), models: Sequence[str] = ("lenet",), *, samples: int = 20, draws: int = 3, seed: int = 0,
    names: Mapping[str, float] = FOLLOWING, published: bool = False,
) -> FakeRun:  # fmt: skip
    """Every explainer follows its model by a share of its own; random maps follow nothing, a constant map does not respond."""
    random = np.random.default_rng(seed)
    rows, points, series = [], {label: [] for label in (*scores, *MODEL_SCORES)}, []
    for model in models:
        for label in scores:
            for explainer in (*names, *CONTROLS):
                share = names.get(explainer, 0.0)
                measured = observed(SCORES[label], explainer, share, samples, draws, random)
                if measured is not None:
                    series.append(FakeSeries(model, explainer, label, measured))
                still = explainer == "constant_map" and label in ("fast_gef", "gef", "fast_gef_public")
                values = np.full(samples, math.nan) if still else valued(SCORES[label], share, samples, random)
                row = result(
                    model, explainer, label, values, control=explainer in CONTROLS, direction=SCORES[label].direction.value,
                    self_agreement=1.0, random_control=float(valued(SCORES[label], 0.0, 1, random)[0]), high=values.mean() + 0.02,
                    low=values.mean() - 0.02, assumption=ASSUMPTIONS.get(label, ""), null=SCORES[label].null,
                    no_response=samples if still else 0,
                    published=0.79 if published and (explainer, label) == ("gradient", "fast_gef") else math.nan,
                )  # fmt: skip
                rows.append(row)
                points[label] += sample_rows(row, values)
        for label, holds in (("model_faithfulness", 5), ("model_robustness", samples)):
            held = (np.arange(samples) < holds).astype(np.float64)
            points[label] += sample_rows({"model": model, "explainer": "", "control": False}, held)
    made = manifest(
        dict.fromkeys(models, 0.98), SHAPE, samples, title="Are they faithful?", symmetry="", scores=list(scores),
        score_specs={label: {**score.about(), "spec": score.spec()} for label, score in {**SCORES, **MODEL_SCORES}.items()},
        assumptions={label: ASSUMPTIONS[label] for label in scores if label in ASSUMPTIONS},
        calibrations=[calibration(model) for model in models],
        cells=[{"model": one.model, "explainer": one.explainer, "score": one.score, "sampling": CROSSED} for one in series],
    )  # fmt: skip
    made["spec"] = {"published": [{"score": "fast_gef", "where": "Table A.5"}] if published else []}
    return FakeRun(path="runs/faithful", manifest=made, rows=rows, sample_rows=points, series=series)


def observed(score: Score, explainer: str, share: float, samples: int, draws: int, random: np.random.Generator) -> Measured | None:
    if isinstance(score, FastGEF | GEF | PublicFastGEF):
        levels = score.steps * score.segments
        caused = np.exp(np.linspace(0.0, 4.0, levels)) * random.uniform(0.9, 1.1, (samples, draws, levels))
        noise = random.uniform(0.0, 0.2, (samples, draws, levels))
        followed = np.zeros_like(caused) if explainer == "constant_map" else 1.0 + share * np.log(caused) + noise
        return Measured({"model": caused, "explanation": followed})
    if isinstance(score, PixelFlipping | Insertion | MPRT):
        levels = 4 if isinstance(score, PixelFlipping) else 9 if isinstance(score, Insertion) else 5
        fall = np.exp(-(0.2 + 3 * share) * np.arange(levels)) * random.uniform(0.9, 1.0, (samples, 1, levels))
        return Measured({score.quantities[0]: 1.0 - fall if isinstance(score, Insertion) else fall})
    return None


def valued(score: Score, share: float, samples: int, random: np.random.Generator) -> np.ndarray:
    """Values that are the better, the more an explainer follows its model; on the score's own scale."""
    size = 40_000.0 if isinstance(score, RelativeInputStability) else 1.0
    level = share if score.direction.value == "higher" else 1.0 - share
    return size * (level + random.normal(0.0, 0.01, samples))
