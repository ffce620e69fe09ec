"""The report: everything about a run on one page that needs nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from veracity.core.failures import failures_of
from veracity.core.wording import compact, count, day
from veracity.report.figure import figures_of, shared_figure
from veracity.report.figures.advice import advice_data, robust_sentence
from veracity.report.figures.calibration import calibration_plot
from veracity.report.figures.chart import key, legend
from veracity.report.figures.classes import class_pictures, draw_classes
from veracity.report.figures.facts import facts_data, facts_sentence
from veracity.report.figures.features import draw_shares, feature_tables
from veracity.report.figures.meanings import meaning_data
from veracity.report.figures.ranking import behaviour_data, draw_behaviour
from veracity.report.figures.tables import OverviewData, overview_data
from veracity.report.figures.words import draw_words, word_data
from veracity.report.html import draw, now, template
from veracity.report.reading import RunReading, read
from veracity.report.rows import explanation_scores
from veracity.report.section import Section, section
from veracity.report.stability import crosstraining
from veracity.report.wording import listing, name, piece, say, sentences, where, word_of
from veracity.results import Result, Row
from veracity.results.words import Assumed, cost, of_units
from veracity.scores.symmetry import PAPER as SYMMETRY

MANY = 3
"""More scores than this are summed up."""
OFTEN = 0.1
"""An assumption that fails on this share of the samples or more is worth a sentence."""


def render(run: Result) -> str:
    """The report of a run as one HTML page without any outside request."""
    reading = read(run)
    rows, manifest, models = reading.rows, reading.manifest, reading.models
    accuracy = {name: facts.get("accuracy") for name, facts in (manifest.get("models") or {}).items()}
    begun = [row for row in rows if not row.pending]
    own = list(dict.fromkeys(row.score for row in begun if not row.explainer))
    behaviours = [behaviour_data(rows, score, models, accuracy if score == own[0] else {}, reading.level) for score in own]
    made = [section(reading, score) for score in explanation_scores(begun)]
    glance = [item.score for item in made if not item.first.marked]
    tables = overview_data(rows, glance, models, reading.assumed) if len(glance) > 1 else []
    trained = crosstraining(reading) if manifest.get("folds") or reading.naming("histograms") else None
    records = run.advice()
    advice = advice_data(records, models) if records else None
    learnt = facts_data(run.facts(), reading.level) if manifest.get("facts") else ()
    folds = [("Folds", " or ".join(map(str, trained.counts)))] if trained and trained.counts else []
    warnings = [list(trained.warnings)] if trained and trained.warnings else []
    noun = "part" if manifest["data"].get("parts") else "feature"
    texts = {model: items for model in models if (items := word_data(run, model))}
    pictures = run.visualisations() if any(row.frame == "global" for row in rows) else []
    return template("audit.html.j2").render(
        title=manifest.get("title") or "Explanation audit",
        path=run.path,
        progress=run.progress,
        snapshot=now(),
        pending=[row for row in rows if row.pending],
        manifest=manifest,
        facts=[*keyfacts(rows, manifest, models), *folds],
        models=models,
        keys={name: key(index) for index, name in enumerate(models)},
        legend=legend(models),
        behaviours=[
            (item.score, draw_behaviour(item), model_notes(reading, item.score), figures_of(reading, item.score)) for item in behaviours
        ],
        advice={"robust": robust_sentence(advice), "remedies": draw("remedies", advice)} if advice else None,
        learnt={"sentence": facts_sentence(learnt), "tables": draw("learnt", learnt)} if learnt else None,
        features=[(table.model, draw_shares(table, noun)) for table in feature_tables(run.attributions(), models)],
        texts=[(model, draw_words(items)) for model, items in texts.items()],
        classes=[(model, draw_classes(data)) for model in models if (data := class_pictures(pictures, model))],
        unsigned=list(dict.fromkeys(line.label for items in texts.values() for line in items[0].lines if not line.signed)),
        meanings=[(model, draw("meanings", found)) for model in models if (found := meaning_data(manifest, model))],
        sections=made,
        many=len(made) > MANY,
        chances=any(row.chance for table in tables for row in table.rows),
        medians=any(item.first.middle == "median" for item in made),
        summary=[*summary(reading, made, tables), *warnings],
        overview=[(table.model, draw("overview", table)) for table in tables],
        assumptions=[one for one in reading.assumed if one.score in glance],
        strict=manifest.get("strict") or (),
        calibration=calibration_plot(reading) if manifest.get("calibrations") else None,
        adversaries=shared_figure(reading, "adversaries"),
        profile=shared_figure(reading, "profile"),
        robust=bool(reading.naming("adversaries")),
        crosstraining=trained,
        references=references(reading, own),
        symmetric=any(reading.score(row.score).reference == SYMMETRY for row in rows),
        still=any(row.no_response or row.no_response_draws for row in rows),
        sensitivity=shared_figure(reading, "sensitivity"),
        undefined=[row for row in rows if row.settled and (row.undefined or row.undefined_draws)],
        failures=failures_of(run.failures().to_dict("records")),
        complete=say("page.complete", measured=sum(row.defined for row in rows)),
        notes=manifest.get("notes") or [],
        level=reading.level,
        spec=pretty(manifest.get("spec") or {}),
    )


def answer_of(run: Result) -> list[list[Markup]]:
    """The paragraphs at the top of a run's report, without the rest of it."""
    reading = read(run)
    begun = [row for row in reading.rows if not row.pending]
    made = [section(reading, score) for score in explanation_scores(begun)]
    glance = [item.score for item in made if not item.first.marked]
    return summary(reading, made, overview_data(reading.rows, glance, reading.models, reading.assumed) if len(glance) > 1 else [])


