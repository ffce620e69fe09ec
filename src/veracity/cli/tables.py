"""Results as terminal tables that fit eighty columns: audits, orbit evaluations, comparisons, scans, advice."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.markup import escape

from veracity.cli.summary import HEADING, Page, Table
from veracity.core.failures import failures_of
from veracity.core.sentences import tell
from veracity.core.wording import MINUS, SHARED, UNSEEN, centre, decimals, interval, percentage
from veracity.core.wording import number as written
from veracity.engine.store.manifest import Kind
from veracity.engine.store.state import Progress, Stage, State
from veracity.report.wording import ARROWS, frame_title, in_order, title_of
from veracity.results import Result, Row
from veracity.results.rows import digits_of
from veracity.results.words import assumptions, caveats, cost, set_columns, strength_lines, strict_lines

if TYPE_CHECKING:
    from veracity.orbits import OrbitResult
    from veracity.studies.advice import Advice
    from veracity.studies.symmetry_scan import Scan

AGAINST = {"truth": "against the truth", "consensus": "against the consensus", "": ""}
GAP = (
    "Gap: the mean distance along the orbit between the un-transformed output and the output for the original input; an exactly "
    "equivariant model has 0. {level:g} % intervals, for other samples."
)
CAPTION = "{level:g} % intervals, for other {others} and for other copies of the weights where they are shared. {beside}"
FOLDED = (
    "MeGe and ReCo: for other samples of these trained models, not for other trainings. S= and S!=: how many pairs of models should "
    "explain alike, and how many not; null 95 %: what ReCo reaches where labels are permuted; p: how rarely it is as high."
)
BESIDE = {"self": "self: the explainer against itself", "random": "random: the fair random explanation"}
BETTER = f"{ARROWS['higher']} higher is better, {ARROWS['lower']} lower is better."


def page(result: Any) -> Page:
    """The page that `show` prints for any result: tables, or the text of a study."""
    if isinstance(result, Result):
        return audit_page(result)
    if is_text(result):
        return [*stage(getattr(result, "progress", None)), str(result)]
    return symmetries(result) if getattr(result, "kind", None) is Kind.SCAN else orbit_page(result)


def is_text(result: Any) -> bool:
    """Whether a result is shown as text, whose lines are not wrapped."""
    return getattr(result, "kind", None) is not Kind.SCAN and not hasattr(result, "manifest")


def stage(progress: Progress | None) -> list[str]:
    """How far a run has come, in a sentence; nothing if all of it is measured."""
    return [] if progress is None or progress.stage is Stage.DONE else [progress.sentence()]


def symmetries(found: Scan) -> Page:
    """One row per symmetry, and why the first one stands there."""
    headings = ["elements", "invariance", "interval", "worst", "verdict"]
    table = Table.of(found.title or "symmetries, best kept first", ["symmetry"], headings)
    for row in found.rows:
        elements = "no end" if row.elements is None else f"{row.elements:,}" if row.elements <= 10**9 else "> 10^9"
        ends = "" if math.isnan(row.low) else f"{number(row.low)} .. {number(row.high)}"
        style = "bold" if row.verdict.value == "kept" else "dim"
        table.add(row.symmetry, elements, number(row.moved), ends, number(row.lowest), row.verdict.value, style=style)
    first = found.rows[0]
    alike = tell("scan.null", first.null, samples=first.n if math.isfinite(first.null) else 0)
    return [table, " ".join(filter(None, (first.why, alike)))]


def advice(found: Sequence[Advice]) -> Iterator[str]:
    """Each step of the advice, in a few lines of markup."""
    for one in found:
        mark = "[green]robust[/]" if one.robust else f"[yellow]{escape(one.assumption)}[/]"
        yield f"[bold]{escape(one.model)} / {escape(one.explainer)}[/] ({one.branch}, guideline {one.guideline}): {mark}"
        yield from (textwrap.indent(escape(line), "  ") for line in one.lines())


def orbit_page(result: OrbitResult) -> Page:
    """One table per metric and reference, then the equivariance gaps, then how the consensus agrees with the truth."""
    gaps = Table.of("equivariance gap", ["model"], ["gap", "interval", "n", "undefined"])
    found = result.gap()
    for row in found.to_dict("records"):
        gaps.add(row["model"], number(row["value"]), ends_of(row), str(row["n"]), str(row["undefined"]))
    gaps.note(GAP.format(level=100 * result.confidence), UNSEEN.format(draws="") if found["unseen"].notna().any() else "")
    parts: Page = [*metric_tables(result), gaps]
    agreement = result.agreement()
    if len(agreement):
        title = "consensus against truth: correlation along the orbit"
        table = Table.of(title, ["model", "metric"], ["mean", "interval", "aggregate", "n"])
        for row in agreement.to_dict("records"):
            table.add(row["model"], row["metric"], number(row["correlation"]), ends_of(row), number(row["aggregate"]), str(row["n"]))
        parts.append(table)
    failures = failures_of(result.failures().to_dict("records"))
    return [str(result.manifest.get("title") or result.path), *stage(result.progress), *parts, *result.notes, *map(str, failures)]


def metric_tables(result: OrbitResult) -> Iterator[Table]:
    """Every metric: its mean over all orbits, its value for the original input, and where along the orbit it is worst."""
    labels = {one["name"]: (one["label"], one["unit"]) for one in result.metrics}
    for (metric, reference), rows in result.table().groupby(["metric", "reference"], sort=False):
        label, unit = labels[str(metric)]
        title = " ".join(filter(None, (label, f"({unit})" if unit else "", AGAINST[str(reference)])))
        undefined = bool(rows.loc[rows["state"] != State.PENDING, "undefined"].any())
        states = state_column(rows["state"])
        mean = f"mean {ARROWS[str(rows['direction'].iloc[0])]}"
        table = Table.of(title, ["model"], [mean, "interval", "unmoved", "worst", "at", *["undefined"] * undefined, *states])
        for column in table.columns:
            column["no_wrap"] = column["header"] not in ("model", "at")
            column["min_width"] = None if column["no_wrap"] else 8
        for row in rows.to_dict("records"):
            cells = [number(row["value"]), ends_of(row), number(row["identity"]), number(row["worst"]), str(row["worst_at"])]
            cells += [str(row["undefined"])] * undefined
            if row["state"] == State.PENDING:
                cells = ["", f"{row['cells_measured']} of {row['cells']} cells", *[""] * (len(cells) - 2)]
            table.add(row["model"], *cells, *(row[name] for name in states))
        yield table


def audit_page(result: Result) -> Page:
    """One table per model and score, kinds of explanations apart, best first and controls last; then the scores of the models."""
    tables = list(audit_tables(result))
    if tables:
        level = 100 * float(result.manifest["spec"].get("confidence", 0.95))
        tables[-1].note(*captions(result.rows, level, {str(column["header"]) for table in tables for column in table.columns}))
    spaced: Page = []
    for table in tables:
        spaced += [table, ""] if table.notes and table is not tables[-1] else [table]
    return [result.manifest.get("title") or result.path, *stage(result.progress), *spaced, *fold_sentences(result)]


def fold_sentences(result: Result) -> list[str]:
    """How accurate the folds of cross-trained models are."""
    if not result.manifest.get("folds"):
        return []
    from veracity.report.figures.folds import fold_sentence, folds_data

    return list(map(fold_sentence, folds_data(result.folds(), list(result.manifest["models"])).models))


def captions(rows: Sequence[Row], level: float, columns: Collection[str]) -> Iterator[str]:
    """Sentences on how to read these columns, and on their limits."""
    explained = [row for row in rows if row.explainer]
    beside = "; ".join(text for name, text in BESIDE.items() if name in columns)
    if len({row.direction for row in rows}) > 1:
        yield BETTER
    people = max((row.units for row in rows if row.units is not None), default=0)
    others = f"units like these {people}, to which the samples belong," if people else "samples"
    yield CAPTION.format(level=level, others=others, beside=f"{beside}." if beside else "").strip()
    if any(math.isfinite(row.unseen) for row in rows if not row.pending):
        yield UNSEEN.format(draws=SHARED)
    if any(row.pairs_same is not None for row in rows):
        yield FOLDED
    for score in [row.score for row in explained if row.marked][:1]:
        constant = "a constant map" if {row.frame for row in explained} <= {"input"} else "a constant explanation"
        count = sum(row.score == score and row.state == State.DONE for row in explained)
        yield tell("table.caveat", title_of(score), constant, explainers=count)


def audit_tables(result: Result) -> Iterator[Table]:
    """The tables of a run, each with what its score assumes of the model under it."""
    manifest, explained = result.manifest, [row for row in result.rows if row.explainer]
    frames = in_order(row.frame for row in result.rows)
    scores = dict.fromkeys(row.score for row in explained)
    texts = {(one.model, one.score): one.text for one in assumptions(result, scores, list(manifest["models"]))}
    for (model, score), group in by_key(explained, "model", "score").items():
        units = result.in_map_units(score)
        rows = sorted(group, key=lambda row: (frames.index(row.frame), row.control, 0.0 if units else badness(row)))
        published = {"published": "published"} if any(math.isfinite(row.published) for row in rows) else {}
        own = () if units else result.known_score(score).beside
        beside = {heading: name for heading, name in {"self": "self_agreement", "random": "random_control"}.items() if name in own}
        plain = not (rows[0].pooled or rows[0].searched)
        table = score_table(f"{model}: {score}", rows, {**(beside if plain else {}), **published}, ranked=not (plain and units))
        table.note(
            *(undefined_sentences(rows) if any(row.pairs_same is not None for row in rows) else ()),
            *failure_sentences(rows),
            tell("table.units", explainers=len(rows)) if units else "",
            *remarks(rows),
            cost(rows) if rows[0].searched else "",
            texts.get((model, score), ""),
            *caveats(manifest["spec"].get("published", ()), score, [model], {row.explainer for row in rows}),
        )
        known = result.known_score(score)
        if "alignment" in known.figures and getattr(known, "sigma", 0.0) is None:
            table.note(*strength_lines([one for one in manifest.get("calibrations") or () if one["model"] == model]))
        table.note(*strict_lines([one for one in manifest.get("strict") or () if (one["model"], one["score"]) == (model, score)]))
        yield table
    for (score,), rows in by_key([row for row in result.rows if not row.explainer], "score").items():
        if rows[0].searched:
            table = score_table(score, rows, {}, left="model")
            table.note(*failure_sentences(rows), cost(rows))
        else:
            states = state_column(row.state for row in rows)
            table = Table.of(score, ["model"], ["value", "interval", "n", "undefined", "accuracy", *states])
            for row in rows:
                accuracy = manifest["models"][row.model]["accuracy"]
                table.add(row.model, *numbers(row), "" if accuracy is None else number(accuracy), *[row.state] * len(states))
            table.note(*failure_sentences(rows))
        yield table


def by_key(rows: Sequence[Row], *names: str) -> dict[tuple[str, ...], list[Row]]:
    """Rows by the values of some of their columns, in their order."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(getattr(row, name) for name in names), []).append(row)
    return found


