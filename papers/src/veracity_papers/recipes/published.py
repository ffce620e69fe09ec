"""Published figures for an audit to carry: `published.csv` holds tables of the papers, one figure per line."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from importlib.resources import files
from typing import Any


def published(table: str, models: Mapping[str, str] | None = None, explainers: Collection[str] | None = None) -> list[dict[str, Any]]:
    """The figures of a table, by default for all of its models and explainers; `models` maps its names to those of the audit.

    >>> published("faithfulness A.5", {"mnist": "lenet"})[-2]
    {'model': 'lenet', 'explainer': 'gradient', 'score': 'fast_gef_public', 'value': 0.79, 'error': 0.01, 'where': 'Table A.5'}
    >>> published("robustness 8", {"resnet20": "resnet20"}, ["grad_cam"])[0]
    {'model': 'resnet20', 'explainer': 'grad_cam', 'score': 'sol_f_hat', 'value': 0.0044, 'where': 'Table 8, ResNet20'}
    """
    lines = files("veracity_papers.recipes").joinpath("published.csv").read_text(encoding="utf-8").splitlines()
    rows = [row for row in csv.DictReader(lines) if row.pop("table") == table]
    return [
        {name: float(cell) if name in ("value", "error") else cell for name, cell in row.items() if cell}
        | ({} if models is None else {"model": models[row["model"]]})
        for row in rows
        if (models is None or row["model"] in models) and (explainers is None or row["explainer"] in explainers)
    ]
