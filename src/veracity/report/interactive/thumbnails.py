"""Small drawings of a page of samples: their inputs, or an explanation of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veracity.core.errors import InputError, unknown
from veracity.core.scores import Array
from veracity.report.figures import images
from veracity.report.figures.chart import evenly
from veracity.report.figures.features import feature_names
from veracity.report.figures.gallery import group_names
from veracity.report.figures.images import Layout
from veracity.report.figures.words import words_kept
from veracity.report.interactive.drawings import Drawing, input_drawing, map_drawing
from veracity.results import Result
from veracity.results.cases import check_sample, sample_explanations, sample_inputs

SIDE = 64
"""The longer side of a picture in pixels."""
MOMENTS, CHANNELS, WORDS = 80, 2, 12
"""How many moments and channels of a series, and how many words of a text, are drawn."""
MOST = 48
"""The most samples of one answer."""
INPUTS, MAPS = "inputs", "explanations"
KINDS = (INPUTS, MAPS)
DRAWN = ("picture", "lines", "traces", "words", "points")
"""The drawings that can be small."""


def check_samples(run: Result, samples: Sequence[int]) -> None:
    """Raise unless these samples exist and are few."""
    if len(samples) > MOST:
        raise InputError(f"At most {MOST} thumbnails are made at once, not {len(samples)}.")
    for sample in samples:
        check_sample(run, sample)


def small_drawings(
    run: Result, model: str, explainer: str, samples: Sequence[int], kind: str, given: Mapping[int, Array] | None = None
) -> dict[str, Any]:
    """One drawing per sample; null for one that the run does not keep, or that has no small picture, as a row of a table.

    Inputs are `given`, or those that the run kept.
    """
    if kind not in KINDS:
        raise unknown("kind of thumbnails", kind, KINDS)
    check_samples(run, samples)
    spec = run.manifest.get("spec") or {}
    shape = tuple(run.manifest["data"]["shape"])
    layout = images.layout_of(np.broadcast_to(0.0, shape), group_names(spec.get("symmetry")))
    words, table = words_kept(run.manifest), feature_names(run.manifest) is not None
    first = {sample: words[sample][:WORDS] for sample in samples if sample < len(words)}
    if kind == INPUTS and (table or first):
        drawings: dict[int, Drawing] = {sample: {"kind": "words", "words": first[sample], "shares": []} for sample in first}
    elif kind == INPUTS:
        kept = {sample: images.to_array(value) for sample, value in sample_inputs(run, samples).items()} if given is None else given
        drawings = {sample: input_drawing(smaller(values, layout), layout) for sample, values in kept.items()}
    else:
        mapped = all(cell["frame"] == "input" for cell in run.manifest["cells"] if cell["explainer"] == explainer)
        maps = sample_explanations(run, model, explainer, samples) if mapped and not table else {}
        arrays = {sample: images.to_array(value) for sample, value in maps.items()}
        drawings = {
            sample: map_drawing(values if sample in first else smaller(values, layout), layout, words=first.get(sample, ()))
            for sample, values in arrays.items()
        }
    for sample in first.keys() & drawings.keys():
        if len(words[sample]) > WORDS and drawings[sample]["kind"] == "words":
            drawings[sample]["words"] = [*first[sample], "\N{HORIZONTAL ELLIPSIS}"]
    found = {sample: drawing for sample, drawing in drawings.items() if drawing["kind"] in DRAWN}
    return {"table": table, "drawings": [{"sample": sample, "drawing": found.get(sample)} for sample in samples]}


def smaller(values: Array, layout: Layout) -> Array:
    """An array with no more detail than a small drawing shows.

    >>> smaller(np.zeros((3, 200, 100)), Layout.PICTURE).shape, smaller(np.zeros((5, 1000)), Layout.SERIES).shape
    ((3, 50, 25), (2, 80))
    """
    if layout is Layout.PICTURE and values.ndim == 3:
        return np.moveaxis(images.shrink(np.moveaxis(values, 0, -1), SIDE), -1, 0)
    if layout is Layout.SERIES and values.ndim in (1, 2):
        rows = np.atleast_2d(values)
        return np.asarray(rows[:CHANNELS, evenly(rows.shape[1], MOMENTS)])
    return values
