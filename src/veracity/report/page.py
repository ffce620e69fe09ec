"""The report: everything about a run on one page that needs nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from veracity.core.errors import StoreError
from veracity.core.failures import failures_of
from veracity.engine.store.files import write_whole
from veracity.report.answer import headcount
from veracity.report.crosstrained import crosstraining
from veracity.report.faithful import calibration_plot
from veracity.report.figures.advice import advice_data, draw_advice, robust_sentence
from veracity.report.figures.behaviour import behaviour_data, draw_behaviour
from veracity.report.figures.chart import legend
from veracity.report.figures.learnt import draw_learnt, learnt_data, learnt_sentence
from veracity.report.figures.overview import OverviewData, draw_overview, overview_data
from veracity.report.figures.scale import key
from veracity.report.hunted import hunted, setting, spent
from veracity.report.kinds import about_shape, definition, score_of
from veracity.report.phrases import say
from veracity.report.plots import sensitivity_plot
from veracity.report.reading import Reading, read
from veracity.report.robust import adversaries, profile_plot, robust_caveat, robust_plots
from veracity.report.section import Section, section
from veracity.report.summary import MANY, failing, leaders
from veracity.report.verdict import KEPT, SYMMETRY_SCORES
from veracity.report.view import Result, RunView, explanation_scores, model_scores
from veracity.report.wording import DEFINITIONS, frame_title, title_of
from veracity.core.wording import compact, count, day, decimals, interval, number
from veracity.scores import SymmetryScore
from veracity.scores.gef import Alignment
from veracity.scores.stability import MeGe, ReCo, StabilityScore


def render(run: RunView) -> str:
    """The report of a run as one HTML page without any outside request."""
    reading = read(run)
    rows, manifest, models = reading.rows, reading.manifest, reading.models
    accuracy = {name: facts.get("accuracy") for name, facts in (manifest.get("models") or {}).items()}
    begun = {row.score for row in rows if not row.pending}
    own = [score for score in model_scores(rows) if score in begun]
    behaviours = [behaviour_data(rows, score, models, accuracy if score == own[0] else {}, reading.level) for score in own]
    made = [section(reading, score) for score in explanation_scores([row for row in rows if not row.pending])]
    glance = [item.score for item in made if item.score not in SYMMETRY_SCORES]
    tables = overview_data(rows, glance, models, reading.assumed) if len(glance) > 1 else []
    trained = crosstraining(reading)
    advice, learnt = advice_data(run.advice(), models), learnt_data(run.facts(), reading.level)
    return template().render(
        title=manifest.get("title") or "Explanation audit",
        path=run.path,
        progress=run.progress,
        snapshot=now(),
        pending=[row for row in rows if row.pending],
        manifest=manifest,
        facts=[*keyfacts(rows, manifest, models), *trained.facts],
        models=models,
        keys={name: key(index) for index, name in enumerate(models)},
        legend=legend(models),
        behaviours=[
            (item.score, draw_behaviour(item), told(reading, item.score), robust_plots(reading, item.score, {})) for item in behaviours
        ],
        advice=advice.any,
        robust=robust_sentence(advice),
        remedies=draw_advice(advice),
        learnt=draw_learnt(learnt),
        learnt_sentence=learnt_sentence(learnt),
        sections=made,
        many=len(made) > MANY,
        chances=any(row.chance for table in tables for row in table.rows),
        medians=any(item.middle == "median" for item in made),
        summary=[*summary(reading, made, tables), *([list(trained.warnings)] if trained.warnings else [])],
        overview=[(table.model, draw_overview(table)) for table in tables],
        assumptions=[one for one in reading.assumed if one.score in glance],
        calibration=calibration_plot(reading),
        adversaries=adversaries(reading),
        profile=profile_plot(reading),
        robustness=robust_caveat(reading),
        crosstraining=trained,
        references=references(reading, own),
        symmetric=any(row.score in SYMMETRY_SCORES or row.score == "action_floor" for row in rows),
        still=any(row.no_response for row in rows),
        sensitivity=sensitivity_plot(reading),
        undefined=[row for row in rows if row.settled and (row.undefined or row.undefined_draws)],
        failures=failures_of(run.failures().to_dict("records")),
        complete=say("page.complete", measured=sum(row.defined for row in rows)),
        notes=manifest.get("notes") or [],
        level=reading.level,
        spec=pretty(manifest.get("spec") or {}),
    )


def now() -> str:
    """The time at which a page is made."""
    return day(datetime.now(UTC).isoformat(timespec="minutes"))


def summary(reading: Reading, sections: Sequence[Section], tables: Sequence[OverviewData]) -> list[list[Markup]]:
    """What is said at the top: a paragraph a score, or of many the scores of paths, symmetries and stability, and all others together."""
    if len(sections) <= MANY:
        return [list(item.answer.sentences) for item in sections]
    kinds = {item.score: score_of(reading.manifest, item.score) for item in sections}
    paths = [item for item in sections if isinstance(kinds[item.score], Alignment) and item.null != item.null]
    stable = {type(kind): score for score, kind in reversed(kinds.items()) if isinstance(kind, MeGe | ReCo)}
    first = [item for item in sections if item.score in SYMMETRY_SCORES or item in paths or item.score in stable.values()]
    without = [score for score, kind in kinds.items() if about_shape(kind) or isinstance(kind, StabilityScore)]
    paragraphs = [list(item.answer.sentences) for item in first[:MANY]]
    whole = not reading.run.progress.pending
    return [*paragraphs, [*leaders(tables, without, whole=whole), *failing(reading.assumed, reading.models, whole=whole)]]


def references(reading: Reading, own: Sequence[str]) -> list[str]:
    """The works that the scores follow, besides the one on symmetry; each once."""
    kinds = [score_of(reading.manifest, score) for score in (*explanation_scores(reading.rows), *own)]
    return list(
        dict.fromkeys(kind.reference for kind in kinds if kind is not None and kind.reference and not isinstance(kind, SymmetryScore))
    )


def told(reading: Reading, score: str) -> list[str]:
    """What a score of the models is, and where it looked and at what cost, if it is one of robustness."""
    found = hunted(reading.manifest, score)
    rows = [row for row in reading.rows if row.score == score and not row.explainer]
    if found is None:
        return [DEFINITIONS[score]] if score in DEFINITIONS else []
    return [definition(found), setting(found), spent([vars(row) for row in rows])]


def write(run: RunView, path: str | Path) -> Path:
    """Write the report of a run to a file and return the file's path."""
    return saved(lambda: render(run), path)


