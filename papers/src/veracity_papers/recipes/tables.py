"""Estimators that people fit to tables: are the explanations of trees and of a pipeline faithful and robust?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor

from veracity.audit import Audit
from veracity.core.errors import missing_extra
from veracity.core.explainers import Explainer
from veracity.core.scores import Score
from veracity.explain import KernelShap, Lime
from veracity.inputs import TableInputs
from veracity.recipe import Scale, recipe
from veracity.scores import FaithfulnessCorrelation, MaxSensitivity, RefitGEF
from veracity.walk import MonteCarlo
from veracity_papers.data.tabular import adult_frame


@dataclass(frozen=True)
class Effort:
    """How many rows are explained and learnt from, the trees of a model, and how carefully all is measured."""

    samples: int
    learnt: int
    trees: int
    coalitions: int
    subsets: int
    draws: int
    copies: int
    levels: int = 5


EFFORTS = {
    Scale.SMOKE: Effort(4, 200, 4, 30, 20, 2, 1, 3),
    Scale.SMALL: Effort(64, 4000, 50, 200, 100, 5, 5),
    Scale.PAPER: Effort(500, 32_561, 100, 500, 200, 10, 10),
}


def spread_rows(labels: Tensor, count: int) -> list[int]:
    """Numbers of `count` rows: equally many of every class, the first of each.

    >>> import torch
    >>> spread_rows(torch.tensor([0, 0, 0, 1, 1]), 4)
    [0, 1, 3, 4]
    """
    classes = labels.unique().tolist()
    return sorted(row for one in classes for row in (labels == one).nonzero()[: count // len(classes), 0].tolist())


def level_numbers(frame: pd.DataFrame, levels: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """The table with the number of its level in the place of every category; trees take it as a number."""
    places = {name: {level: number for number, level in enumerate(known)} for name, known in levels.items()}
    return frame.assign(**{name: frame[name].map(place).astype("int64") for name, place in places.items()})


def tree_models(effort: Effort, frame: pd.DataFrame, labels: Tensor) -> dict[str, Any]:
    """A random forest and two boosters, fitted in seconds."""
    from sklearn.ensemble import RandomForestClassifier

    try:
        from lightgbm import LGBMClassifier
        from xgboost import XGBClassifier
    except ImportError as error:
        raise missing_extra(error.name or "a library of trees", "trees", "veracity-papers") from error

    models = {
        "random_forest": RandomForestClassifier(effort.trees, max_depth=8, random_state=0, n_jobs=1),
        "xgboost": XGBClassifier(n_estimators=effort.trees, max_depth=4, learning_rate=0.2, random_state=0, n_jobs=1),
        "lightgbm": LGBMClassifier(n_estimators=effort.trees, num_leaves=15, random_state=0, n_jobs=1, verbose=-1),
    }
    return {name: model.fit(frame, labels.numpy()) for name, model in models.items()}


def explainers(effort: Effort, *more: str) -> dict[str, Explainer | str]:
    """The explainers that take any model on tables, and more."""
    found: dict[str, Explainer | str] = {"kernel_shap": KernelShap(samples=effort.coalitions), "lime": Lime(samples=effort.coalitions)}
    return {**{name: name for name in more}, **found, "permutation_importance": "permutation_importance"}


def scores(effort: Effort) -> list[Score]:
    """Masks of three features, noise of a tenth of a column's deviation, and refits on worse data."""
    return [
        FaithfulnessCorrelation(subset_size=3, nr_runs=effort.subsets),
        MaxSensitivity(radius=0.1, walk=MonteCarlo(draws=effort.draws)),
        RefitGEF(draws=effort.copies, steps=effort.levels),
    ]


@recipe("tables-adult", reference="Becker and Kohavi 1996 (Adult); Lundberg et al. 2020 (TreeSHAP)")
def tables_adult(folder: Path, scale: Scale) -> Audit:
    """TreeSHAP, KernelSHAP, LIME and permutation importance of a random forest, XGBoost and LightGBM: who earns above 50K?

    Trees get the number of a category's level. Masks put in the training rows' mean or most frequent level, and noise is in units of the
    columns. Estimators have no weights to perturb: they are fitted again on worse data. Smoke: 4 people. Small: 64 people, models of
    50 trees fitted to 4,000 rows. Paper: 500 people, 100 trees, all rows.
    """
    effort = EFFORTS[scale]
    (learnt, known), (rows, truth) = adult_frame("train"), adult_frame("test")
    levels = {name: sorted({*learnt[name], *rows[name]}) for name in learnt.columns if learnt[name].dtype.kind not in "iuf"}
    learnt, known = level_numbers(learnt, levels)[: effort.learnt], known[: effort.learnt]
    chosen = spread_rows(truth, effort.samples)
    numbers = {name: range(len(one)) for name, one in levels.items()}
    return Audit(
        title="Which explanations of trees can be trusted on the Adult census?",
        models=tree_models(effort, learnt, known),
        inputs=TableInputs(level_numbers(rows, levels).iloc[chosen], background=learnt, levels=numbers),
        targets=truth[chosen],
        explainers=explainers(effort, "tree_shap"),
        scores=scores(effort),
        training=(TableInputs(learnt, levels=numbers), known),
        about={"recipe": "tables-adult", "scale": scale.value, "trained_on": len(learnt)},
    )


@recipe("tables-adult-pipeline", reference="Becker and Kohavi 1996 (Adult); Ribeiro et al. 2016 (LIME)")
def tables_adult_pipeline(folder: Path, scale: Scale) -> Audit:
    """KernelSHAP, LIME and permutation importance of scikit-learn pipelines with one-hot columns, on the table as it was published.

    A logistic regression and boosted trees get scaled numbers and one-hot columns from their pipeline; the audit sees 12 columns, 7 of
    them in words. Sizes are those of tables-adult.
    """
    effort = EFFORTS[scale]
    (learnt, known), (rows, truth) = adult_frame("train"), adult_frame("test")
    words = [name for name in learnt.columns if learnt[name].dtype.kind not in "iuf"]
    levels = {name: sorted({*learnt[name], *rows[name]}) for name in words}
    learnt, known = learnt[: effort.learnt], known[: effort.learnt]
    chosen = spread_rows(truth, effort.samples)
    return Audit(
        title="Which explanations of pipelines can be trusted on the Adult census?",
        models={name: pipeline.fit(learnt, known.numpy()) for name, pipeline in pipelines(effort, words).items()},
        inputs=TableInputs(rows.iloc[chosen], background=learnt, levels=levels),
        targets=truth[chosen],
        explainers=explainers(effort),
        scores=scores(effort),
        training=(TableInputs(learnt, levels=levels), known),
        about={"recipe": "tables-adult-pipeline", "scale": scale.value, "trained_on": len(learnt)},
    )


def pipelines(effort: Effort, words: list[str]) -> dict[str, Any]:
    """A logistic regression and boosted trees behind one-hot columns of the columns in words and scaled numbers."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    def columns() -> Any:
        one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        return make_column_transformer((one_hot, words), remainder=StandardScaler())

    boosted = HistGradientBoostingClassifier(max_iter=effort.trees, random_state=0)
    return {
        "logistic_regression": make_pipeline(columns(), LogisticRegression(max_iter=1000)),
        "boosted_trees": make_pipeline(columns(), boosted),
    }
