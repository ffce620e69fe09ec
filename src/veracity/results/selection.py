"""Selections of samples: by number, within ranges or an outline of scores, or all that fit a choice such as "undefined".

Each part of a selection is plain data, names whose scores it means, and has a short text, which stands in the address of the app's page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError, unknown

if TYPE_CHECKING:
    from veracity.results.run import Result
    from veracity.results.series import Series

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Array = NDArray[np.float64]
BETWEEN = "*"
"""What stands between the parts of a text. Names are quoted, so that they do not hold it."""
LISTED = "_"
"""What stands between listed numbers."""
CORNERS = 1000
"""The most corners of an outline, and the most ranges of numbers."""
CHOICES = ("all", "undefined", "failed", "wrong", "disagree", "kept")
GROUP = "group:"
"""What a choice of a subgroup begins with: "group:sex:f"."""
FORM = "A selection is a text such as 'samples*0-4_9' or 'range*net*saliency*equivariance*0.2*0.5'"


class Part(Protocol):
    """A part of a selection."""

    @property
    def text(self) -> str:
        """The part as a short text; `read_part` reads it."""
        ...

    def samples(self, run: Result) -> Numbers:
        """The numbers of the selected samples, ascending."""
        ...


@dataclass(frozen=True, kw_only=True)
class Listed:
    """Samples by their numbers, as ranges that include both ends.

    >>> Listed(ranges=((0, 4), (9, 9))).text
    'samples*0-4_9'
    """

    ranges: tuple[tuple[int, int], ...]

    @property
    def text(self) -> str:
        """The part as a short text."""
        listed = LISTED.join(str(low) if low == high else f"{low}-{high}" for low, high in self.ranges)
        return BETWEEN.join(("samples", listed))

    def samples(self, run: Result) -> Numbers:
        """Those of these numbers that the run has."""
        chosen = np.zeros(int(run.manifest["data"]["samples"]), dtype=np.bool_)
        for low, high in self.ranges:
            chosen[low : high + 1] = True
        return np.flatnonzero(chosen)


@dataclass(frozen=True, kw_only=True)
class Within:
    """Samples whose scores lie within bounds, both included; None is an open end. An undefined score lies within none.

    >>> Within(model="net", explainer="lime", bounds={"sparseness": (0.25, None)}).text
    'range*net*lime*sparseness*0.25*'
    """

    model: str
    explainer: str
    bounds: Mapping[str, tuple[float | None, float | None]]

    @property
    def text(self) -> str:
        """The part as a short text."""
        ends = [(quoted(score), digits(low), digits(high)) for score, (low, high) in self.bounds.items()]
        return BETWEEN.join(("range", quoted(self.model), quoted(self.explainer), *(piece for one in ends for piece in one)))

    def samples(self, run: Result) -> Numbers:
        """The samples within all bounds."""
        return select(run, *(Bounded(self.model, self.explainer, score, low, high) for score, (low, high) in self.bounds.items()))


@dataclass(frozen=True)
class Bounded:
    """Samples by the bounds of one score."""

    model: str
    explainer: str
    score: str
    low: float | None
    high: float | None
    text: str = ""

    def samples(self, run: Result) -> Numbers:
        """The samples within the bounds."""
        one = series_beside(run, self.model, self.explainer, self.score)
        values = one.per_sample
        low, high = (end if end is not None else open_end for end, open_end in ((self.low, -math.inf), (self.high, math.inf)))
        return one.samples[~np.isnan(values) & (values >= low) & (values <= high)]


@dataclass(frozen=True, kw_only=True)
class Lasso:
    """Samples inside an outline in the plane of two scores `x` and `y`; an outline that crosses itself leaves out what it circles twice.

    >>> Lasso(model="net", explainer="lime", x="sparseness", y="symmetry", corners=((0, 0), (1, 0), (0, 0.5))).text
    'lasso*net*lime*sparseness*symmetry*0_0_1_0_0_0.5'
    """

    model: str
    explainer: str
    x: str
    y: str
    corners: tuple[tuple[float, float], ...]

    @property
    def text(self) -> str:
        """The part as a short text."""
        names = (quoted(name) for name in (self.model, self.explainer, self.x, self.y))
        return BETWEEN.join(("lasso", *names, LISTED.join(digits(place) for corner in self.corners for place in corner)))

    def samples(self, run: Result) -> Numbers:
        """The samples inside; a sample without one of the scores is outside."""
        samples, x, y = plane(run, self.model, self.explainer, self.x, self.y)
        return samples[inside(x, y, self.corners)]


@dataclass(frozen=True, kw_only=True)
class Fits:
    """Samples that fit a choice: undefined, failed or with stored pairs of one row, wrongly predicted, models disagree, or a subgroup.

    >>> Fits(model="net", explainer="lime", score="sparseness", only="group:sex:f").text
    'fits*net*lime*sparseness*group%3Asex%3Af'
    """

    model: str
    explainer: str
    score: str
    only: str

    @property
    def text(self) -> str:
        """The part as a short text."""
        return BETWEEN.join(("fits", *map(quoted, (self.model, self.explainer, self.score, self.only))))

    def samples(self, run: Result) -> Numbers:
        """The samples that fit."""
        one = series_of(run, self.model, self.explainer, self.score)
        return one.samples[chosen_by(run, one, self.only)]


def select(run: Result, *parts: Part) -> Numbers:
    """The numbers of the samples that all parts select, ascending; all samples of the run without any part."""
    chosen = np.ones(int(run.manifest["data"]["samples"]), dtype=np.bool_)
    for part in parts:
        mine = np.zeros(len(chosen), dtype=np.bool_)
        mine[part.samples(run)] = True
        chosen &= mine
    return np.flatnonzero(chosen)


def read_part(text: str) -> Part:
    """A part of a selection from its text; raises with one sentence if it is none.

    >>> read_part("samples*0-4_9")
    Listed(ranges=((0, 4), (9, 9)))
    >>> read_part("range*net*lime*sparseness*0.25*").bounds
    {'sparseness': (0.25, None)}
    """
    kind, *pieces = text.split(BETWEEN)
    try:
        if kind == "samples":
            (listed,) = pieces
            return Listed(ranges=read_ranges(listed))
        names = [unquote(piece, errors="strict") for piece in pieces]
        if kind == "fits":
            model, explainer, score, only = names
            return Fits(model=model, explainer=explainer, score=score, only=only)
        if kind == "range" and len(pieces) > 2 and len(pieces) % 3 == 2:
            bounds = {names[at]: (read_end(pieces[at + 1]), read_end(pieces[at + 2])) for at in range(2, len(pieces), 3)}
            if len(bounds) < (len(pieces) - 2) // 3:
                raise ValueError(text)  # a score that is named twice
            return Within(model=names[0], explainer=names[1], bounds=bounds)
        if kind == "lasso":
            model, explainer, x, y, _ = names
            return Lasso(model=model, explainer=explainer, x=x, y=y, corners=read_corners(pieces[-1]))
    except ValueError as error:
        raise InputError(f"{FORM}, not '{text[:80]}'.") from error
    raise InputError(f"{FORM}, not '{text[:80]}'.")


def read_ranges(listed: str) -> tuple[tuple[int, int], ...]:
    """Ranges of numbers, such as "0-4_9"."""
    found = tuple((int(low), int(high or low)) for low, _, high in (one.partition("-") for one in listed.split(LISTED)))
    if len(found) > CORNERS or any(not 0 <= low <= high < 1 << 40 for low, high in found):
        raise ValueError(listed)
    return found


def read_end(text: str) -> float | None:
    """An end of a range; None if it is open."""
    if text == "":
        return None
    if not math.isfinite(found := float(text)):
        raise ValueError(text)
    return found


def read_corners(listed: str) -> tuple[tuple[float, float], ...]:
    """The corners of an outline, "x_y_x_y"."""
    places = [float(one) for one in listed.split(LISTED)]
    if len(places) % 2 or not 6 <= len(places) <= 2 * CORNERS or not all(map(math.isfinite, places)):
        raise ValueError(listed)
    return tuple(zip(places[::2], places[1::2], strict=True))


def quoted(name: str) -> str:
    """A name without what stands between the parts of a text."""
    return quote(name, safe="")


def digits(place: float | None) -> str:
    """A number in its shortest form; nothing for an open end.

    >>> digits(0.5), digits(2.0), digits(None)
    ('0.5', '2', '')
    """
    return "" if place is None else repr(float(place)).removesuffix(".0")


def inside(x: Array, y: Array, corners: Sequence[tuple[float, float]]) -> Flags:
    """Which points lie inside an outline: a ray to the right crosses it an odd number of times.

    >>> inside(np.array([0.2, 0.8]), np.array([0.2, 0.8]), ((0, 0), (1, 0), (0, 1))).tolist()
    [True, False]
    """
    ring = np.asarray([*corners, corners[0]], dtype=np.float64)
    (left, bottom), (right, top) = ring.min(axis=0), ring.max(axis=0)
    near = np.flatnonzero((x >= left) & (x <= right) & (y >= bottom) & (y <= top))
    px, py, odd = x[near], y[near], np.zeros(len(near), dtype=np.bool_)
    for (x0, y0), (x1, y1) in pairwise(ring.tolist()):
        if y0 != y1:
            odd ^= ((y0 > py) != (y1 > py)) & (px < x0 + (py - y0) * (x1 - x0) / (y1 - y0))
    found = np.zeros(len(x), dtype=np.bool_)
    found[near] = odd
    return found


def plane(run: Result, model: str, explainer: str, x: str, y: str) -> tuple[Numbers, Array, Array]:
    """The samples that have both scores, and their values."""
    across, up = (series_beside(run, model, explainer, score) for score in (x, y))
    samples, left = across.samples, across.per_sample
    right = values_at(up, samples)
    both = np.isfinite(left) & np.isfinite(right)
    return samples[both], left[both], right[both]


def values_at(one: Series, samples: Numbers) -> Array:
    """The values of a series at some samples, ascending; NaN where it has none."""
    own, values = one.samples, one.per_sample
    if not len(own):
        return np.full(len(samples), np.nan)
    place = np.searchsorted(own, samples).clip(max=len(own) - 1)
    return np.where(own[place] == samples, values[place], np.nan)


def series_of(run: Result, model: str, explainer: str, score: str) -> Series:
    """The series of a subject; raises if there is none."""
    found = [one for one in run.series if (one.model, one.explainer, one.score) == (model, explainer, score)]
    if not found:
        named = " / ".join(filter(None, (model, explainer, score)))
        raise unknown("row of this run", named, {" / ".join(filter(None, (one.model, one.explainer, one.score))) for one in run.series})
    return found[0]


def series_beside(run: Result, model: str, explainer: str, score: str) -> Series:
    """The series of a score beside an explainer: the explainer's own, or that of the model itself if the score is one of models."""
    known = {(one.model, one.explainer, one.score) for one in run.series}
    own = (model, explainer, score) in known or (model, "", score) not in known
    return series_of(run, model, explainer if own else "", score)