def saved(page: Callable[[], str], path: str | Path) -> Path:
    """Write a page to a file and return the file's path."""
    target = Path(path)
    if target.is_dir():
        raise StoreError(f"The report needs a file to write to, not the folder '{target}': give a name such as '{target / 'report.html'}'.")
    text = page()
    try:
        write_whole(target, text.encode())
    except OSError as error:
        raise StoreError(
            f"The report cannot be written to '{target}': {error.strerror}. Give a file in a folder that you may write to."
        ) from error
    return target


def keyfacts(rows: Sequence[Result], manifest: Mapping[str, Any], models: Sequence[str]) -> list[tuple[str, str]]:
    """What was run, in a few words each."""
    data = manifest.get("data") or {}
    shape = " \N{MULTIPLICATION SIGN} ".join(str(side) for side in data.get("shape") or ())
    found = [
        ("Symmetry", str(manifest.get("symmetry") or "")),
        ("Samples", f"{data['samples']:,}" + (f" of shape {shape}" if shape else "") if "samples" in data else ""),
        ("Draws per sample", spread(row.draws for row in rows if row.explainer and not row.hunted and not row.pooled)),
        ("Evaluations", f"{total:,}" if (total := sum(row.evaluations for row in rows if row.hunted)) else ""),
        ("Models", count(len(models), "model")),
        ("Explainers", headcount(rows)),
        ("Seed", str(manifest.get("seed", ""))),
        ("Created", day(str(manifest.get("created") or ""))),
    ]
    return [(name, value) for name, value in found if value]


def spread(values: Iterable[float]) -> str:
    """One number, or the least and the largest of several.

    >>> spread([12.0, 12.0]), spread([12.0, 40.5])
    ('12', '12 to 40.5')
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    low, high = compact(min(finite)), compact(max(finite))
    return low if low == high else f"{low} to {high}"


def pretty(value: Any, indent: str = "") -> str:
    """Plain data as JSON that is easy to read: what fits a line stays on it.

    >>> print(pretty({"axes": [-2, -1], "name": "cyclic_shift"}))
    {"axes": [-2, -1], "name": "cyclic_shift"}
    """
    line = json.dumps(value, ensure_ascii=False, default=str)
    if len(line) + len(indent) <= 96 or not isinstance(value, (Mapping, list, tuple)):
        return line
    deeper = indent + "  "
    if isinstance(value, Mapping):
        parts = [f"{json.dumps(str(name), ensure_ascii=False)}: {pretty(item, deeper)}" for name, item in value.items()]
        start, end = "{", "}"
    else:
        parts = [pretty(item, deeper) for item in value]
        start, end = "[", "]"
    inner = f",\n{deeper}".join(parts)
    return f"{start}\n{deeper}{inner}\n{indent}{end}"


@cache
def environment() -> Environment:
    """Templates with escaping on and the style sheet at hand."""
    made = Environment(
        loader=PackageLoader("veracity.report", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters.update(
        number=number, interval=interval, title_of=title_of, compact=compact, count=count, decimals=decimals, frame_title=frame_title
    )
    made.globals["style"] = Markup(resources.files("veracity.report").joinpath("style.css").read_text(encoding="utf-8"))
    made.globals.update(definitions=DEFINITIONS, symmetry_scores=SYMMETRY_SCORES, kept=KEPT, say=say)
    return made


def template(name: str = "template.html.j2") -> Template:
    """One of the page templates."""
    return environment().get_template(name)
