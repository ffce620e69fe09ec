"""Results as terminal tables that fit eighty columns: audits, orbit evaluations, comparisons, scans, advice."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from veracity.core.failures import failures_of
from veracity.core.sentences import tell
from veracity.core.wording import MINUS, SHARED, UNSEEN, centre, decimals, interval, percentage
from veracity.core.wording import number as written
from veracity.engine.store.manifest import Kind
from veracity.engine.store.state import Progress, Stage, State
from veracity.report.figures.folds import fold_sentence, folds_data
from veracity.report.wording import ARROWS, frame_title, in_order, title_of
from veracity.results import Result, Row
from veracity.results.rows import COARSE
from veracity.results.words import assumptions, caveats, cost, set_columns, strength_lines
from veracity.studies.result import StudyResult

if TYPE_CHECKING:
    from veracity.orbits import OrbitResult
    from veracity.studies.advice import Advice
    from veracity.studies.symmetry_scan import Scan

AGAINST = {"truth": "against the truth", "consensus": "against the consensus", "": ""}
GAP = (
    "Gap: the mean distance along the orbit from what the model says of the unmoved input; an exactly equivariant model has 0. "
    "{level:g} % intervals, for other samples."
)


def any_result(result: Any) -> Group | str:
    """What a folder holds, as the terminal shows it: tables, or the text of a study."""
    if isinstance(result, Result):
        return results(result)
    if is_text(result):
        state = result.progress if isinstance(result, StudyResult) else None
        return "\n".join([*(whereabouts(state) if state is not None else []), escape(str(result))])
    return symmetries(cast("Scan", result)) if isinstance(result, StudyResult) else orbit_results(result)


def is_text(result: Any) -> bool:
    """Whether a result is shown as text, whose lines are not wrapped."""
    return getattr(result, "kind", None) is not Kind.SCAN and not hasattr(result, "manifest")


def symmetries(found: Scan) -> Group:
    """One row per symmetry, and why the first one stands there."""
    headings = ["elements", "invariance", "interval", "worst", "verdict"]
    table = ruled(found.title or "symmetries, best kept first", ["symmetry"], headings)
    for row in found.rows:
        elements = "no end" if row.elements is None else size(row.elements)
        ends = "" if math.isnan(row.low) else f"{number(row.low)} .. {number(row.high)}"
        numbers = elements, number(row.moved), ends, number(row.lowest), row.verdict.value
        table.add_row(escape(row.symmetry), *numbers, style="bold" if row.verdict.value == "kept" else "dim")
    first = found.rows[0]
    alike = tell("scan.null", first.null, samples=first.n if math.isfinite(first.null) else 0)
    return Group(table, escape(" ".join(filter(None, (first.why, alike)))))


def size(elements: float) -> str:
    """A count that fits a column.

    >>> size(441), size(10**20)
    ('441', '> 10^9')
    """
    return f"{elements:,}" if elements <= 10**9 else "> 10^9"


def advice(found: Sequence[Advice]) -> Iterator[str]:
    """Each step of the advice, in a few lines."""
    for one in found:
        mark = "[green]robust[/]" if one.robust else f"[yellow]{escape(one.assumption)}[/]"
        yield f"[bold]{escape(one.model)} / {escape(one.explainer)}[/] ({one.branch}, guideline {one.guideline}): {mark}"
        yield from (textwrap.indent(escape(line), "  ") for line in one.lines())


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


CAPTION = "{level:g} % intervals, for other samples and for other copies of the weights where they are shared. {beside}"
FOLDED = (
    "MeGe and ReCo: for other samples of these trained models, not for other trainings. S= and S!=: how many pairs of models should "
    "explain alike, and how many not; null 95 %: what ReCo reaches where labels are permuted; p: how rarely it is as high."
)
BESIDE = {"self": "self: the explainer against itself", "random": "random: the fair random explanation"}
BETTER = f"{ARROWS['higher']} higher is better, {ARROWS['lower']} lower is better."


def results(result: Result) -> Group:
    """One table a model and score, kinds of explanations apart, best first and controls last; then the scores of the models themselves."""
    frame = pd.DataFrame({"row": result.rows, **result.table()})
    parts = list(tables(frame, result))
    if parts:
        level = 100 * float(result.manifest["spec"].get("confidence", 0.95))
        below(parts[-1], caption(frame, level, {str(column.header) for table in parts for column in table.columns}))
    spaced: list[Table | str] = []
    for table in parts:
        spaced += [table, ""] if table.caption and table is not parts[-1] else [table]
    folded = folds_data(result.folds(), list(result.manifest["models"])).models
    head = [escape(result.manifest.get("title") or result.path), *whereabouts(result.progress)]
    return Group(*head, *spaced, *(escape(fold_sentence(one)) for one in folded))


def whereabouts(progress: Progress) -> list[str]:
    """Where a run stands, in a sentence; nothing if all of it is measured."""
    return [] if progress.stage is Stage.DONE else [escape(progress.sentence())]


def caption(frame: pd.DataFrame, level: float, columns: Collection[str]) -> str:
    """How to read the numbers in these columns, and what they do not say."""
    explained = frame[frame["explainer"] != ""]
    judged = list(dict.fromkeys(row.score for row in explained["row"] if row.marked))
    constant = "a constant map" if set(explained["frame"]) <= {"input"} else "a constant explanation"
    beside = "; ".join(text for name, text in BESIDE.items() if name in columns)
    how = CAPTION.format(level=level, beside=f"{beside}." if beside else "").strip()
    pooled = [FOLDED] if "p_value" in frame and frame["pairs_same"].notna().any() else []
    alike = [UNSEEN.format(draws=SHARED)] if frame.loc[frame["state"] != State.PENDING, "unseen"].notna().any() else []
    known = int((explained["score"].isin(judged[:1]) & (explained["state"] == State.DONE)).sum())
    caveat = tell("table.caveat", title_of(str(judged[0])), constant, explainers=known) if judged else ""
    said = [how, *alike, *pooled, *([caveat] if caveat else [])]
    return "\n".join([BETTER, *said] if frame["direction"].nunique() > 1 else said)


def tables(frame: pd.DataFrame, result: Result) -> Iterator[Table]:
    """The tables of a run, each with what its score assumes of the model under it."""
    manifest = result.manifest
    better = frame["value"].where(frame["direction"] == "higher", -frame["value"]).where(frame["state"] == State.DONE)
    place = {name: number for number, name in enumerate(in_order(frame["frame"]))}
    sorted_frame = frame.assign(better=better, place=frame["frame"].map(place))
    asked = frame.loc[frame["explainer"] != "", "score"].unique()
    found = assumptions(result, asked, list(manifest["models"]))
    said = {(one.model, one.score): one.text for one in found}
    for (model, score), group in sorted_frame[frame["explainer"] != ""].groupby(["model", "score"], sort=False):
        units = result.in_map_units(str(score))
        ranked = group.assign(better=0.0) if units else group
        rows = ranked.sort_values(["place", "control", "better"], ascending=[True, True, False], kind="stable")
        known = {"published": "published"} if "published" in rows and rows["published"].notna().any() else {}
        first: Row = rows["row"].iloc[0]
        if first.pooled:
            table = across_folds(f"{model}: {score}", rows, known)
        elif first.searched:
            table = searched(f"{model}: {score}", rows, known)
        else:
            table = explained(f"{model}: {score}", rows, {**beside(result, str(score)), **known}, ranked=not units)
        below(
            table,
            *broken(rows),
            *([tell("table.units", explainers=len(rows))] if units else ()),
            *remarks(rows),
            *([cost(list(rows["row"]))] if first.searched else ()),
            said.get((str(model), str(score)), ""),
            *caveats(manifest["spec"].get("published", ()), str(score), [str(model)], set(rows["explainer"])),
            *ends(result, str(model), str(score)),
        )
        yield table
    for score, rows in frame[frame["explainer"] == ""].groupby("score", sort=False):
        if rows["row"].iloc[0].searched:
            table = searched(str(score), rows, {}, left="model")
            below(table, *broken(rows), cost(list(rows["row"])))
            yield table
            continue
        table = ruled(str(score), ["model"], ["value", "interval", "n", "undefined", "accuracy", *standing(rows)])
        for row in rows.to_dict("records"):
            accuracy = manifest["models"][row["model"]]["accuracy"]
            table.add_row(
                escape(row["model"]), *common(row), "" if accuracy is None else number(accuracy), *(row[key] for key in standing(rows))
            )
        below(table, *broken(rows))
        yield table


def ends(result: Result, model: str, score: str) -> list[str]:
    """Where the paths of a score end on a model, if that was found from the data."""
    found = "alignment" in result.known_score(score).figures and getattr(result.known_score(score), "sigma", 0.0) is None
    return strength_lines([one for one in result.manifest.get("calibrations") or () if one["model"] == model]) if found else []


def remarks(rows: pd.DataFrame) -> Iterator[str]:
    """What to know of one score on one model: its null, and who did not respond on some samples though on others."""
    records = rows.to_dict("records")
    nulls = [row["null"] for row in records if not math.isnan(row["null"])]
    partly = [row for row in records if row.get("no_response") and row["state"] == State.DONE]
    if nulls:
        yield tell("chance.null", number(float(nulls[0])), nulls=len(nulls))
    names = [f"{row['explainer']} on {row['no_response']} of {row['n'] + row['undefined']}" for row in partly]
    yield tell("table.silent", ", ".join(names), silent=len(partly))


def broken(rows: pd.DataFrame) -> list[str]:
    """Why some rows have no result, or only that of some cells, each reason once with everybody that it concerns."""
    records = [
        {**row, "error": row["failed"], "score": "", "samples": row["n"] + row["undefined"] + row["samples_failed"]}
        for row in rows.to_dict("records")
        if row["failed"]
    ]
    return [str(one) for one in failures_of(records)]


def standing(rows: pd.DataFrame) -> list[str]:
    """The column "state", where some row is pending or failed; what is done or undefined shows it by its value."""
    return ["state"] if rows["state"].isin([State.PENDING, State.FAILED]).any() else []


def beside(result: Result, label: str) -> dict[str, str]:
    """The columns that stand beside a score, by their headings: those on its own scale."""
    shown = () if result.in_map_units(label) else result.known_score(label).beside
    return {heading: name for heading, name in {"self": "self_agreement", "random": "random_control"}.items() if name in shown}


def below(table: Table, *sentences: str) -> None:
    """Put sentences under a table, each on a line of its own, under those that are there."""
    said = [*([str(table.caption)] if table.caption else []), *(escape(text) for text in sentences if text)]
    if said:
        table.caption, table.caption_justify = "\n".join(said), "left"


def explained(title: str, rows: pd.DataFrame, besides: Mapping[str, str], *, ranked: bool = True) -> Table:
    """One score on one model; each kind of explanation under a line of its own where there are several.

    Which way is better is said only where explainers may be `ranked`.
    """
    better = str(rows["direction"].iloc[0])
    some, lost = bool(rows["undefined"].any()), bool(rows["samples_failed"].any())
    value = f"value {ARROWS[better]}" if ranked else "value"
    headings = [value, "interval", "n", *(["undefined"] if some else []), *(["failed"] if lost else []), *besides, *standing(rows)]
    table = ruled(title + ("" if better == "higher" or not ranked else " (lower is better)"), ["explainer"], headings)
    digits = decimals(rows["value"])
    several = rows["frame"].nunique() > 1
    for kind, group in rows.groupby("frame", sort=False):
        if several:
            table.add_section()
            table.add_row(f"[bold]{escape(frame_title(str(kind)).lower())}[/]")
        for row in group.to_dict("records"):
            others = [number(row[column], 3 if column == "self_agreement" else digits) for column in besides.values()]
            numbers = [*common(row, digits)[: 4 if some else 3], *([str(row["samples_failed"])] if lost else [])]
            told = [row[key] for key in standing(rows)]
            table.add_row(escape(row["explainer"]), *numbers, *others, *told, style="dim" if row["control"] else None)
    return table


def across_folds(title: str, rows: pd.DataFrame, besides: Mapping[str, str]) -> Table:
    """A score of stability: how many pairs of models it is made of, its permutation null, and how rarely that is as high."""
    records = rows.to_dict("records")
    numbers = pd.DataFrame([set_columns(row) for row in rows["row"]]).drop(columns="null")
    numbers = numbers.loc[:, (numbers != "").any()]
    if "p" not in numbers:
        besides = {"random": "random_control", **besides}
    table = ruled(
        title, ["explainer"], [f"value {ARROWS[str(rows['direction'].iloc[0])]}", "interval", *numbers.columns, *besides, *standing(rows)]
    )
    digits = decimals(rows["value"])
    for row, beside_it in zip(records, numbers.to_numpy().tolist(), strict=True):
        value, ends, *_ = common(row, digits)
        others = [number(row[column], digits) for column in besides.values()]
        told = [row[key] for key in standing(rows)]
        table.add_row(escape(row["explainer"]), value, ends, *beside_it, *others, *told, style="dim" if row["control"] else None)
    still = [f"{row['explainer']} ({row['undefined']} samples)" for row in records if row["undefined"] and row["state"] != State.PENDING]
    below(table, tell("table.constant", ", ".join(still), undefined=len(still)))
    for text, some in {
        "S!= is empty, no pair of models disagrees, so that nothing can be told apart": [
            row for row in records if row["pairs_differ"] == 0
        ],
        "S= is empty, no pair of models agrees": [row for row in records if row["pairs_same"] == 0],
        "all distances are equal": [row for row in records if row["pairs_same"] > 0 and row["pairs_differ"] > 0],
    }.items():
        names = [row["explainer"] for row in some if row["state"] == State.UNDEFINED and row["n"]]
        below(table, tell("table.undefined", text, ", ".join(names), lost=len(names)))
    return table


def searched(title: str, rows: pd.DataFrame, besides: Mapping[str, str], left: str = "explainer") -> Table:
    """A worst case or a probability: the mean, or the median where some are only bounds, and how the samples ended."""
    better = str(rows["direction"].iloc[0])
    middle = "median" if rows["row"].iloc[0].middle == "median" else "value"
    table = ruled(
        title + ("" if better == "higher" else " (lower is better)"), [left], [f"{middle} {ARROWS[better]}", "interval", *besides]
    )
    table.add_column("samples", overflow="fold")
    for heading in standing(rows):
        table.add_column(heading, justify="right", no_wrap=True)
    digits = COARSE if middle == "median" else decimals(rows["value"])
    for row in rows.to_dict("records"):
        value, ends, *_ = common(row, digits)
        others = [number(row[column], digits) for column in besides.values()]
        told = row["row"].outcome
        name = escape(str(row[left]))
        style = "dim" if row["control"] else None
        table.add_row(name, value, ends, *others, told or str(row["n"]), *(row[key] for key in standing(rows)), style=style)
    return table


def ruled(title: str, left: list[str], right: list[str]) -> Table:
    """An empty table."""
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD, title_style="bold", padding=(0, 1, 0, 0))
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=name != "interval")
    return table


def common(row: dict[Any, Any], digits: int = 3) -> list[str]:
    """Value, interval, samples, undefined samples; of a pending row how far it is, of a failed one that it has no result."""
    value = middle_of(row["value"], "at most" if row.get("bound") else "", digits)
    counts = [str(row["n"]), str(row["undefined"])]
    if row["state"] == State.FAILED:
        return ["", "no result", *counts]
    if row["state"] == State.PENDING:
        far = f"{row['cells_measured']} of {row['cells']} cells"
        return ["", f"so far {value}, {far}" if value else far, *counts]
    nothing = "no response" if row.get("no_response") else "undefined"
    return [value or nothing, reach(row, digits), *counts]


def middle_of(value: float, bound: str, digits: int = 3) -> str:
    """A number, with a sign where it is a bound, or nothing.

    >>> middle_of(-100.0, "at most"), middle_of(math.nan, "")
    ('≤ -100.0', '')
    """
    return "" if math.isnan(value) else centre(value, bound, digits).replace(MINUS, "-")


def reach(row: Mapping[Any, Any], digits: int = 3) -> str:
    """The interval of a row, or nothing.

    >>> reach({"low": -20.0, "high": -8.5}), reach({"low": -math.inf, "high": -8.5})
    ('-20.000 .. -8.500', '≤ -8.500')
    >>> reach({"low": 1.0, "high": 1.0, "unseen": 0.1129})
    'unseen ≤ 11.3 %'
    """
    if math.isfinite(row.get("unseen", math.nan)):
        return f"unseen ≤ {percentage(row['unseen'])}"
    return "" if math.isnan(row["low"]) else interval(row["low"], row["high"], digits, " .. ").replace(MINUS, "-")


def number(value: float, digits: int = 3) -> str:
    """A fixed count of decimals, fewer of large numbers, or nothing.

    >>> number(-0.25), number(47033.04), number(math.nan)
    ('-0.250', '47033', '')
    """
    return "" if math.isnan(value) else written(value, digits).replace(MINUS, "-")


def comparison(frame: pd.DataFrame, title: str, *, folded: bool = False) -> Group:
    """Two runs beside each other, one table a model and score; of models that were trained for them, what that leaves open."""
    parts = []
    for (model, score), rows in frame.groupby(["model", "score"], sort=False):
        table = ruled(f"{model}: {score}", ["explainer"], ["before", "after", "difference", "interval", "paired"])
        for row in rows.to_dict("records"):
            bounds = {name: "at most" if row[f"{name}_bound"] else "" for name in ("before", "after")} | {"difference": row["bound"]}
            numbers = [middle_of(row[name], bound) for name, bound in bounds.items()]
            ends = f"{row['status']}, unseen ≤ {percentage(row['unseen'])}" if math.isfinite(row["unseen"]) else reach(row) or row["status"]
            table.add_row(escape(row["explainer"]), *numbers, ends, "yes" if row["paired"] else "no")
        parts.append(table)
    said = ["Cross-trained models: for other samples of these trained models; what another training would change is not in it."]
    return Group(escape(title), *parts, *(said if folded else []))