def chosen_by(run: Result, one: Series, only: str) -> Flags:
    """Which samples of a series a choice takes."""
    samples, lost = one.samples, np.isin(one.samples, list(one.lost))
    if only == "all":
        return np.ones(len(samples), dtype=np.bool_)
    if only == "undefined":
        return np.asarray(~np.isfinite(one.per_sample) & ~lost)
    if only == "failed":
        return np.asarray(lost)
    if only == "wrong":
        return np.isin(samples, wrong_samples(run, one.model))
    if only == "disagree":
        return np.isin(samples, disputed_samples(run))
    if only == "kept":
        return np.isin(samples, kept_samples(run, one))
    for group in groups_of(run):
        for place, label in enumerate(group["labels"]):
            if only == f"{GROUP}{group['name']}:{label}":
                return np.asarray(np.array(group["of"])[samples] == place)
    raise unknown("choice of samples", only, choices(run, one.model))


def choices(run: Result, model: str) -> list[str]:
    """The choices that a run has: those of classes only if it kept them, and its subgroups."""
    named = [f"{GROUP}{group['name']}:{label}" for group in groups_of(run) for label in group["labels"]]
    lacking = {"wrong"} if not {"predicted", "label"} <= classes_of(run, model).keys() else set()
    lacking |= {"disagree"} if len(predictions(run)) < 2 else set()
    return [one for one in CHOICES if one not in lacking] + named


