"""Can GEF be trusted? Control explanations (Table A.3), its own settings (Figure A.8), and agreement with Fast-GEF (Figure A.9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from veracity.audit import Audit
from veracity.core.errors import InputError
from veracity.core.scores import Score
from veracity.explain import Gradient, RandomUniform, Saliency
from veracity.recipe import Scale, recipe
from veracity.results import Result
from veracity.scores import GEF, FastGEF, PublicFastGEF, PublicGEF
from veracity.scores.common import as_score
from veracity.scores.faithfulness import FaithfulnessCorrelation
from veracity.scores.gef import Alignment
from veracity.scores.randomisation import MPRT
from veracity.scores.sensitivity import RelativeInputStability
from veracity.statistics.correlation import spearman_correlation
from veracity.studies.several import Audits
from veracity_papers.data.mnist import mnist
from veracity_papers.data.pneumonia import pneumonia_mnist
from veracity_papers.data.tabular import avila
from veracity_papers.recipes.faithfulness_benchmark import ROWS, lenet_audit, table_audit
from veracity_papers.recipes.faithfulness_methods import PAPER, SAMPLES, SIGMA
from veracity_papers.recipes.published import published
from veracity_papers.zoo.lenet import pretrained as lenet
from veracity_papers.zoo.med import PNEUMONIA
from veracity_papers.zoo.tabular import pretrained as table_network

SIZES = {Scale.SMOKE: (3, 2), Scale.SMALL: (48, 5), Scale.PAPER: (250, 5)}
UNFLOORED = "relative_input_stability, no floor"


def control_scores(scale: Scale) -> dict[str, Score]:
    """The scores of Table A.3 as in appendix A.8.1; also the variants of GEF's authors, and stability without our floor.

    For a smoke test the noise has a fixed strength, and the exact variants are left out.
    """
    draws, sigma = SIZES[scale][1], 1.0 if scale is Scale.SMOKE else None
    exact = {"gef": GEF(draws=draws), "gef_public": PublicGEF(draws=draws)} if scale is not Scale.SMOKE else {}
    return {
        **exact,
        "fast_gef": FastGEF(draws=draws, sigma=sigma),
        "fast_gef_public": PublicFastGEF(draws=draws, sigma=sigma),
        "faithfulness_correlation": FaithfulnessCorrelation(nr_runs=5, subset_size=28),
        "mprt": MPRT(),
        "relative_input_stability": RelativeInputStability(),
        UNFLOORED: RelativeInputStability(floor=0.0),
    }


@recipe("faithfulness-controls", reference=f"{PAPER}, appendix A.8.3 and Table A.3")
def faithfulness_controls(folder: Path, scale: Scale) -> Audit:
    """Random, constant and edge-filter explanations beside the gradient, on PneumoniaMNIST with a MedCNN, under five scores.

    It stands in for the paper's DermaMNIST: the published figures beside ours are for those images, in colour and with seven
    classes. Constant and edge-filter maps do not respond to the weights, so GEF is undefined for them, as published.
    Small: 48 images. Paper: 250 images.
    """
    x, y = (part[: SIZES[scale][0]] for part in pneumonia_mnist("test"))
    return Audit(
        title="Do scores tell explanations from maps that never saw the model?",
        models={"med-cnn": PNEUMONIA.pretrained()},
        inputs=x,
        targets=y,
        explainers={"gradient": Gradient()},
        scores=control_scores(scale),
        about={"recipe": "faithfulness-controls", "scale": scale.value, "published": published("faithfulness A.3")},
    )


Array = NDArray[np.float64]
ROUNDED = 9
SUBSET = ("gradient", "saliency", "integrated_gradients", "gradient_shap", "smooth_grad")
EXPLAINERS = {Scale.SMOKE: None, Scale.SMALL: SUBSET, Scale.PAPER: None}
"""Which of the explainers of the other recipes are ranked; None for all of them."""


@dataclass(frozen=True)
class Agreement:
    """The agreement of two rankings of `explainers` explainers: the correlation of the ranks, and how many explainers have equal ranks."""

    explainers: int
    spearman: float
    same_rank: int


def agreement(first: ArrayLike, second: ArrayLike) -> Agreement:
    """The agreement of two scores (explainers,) on the same explainers; those for which either is undefined are not ranked.

    Explainers with equal scores, up to rounding, share the mean of their ranks. The correlation is NaN if fewer than two
    are left, or if a score gives all of them the same value.

    >>> agreement([0.9, 0.5, 0.1, float("nan")], [0.8, 0.1, 0.5, 0.7])
    Agreement(explainers=3, spearman=0.5, same_rank=1)
    """
    one, other = ranks(first, second)
    correlation = float(np.round(spearman_correlation(one, other), ROUNDED)) + 0.0
    return Agreement(explainers=len(one), spearman=correlation, same_rank=int((one == other).sum()))


def ranks(first: ArrayLike, second: ArrayLike) -> tuple[Array, Array]:
    """Both scores as ranks, 1 for the largest, of the explainers for which both are defined."""
    one, other = (np.round(np.asarray(values, dtype=np.float64), ROUNDED) for values in (first, second))
    if one.shape != other.shape or one.ndim != 1:
        raise InputError(
            f"An agreement needs two scores of the same explainers, one number each, not {one.shape} and {other.shape} of them."
        )
    both = np.isfinite(one) & np.isfinite(other)
    return rankdata(-one[both]), rankdata(-other[both])


def agreements(results: Mapping[str, Result], first: str = "gef", second: str = "fast_gef") -> pd.DataFrame:
    """The agreement of two scores on every model, and which explainers differ in rank; controls are not ranked."""
    rows = []
    for name, result in results.items():
        table = result.table()
        for model, found in table[~table["control"]].groupby("model", sort=False):
            means = found.pivot(index="explainer", columns="score", values="value")[[first, second]].dropna()
            one, other = ranks(means[first], means[second])
            moved = ", ".join(str(label) for label in means.index[one != other])
            rows.append({"audit": name, "model": model, **asdict(agreement(means[first], means[second])), "moved": moved})
    return pd.DataFrame(rows)


def ranking_audit(audit: Audit, scale: Scale) -> Audit:
    """The audit with only the two scores and the explainers that are ranked."""
    settings: dict[str, Any] = {"draws": 1 if scale is Scale.SMOKE else 5, "sigma": SIGMA[scale]}
    chosen = EXPLAINERS[scale]
    explainers = dict(audit.explainers)
    return replace(
        audit,
        explainers=explainers if chosen is None else {name: explainers[name] for name in chosen},
        scores={"gef": GEF(**settings), "fast_gef": FastGEF(**settings)},
        controls=False,
        companions=False,
        about={"series": "gef-agreement", "scale": scale.value},
    )


@recipe("gef-agreement", reference=f"{PAPER}, appendix A.8.2 and Figure A.9")
def gef_agreement(folder: Path, scale: Scale) -> Audits:
    """Do GEF and Fast-GEF agree on the ranking of explainers? Spearman's correlation of both rankings, on MNIST, Adult, COMPAS and Avila.

    The paper found the same ranks on tables, and on MNIST the gradient and GradientSHAP swapped. It drew one path of weights
    (M = 1), which leaves ranks to chance; here there are five. Small: five explainers. Paper: all, and 250 digits.
    """
    tables = ("avila",) if scale is Scale.SMOKE else ("adult", "compas", "avila")
    audits = {"mnist": lenet_audit("mnist", "digits", mnist("test"), scale), **{name: table_audit(name, scale) for name in tables}}
    return Audits(
        audits={name: ranking_audit(audit, scale) for name, audit in audits.items()},
        title="Does Fast-GEF rank explainers as GEF does?",
        summary=agreements,
    )


LETTERS = {"M": "draws", "Z": "steps", "T": "segments"}
VALUES: dict[Scale, tuple[int, dict[str, tuple[int, ...]]]] = {
    Scale.SMOKE: (3, {"M": (1, 3), "T": (2,)}),
    Scale.SMALL: (5, {"M": (1, 3, 5, 10), "Z": (3, 5, 10), "T": (1, 2, 5, 10)}),
    Scale.PAPER: (10, {"M": (1, 2, 3, 5, 10, 15, 20), "Z": (3, 5, 10, 15, 20), "T": (1, 2, 3, 5, 10, 15, 20)}),
}
"""What the other settings are fixed at, and the values that each one takes."""


def ablation_scores(scale: Scale) -> dict[str, Score]:
    """GEF with one setting changed at a time, and Fast-GEF, which has no segments; labels such as "gef, M = 3".

    >>> list(ablation_scores(Scale.SMOKE))
    ['gef, M = 1', 'gef, M = 3', 'gef, T = 2', 'fast_gef, M = 1', 'fast_gef, M = 3']
    """
    fixed, values = VALUES[scale]
    settings: dict[str, Any] = {"draws": fixed, "steps": fixed, "sigma": SIGMA[scale]}
    found: dict[str, Score] = {}
    for name, kind in (("gef", GEF), ("fast_gef", FastGEF)):
        for letter in [letter for letter in values if name == "gef" or letter != "T"]:
            for number in values[letter]:
                own = settings | ({"segments": fixed} if name == "gef" else {}) | {LETTERS[letter]: number}
                found[f"{name}, {letter} = {number}"] = kind(**own)
    return found


def distortions(results: Mapping[str, Result]) -> pd.DataFrame:
    """The curves of Figure A.8: each score, both distortions with their spread over samples, and the copies of the model it took."""
    rows = []
    for name, result in results.items():
        values = result.table().set_index("score")["value"]
        for one in result.series:
            score = as_score(result.manifest["score_specs"][one.score]["spec"])
            if isinstance(score, Alignment):
                row = {"audit": name, "score": one.score, "value": values[one.score]}
                for label, part in zip(("D_f", "D_phi"), score.distortions(one.measured), strict=True):
                    moved = part.mean(axis=(1, 2))
                    row |= {label: np.nanmean(moved), f"sd {label}": np.nanstd(moved)}
                rows.append(row | {"copies": score.draws * score.steps * score.segments})
    return pd.DataFrame(rows)


@recipe("faithfulness-ablation", reference=f"{PAPER}, appendix A.7 and Figure A.8")
def faithfulness_ablation(folder: Path, scale: Scale) -> Audits:
    """GEF and Fast-GEF with more and fewer draws M, levels Z and segments T: saliency on Avila, random explanations on MNIST.

    The paper's fourth setting, K, is the number of samples for a Jacobian that is not needed here. Its time grows with the
    copies of the model, M Z T, which are counted. Small: the others fixed at 5, 48 digits. Paper: the others fixed at 10,
    250 digits.
    """
    rows = avila("test").labelled.some(ROWS[scale])
    x, y = (part[: SAMPLES[scale]] for part in mnist("test"))
    shared: dict[str, Any] = {
        "scores": ablation_scores(scale),
        "controls": False,
        "companions": False,
        "about": {"series": "faithfulness-ablation", "scale": scale.value},
    }
    title = "How much do GEF's own settings matter?"
    table = Audit(
        title=f"{title} Saliency on Avila",
        models={"avila-sigmoid": table_network("avila-sigmoid")},
        inputs=rows.inputs,
        targets=rows.labels,
        explainers={"saliency": Saliency()},
        **shared,
    )
    digits = Audit(
        title=f"{title} Random explanations on MNIST",
        models={"lenet": lenet("mnist")},
        inputs=x,
        targets=y,
        explainers={"random_uniform": RandomUniform()},
        **shared,
    )
    return Audits(audits={"avila": table, "mnist": digits}, title=title, summary=distortions)
