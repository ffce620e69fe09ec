"""An orbit evaluation as terminal tables that fit eighty columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from veracity.cli.tables import below, number, reach, ruled, standing, whereabouts
from veracity.core.failures import failures_of
from veracity.engine.store.state import State
from veracity.orbits import OrbitResult
from veracity.report.wording import ARROWS, UNSEEN

AGAINST = {"truth": "against the truth", "consensus": "against the consensus", "": ""}
GAP = (
    "Gap: the mean distance along the orbit from what the model says of the unmoved input; an exactly equivariant model has 0. "
    "{level:g} % intervals, for other samples."
)


def orbit_results(result: OrbitResult) -> Group:
    """One table a metric and reference, then the equivariance gaps, then how the consensus agrees with the truth."""
    parts = [*metrics(result), gaps(result)]
    agreed = result.agreement()
    if len(agreed):
        table = ruled("consensus against truth: correlation along the orbit", ["model", "metric"], ["mean", "interval", "aggregate", "n"])
        for row in agreed.to_dict("records"):
            numbers = number(row["correlation"]), reach(row), number(row["aggregate"]), str(row["n"])
            table.add_row(escape(row["model"]), escape(row["metric"]), *numbers)
        parts.append(table)
    said = [*result.notes, *map(str, failures_of(result.failures().to_dict("records")))]
    title = result.manifest.get("title") or result.path
    return Group(escape(str(title)), *whereabouts(result.progress), *parts, *(escape(line) for line in said))


def metrics(result: OrbitResult) -> Iterator[Table]:
    """Every metric: its mean over all orbits, what it is unmoved, and where along the orbit it is worst."""
    labels = {one["name"]: (one["label"], one["unit"]) for one in result.metrics}
    for (metric, reference), rows in result.table().groupby(["metric", "reference"], sort=False):
        label, unit = labels[str(metric)]
        arrow = ARROWS[str(rows["direction"].iloc[0])]
        title = " ".join(filter(None, (label, f"({unit})" if unit else "", AGAINST[str(reference)])))
        some = bool(rows.loc[rows["state"] != State.PENDING, "undefined"].any())
        table = ruled(
            title, ["model"], [f"mean {arrow}", "interval", "unmoved", "worst", "at", *(["undefined"] if some else []), *standing(rows)]
        )
        for column in table.columns:
            column.no_wrap = column.header not in ("model", "at")
            column.min_width = 8 if not column.no_wrap else None
        for row in rows.to_dict("records"):
            *numbers, lost = measured(row)
            table.add_row(escape(row["model"]), *numbers, *([lost] if some else []), *(row[key] for key in standing(rows)))
        yield table


def measured(row: Mapping[Any, Any]) -> tuple[str, ...]:
    """The numbers of one model, how many samples are undefined last; of a pending row, how far it is."""
    place, lost = escape(str(row["worst_at"])), str(row["undefined"])
    if row["state"] == State.PENDING:
        return "", f"{row['cells_measured']} of {row['cells']} cells", "", "", "", ""
    return number(row["value"]), reach(row), number(row["identity"]), number(row["worst"]), place, lost


def gaps(result: OrbitResult) -> Table:
    """Every model's equivariance gap."""
    table = ruled("equivariance gap", ["model"], ["gap", "interval", "n", "undefined"])
    for row in result.gap().to_dict("records"):
        table.add_row(escape(row["model"]), number(row["value"]), reach(row), str(row["n"]), str(row["undefined"]))
    below(table, GAP.format(level=100 * result.confidence), UNSEEN.format(draws="") if result.gap()["unseen"].notna().any() else "")
    return table
