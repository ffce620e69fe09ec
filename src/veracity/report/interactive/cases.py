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
from veracity.report.figures.gallery import formulas_of, group_names
from veracity.report.figures.images import Layout
from veracity.report.figures.words import words_kept
from veracity.report.interactive.drawings import Drawing, finite, input_drawing, map_drawing
from veracity.results import Result, Series, WorstPair
from veracity.results.cases import cells_of, sample_explanation, sample_input, sample_pairs, sample_values

POINTS = 2000
"""Up to so many samples are sent one by one; of more, a histogram."""
BINS = 48
PAGE = 200
"""The most samples of one page."""
ORDERS = ("worst", "best", "number")
CHOICES = ("all", "undefined", "failed", "wrong", "kept")
GROUP = "group:"
"""What a choice of a subgroup begins with: "group:sex:f"."""
PAIRS = 12
"""The most stored pairs of a sample that are drawn."""


def series_of(run: Result, model: str, explainer: str, score: str) -> Series:
    """The series of a subject; raises if there is none."""
    found = [one for one in run.series if (one.model, one.explainer, one.score) == (model, explainer, score)]
    if not found:
        named = " / ".join(filter(None, (model, explainer, score)))
        raise unknown("row of this run", named, {" / ".join(filter(None, (one.model, one.explainer, one.score))) for one in run.series})
    return found[0]


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


def spread(run: Result, model: str, explainer: str, score: str) -> dict[str, Any]:
    """How the values of a score are spread over samples: n, undefined, failed, quartiles, a histogram, and few samples one by one."""
    one = series_of(run, model, explainer, score)
    samples, values = one.samples, one.per_sample
    defined = np.isfinite(values)
    kept, failed = values[defined], len(one.lost)
    counts, edges = histogram(kept)
    few = len(kept) <= POINTS
    return {
        "n": len(kept),
        "undefined": int((~defined).sum()) - failed,
        "failed": failed,
        "pooled": run.pools(score),
        "quartiles": finite(np.quantile(kept, (0, 0.25, 0.5, 0.75, 1))) if len(kept) else None,
        "counts": counts.tolist(),
        "edges": edges.tolist(),
        "samples": samples[defined].tolist() if few else None,
        "values": kept.tolist() if few else None,
    }


def as_csv(run: Result, model: str, explainer: str, score: str) -> str:
    """The value of every sample as CSV; undefined ones are empty."""
    one, text = series_of(run, model, explainer, score), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("model", "explainer", "score", "sample", "value"))
    pairs = zip(one.samples.tolist(), one.per_sample.tolist(), strict=True)
    names = tuple(as_text(name) for name in (model, explainer, score))
    writer.writerows((*names, number, value if math.isfinite(value) else "") for number, value in pairs)
    return text.getvalue()


