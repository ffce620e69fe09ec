"""Racing against the full grid: python -m benchmarks.racing [--network standard] [--runs 100] [--seeds 0 1] [--orders 0]

The 16 explainers that cost least among those that fit a demo network for digits, n = 256. Each seed has its own random numbers (noise,
copies of the model, random explainers), for which all 450 test digits are measured once. A run is a card of 256 of them in a random order:
it is replayed from stored values with and without racing, by the code that makes cards. Counted are runs with the same undominated
explainers, those that were wrongly dropped, and model passes as audits plan them. `--measure` makes one card with and one without racing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import veracity
from benchmarks.card_networks import NAMES, network
from veracity.audit import Audit
from veracity.cards.checks import MAPS
from veracity.cards.collect import Judged, judge, rivals
from veracity.cards.decide import Word
from veracity.cards.plan import Plan, plan
from veracity.cards.racing import Race
from veracity.cards.reading import Reading
from veracity.core.errors import Note
from veracity.core.scores import Measured
from veracity.engine.executors import Executor, Inline
from veracity.engine.loop import JobRunner
from veracity.engine.plan import Job, fusion
from veracity.engine.progress import JobProgress, weight
from veracity.results import Result, Series
from veracity.results.series import Arrays

EXPLAINERS, SAMPLES = 16, 256


def cheapest(model: nn.Module, x: torch.Tensor, y: torch.Tensor, name: str) -> list[str]:
    """The explainers that cost least among those that fit."""
    audit = Audit(models={name: model}, inputs=x, targets=y, explainers="auto", controls=True, companions=True)
    fit = plan(audit, "100h", SAMPLES).audit.explainers
    costs = {label: weight(one.cost(x.shape[1:])) for label, one in dict(fit).items()}
    return sorted(costs, key=lambda label: costs[label])[:EXPLAINERS]


@dataclass(frozen=True)
class Shuffled(Reading):
    """The stored values of some samples, in another order: sample i is `order[i]`."""

    order: NDArray[np.int64] | None = None
    stored: Mapping[tuple[str, str, str], tuple[Series, Arrays]] | None = None

    @cached_property
    def known(self) -> dict[tuple[str, str, str], Series]:
        """Every series in the order of this run."""
        assert self.order is not None and self.stored is not None  # noqa: PT018
        chosen = self.order[: self.samples]
        return {key: in_order(one, arrays, chosen) for key, (one, arrays) in self.stored.items()}


def in_order(one: Series, found: Arrays, order: NDArray[np.int64]) -> Series:
    """A series on some samples in an order."""
    place = {int(sample): row for row, sample in enumerate(found.samples)}
    rows = np.array([place[int(sample)] for sample in order if int(sample) in place], dtype=np.int64)
    numbers = np.array([number for number, sample in enumerate(order) if int(sample) in place], dtype=np.int64)
    parts: dict[str, Any] = {name: getattr(found, name)[rows] for name in ("values", "counts", "per_sample", "no_response")}
    taken = replace(
        found,
        samples=numbers,
        **parts,
        measured=Measured({name: table[rows] for name, table in found.measured.quantities.items()}),
        errors=None if found.errors is None else found.errors[rows],
        remarks={name: marks[rows] for name, marks in found.remarks.items()},
    )
    return replace(one, read=lambda: taken)


Costs = dict[tuple[str, frozenset[str]], float]
"""Passes per sample of each subject: those of scores that share them, and under no score the base explanation."""


def pool(name: str, seed: int, folder: Path) -> tuple[Result, Plan, Costs]:
    """The stored values of all samples, the plan of a card, and the passes per sample."""
    model, x, y = network(name, folder)
    labels = cheapest(model, x, y, name)
    where = folder / f"{name}-{seed}"
    given: dict[str, Any] = {"explainers": labels, "samples": len(x), "budget": "1s", "seed": seed, "name": name, "racing": False}
    veracity.card(model, x, y, folder=where, progress=False, **given)
    audit = Audit(models={name: model}, inputs=x, targets=y, explainers=labels, controls=True, companions=True, seed=seed)
    chosen: Plan = plan(audit, "1s", len(x))
    costs: Counter[tuple[str, frozenset[str]]] = Counter()
    for job in replace(chosen.audit, scores=chosen.scores).prepare().jobs:
        costs[job.explainer, frozenset()] += weight(job.base_cost)
        for shared in {fusion(cell) for cell in job.cells}:
            cells = [cell for cell in job.cells if fusion(cell) == shared]
            asked = [reduce(or_, (getattr(cell, what) for cell in cells)) for what in ("explaining", "reading")]
            costs[job.explainer, frozenset(cell.name for cell in cells)] += sum(weight(one) for one in asked)
    return Result(str(where / MAPS)), chosen, {which: cost / len(x) for which, cost in costs.items()}


def undominated(reading: Reading, race: Race) -> tuple[set[str], dict[str, Judged]]:
    """Who is left at the end of a race, and what is told of everybody, as a card says it."""
    early = [one.judged for one in race.told.values()]
    judged, _, _ = judge(reading, [name for name in race.explainers if name not in race.told], race.confidences[-1], early, race.paused)
    order = rivals([*judged, *early], reading)
    told = {one.name: one for one in [*judged, *early]}
    return set({} if order is None else order.undominated()) - race.told.keys(), told


def compete(
    reading: Shuffled, chosen: Plan, costs: Costs, early: bool
) -> tuple[set[str], dict[str, Judged], Race, dict[tuple[str, frozenset[str]], int]]:
    """A race over the samples of a run: who is left, what is told, the race, and the samples that each passes were made for."""
    race = Race(list(chosen.costs), SAMPLES, early=early, shares=chosen.shares)
    spent = dict.fromkeys(costs, 0)
    for size in race.sizes:
        for label, scores in spent:
            if any(race.wants(MAPS, label, score) for score in scores):
                spent[label, scores] = spent[label, frozenset()] = size
        now = replace(reading, samples=size)
        if size != race.sizes[-1]:
            race.look(now)
        if not race.inside:
            break
    return *undominated(now, race), race, spent


def replay(name: str, runs: int, seeds: Sequence[int], orders: int, folder: Path) -> None:
    """Print how racing compares with the full grid."""
    counts: Counter[str] = Counter()
    shares = list[float]()
    wrong, dropped, paused, sets = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    labels: list[str] = []
    for turn, seed in enumerate(seeds):
        result, chosen, costs = pool(name, seed, folder)
        labels = list(chosen.costs)
        stored = {(MAPS, one.explainer, one.score): (one.sound(), one.sound().read()) for one in result.series}
        generator = np.random.Generator(np.random.PCG64([orders, seed]))
        size = int(result.manifest["data"]["samples"])
        for _ in range(runs // len(seeds) + (turn < runs % len(seeds))):
            order = generator.permutation(size)[:SAMPLES]
            reading = Shuffled({MAPS: result}, name, SAMPLES, 10, order=order, stored=stored)
            full, words, _, whole = compete(reading, chosen, costs, early=False)
            found, others, race, spent = compete(reading, chosen, costs, early=True)
            counts["runs"] += 1
            counts["same set"] += found == full
            counts["runs with a wrongly dropped one"] += bool(full - found)
            counts["runs with one kept that the grid dominates"] += bool(found - full)
            wrong.update(full - found)
            dropped.update(f"{one.why} after {one.samples}" for one in race.stopped.values())
            paused.update(f"{key[0].key} after {one.samples}" for checks in race.paused.values() for key, one in checks.items())
            sets.update(full)
            shares.append(sum(cost * spent[one] for one, cost in costs.items()) / sum(cost * whole[one] for one, cost in costs.items()))
            for label in labels:
                for key in words[label].words:
                    both = (words[label].words[key], others[label].words[key])
                    counts["words"] += 1
                    counts["same words"] += both[0] is both[1]
                    counts["open words that the grid tells"] += both[1] is Word.UNTOLD is not both[0]
                    counts["words that contradict the grid"] += {*both} == {Word.HOLDS, Word.SHORT}
    print(f"{name}, {len(labels)} explainers, {SAMPLES} samples, seeds {list(seeds)}: {', '.join(labels)}")
    for what, count in counts.items():
        print(f"  {what}: {count}")
    print(f"  passes: {np.mean(shares):.3f} of the full grid (runs: {min(shares):.3f} to {max(shares):.3f})")
    print(f"  stopped per run: { {what: round(count / counts['runs'], 2) for what, count in sorted(dropped.items())} }")
    print(f"  checks paused per run: { {what: round(count / counts['runs'], 2) for what, count in sorted(paused.items())} }")
    print(f"  wrongly dropped: {dict(wrong)}")
    print(f"  in the grid's set: {dict(sets.most_common())}")


@dataclass(frozen=True, kw_only=True)
class Counting(Executor):
    """Runs jobs in this process and counts their passes."""

    name = "counting"
    passes: Any = None

    def run(self, jobs: Sequence[Job], runner: JobRunner, progress: JobProgress) -> None:
        """Count and run."""
        self.passes.append(sum(weight(job.cost) for job in jobs))
        Inline().run(jobs, runner, progress)


def measure(name: str, folder: Path) -> None:
    """Print passes and seconds of one card with racing and of one without."""
    model, x, y = network(name, folder)
    labels = cheapest(model, x, y, name)
    for racing in (True, False):
        spent: list[int] = []
        audit = Audit(models={name: model}, inputs=x, targets=y, explainers=labels)
        with tempfile.TemporaryDirectory() as where:
            started = time.perf_counter()
            study = veracity.CardStudy(audit=audit, budget="1s", samples=SAMPLES, racing=racing)
            card = study.run(where, on=Counting(passes=spent), progress=False)
            took = time.perf_counter() - started
        stops = {label: f"{one.stopped.why} after {one.stopped.samples}" for label, one in card.explainers.items() if one.stopped}
        print(f"{name}, racing {racing}: {sum(spent):,} passes, {took:.0f} s, undominated {card.undominated}, {stops}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.racing", description=__doc__)
    parser.add_argument("--network", default="standard", choices=NAMES)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--orders", type=int, default=0, help="the seed of the orders of samples")
    parser.add_argument("--folder", type=Path, default=Path("runs/racing"))
    parser.add_argument("--measure", action="store_true")
    asked = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        if asked.measure:
            measure(asked.network, asked.folder)
        else:
            replay(asked.network, asked.runs, asked.seeds, asked.orders, asked.folder)
