"""One score of one subject over all samples, from stored measurements; the numbers read off it, and its worst pairs."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.errors import StoreError
from veracity.core.explainers import FITTED, RANDOM_ENCODER, Frame, control_label
from veracity.core.measures import Direction
from veracity.core.scores import Measured, SampleNotes, per_sample_mean
from veracity.core.walks import Sampling
from veracity.scores.common import as_read
from veracity.statistics import medians


@dataclass(frozen=True, repr=False)
class WorstPair:
    """One of the worst perturbations: the input and its explanation, before and after."""

    model: str
    explainer: str
    sample: int
    draw: int
    element: list[float]
    value: float
    input: Tensor
    moved: Tensor
    explanation: Tensor
    expected: Tensor
    found: Tensor
    merit: float | None = None
    label: int | None = None
    predicted: int | None = None

    def __repr__(self) -> str:
        """Model, explainer, sample and value, without the tensors."""
        return f"WorstPair(model={self.model!r}, explainer={self.explainer!r}, sample={self.sample}, value={self.value:.3f})"


def unpack_pairs(cell: dict[str, Any], kept: dict[str, Tensor], sample: int | None = None) -> Iterator[WorstPair]:
    """The stored pairs of one cell, or of one sample of it; raises if a part of them is missing."""
    parts = [kept.get(name) for name in (*PARTS, *(name for name in SEARCHED if name in kept))]
    if any(part is None or not part.ndim or len(part) != len(kept["sample"]) for part in parts):
        raise StoreError(f"The worst pairs of the cell {cell['key']} are damaged: delete their file and run the same command again.")
    for number, of in enumerate(kept["sample"].tolist()):
        if sample is not None and of != sample:
            continue
        known: dict[str, Any] = {name: kind(kept[name][number]) for name, kind in SEARCHED.items() if name in kept}
        known |= {name: kept[name][number] for name in TENSORS}
        yield WorstPair(
            model=cell["model"],
            explainer=cell["explainer"],
            sample=of,
            draw=int(kept["draw"][number]),
            element=[float(part) for part in kept["element"][number]],
            value=float(kept["value"][number]),
            **known,
        )


TENSORS = ("input", "moved", "explanation", "expected", "found")
PARTS = ("sample", "draw", "element", "value", *TENSORS)
"""The parts that are stored of every pair."""
SEARCHED: dict[str, Callable[[Tensor], Any]] = {"merit": float, "label": int, "predicted": int}
"""The further parts that are stored of a pair found by a search."""


Array = NDArray[np.float64]
SPARSE = 256
"""A table may have this many times as many places as measurements, since samples may differ in their number of draws."""


@dataclass(frozen=True)
class Arrays:
    """The numbers of one score of one subject over all samples: values (samples, draws), and what else is known of each sample."""

    samples: NDArray[np.int64]
    values: Array
    counts: NDArray[np.int64]
    drawn: int
    per_sample: Array
    measured: Measured
    no_response: NDArray[np.bool_]
    errors: Array | None
    remarks: Mapping[str, NDArray[np.bool_]]

    def without(self, samples: Collection[int]) -> Arrays:
        """Without these samples."""
        return self.only(~np.isin(self.samples, list(samples)))

    def only(self, kept: NDArray[np.bool_]) -> Arrays:
        """The samples that are marked."""
        arrays: dict[str, Any] = {name: getattr(self, name)[kept] for name in ("samples", "values", "counts", "per_sample", "no_response")}
        return replace(
            self,
            **arrays,
            measured=Measured({name: table[kept] for name, table in self.measured.quantities.items()}),
            errors=None if self.errors is None else self.errors[kept],
            remarks={name: marks[kept] for name, marks in self.remarks.items()},
        )

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays, with those that share their memory counted once."""
        every = [self.samples, self.counts, self.per_sample, self.no_response, *self.measured.quantities.values(), *self.remarks.values()]
        every += [one for one in (self.values, self.errors) if one is not None]
        return sum({id(one if one.base is None else one.base): one.nbytes for one in every}.values())


@dataclass(frozen=True)
class Near:
    """One score of one subject on the samples of some cells, ascending: a number each, its draws, and how many of them are defined."""

    samples: NDArray[np.int64]
    per_sample: Array
    drawn: NDArray[np.int64]
    defined: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return self.samples.nbytes + self.per_sample.nbytes + self.drawn.nbytes + self.defined.nbytes


class Weighed(Protocol):
    """What says how many bytes it holds."""

    @property
    def nbytes(self) -> int:
        """How many bytes the arrays hold."""


