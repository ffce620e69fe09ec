"""One score of explanations, from its answer to its worst samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from veracity.report.answer import Answer, answer, pending_sentences
from veracity.report.figure import Plot, figures_of
from veracity.report.figures.boxes import boxes_data, draw_boxes
from veracity.report.figures.gallery import draw_gallery, gallery_data, gallery_notes
from veracity.report.figures.ranking import RankingData, draw_ranking, ranking_data
from veracity.report.figures.tables import MatrixData, draw_matrix, matrix_data
from veracity.report.reading import Reading
from veracity.report.rows import frames_of
from veracity.report.stability import stability_sentences, undefined_pairs
from veracity.report.wording import frame_title, title_of
from veracity.results import Row
from veracity.results.words import caveats, cost


@dataclass(frozen=True, kw_only=True)
class Section:
    """Everything about one score of explanations, drawn."""

    score: str
    title: str
    definition: str
    searched: bool
    notes: tuple[str, ...]
    measure: str
    direction: str
    digits: int
    frames: tuple[str, ...]
    averaged: bool
    answer: Answer
    ranking: Markup
    rows: tuple[Row, ...]
    boxes: Markup
    plots: tuple[Plot, ...]
    gallery: tuple[tuple[str, Markup], ...]
    gallery_notes: tuple[str, ...]
    matrices: tuple[tuple[MatrixData, str, Markup], ...]
    assumptions: tuple[str, ...] = ()
    shared: bool = False
    sources: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    pooled: bool = False
    in_map_units: bool = False

    @property
    def permuted(self) -> bool:
        """Whether labels were permuted to find what no signal scores."""
        return any(row.p_value == row.p_value for row in self.rows)

    @property
    def mark(self) -> float:
        """The value from which on the score counts as kept; NaN where there is none."""
        return self.rows[0].mark

    @property
    def marked(self) -> bool:
        """Whether there is a value from which on the score counts as kept."""
        return math.isfinite(self.mark)

    @property
    def middle(self) -> str:
        """How samples are summed up: by their mean or their median."""
        return self.rows[0].middle if self.rows else "mean"

    @property
    def bounds(self) -> bool:
        """Whether some values are only known to lie at or below what they say."""
        return any(row.bound and row.defined for row in self.rows)

    @property
    def published(self) -> bool:
        """Whether published figures stand beside the scores."""
        return any(row.published == row.published for row in self.rows)

    @property
    def nulls(self) -> bool:
        """Whether anything stands beside the scores."""
        return self.ceilings or any(row.random_control == row.random_control for row in self.rows)

    @property
    def ceilings(self) -> bool:
        """Whether self-agreement stands beside the scores."""
        return any(row.self_agreement == row.self_agreement for row in self.rows)

    @property
    def null(self) -> float:
        """What an unrelated explanation scores by theory; NaN where that is unknown."""
        return next((row.null for row in self.rows if row.null == row.null), math.nan)

    @property
    def silent(self) -> bool:
        """Whether some explanation did not respond on some sample."""
        return any(row.no_response for row in self.rows)


def section(reading: Reading, score: str) -> Section:
    """One score of explanations, drawn."""
    models, mine = reading.models, reading.of(score)
    ranking = ranking_data(reading.rows, score, models, reading.level)
    known = reading.score(score)
    place = {label: index for index, label in enumerate(ranking.order)}
    exhibits = gallery_data(
        () if "adversaries" in known.figures or known.pooled else reading.worst(score, 1),
        {model: best_first(mine, model, controls=False)[::-1] for model in models},
        score=score,
        frames={row.explainer: row.frame for row in mine},
        concepts=reading.concepts,
        groups=reading.groups(score),
    )
    return Section(
        score=score,
        title=title_of(score),
        definition=known.definition or type(known).summary(),
        searched=any(row.searched for row in mine),
        notes=(*filter(None, [known.setting()]), *costs([row for row in mine if row.settled and row.searched], models)),
        measure="" if known.pooled else reading.measure(score),
        direction=mine[0].direction,
        digits=ranking.digits,
        frames=tuple(group.frame for group in ranking.frames),
        averaged=reading.about(score).get("reduce", "mean") == "mean" and not any(row.searched for row in mine),
        answer=answered(reading, score),
        ranking=draw_ranking(ranking),
        rows=tuple(sorted(mine, key=lambda row: (models.index(row.model), place[row.explainer]))),
        boxes=Markup("") if known.pooled else draw_boxes(boxes_data(reading.samples(score), ranking)),
        plots=figures_of(reading, score),
        gallery=tuple((model, draw_gallery(items, ranking.digits)) for model, items in exhibits.models),
        gallery_notes=tuple(gallery_notes(exhibits)),
        matrices=tuple(matrices(reading, score, ranking)),
        assumptions=tuple(assumption_sentences(reading, score)),
        shared=shared(reading, score) and not known.pooled,
        sources=tuple(sources(reading, score)),
        caveats=tuple(caveats(reading.spec.get("published") or (), score, models, {row.explainer for row in mine})),
        pooled=known.pooled,
        in_map_units=any(row.in_map_units for row in mine),
    )


def shared(reading: Reading, label: str) -> bool:
    """Whether all samples share the random draws of a score."""
    return any(not one.sampling.nested and not one.sampling.exhaustive for one in reading.run.series if one.score == label)


def answered(reading: Reading, label: str) -> Answer:
    """What a score says; one that is made of two sets has words of its own."""
    differences, score, rows = reading.differences(label), reading.score(label), reading.of(label)
    chances = "self_agreement" not in score.beside and "random_control" in score.beside and not score.in_map_units
    found = answer(reading.rows, label, reading.models, reading.level, chances=chances, differences=differences)
    if not any(row.pairs_same is not None for row in rows):
        return found
    lost = {model: undefined_pairs([row for row in rows if row.model == model]) for model in reading.models}
    told = stability_sentences(reading.rows, score, label, reading.models, differences)
    left = pending_sentences([row for row in rows if not row.control], reading.models)
    return replace(
        found,
        sentences=(*told, *left),
        models=tuple(replace(item, remarks=(*item.remarks, *lost[item.model])) for item in found.models),
    )


def costs(rows: Sequence[Row], models: Sequence[str]) -> list[str]:
    """How many evaluations a score took on each model."""
    held = {model: [row for row in rows if row.model == model] for model in models}
    return [f"{model}: {cost(mine)}" if len(models) > 1 else cost(mine) for model, mine in held.items() if mine]


def sources(reading: Reading, score: str) -> list[str]:
    """Where the published figures of a score are from, each once."""
    found = reading.spec.get("published") or ()
    return list(dict.fromkeys(str(entry["where"]) for entry in found if entry.get("score") == score and entry.get("where")))


def assumption_sentences(reading: Reading, score: str) -> list[str]:
    """What the score takes for granted of each model, and where it fails."""
    several = len(reading.models) > 1
    return [f"{one.model}: {one.text}" if several else one.text for one in reading.assumed if one.score == score]


def matrices(reading: Reading, score: str, ranking: RankingData) -> list[tuple[MatrixData, str, Markup]]:
    """The differences on each model between explanations of the same kind; others are not on the same scale."""
    differences, mine = reading.differences(score), reading.of(score)
    made = []
    for model in reading.models:
        for frame in frames_of(mine):
            names = best_first([row for row in mine if row.frame == frame], model, controls=True)
            held = differences[differences["first"].isin(names) & differences["second"].isin(names)]
            data = matrix_data(held, model, names)
            kind = frame_title(frame).lower() if len(ranking.frames) > 1 else ""
            made += [(data, kind, draw_matrix(data))] if data.pairs else []
    return made


def best_first(rows: Sequence[Row], model: str, *, controls: bool) -> list[str]:
    """The explainers that have a value on a model, best mean first; controls, if wanted, after all others.

    By a score in the map's own units, in the run's order.
    """
    mine = [row for row in rows if row.model == model and row.defined and (controls or not row.control)]
    return [row.explainer for row in sorted(mine, key=lambda row: (row.control, worse(row)))]


def worse(row: Row) -> float:
    """What explainers are sorted by, best first; nothing for a score in the map's own units."""
    return 0.0 if row.in_map_units else row.value if row.direction == "lower" else -row.value
