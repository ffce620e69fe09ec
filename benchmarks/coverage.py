"""How often the printed 95 % intervals hold: python -m benchmarks.coverage [--repetitions 2000] [--only pooled] [--folder runs/coverage]

Every kind of interval in the package, on populations whose truth is known. Drawn ones have it by their formula. Real ones are what a
network gave on all samples and many draws, measured once and kept in the folder: samples and draws are then drawn from that table with
replacement, and its own mean is the truth.

held      share of the printed intervals that hold the truth
below     share in which the truth lies below the low end; above: above the high end
withheld  share of cases in which no interval is printed; of them, equal: all values were equal, so `unseen` is printed instead
width     mean width over that of Student's t (of the bootstrap's percentile interval for pooled scores)
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import stats

from benchmarks.populations import COPIES, DRAWN, SIGMA, Array, Generator, audited, drawn_pairs, rows_of, stable, turned
from benchmarks.timing import quiet
from veracity.core.scores import Measured, PooledScore
from veracity.core.walks import Sampling
from veracity.orbits.statistics import equivariance_gap, mean_along
from veracity.scores.stability import MeGe, ReCo, ReCoAUC, ReCoKS, StabilityScore
from veracity.statistics.anytime import betting_interval
from veracity.statistics.differences import NONE_SEEN, crossed_differences, mean_differences
from veracity.statistics.means import clip_to, estimate
from veracity.statistics.medians import median_estimate
from veracity.statistics.pooled import bootstrap_interval, bootstrap_values, pooled_differences, pooled_value
from veracity.statistics.units import Codes

LEVEL = 0.95
GOAL, SMALL_GOAL = 0.93, 0.90
"""Wanted from 50 samples on, and below."""
WIDE = (-math.inf, math.inf)
UNIT = (-1.0, 1.0)
SETS = (5, 10, 22, 50)
"""How many samples are in S!=, about."""
POOLED_SHARE = 4
"""Pooled scores resample every data set a thousand times: one repetition in four."""


@dataclass(frozen=True)
class Outcome:
    """One data set's interval, the truth, and the width of the plain interval; `equal` where all its values are."""

    low: float
    high: float
    truth: float
    plain: float = math.nan
    equal: bool = False


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One line of the table: draws a data set and looks at its interval."""

    kind: str
    population: str
    size: str
    n: int
    draw: Callable[[Generator], Outcome]
    share: int = 1


@dataclass(frozen=True, kw_only=True)
class Line:
    """How often the intervals of a setting hold."""

    kind: str
    population: str
    size: str
    n: int
    repetitions: int
    held: float
    below: float
    above: float
    withheld: float
    equal: float
    width: float


# One data set, and its interval.


def student(values: Array) -> float:
    """The width of Student's interval of the mean."""
    return float(2 * stats.t.ppf(0.5 + LEVEL / 2, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))


def of_mean(values: Array, truth: float) -> Outcome:
    """The population interval of a mean."""
    found = estimate(values[:, None], Sampling(exhaustive=True), WIDE)
    return Outcome(found.low, found.high, truth, student(values), math.isfinite(found.unseen))


def drawn_mean(draw: Callable[[Generator, int], Array], truth: float, n: int, rng: Generator) -> Outcome:
    """The mean of n values from a formula."""
    return of_mean(draw(rng, n), truth)


def resampled_mean(values: Array, n: int, rng: Generator) -> Outcome:
    """The mean of n values from a table."""
    return of_mean(values[rng.integers(0, len(values), n)], float(values.mean()))


def crossed(table: Array, truth: float, n: int, draws: int, rng: Generator) -> Outcome:
    """The population interval of samples that share their draws, beside the same without skewness."""
    values = table[rng.integers(0, len(table), n)][:, rng.integers(0, table.shape[1], draws)]
    found = estimate(values, Sampling(nested=False), UNIT)
    return Outcome(found.low, found.high, truth, plain_crossed(values), math.isfinite(found.unseen))


