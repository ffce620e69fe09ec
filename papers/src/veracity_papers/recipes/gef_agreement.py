"""Does Fast-GEF rank explainers as GEF does? The paper's Figure A.9, as numbers."""

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
from veracity.recipe import Scale, recipe
from veracity.results import Result
from veracity.scores import GEF, FastGEF
from veracity.statistics.correlation import spearman_correlation
from veracity.studies.several import Audits
from veracity_papers.data.mnist import mnist
from veracity_papers.recipes.faithfulness_images import lenet_audit
from veracity_papers.recipes.faithfulness_methods import PAPER, SIGMA
from veracity_papers.recipes.faithfulness_tabular import table_audit

Array = NDArray[np.float64]
ROUNDED = 9
SUBSET = ("gradient", "saliency", "integrated_gradients", "gradient_shap", "smooth_grad")
EXPLAINERS = {Scale.SMOKE: None, Scale.SMALL: SUBSET, Scale.PAPER: None}
"""Which of the explainers of the other recipes are ranked; None for all of them."""


@dataclass(frozen=True)
class Agreement:
    """How alike two scores rank `explainers` explainers: the correlation of the ranks, and how many have the same one in both."""

    explainers: int
    spearman: float
    same_rank: int


def agreement(first: ArrayLike, second: ArrayLike) -> Agreement:
    """The agreement of two scores (explainers,) on the same explainers; those that either leaves undefined are not ranked.

    Explainers with equal scores, up to rounding, share the mean of their ranks. The correlation is NaN where fewer than two
    are left, or where a score does not tell them apart.

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
    """The agreement of two scores on every model, and which explainers have another rank; controls are not ranked."""
    rows = []
    for name, result in results.items():
        table = result.table()
        for model, found in table[~table["control"]].groupby("model", sort=False):
            means = found.pivot(index="explainer", columns="score", values="value")[[first, second]].dropna()
            one, other = ranks(means[first], means[second])
            moved = ", ".join(str(label) for label in means.index[one != other])
            rows.append({"audit": name, "model": model, **asdict(agreement(means[first], means[second])), "moved": moved})
    return pd.DataFrame(rows)


def ranked(audit: Audit, scale: Scale) -> Audit:
    """The audit with both scores alone, of the explainers that are ranked."""
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
    """Do GEF and its fast form rank explainers alike? Spearman's correlation of both rankings, on MNIST, Adult, COMPAS and Avila.

    The paper found the same ranks on tables, and on MNIST the gradient and GradientSHAP swapped. It drew one path of weights
    (M = 1), which leaves ranks to chance; here there are five. Small: five explainers. Paper: all, and 250 digits.
    """
    tables = ("avila",) if scale is Scale.SMOKE else ("adult", "compas", "avila")
    audits = {"mnist": lenet_audit("mnist", "digits", mnist("test"), scale), **{name: table_audit(name, scale) for name in tables}}
    return Audits(
        audits={name: ranked(audit, scale) for name, audit in audits.items()},
        title="Does Fast-GEF rank explainers as GEF does?",
        summary=agreements,
    )
