"""Evaluations that subset simulation needs for ln P = -12 to a coefficient of variation of .3: python -m benchmarks.kernels

The event is a half space of a cube in 100 dimensions, sum of z >= t with z uniform on [-1, 1], whose probability is known: the
tail of Irwin and Hall's distribution. For each kernel and number of Metropolis-Hastings steps the population grows until the
spread of ln P over 30 repeats is at most .3 and its mean lies within three standard errors of the truth. Counted, not timed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Size

from benchmarks.timing import CONSOLE, empty_table
from veracity.perturb import Ball
from veracity.walk import SubsetSimulation
from veracity.walk.probability import CrankNicolson, Kernel, Window

SIZE, RARITY, SPREAD, REPEATS = 100, -12.0, 0.3, 30
STEPS = (2, 5, 10, 20, 50)
PILOT, MOST = 200, 200_000
"""The first population, and the evaluations of one repeat that are not exceeded."""


@dataclass(frozen=True)
class Found:
    """What some repeats with one setting gave: spread and mean error of ln P, evaluations of one repeat, failed searches."""

    steps: int
    population: int
    evaluations: float
    spread: float
    bias: float
    stuck: int

    @property
    def reached(self) -> bool:
        """Whether it is as close as asked for."""
        return not self.stuck and self.spread <= SPREAD and abs(self.bias) <= 3.0 * self.spread / math.sqrt(REPEATS)


def tail(threshold: Fraction, size: int = SIZE) -> float:
    """ln P(sum of z >= threshold), exact: with u = (size - threshold) / 2 it is sum over k <= u of (-1)^k C(size, k) (u - k)^size / size!.

    >>> round(math.exp(tail(Fraction(0), 2)), 3), round(math.exp(tail(Fraction(1), 2)), 3)
    (0.5, 0.125)
    """
    room = (size - threshold) / 2
    terms = ((-1) ** k * math.comb(size, k) * (room - k) ** size for k in range(math.floor(room) + 1))
    whole = sum(terms, Fraction(0)) / math.factorial(size)
    return math.log(whole.numerator) - math.log(whole.denominator)


def threshold(rarity: float = RARITY) -> Fraction:
    """The threshold, a multiple of 1/1024, whose probability is nearest above the wanted one."""
    low, high = 0, 1024 * SIZE
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tail(Fraction(middle, 1024)) >= rarity else (low, middle)
    return Fraction(low, 1024)


def simulated(kernel: Kernel, population: int, steps: int, target: Fraction) -> Found:
    """All repeats at once: to the search, samples of one group."""
    walk = SubsetSimulation(population=population, steps=steps, kernel=kernel, floor=3.0 * RARITY)
    space = Ball(radius=1.0).fit(Size([SIZE]))
    searcher = walk.searcher(space, torch.arange(REPEATS), 0, float(target), torch.device("cpu"))
    while (ask := searcher.ask()) is not None:
        merit = ask.element.double().sum(1)
        searcher.tell(merit, merit[:, None])
    trace = searcher.trace()
    shares = trace.quantities["probability"].log().nan_to_num(0.0)
    ln_p = torch.zeros(REPEATS, dtype=torch.float64).index_add_(0, trace.row, shares)
    evaluations = torch.zeros(REPEATS, dtype=torch.float64).scatter_reduce_(0, trace.row, trace.quantities["evaluations"], "amax")
    stuck = int((trace.quantities["state"] >= 2.0).sum())
    return Found(steps, population, float(evaluations.mean()), float(ln_p.std()), float(ln_p.mean()) - tail(target), stuck)


def grown(kernel: Kernel, steps: int, target: Fraction) -> Found:
    """The first population that is close enough, each the one that the spread before asks for; or the last that was allowed."""
    population, levels = PILOT, RARITY / math.log(0.1)
    most = int(MOST / (1.0 + steps * levels)) // 50 * 50
    while True:
        found = simulated(kernel, min(population, most), steps, target)
        if found.reached or population >= most:
            return found
        wanted = found.population * (found.spread / SPREAD) ** 2
        population = max(math.ceil(1.2 * found.population), math.ceil(min(wanted, 4.0 * found.population)))
        population = -(-population // 50) * 50


def rows(kernel: Kernel, target: Fraction) -> Iterator[Found]:
    """Every number of steps."""
    for steps in STEPS:
        yield grown(kernel, steps, target)


def main() -> None:
    """Print the table, and how many times more the window takes."""
    target = threshold()
    table = empty_table(
        f"ln P = {tail(target):.3f} in {SIZE} dimensions, spread of ln P <= {SPREAD}, {REPEATS} repeats",
        "kernel",
        "steps",
        "population",
        "evaluations",
        "spread",
        "bias",
        "stuck",
        "",
    )
    least: dict[str, float] = {}
    for kernel in (CrankNicolson(), Window()):
        for found in rows(kernel, target):
            counts = (str(found.steps), f"{found.population:,}", f"{found.evaluations:,.0f}", f"{found.spread:.2f}", f"{found.bias:+.2f}")
            table.add_row(kernel.name, *counts, str(found.stuck), "reached" if found.reached else "not within the cap")
            if found.reached:
                least[kernel.name] = min(found.evaluations, least.get(kernel.name, math.inf))
    CONSOLE.print(table)
    fewest = {name: f"{count:,.0f}" for name, count in least.items()}
    for kernel_name in (CrankNicolson.name, Window.name):
        CONSOLE.print(f"{kernel_name}: {fewest.get(kernel_name, f'more than {MOST:,}')} evaluations at best.")


if __name__ == "__main__":
    main()
