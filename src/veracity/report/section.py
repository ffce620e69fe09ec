"""One score of explanations, from its answer to its worst samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from veracity.core.scores import Score
from veracity.report.answer import Answer, answer, pending_sentences
from veracity.report.caveats import caveats
from veracity.report.figures.boxes import boxes_data, draw_boxes
from veracity.report.figures.gallery import draw_gallery, gallery_data, gallery_notes
from veracity.report.figures.matrix import MatrixData, draw_matrix, matrix_data
from veracity.report.figures.ranking import RankingData, draw_ranking, ranking_data
from veracity.report.hunted import setting, spent
from veracity.report.kinds import definition, has_ceiling, has_null, score_of
from veracity.report.plot import Plot
from veracity.report.plots import plots
from veracity.report.reading import Reading
from veracity.report.sampling import about, shared
from veracity.report.stable import setting as stable_setting
from veracity.report.stable import stability_sentences, undefined_pairs
from veracity.report.view import Result, frames_of
from veracity.report.wording import ABSOLUTE, DEFINITIONS, frame_title, title_of
from veracity.scores.robustness.base import Misinterpretation, SearchScore
from veracity.scores.robustness.probability import Rare
from veracity.scores.sensitivity import LocalLipschitz, Sensitivity
from veracity.scores.stability import StabilityScore


@dataclass(frozen=True, kw_only=True)
class Section:
    """Everything about one score of explanations, drawn."""

    score: str
    title: str
    definition: str
    hunted: bool
    rare: bool
    spent: tuple[str, ...]
    measure: str
    direction: str
    digits: int
    frames: tuple[str, ...]
    averaged: bool
    answer: Answer
    ranking: Markup
    rows: tuple[Result, ...]
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
    run, models, mine = reading.run, reading.models, reading.of(score)
    ranking = ranking_data(reading.rows, score, models, reading.level)
    known = score_of(reading.manifest, score)
    pooled = known is not None and known.pooled
    chances = known is not None and has_null(known) and not has_ceiling(known)
    place = {label: index for index, label in enumerate(ranking.order)}
    exhibits = gallery_data(
        () if isinstance(known, Misinterpretation) or pooled else run.worst(score, 1),
        {model: best_first(mine, model, controls=False)[::-1] for model in models},
        score=score,
        frames={row.explainer: row.frame for row in mine},
        concepts=reading.concepts,
        groups=reading.groups(score),
    )
    return Section(
        score=score,
        title=title_of(score),
        definition=" ".join(filter(None, (DEFINITIONS.get(score) or definition(known), absolute(known)))),
        hunted=isinstance(known, SearchScore),
        rare=isinstance(known, Rare),
        spent=settings(known, mine, models),
        measure="" if isinstance(known, StabilityScore) else reading.measure(score),
        direction=mine[0].direction,
        digits=ranking.digits,
        frames=tuple(group.frame for group in ranking.frames),
        averaged=about(reading.manifest, score).get("reduce", "mean") == "mean" and not isinstance(known, SearchScore),
        answer=answered(reading, score, chances=chances),
        ranking=draw_ranking(ranking),
        rows=tuple(sorted(mine, key=lambda row: (models.index(row.model), place[row.explainer]))),
        boxes=Markup("") if pooled else draw_boxes(boxes_data(run.samples(score), ranking)),
        plots=() if pooled else plots(reading, score, ranking),
        gallery=tuple((model, draw_gallery(items, ranking.digits)) for model, items in exhibits.models),
        gallery_notes=tuple(gallery_notes(exhibits)),
        matrices=tuple(matrices(reading, score, ranking)),
        assumptions=tuple(assumption_sentences(reading, score)),
        shared=shared(reading.manifest, score) and not pooled,
        sources=tuple(sources(reading, score)),
        caveats=tuple(caveats(reading.spec.get("published") or (), score, models, {row.explainer for row in mine})),
        pooled=pooled,
        in_map_units=any(row.in_map_units for row in mine),
    )


def absolute(score: Score | None) -> str:
    """What to know of a score that could be relative and is not."""
    return ABSOLUTE if isinstance(score, Sensitivity | LocalLipschitz) and score.in_map_units else ""


def answered(reading: Reading, label: str, *, chances: bool) -> Answer:
    """What a score says; one of stability has words of its own."""
    differences = reading.differences(label)
    found = answer(reading.rows, label, reading.models, reading.level, chances=chances, differences=differences)
    score = score_of(reading.manifest, label)
    if not isinstance(score, StabilityScore):
        return found
    lost = {model: undefined_pairs([row for row in reading.of(label) if row.model == model]) for model in reading.models}
    told = stability_sentences(reading.rows, score, label, reading.models, differences)
    left = pending_sentences([row for row in reading.of(label) if not row.control], reading.models)
    return replace(
        found,
        sentences=(*told, *left),
        models=tuple(replace(item, remarks=(*item.remarks, *lost[item.model])) for item in found.models),
    )


def settings(score: Score | None, rows: Sequence[Result], models: Sequence[str]) -> tuple[str, ...]:
    """With which settings a score was taken, and at what cost, where that has to be said."""
    if isinstance(score, StabilityScore):
        return (stable_setting(score),)
    return (setting(score), *evaluations([row for row in rows if row.settled], models)) if isinstance(score, SearchScore) else ()


def evaluations(rows: Sequence[Result], models: Sequence[str]) -> list[str]:
    """How many evaluations a score took on each model."""
    held = {model: [vars(row) for row in rows if row.model == model] for model in models}
    return [f"{model}: {spent(mine)}" if len(models) > 1 else spent(mine) for model, mine in held.items() if mine]


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


def best_first(rows: Sequence[Result], model: str, *, controls: bool) -> list[str]:
    """The explainers that have a value on a model, best mean first; controls, if wanted, after all others.

    By a score in the map's own units, in the run's order.
    """
    mine = [row for row in rows if row.model == model and row.defined and (controls or not row.control)]
    return [row.explainer for row in sorted(mine, key=lambda row: (row.control, worse(row)))]


def worse(row: Result) -> float:
    """What explainers are sorted by, best first; nothing for a score in the map's own units."""
    return 0.0 if row.in_map_units else row.value if row.direction == "lower" else -row.value
