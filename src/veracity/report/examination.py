"""The page of an examination: the table per modality, and one planted input per failed task with its truth and the maps that miss it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from veracity.core.scores import Array
from veracity.planted.examination import MARKS, Examination, Finding, Shown, Verdict
from veracity.report.figures import images
from veracity.report.figures.images import Layout
from veracity.report.figures.words import word_line
from veracity.report.html import draw, template

TITLE = "Where do explainers miss what was planted?"
LAYOUTS = {"images": Layout.PICTURE, "series": Layout.SERIES, "graphs": Layout.ROWS}


@dataclass(frozen=True, kw_only=True)
class FailedTask:
    """A task on which explainers fail: what each of them did, with the reason if it is known, and the pictures of one sample."""

    name: str
    rule: str
    failures: tuple[tuple[str, str, str], ...]
    pictures: Markup


@dataclass(frozen=True, kw_only=True)
class Part:
    """One modality: its tasks, the short findings of each explainer on them, what the tasks are, and those with failures."""

    modality: str
    tasks: tuple[str, ...]
    rows: tuple[tuple[str, list[str]], ...]
    legend: tuple[str, ...]
    failed: tuple[FailedTask, ...]


def render_examination(found: Examination) -> str:
    """The examination as one HTML page; everything that users typed is escaped."""
    parts = [
        Part(
            modality=modality,
            tasks=tuple(task.name for task in found.tasks_of(modality)),
            rows=tuple(found.grid(modality)),
            legend=tuple(found.legend(modality)),
            failed=failed_tasks(found, modality),
        )
        for modality in found.modalities
    ]
    counts = {verdict: sum(one.verdict is verdict for one in found.findings) for verdict in Verdict}
    said = ", ".join(f"{count} {words}" for verdict, words in SAID.items() if (count := counts[verdict]))
    return template("examination.html.j2").render(
        title=TITLE, key=found.key, parts=parts, said=said, findings=len(found.findings), left_out=found.left_out(), styles=STYLES
    )


SAID = {Verdict.PASS: "passes", Verdict.FAILS: "failures", Verdict.UNTOLD: "that cannot be told"}
STYLES = {mark: verdict.name.lower() for verdict, mark in MARKS.items()}


def failed_tasks(found: Examination, modality: str) -> tuple[FailedTask, ...]:
    """The tasks of a modality on which some explainer fails."""
    made = []
    for task in found.tasks_of(modality):
        failed = [one for one in found.findings if (one.modality, one.task) == (modality, task.name) and one.verdict is Verdict.FAILS]
        if failed:
            shown = found.shown.get((modality, task.name))
            pictures = Markup("") if shown is None else draw_sample(shown, modality, {one.explainer: one for one in failed})
            failures = tuple((one.explainer, one.short, one.why) for one in failed)
            made.append(FailedTask(name=task.name, rule=task.rule, failures=failures, pictures=pictures))
    return tuple(made)


def draw_sample(shown: Shown, modality: str, failed: Mapping[str, Finding]) -> Markup:
    """The input, its truth and the maps of those that fail: tiles, or the words of a text line by line. Every map has its own scale."""
    maps = [(label, failed[label].short, images.to_array(values)) for label, values in shown.maps.items() if label in failed]
    rows = [("truth", "", images.to_array(shown.truth)), *maps]
    if shown.words:
        return draw("word_lines", [word_line(label, shown.words, values) for label, _, values in rows])
    before = images.to_array(shown.input)
    tiles = [images.tile(draw_before(before, modality), "input", "", "input")]
    for label, value, values in rows:
        tiles.append(images.tile(draw_over(before, values, modality, label), label, value, "map"))
    return Markup('<div class="exhibit planted">{}</div>').format(Markup("").join(tiles))


def draw_before(values: Array, modality: str) -> Markup:
    """The input alone: bars for the columns of a table."""
    if modality not in LAYOUTS:
        return images.draw_bars(values, images.reach(values), "input")
    return images.draw_input(values, LAYOUTS[modality], *images.bounds(values), "input")


def draw_over(before: Array, values: Array, modality: str, label: str) -> Markup:
    """A mask or a map in the colours of attributions; of a series, on the line of its input."""
    scale = images.reach(values)
    if modality == "series":
        low, high = images.bounds(before)
        colours = np.broadcast_to(values.reshape(-1, before.shape[-1]), before.shape)
        return images.draw_series(images.series_data(before, colours, low=low, high=high, scale=scale, channels=range(len(before))), label)
    if modality == "images":
        values = images.one_map(values if values.ndim == 3 else values[None], Layout.PICTURE, None)
        scale = images.reach(values)
    return images.draw_bars(values, scale, label) if modality not in LAYOUTS else images.draw_map(values, LAYOUTS[modality], scale, label)