def badness(row: Row) -> float:
    """The sort key of a row: the best value comes first, a row without a final value last."""
    if row.state != State.DONE or math.isnan(row.value):
        return math.inf
    return -row.value if row.direction == "higher" else row.value


def remarks(rows: Sequence[Row]) -> Iterator[str]:
    """The null of one score on one model, and the explainers that did not respond on some of the samples."""
    nulls = [row.null for row in rows if not math.isnan(row.null)]
    if nulls:
        yield tell("chance.null", number(float(nulls[0])), nulls=len(nulls))
    silent = [
        f"{row.explainer} on {row.no_response} of {row.n + row.undefined}" for row in rows if row.no_response and row.state == State.DONE
    ]
    yield tell("table.silent", ", ".join(silent), silent=len(silent))


def failure_sentences(rows: Sequence[Row]) -> list[str]:
    """Why some rows have no result, or only that of some cells: each error once, with all that it concerns."""
    records = [
        {**row.record(), "error": row.failed, "score": "", "samples": row.n + row.undefined + row.samples_failed}
        for row in rows
        if row.failed
    ]
    return [str(one) for one in failures_of(records)]


def state_column(states: Any) -> list[str]:
    """The column "state", if a row is pending or failed."""
    return ["state"] if {State.PENDING, State.FAILED} & set(states) else []