Read = TypeVar("Read", bound=Weighed)


class Held(Generic[Read]):
    """The arrays that were read last, in a bounded number of bytes; at least those of one score."""

    def __init__(self, limit: int) -> None:
        self.limit, self.bytes = limit, 0
        self.kept: OrderedDict[Hashable, Read] = OrderedDict()

    def recall(self, key: Hashable, read: Callable[[], Read]) -> Read:
        """What is known under a key, read if it is not."""
        if key in self.kept:
            self.kept.move_to_end(key)
            return self.kept[key]
        found = read()
        self.kept[key] = found
        self.bytes += found.nbytes
        while self.bytes > self.limit and len(self.kept) > 1:
            self.bytes -= self.kept.popitem(last=False)[1].nbytes
        return found


@dataclass(frozen=True)
class Series:
    """One score of one subject over all samples, and how its draws came about. Its arrays are read when they are asked for.

    Of its `cells`, `missing` are not measured: `broken` ones failed, the others are pending. `lost` says why single samples of measured
    cells failed, by their numbers; their values are NaN. `failed` is the first error of all. `null` is the label of the control that was
    chosen for this explainer alone. `every_unit` is the unit of every sample of the run, if samples belong together.
    """

    model: str
    explainer: str
    control: bool
    signed: bool
    directed: bool
    frame: str
    categorical: bool
    score: str
    sampling: Sampling
    bounds: tuple[float, float]
    direction: Direction
    read: Callable[[], Arrays]
    cells: int
    missing: int
    broken: int
    failed: str
    lost: Mapping[int, str]
    null: str = ""
    every_unit: NDArray[np.int64] | None = None

    @property
    def units(self) -> NDArray[np.int64] | None:
        """The unit of each of its samples; None if each stands alone."""
        return None if self.every_unit is None else self.every_unit[self.samples]

    @property
    def samples(self) -> NDArray[np.int64]:
        """The numbers of the measured samples."""
        return self.read().samples

    @property
    def values(self) -> Array:
        """The score of each draw, (samples, draws)."""
        return self.read().values

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many draws each sample has."""
        return self.read().counts

    @property
    def drawn(self) -> int:
        """How many draws there are of all samples."""
        return self.read().drawn

    @property
    def per_sample(self) -> Array:
        """The score of each sample."""
        return self.read().per_sample

    @property
    def measured(self) -> Measured:
        """The stored quantities."""
        return self.read().measured

    @property
    def no_response(self) -> NDArray[np.bool_]:
        """Which samples did not respond."""
        return self.read().no_response

    @property
    def errors(self) -> Array | None:
        """Each value's own error, if it has one."""
        return self.read().errors

    @property
    def remarks(self) -> Mapping[str, NDArray[np.bool_]]:
        """Which samples a remark applies to, by remark."""
        return self.read().remarks

    def among(self, samples: NDArray[np.int64]) -> Series:
        """On these samples alone."""
        read = self.read

        def chosen() -> Arrays:
            found = read()
            return found.only(np.isin(found.samples, samples))

        kept = set(samples.tolist()) if self.lost else set()
        return replace(self, read=chosen, lost={key: why for key, why in self.lost.items() if key in kept})

    def sound(self) -> Series:
        """Without the samples that failed."""
        lost, read = self.lost, self.read
        return replace(self, read=lambda: read().without(lost), lost={}) if lost else self

    @property
    def pending(self) -> int:
        """How many cells are neither measured nor failed."""
        return self.missing - self.broken


Derived = tuple[Array, Array, NDArray[np.bool_], Array | None, Mapping[str, NDArray[np.bool_]]]


def derive(about: dict[str, Any], measured: Measured) -> Derived:
    """Values (samples, draws), one value per sample, which samples did not respond, each value's own error, and remarks.

    Plain means need no score; others are derived by the registered score.
    """
    if about.get("values", "plain") == "plain" and about["reduce"] == "mean":
        values = next(iter(measured.quantities.values()))[:, :, 0]
        return values, per_sample_mean(values), np.zeros(len(values), dtype=np.bool_), None, {}
    score = as_read(about["spec"])
    if not len(next(iter(measured.quantities.values()))):
        measured = Measured(dict.fromkeys(score.quantities, np.zeros((0, 0, 1))))
        return measured[score.quantities[0]][:, :, 0], np.zeros(0), np.zeros(0, dtype=np.bool_), None, {}
    if about.get("values", "plain") == "plain":
        measured = Measured({"value": next(iter(measured.quantities.values()))})
    values = score.values(measured)
    if not isinstance(score, SampleNotes):
        return values, score.reduce(values), np.zeros(len(values), dtype=np.bool_), None, {}
    return values, score.reduce(values), score.no_response(measured), score.errors(measured), score.remarks(measured)


