"""Explanations of a table: one named bar per feature, of single samples and of all samples together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from veracity.core.scores import Array
from veracity.core.wording import compact
from veracity.report.html import draw

SHOWN = 20
"""The most features that are drawn."""


@dataclass(frozen=True, kw_only=True)
class FeatureNames:
    """The names of a table's features, and the feature of each value."""

    names: tuple[str, ...]
    groups: tuple[int, ...]

    def fits(self, *arrays: Array) -> bool:
        """Whether arrays hold one number for each value."""
        return all(array.shape == (len(self.groups),) for array in arrays)

    def sums(self, values: Array) -> Array:
        """The sums of the values over each feature."""
        found: Array = np.bincount(np.asarray(self.groups), weights=values, minlength=len(self.names)).astype(np.float64)
        return found

    def inputs(self, values: Array) -> list[str]:
        """The value of each feature in words; "" for a feature of several values."""
        single = [place for place in range(len(self.groups)) if self.groups.count(self.groups[place]) == 1]
        found = {self.groups[place]: compact(float(values[place])) for place in single}
        return [found.get(feature, "") for feature in range(len(self.names))]


def feature_names(manifest: Mapping[str, Any]) -> FeatureNames | None:
    """The features that a run's manifest names."""
    known = (manifest.get("data") or {}).get("features")
    return None if not known else FeatureNames(names=tuple(known["names"]), groups=tuple(known["groups"]))


def draw_features(features: FeatureNames, before: Array, after: Array, expected: Array, found: Array, formulas: Any) -> Markup:
    """One row per feature: its value before and after, and the expected and the found attribution; the largest ones first."""
    one, other = features.sums(expected), features.sums(found)
    size = np.nan_to_num(np.maximum(np.abs(one), np.abs(other)))
    order, scale = np.argsort(-size, kind="stable")[:SHOWN], float(size.max(initial=0.0)) or 1.0
    x, moved = features.inputs(before), features.inputs(after)
    rows = [(features.names[i], x[i], moved[i], bar(one[i] / scale), bar(other[i] / scale)) for i in order]
    return draw("features", rows, formulas, len(features.names) - len(rows))


def bar(share: float) -> Markup:
    """A bar from zero in the middle to a share from -1 to 1, with the share in words for readers that see no bars."""
    level = float(np.clip(np.nan_to_num(share), -1.0, 1.0))
    css = "positive" if level > 0 else "negative"
    return Markup(
        '<svg class="series bar" role="img" aria-label="{0:.2f}" width="100%" height="10" viewBox="-100 0 200 10" '
        'preserveAspectRatio="none"><path class="thread" d="M0 0V10"/><path class="{1}" d="M0 5H{2:.1f}"/></svg>'
    ).format(level, css, 100 * level)


@dataclass(frozen=True, kw_only=True)
class FeatureTable:
    """The share of each feature in the attributions of each explainer of a model, (features, explainers); the largest first."""

    model: str
    explainers: tuple[str, ...]
    names: tuple[str, ...]
    shares: Array
    left: int


def feature_tables(attributions: pd.DataFrame, models: Sequence[str]) -> tuple[FeatureTable, ...]:
    """One table per model from the run's attributions."""
    tables = []
    for model in models:
        mine = attributions[attributions["model"] == model]
        if not len(mine):
            continue
        wide = mine.pivot_table(index="feature", columns="explainer", values="share", sort=False)
        wide = wide.loc[wide.mean(axis=1).sort_values(ascending=False, kind="stable").index]
        kept = wide.iloc[:SHOWN]
        names, explainers = (tuple(map(str, labels)) for labels in (kept.index, kept.columns))
        tables.append(FeatureTable(model=model, explainers=explainers, names=names, shares=kept.to_numpy(), left=len(wide) - len(kept)))
    return tuple(tables)


def draw_shares(table: FeatureTable, noun: str = "feature") -> Markup:
    """Features, or what else `noun` says, in rows, explainers in columns, shares as bars with their numbers."""
    top = float(np.nan_to_num(table.shares).max(initial=0.0)) or 1.0
    rows = [
        (name, [(f"{share:.0%}".replace("%", " %"), bar_from_left(share / top)) for share in line])
        for name, line in zip(table.names, table.shares, strict=True)
    ]
    return draw("shares", table.explainers, rows, table.left, noun)


def bar_from_left(share: float) -> Markup:
    """A bar from the left edge, as wide as the share from 0 to 1."""
    level = 100 * float(np.clip(np.nan_to_num(share), 0.0, 1.0))
    frame = '<svg class="series bar" aria-hidden="true" width="100%" height="10" viewBox="0 0 100 10" preserveAspectRatio="none">{}</svg>'
    return Markup(frame).format(Markup('<path class="positive" d="M0 5H{:.1f}"/>').format(level))
