"""Every kind of model against every family of scores, by running it: python -m benchmarks.adapters

A cell is the value of the family's score for one explainer, or the sentence with which it is refused.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import veracity
from benchmarks.timing import CONSOLE, empty_table
from veracity import perturb
from veracity.demo import digits
from veracity.inputs import SeveralInputs

SAMPLES = 12


@dataclass(frozen=True)
class Case:
    """A model with its data, and an explainer that fits it."""

    model: Any
    inputs: Any
    targets: Any
    explainer: Any = "feature_ablation"
    settings: Mapping[str, Any] = field(default_factory=dict)


SHUFFLED = perturb.groups.Permutations(axis=-1)
FAMILIES: dict[str, tuple[str, Any]] = {
    "masks": ("faithfulness_correlation", None),
    "complexity": ("complexity", None),
    "noise": ("max_sensitivity", None),
    "symmetry": ("invariance", SHUFFLED),
    "worst case": ("sol_f_hat", None),
    "probability": ("ln_p_f_hat", None),
    "weights": ("fast_gef", None),
    "randomisation": ("mprt", None),
    "refits": ("refit_gef", None),
    "retraining": ("mege", None),
}
"""A score of each family, with the symmetry that it needs."""


def network(*sizes: int) -> nn.Module:
    """A small network whose weights depend on nothing else."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.Tanh()]
        return nn.Sequential(*layers[:-1]).eval()


class TwoInputs(nn.Module):
    """An image and a table."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 4, 3), nn.Linear(4 + 2, 3)

    def forward(self, image: Tensor, table: Tensor) -> Tensor:
        """Scores (N, 3)."""
        scores: Tensor = self.head(torch.cat([self.conv(image).relu().mean((2, 3)), table], dim=1))
        return scores


def wine() -> tuple[Any, Any]:
    """Standardised columns and classes."""
    x, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(x), y


def module() -> Case:
    x, y = wine()
    return Case(network(13, 16, 3), x[:SAMPLES].astype(np.float32), y[:SAMPLES], "integrated_gradients")


def function() -> Case:
    x, y = wine()
    weights = np.random.default_rng(0).normal(size=(13, 3))
    return Case(lambda rows: np.tanh(rows @ weights), x[:SAMPLES], y[:SAMPLES])


def forest() -> Case:
    x, y = wine()
    return Case(RandomForestClassifier(20, random_state=0).fit(x, y), x[:SAMPLES], y[:SAMPLES], settings={"training": (x, y)})


def pipeline() -> Case:
    wine_data = load_wine(as_frame=True)
    x, y = wine_data.data, wine_data.target
    return Case(make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y), x[:SAMPLES], y[:SAMPLES], settings={"training": (x, y)})


def regression() -> Case:
    x, y = load_diabetes(return_X_y=True)
    return Case(RandomForestRegressor(20, random_state=0).fit(x, y), x[:SAMPLES], y[:SAMPLES], settings={"training": (x, y)})


def xgboost() -> Case:
    import xgboost as library

    x, y = wine()
    return Case(library.XGBClassifier(n_estimators=10, n_jobs=1).fit(x, y), x[:SAMPLES], y[:SAMPLES], settings={"training": (x, y)})


def lightgbm() -> Case:
    import lightgbm as library

    x, y = wine()
    fitted = library.LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1).fit(x, y)
    return Case(fitted, x[:SAMPLES], y[:SAMPLES], settings={"training": (x, y)})


def onnx() -> Case:
    x, y = wine()
    path = Path(tempfile.mkdtemp()) / "network.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network(13, 16, 3), (torch.zeros(1, 13),), path, input_names=["x"], dynamic_axes={"x": {0: "rows"}}, dynamo=False)
    return Case(path, x[:SAMPLES].astype(np.float32), y[:SAMPLES])


def images() -> Case:
    x, y = digits("test", padding=0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)).eval()
    return Case(net, x[:SAMPLES], y[:SAMPLES], "integrated_gradients")


def several() -> Case:
    x, y = digits("test", padding=0)
    parts = {"image": x[:SAMPLES], "table": torch.rand(SAMPLES, 2, generator=torch.Generator().manual_seed(0))}
    return Case(TwoInputs().eval(), SeveralInputs(parts, explain="image"), y[:SAMPLES] % 3, "integrated_gradients")


CASES: dict[str, Callable[[], Case]] = {
    one.__name__: one for one in (module, images, several, function, forest, pipeline, regression, xgboost, lightgbm, onnx)
}


def folds(case: Case) -> Any:
    """The model trained once for each of three folds, if it can be fitted again."""
    training = case.settings.get("training")
    if training is None:
        return None
    x, y = case.inputs, np.asarray(case.targets)
    fold = np.arange(len(y)) % 3
    rows, labels = training
    keep = [np.r_[np.flatnonzero(fold != number), np.arange(len(y), len(labels))] for number in range(3)]
    take = (lambda index: rows.iloc[index]) if isinstance(rows, pd.DataFrame) else (lambda index: rows[index])
    fitted = [clone(case.model).fit(take(index), np.asarray(labels)[index]) for index in keep]
    return veracity.CrossTrained(models=fitted, folds=torch.tensor(fold)) if len(x) else None


def measure(case: Case, family: str) -> str:
    """The score's value, or why it is refused."""
    score, symmetry = FAMILIES[family]
    model = folds(case) or case.model if family == "retraining" else case.model
    settings = {"targets": case.targets, "explainers": [case.explainer], "controls": False, "companions": False, **case.settings}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            audit = veracity.Audit(models=model, inputs=case.inputs, symmetry=symmetry, scores=[score], **settings)
            table = audit.run(tempfile.mkdtemp(), progress=False).table()
    except veracity.VeracityError as error:
        return f"refused: {error}"
    asked = table[table["score"] == score]
    return f"{asked['value'].iloc[0]:.3f}" if len(asked) else "nothing measured"


def main() -> None:
    """Fill the table, then list the reasons."""
    found = {name: {family: measure(make(), family) for family in FAMILIES} for name, make in CASES.items()}
    table, reasons = empty_table("Values, or the number of the reason for a refusal", "model", *FAMILIES), []
    for name, cells in found.items():
        row = []
        for text in cells.values():
            if text.startswith("refused") and text not in reasons:
                reasons.append(text)
            row.append(f"({reasons.index(text) + 1})" if text in reasons else text)
        table.add_row(name, *row)
    CONSOLE.print(table)
    for number, reason in enumerate(reasons, start=1):
        CONSOLE.print(f"({number}) {reason}", soft_wrap=True)


if __name__ == "__main__":
    main()