def draws_of(values: Array, measured: Measured, drawn: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many values each sample should have: as many as were `drawn`, unless the score makes others of them, such as one correlation."""
    same = values.shape[1] == next(iter(measured.quantities.values())).shape[1]
    return drawn if same else np.full(len(drawn), values.shape[1])


def last_counts(table: Array) -> int:
    """The sum over samples and draws of a count that grows from level to level."""
    return int(np.nansum(np.nanmax(np.where(np.isfinite(table), table, 0.0), axis=2, initial=0.0)))


def evaluations(one: Series) -> int:
    """How many perturbations were evaluated for a score: as the search counted them, or one per draw and level."""
    if "evaluations" in one.measured.quantities:
        return last_counts(one.measured["evaluations"])
    first = next(iter(one.measured.quantities.values()))
    return one.drawn * int(first.shape[2])


def undefined(one: Series) -> int:
    """How many evaluations of a search had no value, or how many draws have one quantity without the other."""
    if "undefined" in one.measured.quantities:
        return last_counts(one.measured["undefined"])
    seen = np.stack([np.isfinite(table) for table in one.measured.quantities.values()])
    return int((seen.any(axis=0) & ~seen.all(axis=0)).sum())


def null_of(one: Series) -> str:
    """The random control that is fair to an explanation: the one that was chosen for it, or that of its frame and sign."""
    if one.null:
        return one.null
    if one.frame == Frame.TRAINING.value:
        return "random_examples" if one.signed else "random_mixture"
    if one.frame == Frame.CONCEPTS.value:
        return "random_concepts" if one.categorical else "random_sensitivities"
    if one.frame == Frame.GLOBAL.value:
        return "random_global"
    if one.frame == Frame.FEATURES.value:
        return control_label(one.explainer, RANDOM_ENCODER)
    return "random_gaussian" if one.signed else "random_uniform"


def fitted_control(label: str, frame: str, labels: Collection[str]) -> bool:
    """Whether an explainer of a run with these labels is a control that was fitted beside another one.

    >>> fitted_control("sae: raw activations", "features", ["sae", "sae: raw activations"])
    True
    """
    owner, _, suffix = label.rpartition(": ")
    return frame == Frame.FEATURES.value and suffix in FITTED and owner in labels


def mean(values: Array) -> float:
    """The mean of the defined values, NaN if there is none."""
    return float(values[np.isfinite(values)].mean()) if np.isfinite(values).any() else float("nan")


def censored(one: Series) -> NDArray[np.bool_]:
    """Which samples are only known to lie at or below their value."""
    return one.remarks.get("censored", np.zeros(len(one.samples), dtype=np.bool_))


def summarise(one: Series | None, centre: str) -> float:
    """The mean or the median of the defined values; NaN if there is none, or if only a bound is known."""
    if one is None or centre != "median":
        return math.nan if one is None else mean(one.per_sample)
    found = medians.median_estimate(one.per_sample, None, one.bounds, censored=censored(one))
    return math.nan if found.bound else found.value


@dataclass(frozen=True)
class Part:
    """The measurements of one cell: its samples, ascending, each quantity (samples, draws, levels), and the draws of each sample."""

    samples: NDArray[np.int64]
    quantities: dict[str, Array]
    counts: NDArray[np.int64]
    lines: int

    @property
    def shape(self) -> tuple[int, int]:
        """How many draws and levels there are."""
        first = next(iter(self.quantities.values()), np.zeros((0, 0, 1)))
        return first.shape[1], first.shape[2]


def gather(cells: Iterable[Part]) -> tuple[NDArray[np.int64], Measured, NDArray[np.int64]]:
    """The cells of one score in any order: the samples, each quantity as (samples, draws, levels) NaN-padded, and the draws of each."""
    parts = [part for part in cells if len(part.samples)]
    if not parts:
        return np.zeros(0, np.int64), Measured({"value": np.zeros((0, 0, 1))}), np.zeros(0, np.int64)
    parts.sort(key=lambda part: int(part.samples[0]))
    draws, levels = (max(part.shape[axis] for part in parts) for axis in (0, 1))
    samples = np.concatenate([part.samples for part in parts])
    check_sparse((len(samples), draws, levels), sum(part.lines for part in parts))
    place: Any = slice(None)
    if len(samples) > 1 and (np.diff(samples) <= 0).any():  # blocks of folds are interleaved
        samples, place = np.unique(samples, return_inverse=True)
    found: dict[str, Array] = {}
    starts = np.cumsum([0, *(len(part.samples) for part in parts)])
    for name in dict.fromkeys(name for part in parts for name in part.quantities):
        if isinstance(place, slice) and all(name in part.quantities and part.shape == (draws, levels) for part in parts):
            found[name] = np.concatenate([part.quantities[name] for part in parts])
            continue
        whole = np.full((len(samples), draws, levels), np.nan)
        for start, part in zip(starts, parts, strict=False):
            here = slice(start, start + len(part.samples)) if isinstance(place, slice) else place[start : start + len(part.samples)]
            if (table := part.quantities.get(name)) is not None:
                merge(whole, here, table)
        found[name] = whole
    drawn = np.concatenate([part.counts for part in parts])
    if isinstance(place, slice):
        return samples, Measured(found), drawn
    counts = np.zeros(len(samples), np.int64)
    np.add.at(counts, place, drawn)
    return samples, Measured(found), counts


def merge(whole: Array, here: Any, table: Array) -> None:
    """Put the measurements of a cell into their places; what it does not have stays."""
    draws, levels = table.shape[1:]
    if isinstance(here, slice):
        whole[here, :draws, :levels] = table
    else:
        old = whole[here, :draws, :levels]
        whole[here, :draws, :levels] = np.where(np.isnan(table), old, table)


def dense(cell: pa.Table) -> Part:
    """The rows of one cell as arrays."""
    if not len(cell):
        return Part(np.zeros(0, np.int64), {}, np.zeros(0, np.int64), 0)
    sample, draw, level, value = (cell[name].to_numpy() for name in ("sample", "draw", "level", "value"))
    what = cell["quantity"].combine_chunks()
    codes, names = what.indices.to_numpy(), what.dictionary.to_pylist()
    first, last = int(sample.min()), int(sample.max())
    shape = (last - first + 1, int(draw.max()) + 1, int(level.max()) + 1)
    if len(names) == 1 and in_order(sample, draw, level, first, shape):
        return Part(np.arange(first, last + 1), {str(names[0]): value.reshape(shape)}, np.full(shape[0], shape[1]), len(sample))
    if last - first < 2 * len(sample):
        row = sample - first
        seen = np.zeros(last - first + 1, dtype=np.bool_)
        seen[row] = True
        samples = np.flatnonzero(seen) + first
        row = row if len(samples) == len(seen) else (np.cumsum(seen) - 1)[row]
    else:
        samples, row = np.unique(sample, return_inverse=True)
    shape = (len(samples), *shape[1:])
    check_sparse(shape, len(sample))
    drawn = row * shape[1] + draw
    place = drawn * shape[2] + level if shape[2] > 1 else drawn
    found: dict[str, Array] = {}
    for code in dict.fromkeys(codes[np.flatnonzero(np.diff(codes, prepend=-1))].tolist()):
        here: Any = slice(None) if len(names) == 1 else codes == code
        table = np.full(math.prod(shape), np.nan)
        table[place[here]] = value[here]
        found[str(names[code])] = table.reshape(shape)
    made = np.zeros(shape[0] * shape[1], dtype=np.bool_)
    made[drawn if len(found) == 1 else drawn[codes == codes[0]]] = True
    return Part(samples, found, made.reshape(shape[:2]).sum(axis=1), len(sample))


def in_order(sample: NDArray[np.int64], draw: NDArray[np.int32], level: NDArray[np.int32], first: int, shape: tuple[int, int, int]) -> bool:
    """Whether there is one row for every sample, draw and level, in this order, as a cell is written of which nothing is missing."""
    if len(sample) != math.prod(shape):
        return False
    columns: list[tuple[NDArray[Any], int]] = [(sample, first), (draw, 0), (level, 0)]
    return all(bool((column.reshape(shape) == along(shape, axis, start)).all()) for axis, (column, start) in enumerate(columns))


def along(shape: tuple[int, int, int], axis: int, start: int) -> NDArray[np.int64]:
    """The numbers from `start` along an axis of a table."""
    return np.arange(start, start + shape[axis]).reshape([-1 if place == axis else 1 for place in range(3)])


def check_sparse(shape: tuple[int, int, int], lines: int) -> None:
    """Raise if a table would have far more places than measurements."""
    if math.prod(shape) > SPARSE * (lines + SPARSE**2):
        raise StoreError(f"Measurements of {shape[1]:,} draws and {shape[2]:,} levels are too sparse to be a run's: delete these cells.")
