"""What the page of an audit asks for besides its table: the spread of a score over samples, samples page by page, and single samples.

An answer never grows with the data: a spread of many samples is a histogram, and a list has pages.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError, unknown
from veracity.core.measures import Direction
from veracity.core.scores import Array
from veracity.core.spreadsheets import as_text
from veracity.report.figures import images
from veracity.report.figures.features import feature_names
from veracity.report.figures.gallery import NEARBY, formulas_of, group_names
from veracity.report.figures.images import Layout
from veracity.report.figures.words import words_kept
from veracity.report.interactive.courses import course_of
from veracity.report.interactive.drawings import Drawing, finite, input_drawing, map_drawing
from veracity.report.interactive.graphs import Graph
from veracity.results import Result, WorstPair
from veracity.results.cases import cells_of, sample_explanation, sample_input, sample_pairs, sample_values
from veracity.results.selection import Numbers, chosen_by, classes_of, groups_of, series_beside, series_of, values_at

POINTS = 2000
"""Up to so many samples are sent one by one; of more, a histogram."""
BINS = 48
PAGE = 200
"""The most samples of one page."""
ORDERS = ("worst", "best", "number")
PAIRS = 12
"""The most stored pairs of a sample that are drawn."""


def histogram(values: Array) -> tuple[NDArray[np.int64], Array]:
    """Counts and edges of bins; one bin around values that are equal up to rounding, which numpy cannot cut.

    >>> counts, edges = histogram(np.array([1.0, 1.0 - 1e-16]))
    >>> counts.tolist(), edges.round(3).tolist()
    ([2], [1.0, 1.0])
    """
    if not len(values):
        return np.zeros(0, np.int64), np.zeros(0)
    low, high = float(values.min()), float(values.max())
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    if high - low <= slack:
        return np.array([len(values)]), np.array([low - slack, high + slack])
    return np.histogram(values, bins=BINS)


def spread(run: Result, model: str, explainer: str, score: str, chosen: Numbers | None = None) -> dict[str, Any]:
    """How the values of a score are spread over samples: n, undefined, failed, quartiles, a histogram, and few samples one by one.

    Of `chosen` samples it also says the counts within the same bins, the quartiles, and which of the single samples they are.
    """
    one = series_of(run, model, explainer, score)
    samples, values = one.samples, one.per_sample
    defined = np.isfinite(values)
    kept, failed = values[defined], len(one.lost)
    counts, edges = histogram(kept)
    few = len(kept) <= POINTS
    found = {
        "n": len(kept),
        "undefined": int((~defined).sum()) - failed,
        "failed": failed,
        "pooled": run.pools(score),
        "quartiles": quartiles(kept),
        "counts": counts.tolist(),
        "edges": edges.tolist(),
        "samples": samples[defined].tolist() if few else None,
        "values": kept.tolist() if few else None,
        "chosen": None,
    }
    if chosen is not None:
        marked = np.isin(samples[defined], chosen)
        mine = kept[marked]
        within = np.histogram(mine, bins=edges)[0] if len(counts) else counts
        about = {"n": len(mine), "quartiles": quartiles(mine), "counts": within.tolist(), "marked": marked.tolist() if few else None}
        found["chosen"] = about
    return found


def quartiles(values: Array) -> list[float | None] | None:
    """The least value, the quartiles and the greatest one; None without values."""
    return finite(np.quantile(values, (0, 0.25, 0.5, 0.75, 1))) if len(values) else None


def as_csv(run: Result, model: str, explainer: str, score: str, chosen: Numbers | None = None) -> str:
    """The value of every sample as CSV, and which of them are chosen where some are; undefined values are empty."""
    one, text = series_of(run, model, explainer, score), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("model", "explainer", "score", "sample", "value", *(() if chosen is None else ("selected",))))
    marks = [()] * len(one.samples) if chosen is None else [(str(mine).lower(),) for mine in np.isin(one.samples, chosen).tolist()]
    triples = zip(one.samples.tolist(), one.per_sample.tolist(), marks, strict=True)
    names = tuple(as_text(name) for name in (model, explainer, score))
    writer.writerows((*names, number, value if math.isfinite(value) else "", *mark) for number, value, mark in triples)
    return text.getvalue()


def listing(
    run: Result,
    model: str,
    explainer: str,
    score: str,
    *,
    order: str,
    only: str,
    start: int,
    count: int,
    around: int | None,
    by: str = "",
    chosen: Numbers | None = None,
) -> dict[str, Any]:
    """A page of the samples that `only` takes, among the `chosen` ones if there are any, in the order of the score or of the score `by`.

    It is the page that holds the sample `around`, if that is among them.
    """
    if order not in ORDERS:
        raise unknown("order of samples", order, ORDERS)
    if start < 0 or not 1 <= count <= PAGE:
        raise InputError(f"A page has 1 to {PAGE} samples and starts at 0 or later.")
    one = series_of(run, model, explainer, score)
    samples, values = one.samples, one.per_sample
    other = series_beside(run, model, explainer, by) if by and by != score else one
    keys = values if other is one else values_at(other, samples)
    taken = chosen_by(run, one, only)
    found = np.flatnonzero(taken if chosen is None else taken & np.isin(samples, chosen))
    if order != "number":
        direction = other.direction
        if (own := run.known_score(other.score).of_sample) is not None:
            direction = own[1] or Direction.LOWER
        sign = -1.0 if (direction is Direction.LOWER) is (order == "worst") else 1.0
        found = found[np.argsort(np.where(np.isfinite(keys[found]), sign * keys[found], math.inf), kind="stable")]
    if around is not None:
        places = np.flatnonzero(samples[found] == around)
        start = int(places[0]) // count * count if len(places) else start
    start = min(start, max(len(found) - 1, 0) // count * count)
    facts = known_facts(run, model)
    rows = []
    for i in found[start : start + count].tolist():
        number = int(samples[i])
        known = [[what, text[number]] for what, text in facts.items() if number < len(text)]
        row = {"sample": number, "value": or_null(values[i]), "failed": one.lost.get(number, ""), "facts": known}
        rows.append({**row, "by": None if other is one else or_null(keys[i])})
    return {"total": len(found), "start": start, "cases": rows}


def or_null(value: float) -> float | None:
    """A number as JSON can hold it."""
    return float(value) if math.isfinite(value) else None


def known_facts(run: Result, model: str) -> dict[str, Sequence[str]]:
    """What the run kept of each sample besides numbers: classes and subgroups, by name."""
    named = {group["name"]: [group["labels"][place] if place >= 0 else "" for place in group["of"]] for group in groups_of(run)}
    return {**classes_of(run, model), **named}


def case(run: Result, model: str, score: str, sample: int, chosen: Numbers | None = None) -> dict[str, Any]:
    """One sample: every explainer's value by every score, and by one score its course, the input and stored pairs if the run kept them.

    `chosen` says whether the sample is a selected one; null if no samples are.
    """
    values = sample_values(run, model, sample)
    shown = Shown(run, model, score, sample)
    pairs = sample_pairs(run, model, score, sample)[:PAIRS]
    given = pairs[0].input if pairs else sample_input(run, sample)
    facts = known_facts(run, model)
    return {
        "sample": sample,
        "chosen": None if chosen is None else bool(np.isin(sample, chosen)),
        "values": [{**asdict(one), "value": or_null(one.value)} for one in values],
        "facts": [[what, text[sample]] for what, text in facts.items() if sample < len(text)],
        "input": shown.words_alone() if given is None else shown.input(images.to_array(given)),
        "pairs": [shown.pair(pair) for pair in pairs],
        "course": course_of(run, model, score, sample),
    }


def explanation(run: Result, model: str, explainer: str, score: str, sample: int) -> dict[str, Any]:
    """The explanation of one sample as it was measured; null if the run did not keep it."""
    found = sample_explanation(run, model, explainer, sample)
    if found is None:
        return {"explainer": explainer, "drawing": None}
    shown, given = Shown(run, model, score, sample), None
    if shown.layout is Layout.POINTS:
        kept = sample_input(run, sample)
        given = None if kept is None else images.to_array(kept)
    return {"explainer": explainer, "drawing": shown.map(images.to_array(found), explainer, places=given)}


class Shown:
    """How the arrays of one sample are drawn; `graph` is known where the inputs are at hand."""

    def __init__(self, run: Result, model: str, score: str, sample: int, graph: Graph | None = None) -> None:
        self.graph = graph
        kept, spec = words_kept(run.manifest), run.manifest.get("spec") or {}
        about: Mapping[str, Any] = run.manifest.get("score_specs", {}).get(score) or {}
        shape = tuple(run.manifest["data"]["shape"])
        self.score = score
        self.words: Sequence[str] = kept[sample] if sample < len(kept) else ()
        self.features = feature_names(run.manifest)
        self.frames = {cell["explainer"]: cell["frame"] for cell in cells_of(run, model, sample)}
        groups = group_names((about.get("spec") or {}).get("space") or spec.get("symmetry"))
        self.layout = images.layout_of(np.broadcast_to(0.0, shape), groups)

    def words_alone(self) -> Drawing | None:
        """The words of a text, which are kept without its input."""
        return {"kind": "words", "words": list(self.words), "shares": [0.0] * len(self.words)} if self.words else None

    def input(self, values: Array, like: Array | None = None) -> Drawing:
        """An input."""
        if self.graph is not None and self.graph.fits(values):
            return self.graph.input(values)
        return input_drawing(values, self.layout, words=self.words, features=self.features, like=like)

    def masked(self, values: Array, before: Array) -> Drawing:
        """An input after a perturbation, on the scale of the one before.

        A word that was removed is a dash, and columns of a table that have other values are named as `changed`.
        """
        if self.words and values.ndim == 1:
            words = [word if gate > 0 else "\N{EN DASH}" for word, gate in zip(self.words, values.tolist(), strict=False)]
            return {"kind": "words", "words": words, "shares": [0.0] * len(words)}
        found = self.input(values, before)
        if self.features is None or found["kind"] != "facts":
            return found
        groups = np.asarray(self.features.groups)
        return {**found, "changed": np.unique(groups[values != before]).tolist()}

    def other(self, values: Array) -> Drawing:
        """The input of another sample, of the same form."""
        return input_drawing(values, self.layout, features=self.features)

    def map(self, values: Array, explainer: str, *, scale: float | None = None, places: Array | None = None) -> Drawing:
        """An explanation."""
        mapped = self.frames.get(explainer, "input") == "input"
        if mapped and self.graph is not None and self.graph.fits(values):
            return self.graph.map(values, scale)
        return map_drawing(values, self.layout, scale=scale, mapped=mapped, places=places, words=self.words, features=self.features)

    def pair(self, pair: WorstPair) -> dict[str, Any]:
        """A stored pair: the perturbed input, the expected and the found explanation; the last two share a scale."""
        before, moved, expected, found = (images.to_array(getattr(pair, name)) for name in ("input", "moved", "expected", "found"))
        searched = pair.label is not None and pair.predicted is not None
        formulas = NEARBY if searched else formulas_of(self.score, self.frames.get(pair.explainer, "input"))
        scale = images.reach(*(images.one_map(array, self.layout, None) for array in (expected, found)))
        return {
            "explainer": pair.explainer,
            "draw": pair.draw,
            "value": or_null(pair.value),
            "element": [float(part) for part in pair.element[:6]] if len(pair.element) <= 6 else [],
            "formulas": asdict(formulas),
            "moved": self.input(moved, before),
            "expected": self.map(expected, pair.explainer, scale=scale, places=moved),
            "found": self.map(found, pair.explainer, scale=scale, places=moved),
            "search": self.search(pair, before, moved) if searched else None,
        }

    def search(self, pair: WorstPair, before: Array, moved: Array) -> dict[str, Any]:
        """What else is shown of a point that a search found: the input, how it differs, by how much at most, and both classes."""
        difference = moved - before
        return {
            "label": pair.label,
            "predicted": pair.predicted,
            "input": self.input(before, moved),
            "difference": map_drawing(difference, self.layout, places=before, words=self.words, features=self.features),
            "largest": float(np.abs(difference).max(initial=0.0)),
        }
