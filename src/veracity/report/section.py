"""The section of one score of explanations, from its answer to its worst samples."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from veracity.core.scores import Score
from veracity.report.answer import Answer, answer
from veracity.report.figure import Plot, figures_of
from veracity.report.figures.boxes import boxes_data, draw_boxes
from veracity.report.figures.features import feature_names
from veracity.report.figures.gallery import draw_gallery, gallery_data, gallery_notes
from veracity.report.figures.ranking import RankingData, draw_ranking
from veracity.report.figures.tables import MatrixData, matrix_data
from veracity.report.figures.words import words_kept
from veracity.report.html import draw
from veracity.report.reading import RunReading
from veracity.report.rows import badness, frames_of
from veracity.report.wording import frame_title, listing, name, say, sentences, specs_of
from veracity.results import Row
from veracity.results.words import caveats, cost


@dataclass(frozen=True, kw_only=True)
class ScoreWords:
    """What one score of explanations is, how it was set, what it says in this run, and its assumptions: each may fail on some samples."""

    definition: str
    settings: tuple[str, ...]
    answer: Answer
    assumptions: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, kw_only=True)
class Section:
    """Everything about one score of explanations, drawn; `first` is any of its rows, for what all rows share."""

    score: str
    definition: str
    searched: bool
    notes: tuple[str, ...]
    measure: str
    averaged: bool
    answer: Answer
    ranking: RankingData
    chart: Markup
    rows: tuple[Row, ...]
    first: Row
    boxes: Markup
    plots: tuple[Plot, ...]
    gallery: tuple[tuple[str, Markup], ...]
    gallery_notes: tuple[str, ...]
    matrices: tuple[tuple[MatrixData, str, Markup], ...]
    assumptions: tuple[str, ...]
    shared: bool
    sources: tuple[str, ...]
    caveats: tuple[str, ...]

    def has(self, number: str) -> bool:
        """Whether some row has this number beside its value."""
        return not all(math.isnan(getattr(row, number)) for row in self.rows)

    @property
    def null(self) -> float:
        """What an unrelated explanation scores by theory; NaN if that is unknown."""
        return next((row.null for row in self.rows if row.null == row.null), math.nan)


def score_words(reading: RunReading, score: str) -> ScoreWords:
    """What can be said of one score of explanations without a drawing."""
    known = reading.score(score)
    return ScoreWords(
        definition=definition_of(known),
        settings=tuple(filter(None, [known.setting()])),
        answer=section_answer(reading, score),
        assumptions=tuple(
            (f"{one.model}: {one.text}" if reading.several else one.text, one.fails > 0) for one in reading.assumed if one.score == score
        ),
    )


def section(reading: RunReading, score: str) -> Section:
    """One score of explanations, drawn."""
    words = score_words(reading, score)
    models, mine, known, ranking = reading.models, reading.of(score), reading.score(score), reading.ranking(score)
    place = {label: index for index, label in enumerate(ranking.order)}
    rows = tuple(sorted(mine, key=lambda row: (models.index(row.model), place[row.explainer])))
    searched, published = any(row.searched for row in mine), reading.spec.get("published") or ()
    exhibits = gallery_data(
        () if "adversaries" in known.figures or known.pooled else reading.worst(score, 1),
        {model: best_first(mine, model, controls=False)[::-1] for model in models},
        score=score,
        frames={row.explainer: row.frame for row in mine},
        concepts=reading.concepts,
        groups=reading.groups(score),
        features=feature_names(reading.manifest),
        words=words_kept(reading.manifest),
    )
    return Section(
        score=score,
        definition=words.definition,
        searched=searched,
        notes=(*words.settings, *(costs(mine, models) if searched else ())),
        measure="" if known.pooled else reading.measure(score),
        averaged=reading.about(score).get("reduce", "mean") == "mean" and not searched,
        answer=words.answer,
        ranking=ranking,
        chart=draw_ranking(ranking),
        rows=rows,
        first=rows[0],
        boxes=Markup("") if known.pooled else draw_boxes(boxes_data(reading.series(score), ranking)),
        plots=figures_of(reading, score),
        gallery=tuple((model, draw_gallery(items, ranking.digits)) for model, items in exhibits.models),
        gallery_notes=tuple(gallery_notes(exhibits)),
        matrices=tuple(matrices(reading, score, ranking)),
        assumptions=tuple(text for text, _ in words.assumptions),
        shared=not known.pooled
        and any(not one.sampling.nested and not one.sampling.exhaustive for one in reading.run.series if one.score == score),
        sources=tuple(dict.fromkeys(str(entry["where"]) for entry in published if entry.get("score") == score and entry.get("where"))),
        caveats=tuple(caveats(published, score, models, {row.explainer for row in mine})),
    )


def definition_of(score: Score) -> str:
    """What a score is, in a sentence or two."""
    return plain_definition(score.definition or type(score).summary())


def plain_definition(text: str) -> str:
    """A definition without the numbers of equations, which mean nothing to a reader without the paper; the works stand below the page."""
    return re.sub(r" \(eq\. [^)]*\)", "", text)


def section_answer(reading: RunReading, label: str) -> Answer:
    """What a score says; a score of stability, which compares two sets, has words of its own."""
    differences, score = reading.differences(label), reading.score(label)
    chances = "self_agreement" not in score.beside and "random_control" in score.beside and not score.in_map_units
    found = answer(reading.rows, label, reading.models, reading.level, chances=chances, differences=differences)
    same = [name(text) for text in same_everywhere(reading, label)]
    if same:
        text = say("answer.same", listing(same), "gives" if len(same) == 1 else "give", same=len(same))
        found = replace(found, sentences=(*found.sentences, *sentences(text)))
    if not any(row.pairs_same is not None for row in reading.of(label)):
        return found
    from veracity.report.stability import stability_answer

    return stability_answer(reading, label, found)


def same_everywhere(reading: RunReading, label: str) -> list[str]:
    """Explainers with one map for all samples whose score is the same on each, which says nothing about the model."""
    given = specs_of(reading.spec.get("explainers"))
    fixed = {name for name, spec in given.items() if spec.get("name") in ("importances", "permutation_importance")}
    return list(dict.fromkeys(row.explainer for row in reading.of(label) if row.explainer in fixed and math.isfinite(row.unseen)))


def costs(rows: Sequence[Row], models: Sequence[str]) -> list[str]:
    """How many evaluations a search took on each model."""
    held = {model: [row for row in rows if row.model == model and row.settled and row.searched] for model in models}
    return [f"{model}: {cost(mine)}" if len(models) > 1 else cost(mine) for model, mine in held.items() if mine]


def matrices(reading: RunReading, score: str, ranking: RankingData) -> list[tuple[MatrixData, str, Markup]]:
    """The differences on each model between explanations of the same kind; others are not on the same scale."""
    differences, mine = reading.differences(score), reading.of(score)
    made = []
    for model in reading.models:
        for frame in frames_of(mine):
            names = best_first([row for row in mine if row.frame == frame], model, controls=True)
            data = matrix_data(differences[differences["first"].isin(names) & differences["second"].isin(names)], model, names)
            kind = frame_title(frame).lower() if len(ranking.frames) > 1 else ""
            made += [(data, kind, draw("matrix", data))] if data.pairs else []
    return made


def best_first(rows: Sequence[Row], model: str, *, controls: bool) -> list[str]:
    """The explainers that have a value on a model, best mean first; controls, if wanted, after all others.

    For a score in the map's own units, in the run's order.
    """
    mine = [row for row in rows if row.model == model and row.defined and (controls or not row.control)]
    return [row.explainer for row in sorted(mine, key=lambda row: (row.control, badness(row)))]