def plain_crossed(values: Array) -> float:
    """The width of the crossed interval without skewness, in mean squares."""
    n, m = values.shape
    rest = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
    square = np.array([m * values.mean(axis=1).var(ddof=1), n * values.mean(axis=0).var(ddof=1), (rest**2).sum() / ((n - 1) * (m - 1))])
    there = [float(square[0] > square[2]), float(square[1] > square[2])]
    used = np.array([there[0] * square[0], there[1] * square[1], (1 - sum(there)) * square[2]]) / (n * m)
    if used.sum() <= 0:
        return math.nan
    freedom = used.sum() ** 2 / (used**2 / [n - 1, m - 1, (n - 1) * (m - 1)]).sum()
    return float(2 * stats.t.ppf(0.5 + LEVEL / 2, freedom) * math.sqrt(used.sum()))


def of_draws(table: Array, n: int, draws: int, rng: Generator) -> Outcome:
    """The interval over draws of n samples, of `draws` distinct elements each; the truth is their mean over all elements."""
    chosen = table[rng.integers(0, len(table), n)]
    order = rng.permuted(np.tile(np.arange(table.shape[1]), (n, 1)), axis=1)[:, :draws]
    values = np.take_along_axis(chosen, order, axis=1)
    found = estimate(values, Sampling(population=table.shape[1]), UNIT)
    return Outcome(found.draws_low, found.draws_high, float(chosen.mean()))


def adaptive(table: Array, width: float, rng: Generator) -> Outcome:
    """The interval of one sample whose draws stop once it is narrow, looked at after every draw."""
    row = rng.permuted(table[rng.integers(0, len(table))])
    low, high = -1.0, 1.0
    for count in range(4, len(row) + 1, 4):
        lower, upper = betting_interval(row[None, :count], np.array([count]), bounds=UNIT, alpha=1 - LEVEL, population=len(row))
        low, high = max(low, float(lower[0])), min(high, float(upper[0]))
        if high - low <= width:
            break
    return Outcome(low, high, float(row.mean()))


def drawn_median(n: int, rng: Generator) -> Outcome:
    """The order statistics around a median, whose truth is 0."""
    found = median_estimate(1 - rng.lognormal(0, SIGMA, n), None, WIDE)
    return Outcome(found.low, found.high, 0.0, equal=math.isfinite(found.unseen))


def of_pairs(values: Mapping[str, Array], truth: Mapping[str, float], *, shared: bool) -> Outcome:
    """All paired differences at once: the first that misses, or the first; withheld only where every pair is."""
    rows = (crossed_differences if shared else mean_differences)(values, LEVEL)
    printed = [row for row in rows if row.low < row.high]
    if not printed:
        return Outcome(math.nan, math.nan, 0.0, equal=all(row.status == NONE_SEEN for row in rows))
    missed = [row for row in printed if not row.low <= truth[row.first] - truth[row.second] <= row.high]
    row = (missed or printed)[0]
    gap = values[row.first] - values[row.second]
    plain = plain_crossed(gap) if shared else student(gap)
    return Outcome(row.low, row.high, truth[row.first] - truth[row.second], plain if len(rows) == 1 else math.nan)


def rare_effects(rng: Generator) -> Outcome:
    """Two explainers that differ by .1 in one of a hundred values: 25 samples, five shared draws."""
    one = rng.random((25, 5))
    other = one.copy()
    other[rng.random((25, 5)) < 0.01] -= 0.1
    return of_pairs({"one": one, "other": other}, {"one": 0.001, "other": 0.0}, shared=True)