def summary(reading: RunReading, sections: Sequence[Section], tables: Sequence[OverviewData]) -> list[list[Markup]]:
    """The paragraphs at the top: one per score. If there are many scores: one for each of the first that want it, one for the rest."""
    if len(sections) <= MANY:
        return [list(item.answer.sentences) for item in sections]
    scores = {item.score: reading.score(item.score) for item in sections}
    first = [item for item in sections if scores[item.score].in_summary == "paragraph" and not math.isfinite(item.null)]
    without = [label for label, score in scores.items() if score.in_summary == "nothing" or score.pooled]
    whole = not reading.run.progress.pending
    rest = [*leaders(tables, without, whole=whole), *failing(reading.assumed, reading.models, whole=whole)]
    return [*(list(item.answer.sentences) for item in first[:MANY]), rest]


def references(reading: RunReading, own: Sequence[str]) -> list[str]:
    """The works that the scores follow, besides the one on symmetry; each once."""
    scores = [reading.score(label) for label in (*explanation_scores(reading.rows), *own)]
    return list(dict.fromkeys(score.reference for score in scores if score.reference and score.reference != SYMMETRY))


def model_notes(reading: RunReading, label: str) -> list[str]:
    """What a score of the models is, where it looked, and how many evaluations a search took."""
    score, rows = reading.score(label), [row for row in reading.rows if row.score == label and not row.explainer]
    searched = rows[0].searched
    definition = score.definition or (type(score).summary() if searched else "")
    return [text for text in (definition, score.setting(), cost(rows) if searched else "") if text]


def keyfacts(rows: Sequence[Row], manifest: Mapping[str, Any], models: Sequence[str]) -> list[tuple[str, str]]:
    """What was run, in a few words each."""
    data = manifest.get("data") or {}
    explainers, controls = (len({row.explainer for row in rows if row.explainer and row.control is kind}) for kind in (False, True))
    found = [
        ("Symmetry", str(manifest.get("symmetry") or "")),
        ("Samples", ", of ".join(filter(None, (samples_in_words(data), of_units(data)))) if "samples" in data else ""),
        ("Draws per sample", spread(row.draws for row in rows if row.explainer and not row.searched and not row.pooled)),
        ("Evaluations", f"{total:,}" if (total := sum(row.evaluations for row in rows if row.searched)) else ""),
        ("Models", count(len(models), "model")),
        ("Explainers", count(explainers, "explainer") + (f" and {count(controls, 'control')}" if controls else "")),
        ("Seed", str(manifest.get("seed", ""))),
        ("Created", day(str(manifest.get("created") or ""))),
    ]
    return [(name, value) for name, value in found if value]