def score_table(title: str, rows: Sequence[Row], beside: Mapping[str, str], left: str = "explainer", *, ranked: bool = True) -> Table:
    """One score on one model; each of several kinds of explanation has a heading of its own.

    The title and the arrow say which direction is better, if explainers may be `ranked`. A worst case or a probability is a mean, or a
    median if some samples are only bounds, and says how the samples ended.
    """
    first, better = rows[0], rows[0].direction
    digits = digits_of(rows) if first.searched else decimals([row.value for row in rows])
    value = "median" if first.searched and first.middle == "median" else "value"
    texts = [numbers(row, digits) for row in rows]
    columns = {f"{value} {ARROWS[better]}" if ranked else value: [text[0] for text in texts], "interval": [text[1] for text in texts]}
    if first.pooled:
        sets = pd.DataFrame([set_columns(row) for row in rows]).drop(columns="null")
        columns |= {str(heading): list(sets[heading]) for heading in sets if (sets[heading] != "").any()}
        beside = beside if "p" in columns else {"random": "random_control", **beside}
    if not first.searched and "S=" not in columns:
        counts = {"n": "n", "undefined": "undefined", "failed": "samples_failed"}
        found = {heading: [getattr(row, name) for row in rows] for heading, name in counts.items()}
        columns |= {heading: list(map(str, count)) for heading, count in found.items() if heading == "n" or any(count)}
    for heading, name in beside.items():
        columns[heading] = [number(getattr(row, name), 3 if name == "self_agreement" else digits) for row in rows]
    if first.searched:
        columns["samples"] = [row.outcome or str(row.n) for row in rows]
    columns |= {heading: [row.state for row in rows] for heading in state_column(row.state for row in rows)}
    lower = " (lower is better)" if ranked and better == "lower" and not first.pooled else ""
    table = Table.of(title + lower, [left], list(columns))
    for column in table.columns:
        if column["header"] == "samples":
            column |= {"justify": "left", "no_wrap": False, "overflow": "fold"}
    frames = list(dict.fromkeys(row.frame for row in rows if not (first.pooled or first.searched)))
    for frame, group in groupby(zip(rows, *columns.values(), strict=True), key=lambda line: line[0].frame):
        if len(frames) > 1:
            table.add(frame_title(frame).lower(), style=HEADING)
        for row, *cells in group:
            table.add(getattr(row, left), *cells, style="dim" if row.control else "")
    return table


