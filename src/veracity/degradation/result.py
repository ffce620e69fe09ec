"""What a degradation check found: scores against damage, and whether they follow it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from veracity.core.failures import failures_of
from veracity.core.measures import Direction
from veracity.interpret.intervals import mean_interval
from veracity.interpret.trend import holm, trend, verdict

TITLE = "Do scores follow the damage?"


@dataclass(frozen=True)
class DegradationResult:
    """Every score of every explainer under every damage: `rows` has one a damage, share, seed, score and explainer.

    What is undamaged stands in the rows of the share 0, once. `lost` says, by the case's name, why a damaged model could not be
    measured at all; its values are NaN.
    """

    rows: pd.DataFrame
    damages: tuple[str, ...]
    lost: Mapping[str, str]
    failed: pd.DataFrame
    title: str | None = None
    confidence: float = 0.95

    def table(self) -> pd.DataFrame:
        """One row a damage, share, score and explainer: the mean over seeds with its t interval, and the mean accuracy.

        Intervals are cut to the bounds of the score; `n` seeds have a value, `undefined` have none. A damage that leaves the
        accuracy as it was is none.
        """
        found = []
        for (damage, score, explainer), here in self._groups():
            for share, part in here.groupby("share", sort=True):
                middle = asdict(mean_interval(part["value"].to_numpy(dtype=np.float64), self.confidence))
                ends = np.clip([middle["low"], middle["high"]], part["least"].iloc[0], part["most"].iloc[0])
                beside = {"undefined": int(part["value"].isna().sum()), "accuracy": part["accuracy"].mean()}
                named = {"damage": damage, "share": share, "score": score, "explainer": explainer}
                found.append({**named, **middle, "low": ends[0], "high": ends[1], **beside, "direction": part["direction"].iloc[0]})
        return pd.DataFrame(found)

    def trends(self) -> pd.DataFrame:
        """One row a damage, score and explainer: does the score follow the damage?

        `slope` is in units of the score per unit of damage, with its t interval over seeds; `p` is of Page's one-sided test in the
        direction in which the score is worse, `p_adjusted` by Holm's correction over the explainers of a score and damage. The
        verdict is "follows", "does not follow", "goes the other way" or "undefined". `accuracy_drop` is how much accuracy the largest
        damage costs.
        """
        found: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for (damage, score, explainer), here in self._groups():
            values = here.pivot(index="seed", columns="share", values="value").sort_index(axis=1)
            accuracies = here.groupby("share", sort=True)["accuracy"].mean()
            direction = Direction(here["direction"].iloc[0])
            one = trend(values.to_numpy(dtype=np.float64), [float(share) for share in values.columns], direction, self.confidence)
            drop = float(accuracies.iloc[0] - accuracies.iloc[-1])
            named = {"damage": damage, "score": score, "explainer": explainer}
            row = {**named, "found": one, "direction": direction, "accuracy_drop": drop}
            found.setdefault((damage, score), []).append(row)
        return pd.DataFrame([row for alike in found.values() for row in self._judged(alike)])

    def failures(self) -> pd.DataFrame:
        """What could not be measured, and why: one row a case, or a case's explainer and score."""
        lost = [{"case": name, "explainer": "", "score": "", "error": reason} for name, reason in self.lost.items()]
        return pd.concat([pd.DataFrame(lost, columns=["case", "explainer", "score", "error"]), self.failed], ignore_index=True)

    def save_report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that opens anywhere."""
        from veracity import report

        return report.write_degradation(self.table(), self.trends(), self.failures(), path, self.title or TITLE)

    def __str__(self) -> str:
        """The trends as text, then what could not be measured."""
        shown = self.trends().drop(columns=["direction"])
        lines = [str(shown.to_string(index=False, float_format=lambda value: f"{value:.3g}", na_rep=""))]
        lost = failures_of({**row, "model": row["case"]} for row in self.failures().to_dict("records"))
        return "\n".join([*lines, *map(str, lost)])

    def _judged(self, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The explainers of one damage and score, with adjusted p-values and verdicts."""
        adjusted = holm(np.array([row["found"].p for row in rows]))
        for row, p in zip(rows, adjusted, strict=True):
            one, direction = row.pop("found"), row.pop("direction")
            said = verdict(float(p), one, self.confidence)
            numbers = {"slope": one.slope, "low": one.low, "high": one.high, "p": one.p, "p_adjusted": float(p), "verdict": said}
            drop = row.pop("accuracy_drop")
            yield {**row, **numbers, "n": one.n, "undefined": one.undefined, "accuracy_drop": drop, "direction": direction.value}

    def _groups(self) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
        """The rows of each damage, score and explainer, the undamaged ones among them."""
        for damage in self.damages:
            mine = self.rows[self.rows["damage"].isin(["", damage])]
            for (score, explainer), here in mine.groupby(["score", "explainer"], sort=False):
                yield (damage, str(score), str(explainer)), here


def plain(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON can write them: without NaN and infinity."""
    finite = rows.replace([np.inf, -np.inf], np.nan)
    records = finite.astype(object).where(finite.notna(), None).to_dict("records")
    return [{str(name): value for name, value in record.items()} for record in records]