def groups_of(run: Result) -> Sequence[Mapping[str, Any]]:
    """The subgroups that the manifest names."""
    found: Sequence[Mapping[str, Any]] = (run.manifest.get("data") or {}).get("groups") or ()
    return found


def classes_of(run: Result, model: str) -> Mapping[str, Sequence[str]]:
    """The predicted and true classes that a run kept, of texts those of the first samples."""
    found: Mapping[str, Sequence[str]] = ((run.manifest.get("models") or {}).get(model) or {}).get("classes") or {}
    return found


def predictions(run: Result) -> list[Sequence[str]]:
    """The predicted classes of every model of which the run kept them."""
    return [classes["predicted"] for model in run.manifest.get("models") or {} if "predicted" in (classes := classes_of(run, model))]


def wrong_samples(run: Result, model: str) -> list[int]:
    """The samples of which the run kept that the model is wrong."""
    classes = classes_of(run, model)
    both = zip(classes.get("predicted", ()), classes.get("label", ()), strict=False)
    return [number for number, (predicted, label) in enumerate(both) if predicted != label]


def disputed_samples(run: Result) -> list[int]:
    """The samples of which the run kept that the models predict different classes."""
    return [number for number, classes in enumerate(zip(*predictions(run), strict=False)) if len(set(classes)) > 1]


def kept_samples(run: Result, one: Series) -> list[int]:
    """The samples of which the run kept a pair for this subject."""
    stored, found = run.folder.records.keys("worst"), []
    for cell in run.manifest["cells"]:
        if (cell["model"], cell["explainer"], cell["score"]) == (one.model, one.explainer, one.score) and cell["key"] in stored:
            kept = run.folder.read_tensors("worst", cell["key"]) or {}
            found += kept["sample"].tolist() if "sample" in kept else []
    return found
