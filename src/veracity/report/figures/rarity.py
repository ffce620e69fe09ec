"""Probability against rarity: how ln P falls, level by level, as the threshold moves towards the event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from veracity.core.scores import Measured
from veracity.report.figures.axis import Axis
from veracity.report.figures.fans import Fan, Panel, Path, draw_fans, path, shown
from veracity.report.figures.scale import tight_scale
from veracity.report.figures.search import harm, harmed, limit_line
from veracity.report.view import SeriesView
from veracity.report.wording import compact
from veracity.scores.robustness.base import Misinterpretation, SearchScore

Array = NDArray[np.float64]
NEEDED = {"probability", "threshold", "state"}
POINTS = 60


@dataclass(frozen=True, kw_only=True)
class Descent:
    """The levels of one subject: ln P (seeds, levels) of a merit of at least `merit` (seeds, levels), NaN beyond a seed's last level."""

    merit: Array
    ln_p: Array


@dataclass(frozen=True, kw_only=True)
class RarityData:
    """One panel a model, or one alone where it is the models that are perturbed."""

    panels: tuple[Panel, ...]
    across: str


def descent(score: SearchScore, measured: Measured) -> Descent:
    """Cumulative ln P = sum of ln p_i up to each level (eq. 21), where the constraint is kept there; of the seeds that were walked."""
    share, threshold, state = (measured[name][:, 0] for name in ("probability", "threshold", "state"))
    walked = np.isfinite(state).any(axis=1)
    known = np.isfinite(share[walked]) & np.isfinite(harm(score, threshold[walked]))
    with np.errstate(invalid="ignore", divide="ignore"):
        total = np.cumsum(np.where(np.isfinite(share[walked]), np.log(share[walked]), 0.0), axis=1)
    return Descent(merit=np.where(known, threshold[walked], np.nan), ln_p=np.where(known, total, np.nan))


def middle(found: Descent, target: float) -> tuple[Array, Array]:
    """The median ln P over seeds at evenly spaced merits up to the target: (merits, ln P), NaN where half of the seeds have ended.

    Between two levels ln P is taken for linear; a seed's first level stands for all milder thresholds, and a seed that ended
    before the event counts as less likely than any other from there on.
    """
    known = np.isfinite(found.merit)
    if not known.any():
        return np.zeros(0), np.zeros(0)
    grid = np.linspace(float(found.merit[known].min()), target, POINTS)
    heights = np.full((len(found.merit), POINTS), -np.inf)
    for row, mine in enumerate(known):
        if mine.any():
            heights[row] = np.interp(grid, found.merit[row, mine], found.ln_p[row, mine], right=-np.inf)
            heights[row, -1] = found.ln_p[row, mine][-1] if found.merit[row, mine][-1] >= target - 1e-9 else -np.inf
    value = np.median(heights, axis=0)
    return grid, np.where(np.isfinite(value), value, np.nan)


def rarity_data(score: SearchScore, series: Sequence[SeriesView], models: Sequence[str], names: Sequence[str]) -> RarityData:
    """From the levels of one score; `names` are the explainers to show in their order, none where the models are perturbed."""
    groups: dict[str, list[Fan]] = {}
    for one in series:
        if not set(one.measured.quantities) >= NEEDED or (names and one.explainer not in names):
            continue
        index = names.index(one.explainer) if names else models.index(one.model)
        fan = fan_of(score, one.measured, one.explainer or one.model, index)
        if fan.seeds:
            groups.setdefault(one.model if names else "", []).append(fan)
    event = limit_line(score)
    places = [x for fans in groups.values() for fan in fans for line in (*fan.seeds, fan.middle) for x, _ in line]
    heights = [y for fans in groups.values() for fan in fans for line in (*fan.seeds, fan.middle) for _, y in line]
    across, up = tight_scale([*places, event]), tight_scale([0.0, *heights], parts=5)
    axis = Axis(scale=across, labels=tuple(compact(tick) for tick in across.ticks))
    panels = [
        Panel(title=model or "All models", fans=tuple(sorted(groups[model], key=lambda fan: fan.index)), across=axis, up=up, marks=(event,))
        for model in [*models, ""]
        if model in groups
    ]
    what = "agreement" if isinstance(score, Misinterpretation) else "prediction loss"
    return RarityData(panels=tuple(panels), across=f"the threshold of the {what}")


def fan_of(score: SearchScore, measured: Measured, label: str, index: int) -> Fan:
    """One subject: a line a seed through its levels, and their median."""
    found = descent(score, measured)
    places, heights = middle(found, score.event)
    lines: list[Path] = [
        path(harmed(score, merit[np.isfinite(merit)]), ln_p[np.isfinite(merit)])
        for merit, ln_p in zip(found.merit, found.ln_p, strict=True)
        if np.isfinite(merit).any()
    ]
    return Fan(label=label, index=index, seeds=shown(lines), middle=path(harmed(score, places), heights))


def draw_rarity(data: RarityData) -> Markup:
    """Every model."""
    return draw_fans(data.panels, f"ln P against {data.across}, level by level")