def undefined_sentences(rows: Sequence[Row]) -> Iterator[str]:
    """Why some explainers have no score of stability, or not on all samples."""
    still = [f"{row.explainer} ({row.undefined} samples)" for row in rows if row.undefined and not row.pending]
    yield tell("table.constant", ", ".join(still), undefined=len(still))
    reasons: dict[str, Callable[[Row], object]] = {
        "S!= is empty, no pair of models disagrees, so that nothing can be told apart": lambda row: row.pairs_differ == 0,
        "S= is empty, no pair of models agrees": lambda row: row.pairs_same == 0,
        "all distances are equal": lambda row: row.pairs_same and row.pairs_differ,
    }
    for text, applies in reasons.items():
        names = [row.explainer for row in rows if applies(row) and row.state == State.UNDEFINED and row.n]
        yield tell("table.undefined", text, ", ".join(names), lost=len(names))


def numbers(row: Row, digits: int = 3) -> list[str]:
    """Value, interval, samples and undefined samples; the progress of a pending row, and "no result" for a failed one."""
    value, counts = bound_text(row.value, "at most" if row.bound else "", digits), [str(row.n), str(row.undefined)]
    if row.state == State.FAILED:
        return ["", "no result", *counts]
    if row.pending:
        return ["", row.so_far(digits).replace(MINUS, "-"), *counts]
    return [value or ("no response" if row.no_response else "undefined"), ends_of(vars(row), digits), *counts]


def bound_text(value: float, bound: str, digits: int = 3) -> str:
    """A number, with a sign where it is a bound, or nothing.

    >>> bound_text(-100.0, "at most"), bound_text(math.nan, "")
    ('≤ -100.0', '')
    """
    return "" if math.isnan(value) else centre(value, bound, digits).replace(MINUS, "-")


def ends_of(row: Mapping[Any, Any], digits: int = 3) -> str:
    """The interval of a row, or nothing.

    >>> ends_of({"low": -20.0, "high": -8.5}), ends_of({"low": -math.inf, "high": -8.5})
    ('-20.000 .. -8.500', '≤ -8.500')
    >>> ends_of({"low": 1.0, "high": 1.0, "unseen": 0.1129})
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


def comparison(frame: pd.DataFrame, title: str, *, folds: bool = False) -> Page:
    """Compare two runs: one table per model and score, with a caveat for cross-trained models."""
    parts: Page = [title]
    for (model, score), rows in frame.groupby(["model", "score"], sort=False):
        table = Table.of(f"{model}: {score}", ["explainer"], ["before", "after", "difference", "interval", "paired"])
        for row in rows.to_dict("records"):
            bounds = {name: "at most" if row[f"{name}_bound"] else "" for name in ("before", "after")} | {"difference": row["bound"]}
            ends = f"{row['status']}, {ends_of(row)}" if math.isfinite(row["unseen"]) else ends_of(row) or row["status"]
            values = [bound_text(row[name], bound) for name, bound in bounds.items()]
            table.add(row["explainer"], *values, ends, "yes" if row["paired"] else "no")
        parts.append(table)
    note = "Cross-trained models: for other samples of these trained models; what another training would change is not in it."
    return [*parts, note] if folds else parts
