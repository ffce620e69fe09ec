"""The report: everything about a run on one page that needs nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from veracity.core.errors import StoreError
from veracity.report.answer import KEPT, SYMMETRY_SCORES, Answer, answer, headcount
from veracity.report.figures.behaviour import behaviour_data, draw_behaviour
from veracity.report.figures.boxes import boxes_data, draw_boxes
from veracity.report.figures.chart import legend
from veracity.report.figures.gallery import draw_gallery, gallery_data, gallery_notes
from veracity.report.figures.matrix import MatrixData, draw_matrix, matrix_data
from veracity.report.figures.ranking import draw_ranking, ranking_data
from veracity.report.figures.scale import key
from veracity.report.view import Result, RunView, explanation_scores, model_names, model_scores, results
from veracity.report.wording import DEFINITIONS, compact, count, day, decimals, interval, number, title_of


@dataclass(frozen=True, kw_only=True)
class Section:
    """Everything about one score of explanations, drawn."""

    score: str
    title: str
    definition: str
    measure: str
    direction: str
    digits: int
    answer: Answer
    ranking: Markup
    rows: tuple[Result, ...]
    boxes: Markup
    gallery: tuple[tuple[str, Markup], ...]
    gallery_notes: tuple[str, ...]
    matrices: tuple[tuple[MatrixData, Markup], ...]


def render(run: RunView) -> str:
    """The report of a run as one HTML page without any outside request."""
    rows, manifest = results(run), run.manifest
    level = confidence(manifest)
    models = model_names(rows, manifest)
    accuracy = {name: facts.get("accuracy") for name, facts in (manifest.get("models") or {}).items()}
    own = model_scores(rows)
    behaviours = [behaviour_data(rows, score, models, accuracy if score == own[0] else {}, level) for score in own]
    failures = run.failures()
    return template().render(
        title=manifest.get("title") or "Explanation audit",
        path=run.path,
        manifest=manifest,
        facts=facts(rows, manifest, models),
        models=models,
        keys={name: key(index) for index, name in enumerate(models)},
        legend=legend(models),
        behaviours=[(item.score, draw_behaviour(item)) for item in behaviours],
        sections=[section(run, rows, score, models, level) for score in explanation_scores(rows)],
        undefined=[row for row in rows if row.undefined or row.undefined_draws],
        failures=[{str(name): str(value) for name, value in record.items()} for record in failures.to_dict("records")],
        notes=manifest.get("notes") or [],
        level=level,
        spec=pretty(manifest.get("spec") or {}),
    )


def write(run: RunView, path: str | Path) -> Path:
    """Write the report of a run to a file and return the file's path."""
    target = Path(path)
    if target.is_dir():
        raise StoreError(f"The report needs a file to write to, not the folder '{target}': give a name such as '{target / 'report.html'}'.")
    page = render(run)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"The report cannot be written to '{target}': {error.strerror}. Give a file in a folder that you may write to."
        ) from error
    return target


def section(run: RunView, rows: Sequence[Result], score: str, models: Sequence[str], level: str) -> Section:
    """One score of explanations, drawn."""
    ranking = ranking_data(rows, score, models, level)
    order = [item.explainer for item in (*ranking.explainers, *ranking.controls)]
    mine = [row for row in rows if row.score == score and row.explainer]
    exhibits = gallery_data(run.worst(score, 1), {model: best_first(mine, model, controls=False)[::-1] for model in models})
    differences = run.differences(score)
    matrices = [matrix_data(differences, model, best_first(mine, model, controls=True)) for model in models]
    return Section(
        score=score,
        title=title_of(score),
        definition=DEFINITIONS.get(score, ""),
        measure=measure_of(run.manifest, score),
        direction=mine[0].direction,
        digits=ranking.digits,
        answer=answer(rows, score, models, level),
        ranking=draw_ranking(ranking),
        rows=tuple(sorted(mine, key=lambda row: (models.index(row.model), row.control, order.index(row.explainer)))),
        boxes=draw_boxes(boxes_data(run.samples(score), ranking)),
        gallery=tuple((model, draw_gallery(items, ranking.digits)) for model, items in exhibits.models),
        gallery_notes=tuple(gallery_notes(exhibits)),
        matrices=tuple((item, draw_matrix(item)) for item in matrices if item.pairs),
    )


def best_first(rows: Sequence[Result], model: str, *, controls: bool) -> list[str]:
    """The explainers that have a value on a model, best mean first; controls, if wanted, after all others."""
    mine = [row for row in rows if row.model == model and row.defined and (controls or not row.control)]
    return [row.explainer for row in sorted(mine, key=lambda row: (row.control, row.value if row.direction == "lower" else -row.value))]


def confidence(manifest: Mapping[str, Any]) -> str:
    """The confidence of the intervals, in words.

    >>> confidence({"spec": {"confidence": 0.9}})
    '90 %'
    """
    return f"{100 * float((manifest.get('spec') or {}).get('confidence', 0.95)):g} %"


def facts(rows: Sequence[Result], manifest: Mapping[str, Any], models: Sequence[str]) -> list[tuple[str, str]]:
    """What was run, in a few words each."""
    data = manifest.get("data") or {}
    shape = " \N{MULTIPLICATION SIGN} ".join(str(side) for side in data.get("shape") or ())
    found = [
        ("Symmetry", str(manifest.get("symmetry") or "")),
        ("Samples", f"{data['samples']:,}" + (f" of shape {shape}" if shape else "") if "samples" in data else ""),
        ("Draws per sample", spread(row.draws for row in rows if row.explainer)),
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


def measure_of(manifest: Mapping[str, Any], score: str) -> str:
    """The name of the measure that a score compares by, if the manifest says so.

    >>> measure_of({"score_specs": {"equivariance": {"measure": {"name": "cosine"}}}}, "equivariance")
    'cosine'
    """
    spec = (manifest.get("score_specs") or {}).get(score) or {}
    return str((spec.get("measure") or {}).get("name", ""))


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
def template() -> Template:
    """The page's template, with escaping on and the style sheet at hand."""
    environment = Environment(
        loader=PackageLoader("veracity.report", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(number=number, interval=interval, title_of=title_of, compact=compact, count=count, decimals=decimals)
    environment.globals["style"] = Markup(resources.files("veracity.report").joinpath("style.css").read_text(encoding="utf-8"))
    environment.globals.update(definitions=DEFINITIONS, symmetry_scores=SYMMETRY_SCORES, kept=KEPT)
    return environment.get_template("template.html.j2")