def samples_in_words(data: Mapping[str, Any]) -> str:
    """How many samples there are, and what one is.

    >>> samples_in_words({"samples": 12, "shape": [14], "words": [["fine"]], "unit": "token"})
    '12 texts of up to 14 tokens'
    """
    number, shape = int(data["samples"]), sides(data.get("shape") or ())
    if data.get("words"):
        return f"{count(number, 'text')} of up to {count(int(data['shape'][0]), data.get('unit') or 'word')}"
    if data.get("features"):
        return f"{count(number, 'row')} of {count(len(data['features']['names']), 'feature')}"
    if data.get("parts"):
        return f"{number:,}: " + " and ".join(f"{part['name']} ({sides(part['shape']) or '1'})" for part in data["parts"])
    if len(data.get("shape") or ()) == 1:
        return f"{number:,} of {count(int(data['shape'][0]), 'value')}"
    return f"{number:,}" + (f" of shape {shape}" if shape else "")


def sides(shape: Sequence[int]) -> str:
    """A shape in words."""
    return " \N{MULTIPLICATION SIGN} ".join(map(str, shape))


def spread(values: Iterable[float]) -> str:
    """One number, or the least and the largest of several.

    >>> spread([12.0, 12.0]), spread([12.0, 40.5])
    ('12', '12 to 40.5')
    """
    finite = [value for value in values if math.isfinite(value)]
    return " to ".join(dict.fromkeys((compact(min(finite)), compact(max(finite))))) if finite else ""


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
    else:
        parts = [pretty(item, deeper) for item in value]
    start, end = "{}" if isinstance(value, Mapping) else "[]"
    inner = f",\n{deeper}".join(parts)
    return f"{start}\n{deeper}{inner}\n{indent}{end}"


def leaders(tables: Sequence[OverviewData], without: Sequence[str] = (), *, whole: bool = True) -> list[Markup]:
    """Which explainers are ahead of every other one, and how often, on each model; scores that say nothing of the model do not count.

    Neither do scores with a pending explainer: unless the `whole` run is measured, the sentences speak of the scores measured so far.
    """
    said, models = [], [table.model for table in tables]
    for table in tables:
        rows = [row for row in table.rows if row.score not in without and row.compared > 1]
        wins = {label: sum(row.cells[place].best for row in rows) for place, label in enumerate(table.explainers)}
        first = [(label, number) for label, number in sorted(wins.items(), key=lambda item: -item[1]) if number]
        most, won = max((row.compared for row in rows), default=0), sum(wins.values())
        start = piece("On {}, of", name(table.model)) if len(tables) > 1 else "Of"
        scores = count(len(rows), "score") + ("" if whole else " measured so far")
        if not won:
            said.append(say("leaders.none", start, scores, explainers=most, measured=len(rows)))
        elif len(rows) == 1:
            place = where(table.model, models)
            said.append(say("leaders.one", word_of(rows[0].score), place, name(first[0][0]), explainers=most, apart=won))
        else:
            parts = [piece("{} is ahead of every other explainer in {}", name(label), number) for label, number in first]
            said.append(say("leaders.many", start, scores, listing(parts), explainers=most, apart=won, measured=len(rows)))
    return sentences(*said)


def failing(assumed: Sequence[Assumed], models: Sequence[str], *, whole: bool = True) -> list[Markup]:
    """Which scores assume something that often fails, and on how many samples; that all hold only if the `whole` run is measured."""
    known = [one for one in assumed if one.n]
    often = [one for one in known if one.fails >= OFTEN * one.n]
    if not often:
        return sentences(say("assumed.hold", assumed=len(known) if whole else 0))
    said = []
    for model in models:
        mine = sorted((one for one in often if one.model == model), key=lambda one: -one.fails)
        start = piece("On {}, what", name(model)) if len(models) > 1 else "What"
        parts = [piece("{} ({} of {} samples)", word_of(one.score), one.fails, one.n) for one in mine]
        said.append(say("assumed.fail", start, listing(parts), assumed=len(mine)))
    return sentences(*said)
