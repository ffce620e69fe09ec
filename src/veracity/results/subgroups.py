"""A run's scores in subgroups of its samples, such as by sex: one row per group, with intervals corrected for the number of groups."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from veracity.core.errors import InputError, unknown
from veracity.core.wording import count
from veracity.inputs.units import Groups, as_groups

if TYPE_CHECKING:
    from veracity.results.run import Result

FEWEST = 8
"""Samples with a value, or units of such samples, below which a group has no interval."""
NOT_MEASURED = "not measured"
COLUMNS = ["by", "group", "model", "explainer", "score", "value", "low", "high", "n", "units", "undefined", "unseen", "note"]


def groupings(result: Result, by: Any) -> tuple[Groups, ...]:
    """The groups that a run knows by a name, or those of the given labels, one per sample of the run."""
    known = result.manifest["data"].get("groups") or ()
    stored = {one["name"]: Groups(one["name"], tuple(one["labels"]), np.array(one["of"], dtype=np.int64)) for one in known}
    if isinstance(by, str):
        if not stored:
            raise InputError(
                f"This run knows no groups by the name '{by}': pass one label per sample, or run the audit with by={{'{by}': labels}}."
            )
        if by not in stored:
            raise unknown("grouping of this run", by, stored)
        return (stored[by],)
    return as_groups(by, int(result.manifest["data"]["samples"]))


def subgroup_table(result: Result, by: Any) -> pd.DataFrame:
    """One row per group, model, explainer and score; the intervals of all groups by one name hold together (Bonferroni).

    A group with fewer than eight samples that have a value, or units of such samples, has no interval, and its note says so.
    """
    people = result.manifest["data"].get("units")
    too_few = f"too few {count(2, people['name']).partition(' ')[2]}" if people else "too few samples"
    rows: list[dict[str, Any]] = []
    shown = set(result.manifest["scores"])
    series = [one.sound() for one in result.series if one.score in shown]
    for groups in groupings(result, by):
        level = 1.0 - (1.0 - result.confidence) / max(1, len(groups.labels))
        for place, label in enumerate(groups.labels):
            samples = np.flatnonzero(groups.codes == place)
            for one in series:
                found = result.estimate(one.among(samples), level)
                few = (found["n"] if found.get("units") is None else found["units"]) < FEWEST
                ends = {"low": math.nan, "high": math.nan, "unseen": math.nan} if few else {}
                about = {"by": groups.name, "group": label, "model": one.model, "explainer": one.explainer, "score": one.score}
                note = NOT_MEASURED if not len(one.samples) else too_few if few else ""
                rows.append({**found, **ends, **about, "note": note})
    table = pd.DataFrame(rows, columns=COLUMNS).astype({"units": "Int64"})
    return table.drop(columns="units") if result.units is None else table