def of_pooled(score: PooledScore, population: Measured, truth: float, n: int, rng: Generator) -> Outcome:
    """The interval of a score that pools the data set, beside the percentile interval of its replicates."""
    size = len(population[score.quantities[0]])
    data = rows_of(population, rng.integers(0, size, n))
    replicates = bootstrap_values(score, [data], n)[:, 0]
    low, high = bootstrap_interval(score, data, pooled_value(score, data), replicates, LEVEL)
    if math.isnan(low):
        return Outcome(math.nan, math.nan, truth)
    least, most = np.nanquantile(replicates, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    return Outcome(clip_to(low, score.bounds), clip_to(high, score.bounds), truth, float(most - least))


def of_pooled_pairs(score: PooledScore, population: Mapping[str, Measured], truth: float, n: int, rng: Generator) -> Outcome:
    """The interval of a difference of two explainers' pooled scores."""
    order = rng.integers(0, len(next(iter(population.values()))[score.quantities[0]]), n)
    (row,) = pooled_differences(score, {name: rows_of(one, order) for name, one in population.items()}, LEVEL)
    return Outcome(row.low, row.high, truth)


def along(values: Array, n: int, rng: Generator) -> Outcome:
    """The interval at one element of an orbit."""
    element = rng.integers(0, values.shape[1])
    chosen = values[rng.integers(0, len(values), n)][:, element]
    found = mean_along(chosen[:, None])
    low, high = float(found["low"].iloc[0]), float(found["high"].iloc[0])
    return Outcome(low if low < high else math.nan, high, float(values[:, element].mean()), student(chosen), low == high)


def of_gap(distances: Array, truth: float, n: int, rng: Generator) -> Outcome:
    """The interval of the equivariance gap."""
    chosen = distances[rng.integers(0, len(distances), n)]
    found = equivariance_gap(chosen)
    return Outcome(found.low, found.high, truth, student(found.samples), math.isfinite(found.unseen))


# Samples that belong to units, such as images of patients; each with intervals over units and over samples.


def unit_sizes(units: int, rng: Generator, largest: int = 20) -> Codes:
    """The unit of every sample, of 1 to `largest` samples each."""
    return np.repeat(np.arange(units), rng.integers(1, largest + 1, units))


def effects(draw: Callable[[Generator, int], Array], codes: Codes, rng: Generator) -> Array:
    """Values with an intra-class correlation of one half: what a unit adds to all of its samples, and what each sample has of its own."""
    return (draw(rng, int(codes.max()) + 1)[codes] + draw(rng, len(codes))) / math.sqrt(2)


def normal(rng: Generator, n: int) -> Array:
    """Normal values of mean 0 and variance 1."""
    return rng.standard_normal(n)


def skewed_effects(rng: Generator, n: int) -> Array:
    """1 - lognormal, moved and scaled to mean 0 and variance 1."""
    mean, variance = math.exp(0.5), (math.e - 1) * math.e
    return np.asarray((mean - rng.lognormal(0, 1, n)) / math.sqrt(variance))


def one_large(units: int, rng: Generator) -> Codes:
    """The unit of every sample, of which the first has half as many samples as all others."""
    return np.concatenate([np.zeros(units, dtype=np.int64), np.repeat(np.arange(1, units), 2)])


def grouped_mean(
    sizes: Callable[[int, Generator], Codes], draw: Callable[[Generator, int], Array], units: int, by: bool, rng: Generator
) -> Outcome:
    """The mean of samples of units, whose truth is 0."""
    codes = sizes(units, rng)
    values = effects(draw, codes, rng)
    found = estimate(values[:, None], Sampling(exhaustive=True), WIDE, units=codes if by else None)
    return Outcome(found.low, found.high, 0.0, student(values), math.isfinite(found.unseen))


def grouped_crossed(units: int, by: bool, rng: Generator) -> Outcome:
    """The mean of samples of units that share eight draws."""
    codes = unit_sizes(units, rng)
    values = effects(normal, codes, rng)[:, None] + 0.3 * rng.standard_normal((1, 8)) + 0.5 * rng.standard_normal((len(codes), 8))
    found = estimate(values, Sampling(nested=False), WIDE, units=codes if by else None)
    return Outcome(found.low, found.high, 0.0, plain_crossed(values))


def grouped_median(units: int, by: bool, rng: Generator) -> Outcome:
    """The median of samples of units."""
    codes = unit_sizes(units, rng)
    found = median_estimate(effects(normal, codes, rng), None, WIDE, units=codes if by else None)
    return Outcome(found.low, found.high, 0.0)


def grouped_pairs(units: int, by: bool, rng: Generator) -> Outcome:
    """All differences between three explainers of the same samples of units at once; no two of them differ."""
    codes = unit_sizes(units, rng)
    rows = mean_differences({name: effects(normal, codes, rng) for name in "abc"}, LEVEL, units=codes if by else None)
    missed = [row for row in rows if not row.low <= 0.0 <= row.high]
    row = (missed or rows)[0]
    return Outcome(row.low, row.high, 0.0)


def grouped_pooled(units: int, by: bool, rng: Generator) -> Outcome:
    """MeGe, of which a unit's distances are alike: 1 / (1 + mean distance), where the mean distance is one half."""
    codes = unit_sizes(units, rng)
    apart = rng.beta(2, 2, int(codes.max()) + 1)[codes]
    distance = np.clip(apart[:, None] + rng.uniform(-1, 1, (len(codes), 4)) * np.minimum(apart, 1 - apart)[:, None], 0.0, 1.0)[:, :, None]
    measured = Measured({"distance": distance, **{name: np.ones_like(distance) for name in ("right", "other_right", "same")}})
    replicates = bootstrap_values(MeGe(), [measured], len(codes), codes if by else None)[:, 0]
    value = pooled_value(MeGe(), measured)
    low, high = bootstrap_interval(MeGe(), measured, value, replicates, LEVEL, codes if by else None)
    return Outcome(low, high, 1 / 1.5)


# The table.


def of_units(folder: Path) -> Iterator[Setting]:
    """Units of 1 to 20 samples with an intra-class correlation of one half: intervals over units, and over samples as if independent."""
    kinds: list[tuple[str, str, Callable[[int, bool, Generator], Outcome], tuple[int, ...], int]] = [
        ("mean", "normal", partial(grouped_mean, unit_sizes, normal), (5, 10, 30, 100), 1),
        ("mean", "1 - lognormal, sigma 1", partial(grouped_mean, unit_sizes, skewed_effects), (10, 30, 100), 1),
        ("mean", "normal, a third of all samples in one unit", partial(grouped_mean, one_large, normal), (10, 30), 1),
        ("crossed", "normal, 8 draws", grouped_crossed, (10, 30), 1),
        ("median", "normal", grouped_median, (10, 30, 100), 1),
        ("differences", "normal, three pairs", grouped_pairs, (10, 30), 4),
        ("pooled, mege", "beta", grouped_pooled, (10, 30), 4),
    ]
    for kind, population, draw, sizes, share in kinds:
        for units in sizes:
            for size, by in (("over units", True), ("over samples", False)):
                yield Setting(kind=f"units, {kind}", population=population, size=size, n=units, draw=partial(draw, units, by), share=share)


def means(folder: Path) -> Iterator[Setting]:
    """Means over samples."""
    for name, (draw, truth, sizes) in DRAWN.items():
        for n in sizes:
            yield Setting(kind="mean", population=name, size="", n=n, draw=partial(drawn_mean, draw, truth, n))
    result = audited(folder)
    for label, explainer in (("faithfulness_correlation", "input_x_gradient"), ("relative_output_stability", "input_x_gradient")):
        values = result.samples(label).query("explainer == @explainer")["value"].to_numpy()
        values = values[np.isfinite(values)]
        for n in (10, 25, 50, 100):
            yield Setting(kind="mean", population=f"digits, {label}, {explainer}", size="", n=n, draw=partial(resampled_mean, values, n))


def draws(folder: Path) -> Iterator[Setting]:
    """Intervals over draws: a fixed number, and as many as it takes."""
    for explainer in ("gradient", "saliency"):
        table = audited(folder).draws("equivariance")["digits", explainer]
        for count in (5, 20):
            draw = partial(of_draws, table, 32, count)
            yield Setting(kind="draws", population=f"digits, equivariance, {explainer}", size=f"{count} of 64", n=32, draw=draw)
        narrow = partial(adaptive, table, 0.3)
        yield Setting(kind="adaptive", population=f"digits, equivariance, {explainer}", size="width .3", n=1, draw=narrow)


def shared(folder: Path) -> Iterator[Setting]:
    """Samples crossed with draws of the weights."""
    for explainer in ("gradient", "saliency", "input_x_gradient"):
        table = audited(folder).draws("fast_gef")["digits", explainer]
        for n in (10, 25, 100):
            for count in (5, 20):
                draw = partial(crossed, table, float(table.mean()), n, count)
                yield Setting(kind="crossed", population=f"digits, fast_gef, {explainer}", size=f"{count} draws", n=n, draw=draw)


def medians(folder: Path) -> Iterator[Setting]:
    """Medians over samples."""
    for n in (10, 25, 100):
        yield Setting(kind="median", population="1 - lognormal", size="", n=n, draw=partial(drawn_median, n))


def paired(folder: Path) -> Iterator[Setting]:
    """Paired differences."""
    yield Setting(kind="difference", population="rare effects", size="5 draws", n=25, draw=rare_effects)
    result = audited(folder)
    names = ("gradient", "saliency", "input_x_gradient")
    tables = {name: result.draws("fast_gef")["digits", name] for name in names}
    singles = {name: result.samples("faithfulness_correlation").query("explainer == @name")["value"].to_numpy() for name in names}

    def copies(rng: Generator, n: int) -> Outcome:
        rows, columns = rng.integers(0, len(tables["gradient"]), n), rng.integers(0, COPIES, 5)
        drawn = {name: table[rows][:, columns] for name, table in tables.items()}
        return of_pairs(drawn, {name: float(table.mean()) for name, table in tables.items()}, shared=True)

    def plain(rng: Generator, n: int) -> Outcome:
        rows = rng.integers(0, len(singles["gradient"]), n)
        return of_pairs(
            {name: one[rows] for name, one in singles.items()}, {name: float(one.mean()) for name, one in singles.items()}, shared=False
        )

    def skewed(rng: Generator, n: int) -> Outcome:
        values = {"one": 1 - rng.lognormal(0, SIGMA, n), "other": np.zeros(n)}
        return of_pairs(values, {"one": 1 - math.exp(SIGMA**2 / 2), "other": 0.0}, shared=False)

    for n in (10, 25, 50, 100):
        yield Setting(kind="difference", population="1 - lognormal", size="", n=n, draw=partial(skewed, n=n))
    for n in (25, 100):
        yield Setting(kind="difference", population="digits, fast_gef, all pairs", size="5 draws", n=n, draw=partial(copies, n=n))
        yield Setting(kind="difference", population="digits, faithfulness_correlation, all pairs", size="", n=n, draw=partial(plain, n=n))


def pooled(folder: Path) -> Iterator[Setting]:
    """Scores that pool the data set, by how many samples are in S!=."""
    rng = np.random.default_rng(7)
    sources = {f"drawn, shift {shift:g}": drawn_pairs(rng, 50_000, shift) for shift in (0.0, 0.8, 2.0)}
    result = stable(folder)
    series = {one.explainer: one.measured for one in result.series if one.score == "reco_ks"}
    sources["digits, saliency"] = series["saliency"]
    sizes: list[tuple[StabilityScore, tuple[int, ...]]] = [(MeGe(), (5, 22)), (ReCoAUC(), SETS), (ReCoKS(), SETS), (ReCo(), (22,))]
    for score, counts in sizes:
        for name, population in sources.items():
            truth = pooled_value(score, population)
            rate = float((score.sets(population)[1] == 1).any(axis=1).mean())
            for unlike in counts:
                n = max(5, round(unlike / rate))
                draw = partial(of_pooled, score, population, truth, n)
                size = f"{unlike} in S!="
                yield Setting(kind=f"pooled, {score.name}", population=name, size=size, n=n, draw=draw, share=POOLED_SHARE)
    for score in (MeGe(), ReCoAUC(), ReCoKS()):
        truth = pooled_value(score, series["saliency"]) - pooled_value(score, series["input_x_gradient"])
        rate = float((score.sets(series["saliency"])[1] == 1).any(axis=1).mean())
        n = round(22 / rate)
        draw = partial(of_pooled_pairs, score, series, truth, n)
        yield Setting(kind=f"pooled difference, {score.name}", population="digits", size="22 in S!=", n=n, draw=draw, share=POOLED_SHARE)


def orbits(folder: Path) -> Iterator[Setting]:
    """Means along an orbit, and the equivariance gap."""
    values, distances = turned(folder)
    truth = float(np.delete(distances, 0, axis=1).mean())
    for n in (10, 25, 100):
        yield Setting(kind="orbit, along", population="digits, confidence turned", size="", n=n, draw=partial(along, values, n))
        yield Setting(kind="orbit, gap", population="digits, turned", size="", n=n, draw=partial(of_gap, distances, truth, n))


KINDS: dict[str, Callable[[Path], Iterator[Setting]]] = {
    "means": means,
    "draws": draws,
    "crossed": shared,
    "medians": medians,
    "differences": paired,
    "pooled": pooled,
    "orbits": orbits,
    "units": of_units,
}


def measure(setting: Setting, repetitions: int, seed: int) -> Line:
    """A setting, drawn again and again."""
    rng = np.random.default_rng([seed, *map(ord, setting.kind + setting.population + setting.size), setting.n])
    count = max(1, repetitions // setting.share)
    found = [setting.draw(rng) for _ in range(count)]
    printed = [one for one in found if one.low < one.high or (one.low == one.high and not one.equal)]
    low, high, truth, plain = np.array([(one.low, one.high, one.truth, one.plain) for one in printed]).reshape(-1, 4).T
    below, above = (float(missed.mean()) if printed else math.nan for missed in (truth < low, truth > high))
    known = np.isfinite(plain) & np.isfinite(high - low)
    return Line(
        kind=setting.kind,
        population=setting.population,
        size=setting.size,
        n=setting.n,
        repetitions=count,
        held=1 - below - above,
        below=below,
        above=above,
        withheld=1 - len(printed) / count,
        equal=float(np.mean([one.equal for one in found])),
        width=float((high - low)[known].mean() / plain[known].mean()) if known.any() else math.nan,
    )


def table_of(lines: list[Line]) -> Table:
    """The table; what holds less often than wanted is marked."""
    table = Table(title="Coverage of 95 % intervals", title_justify="left", box=None)
    for name in ("kind", "population", "size"):
        table.add_column(name, no_wrap=True)
    for name in ("n", "times", "held", "below", "above", "withheld", "equal", "width"):
        table.add_column(name, justify="right")
    for line in lines:
        goal = GOAL if line.n >= 50 else SMALL_GOAL
        mark = "*" if line.held < goal else ""
        shown = ["-" if math.isnan(value) else f"{value:.3f}" for value in (line.held, line.below, line.above, line.withheld, line.equal)]
        width = "" if math.isnan(line.width) else f"{line.width:.2f}"
        table.add_row(line.kind, line.population, line.size, str(line.n), str(line.repetitions), shown[0] + mark, *shown[1:], width)
    return table


@cache
def settings(kind: str, folder: Path) -> list[Setting]:
    """All settings of a kind."""
    torch.set_num_threads(1)
    with quiet():
        return list(KINDS[kind](folder))


def line(kind: str, place: int, folder: Path, repetitions: int, seed: int) -> Line:
    """One setting of a kind, in a forked process that has the settings already."""
    return measure(settings(kind, folder)[place], repetitions, seed)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description="How often the printed intervals hold.")
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--only", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--folder", type=Path, default=Path("runs/coverage"), help="where the networks' populations are kept")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    given: Any = parser.parse_args(arguments)
    places = [(kind, place) for kind in given.only for place in range(len(settings(kind, given.folder)))]
    slow_first = sorted(places, key=lambda one: (one[0] != "pooled", -one[1]))
    with ProcessPoolExecutor(given.workers, mp_context=get_context("fork")) as pool:
        found = {one: pool.submit(line, *one, given.folder, given.repetitions, given.seed) for one in slow_first}
        for _ in track(as_completed(found.values()), total=len(found), console=Console(stderr=True), description="settings"):
            pass
    console = Console(width=170)
    console.print(table_of([found[one].result() for one in places]))
    console.print(f"* below {GOAL:.0%}, or below {SMALL_GOAL:.0%} with fewer than 50 samples")


if __name__ == "__main__":
    main()
