"""The report: everything about a run on one page that needs nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from veracity.core.failures import failures_of
from veracity.core.wording import compact, count, day
from veracity.report.answer import headcount
from veracity.report.figure import figures_of, shared_figure
from veracity.report.figures.advice import advice_data, draw_advice, robust_sentence
from veracity.report.figures.calibration import calibration_plot
from veracity.report.figures.chart import legend
from veracity.report.figures.facts import draw_facts, facts_data, facts_sentence
from veracity.report.figures.ranking import behaviour_data, draw_behaviour
from veracity.report.figures.scale import key
from veracity.report.figures.tables import OverviewData, draw_overview, overview_data
from veracity.report.html import now, template
from veracity.report.reading import Reading, read
from veracity.report.rows import explanation_scores, model_scores
from veracity.report.section import Section, section
from veracity.report.stability import crosstraining
from veracity.report.wording import listing, name, piece, say, sentences, word_of
from veracity.results import Result, Row
from veracity.results.words import Assumed, cost
from veracity.scores.symmetry import PAPER as SYMMETRY

MANY = 3
"""More scores than this are summed up."""
OFTEN = 0.1
"""The share of samples from which on an assumption that fails is worth a sentence."""


def render(run: Result) -> str:
    """The report of a run as one HTML page without any outside request."""
    reading = read(run)
    rows, manifest, models = reading.rows, reading.manifest, reading.models
    accuracy = {name: facts.get("accuracy") for name, facts in (manifest.get("models") or {}).items()}
    begun = {row.score for row in rows if not row.pending}
    own = [score for score in model_scores(rows) if score in begun]
    behaviours = [behaviour_data(rows, score, models, accuracy if score == own[0] else {}, reading.level) for score in own]
    made = [section(reading, score) for score in explanation_scores([row for row in rows if not row.pending])]
    glance = [item.score for item in made if not item.marked]
    tables = overview_data(rows, glance, models, reading.assumed) if len(glance) > 1 else []
    trained = crosstraining(reading)
    advice, learnt = advice_data(run.advice(), models), facts_data(run.facts(), reading.level)
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
        behaviours=[(item.score, draw_behaviour(item), told(reading, item.score), figures_of(reading, item.score)) for item in behaviours],
        advice=advice.any,
        robust=robust_sentence(advice),
        remedies=draw_advice(advice),
        learnt=draw_facts(learnt),
        learnt_sentence=facts_sentence(learnt),
        sections=made,
        many=len(made) > MANY,
        chances=any(row.chance for table in tables for row in table.rows),
        medians=any(item.middle == "median" for item in made),
        summary=[*summary(reading, made, tables), *([list(trained.warnings)] if trained.warnings else [])],
        overview=[(table.model, draw_overview(table)) for table in tables],
        assumptions=[one for one in reading.assumed if one.score in glance],
        calibration=calibration_plot(reading),
        adversaries=shared_figure(reading, "adversaries"),
        profile=shared_figure(reading, "profile"),
        robustness=robust_caveat(reading),
        crosstraining=trained,
        references=references(reading, own),
        symmetric=any(reading.score(row.score).reference == SYMMETRY for row in rows),
        still=any(row.no_response for row in rows),
        sensitivity=shared_figure(reading, "sensitivity"),
        undefined=[row for row in rows if row.settled and (row.undefined or row.undefined_draws)],
        failures=failures_of(run.failures().to_dict("records")),
        complete=say("page.complete", measured=sum(row.defined for row in rows)),
        notes=manifest.get("notes") or [],
        level=reading.level,
        spec=pretty(manifest.get("spec") or {}),
    )


def summary(reading: Reading, sections: Sequence[Section], tables: Sequence[OverviewData]) -> list[list[Markup]]:
    """What is said at the top: a paragraph a score, or of many the scores of paths, symmetries and stability, and all others together."""
    if len(sections) <= MANY:
        return [list(item.answer.sentences) for item in sections]
    scores = {item.score: reading.score(item.score) for item in sections}
    first = [item for item in sections if scores[item.score].in_summary == "paragraph" and not math.isfinite(item.null)]
    without = [label for label, score in scores.items() if score.in_summary == "nothing" or score.pooled]
    paragraphs = [list(item.answer.sentences) for item in first[:MANY]]
    whole = not reading.run.progress.pending
    return [*paragraphs, [*leaders(tables, without, whole=whole), *failing(reading.assumed, reading.models, whole=whole)]]


def references(reading: Reading, own: Sequence[str]) -> list[str]:
    """The works that the scores follow, besides the one on symmetry; each once."""
    scores = [reading.score(label) for label in (*explanation_scores(reading.rows), *own)]
    return list(dict.fromkeys(score.reference for score in scores if score.reference and score.reference != SYMMETRY))


def told(reading: Reading, label: str) -> list[str]:
    """What a score of the models is, where it looked, and at what cost if a search found it."""
    score, rows = reading.score(label), [row for row in reading.rows if row.score == label and not row.explainer]
    said = [score.definition or (type(score).summary() if rows[0].searched else ""), score.setting()]
    return [text for text in (*said, cost(rows) if rows[0].searched else "") if text]


def robust_caveat(reading: Reading) -> str:
    """What robustness does not say; "" where it was not asked of explanations."""
    if not reading.naming("adversaries"):
        return ""
    return (
        "A map that never changes is immune to F-hat and helpless against F-tilde; a random map the other way round. Neither says "
        "anything of the model. So read both together, and beside them how robust the prediction itself is. A worst case is what a "
        "search found, and more evaluations can only make it worse."
    )


def keyfacts(rows: Sequence[Row], manifest: Mapping[str, Any], models: Sequence[str]) -> list[tuple[str, str]]:
    """What was run, in a few words each."""
    data = manifest.get("data") or {}
    shape = " \N{MULTIPLICATION SIGN} ".join(str(side) for side in data.get("shape") or ())
    found = [
        ("Symmetry", str(manifest.get("symmetry") or "")),
        ("Samples", f"{data['samples']:,}" + (f" of shape {shape}" if shape else "") if "samples" in data else ""),
        ("Draws per sample", spread(row.draws for row in rows if row.explainer and not row.searched and not row.pooled)),
        ("Evaluations", f"{total:,}" if (total := sum(row.evaluations for row in rows if row.searched)) else ""),
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


def leaders(tables: Sequence[OverviewData], without: Sequence[str] = (), *, whole: bool = True) -> list[Markup]:
    """Who is ahead of every other explainer how often, on each model; scores that say nothing of the model do not count.

    Neither do scores of which an explainer is pending: the others are those measured so far, where the run is not `whole`.
    """
    said = []
    for table in tables:
        rows = [row for row in table.rows if row.score not in without and row.compared > 1]
        wins = {label: sum(row.cells[place].best for row in rows) for place, label in enumerate(table.explainers)}
        first = [(label, number) for label, number in sorted(wins.items(), key=lambda item: -item[1]) if number]
        most, won = max((row.compared for row in rows), default=0), sum(wins.values())
        where = piece("On {}, of", name(table.model)) if len(tables) > 1 else "Of"
        scores = count(len(rows), "score") + ("" if whole else " measured so far")
        if not won:
            said.append(say("leaders.none", where, scores, explainers=most, measured=len(rows)))
        elif len(rows) == 1:
            said.append(say("leaders.one", word_of(rows[0].score), on(table, tables), name(first[0][0]), explainers=most, apart=won))
        else:
            parts = [piece("{} is ahead of every other explainer in {}", name(label), number) for label, number in first]
            said.append(say("leaders.many", where, scores, listing(parts), explainers=most, apart=won, measured=len(rows)))
    return sentences(*said)


def on(table: OverviewData, tables: Sequence[OverviewData]) -> Markup:
    """Which model a table is of, where there are several."""
    return piece(" on {}", name(table.model)) if len(tables) > 1 else Markup("")


def failing(assumed: Sequence[Assumed], models: Sequence[str], *, whole: bool = True) -> list[Markup]:
    """Which scores take something for granted that often fails, and on how many samples; of all only where the `whole` is measured."""
    known = [one for one in assumed if one.n]
    often = [one for one in known if one.fails >= OFTEN * one.n]
    if not often:
        return sentences(say("assumed.hold", assumed=len(known) if whole else 0))
    said = []
    for model in models:
        mine = sorted((one for one in often if one.model == model), key=lambda one: -one.fails)
        where = piece("On {}, what", name(model)) if len(models) > 1 else "What"
        parts = [piece("{} ({} of {} samples)", word_of(one.score), one.fails, one.n) for one in mine]
        said.append(say("assumed.fail", where, listing(parts), assumed=len(mine)))
    return sentences(*said)