def listing(
    run: Result, model: str, explainer: str, score: str, *, order: str, only: str, start: int, count: int, around: int | None
) -> dict[str, Any]:
    """A page of the samples that `only` chooses, in this order; the page that holds the sample `around`, if it is among them."""
    if order not in ORDERS:
        raise unknown("order of samples", order, ORDERS)
    if start < 0 or not 1 <= count <= PAGE:
        raise InputError(f"A page has 1 to {PAGE} samples and starts at 0 or later.")
    one = series_of(run, model, explainer, score)
    samples, values = one.samples, one.per_sample
    chosen = np.flatnonzero(chosen_by(run, one, only))
    if order != "number":
        sign = -1.0 if (one.direction is Direction.LOWER) is (order == "worst") else 1.0
        chosen = chosen[np.argsort(np.where(np.isfinite(values[chosen]), sign * values[chosen], math.inf), kind="stable")]
    if around is not None:
        places = np.flatnonzero(samples[chosen] == around)
        start = int(places[0]) // count * count if len(places) else start
    start = min(start, max(len(chosen) - 1, 0) // count * count)
    shown = chosen[start : start + count]
    facts = known_facts(run, model)
    return {
        "total": len(chosen),
        "start": start,
        "cases": [
            {
                "sample": int(samples[i]),
                "value": float(values[i]) if math.isfinite(values[i]) else None,
                "failed": one.lost.get(int(samples[i]), ""),
                "facts": [[what, text[int(samples[i])]] for what, text in facts.items() if int(samples[i]) < len(text)],
            }
            for i in shown.tolist()
        ],
    }


def chosen_by(run: Result, one: Series, only: str) -> NDArray[np.bool_]:
    """Which samples of a series a choice takes."""
    samples, lost = one.samples, np.isin(one.samples, list(one.lost))
    if only == "all":
        return np.ones(len(samples), dtype=np.bool_)
    if only == "undefined":
        return np.asarray(~np.isfinite(one.per_sample) & ~lost)
    if only == "failed":
        return np.asarray(lost)
    if only == "wrong":
        wrong = wrong_samples(run, one.model)
        return np.isin(samples, wrong)
    if only == "kept":
        return np.isin(samples, kept_samples(run, one))
    for group in groups_of(run):
        for place, label in enumerate(group["labels"]):
            if only == f"{GROUP}{group['name']}:{label}":
                return np.asarray(np.array(group["of"])[samples] == place)
    raise unknown("choice of samples", only, choices(run, one.model))


def choices(run: Result, model: str) -> list[str]:
    """The choices that a run has: those of classes only if it kept them, and its subgroups."""
    classes, groups = classes_of(run, model), groups_of(run)
    known = [one for one in CHOICES if one != "wrong" or {"predicted", "label"} <= classes.keys()]
    return known + [f"{GROUP}{group['name']}:{label}" for group in groups for label in group["labels"]]


def groups_of(run: Result) -> Sequence[Mapping[str, Any]]:
    """The subgroups that the manifest names."""
    found: Sequence[Mapping[str, Any]] = (run.manifest.get("data") or {}).get("groups") or ()
    return found


def classes_of(run: Result, model: str) -> Mapping[str, Sequence[str]]:
    """The predicted and true classes that a run kept, of texts those of the first samples."""
    found: Mapping[str, Sequence[str]] = ((run.manifest.get("models") or {}).get(model) or {}).get("classes") or {}
    return found


def wrong_samples(run: Result, model: str) -> list[int]:
    """The samples of which the run kept that the model is wrong."""
    classes = classes_of(run, model)
    both = zip(classes.get("predicted", ()), classes.get("label", ()), strict=False)
    return [number for number, (predicted, label) in enumerate(both) if predicted != label]


def known_facts(run: Result, model: str) -> dict[str, Sequence[str]]:
    """What the run kept of each sample besides numbers: classes and subgroups, by name."""
    named = {group["name"]: [group["labels"][place] if place >= 0 else "" for place in group["of"]] for group in groups_of(run)}
    return {**classes_of(run, model), **named}


def kept_samples(run: Result, one: Series) -> list[int]:
    """The samples of which the run kept a pair for this subject."""
    stored, found = run.folder.records.keys("worst"), []
    for cell in run.manifest["cells"]:
        if (cell["model"], cell["explainer"], cell["score"]) == (one.model, one.explainer, one.score) and cell["key"] in stored:
            kept = run.folder.read_tensors("worst", cell["key"]) or {}
            found += kept["sample"].tolist() if "sample" in kept else []
    return found


def case(run: Result, model: str, score: str, sample: int) -> dict[str, Any]:
    """One sample: every explainer's value by every score, the input and the stored pairs of a score, if the run kept them."""
    values = sample_values(run, model, sample)
    shown = Shown(run, model, score, sample)
    pairs = sample_pairs(run, model, score, sample)[:PAIRS]
    given = pairs[0].input if pairs else sample_input(run, sample)
    facts = known_facts(run, model)
    return {
        "sample": sample,
        "values": [{**asdict(one), "value": one.value if math.isfinite(one.value) else None} for one in values],
        "facts": [[what, text[sample]] for what, text in facts.items() if sample < len(text)],
        "input": shown.words_alone() if given is None else shown.input(images.to_array(given)),
        "pairs": [shown.pair(pair) for pair in pairs],
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
    """How the arrays of one sample are drawn."""

    def __init__(self, run: Result, model: str, score: str, sample: int) -> None:
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
        return input_drawing(values, self.layout, words=self.words, features=self.features, like=like)

    def map(self, values: Array, explainer: str, *, scale: float | None = None, places: Array | None = None) -> Drawing:
        """An explanation."""
        mapped = self.frames.get(explainer, "input") == "input"
        return map_drawing(values, self.layout, scale=scale, mapped=mapped, places=places, words=self.words, features=self.features)

    def pair(self, pair: WorstPair) -> dict[str, Any]:
        """A stored pair: the perturbed input, the expected and the found explanation; the last two share a scale."""
        before, moved, expected, found = (images.to_array(getattr(pair, name)) for name in ("input", "moved", "expected", "found"))
        formulas = formulas_of(self.score, self.frames.get(pair.explainer, "input"))
        scale = images.reach(*(images.one_map(array, self.layout, None) for array in (expected, found)))
        return {
            "explainer": pair.explainer,
            "draw": pair.draw,
            "value": pair.value if math.isfinite(pair.value) else None,
            "element": [float(part) for part in pair.element[:6]] if len(pair.element) <= 6 else [],
            "formulas": asdict(formulas),
            "moved": self.input(moved, before),
            "expected": self.map(expected, pair.explainer, scale=scale, places=moved),
            "found": self.map(found, pair.explainer, scale=scale, places=moved),
        }
