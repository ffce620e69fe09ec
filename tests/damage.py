"""Damage one file of a run folder, read it, run the same command again: python -m tests.damage [--cases 500] [--seed 0] [--workers 2]

Three runs hold every kind of file: an audit with calibrated paths, learnt concepts and a failing score; the stability of a
cross-trained model; an orbit evaluation. A case flips a bit, cuts a file short, empties or deletes it, appends to it, or swaps it
with another one. Wanted: what is read is refused or the same, and after the same command everything is as it was.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))

from orbit_small import digits_like
from small import labelled_series
from veracity import Audit, CrossTrained, OrbitResult, Result
from veracity.core.errors import Note, VeracityError
from veracity.core.measures import Direction
from veracity.core.scores import Defaults, Pair, Reads, Request, Score, Subject
from veracity.engine.store import RunFolder
from veracity.perturb import CyclicShift, UniformNoise
from veracity.scores import FastGEF
from veracity.trainers.training import initialised, train
from veracity.walk import MonteCarlo

LEFT_OUT = {"lock"}
"""Files that hold nothing to be read."""


@dataclass(frozen=True, kw_only=True)
class Refusal(Score):
    """A score that fails on everything."""

    name = "refusal"
    before = after = frozenset({Reads.SCORES})
    direction, bounds = Direction.LOWER, (0.0, float("inf"))

    def requests(self, subject: Subject, defaults: Defaults) -> tuple[Request, ...]:
        if subject.explainer is not None:
            return ()
        return (Request(UniformNoise(radius=0.1).fit(subject.shape), MonteCarlo(draws=2)),)

    def observe(self, pair: Pair) -> Tensor:
        raise ValueError("not this one")


def fit(inputs: Tensor, targets: Tensor, seed: int) -> nn.Module:
    """A short training."""
    return train(initialised(network, seed), inputs, targets, epochs=10, seed=seed)


def network() -> nn.Module:
    """A small classifier of series."""
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))


def learnable(count: int = 60) -> tuple[Tensor, Tensor]:
    """Series whose class is a bump at one of three places."""
    labels = torch.arange(count) % 3
    x = 0.3 * torch.randn(count, 1, 12, generator=torch.Generator().manual_seed(0))
    x[torch.arange(count), 0, 4 * labels + 1] += 2.0
    return x, labels


def audit() -> Audit:
    """Scores with pictures of the worst pairs, calibrated paths and learnt concepts; one score fails."""
    x, y = labelled_series()
    return Audit(
        models={"net": initialised(network, seed=0)},
        inputs=x,
        targets=y,
        explainers={"gradient": "gradient", "cav": {"name": "cav", "layer": "2"}},
        symmetry=CyclicShift(axes=(-1,)),
        scores={"equivariance": "equivariance", "fast_gef": FastGEF(draws=2), "refusal": Refusal()},
        training=learnable(),
        concepts={"first": {0}},
        controls=False,
    )


def stability() -> Audit:
    """Models of three folds."""
    x, y = learnable()
    models = {"net": CrossTrained(fit=fit, folds=3, build=network)}
    return Audit(models=models, inputs=x, targets=y, explainers=["saliency"], scores=["mege", "reco_ks"], controls=False)


def read_audit(folder: Path) -> Any:
    """All that a run says."""
    result = Result(folder)
    maps = {
        one.explainer: result.explanations(one.model, one.explainer).tolist() for one in result.series if one.explainer and not one.failed
    }
    worst = [str(vars(pair)) for score in {one.score for one in result.series} for pair in result.worst(score, 3)]
    return result.table().to_csv(), str(result), maps, sorted(worst), result.failures().to_csv(), result.strengths().to_csv()


def read_orbits(folder: Path) -> Any:
    """All that an orbit evaluation says."""
    result = OrbitResult(folder)
    outputs = [str(result.outputs(name, sample)) for name in ("a", "b") for sample in range(result.samples)]
    return result.table().to_csv(), outputs, str(result.picture(1)), result.reduce("confidence").tolist()


@dataclass(frozen=True)
class Kind:
    """What is run, and how it is read."""

    run: Callable[[Path], Any]
    read: Callable[[Path], Any]


SUBJECTS = {
    "audit": Kind(lambda folder: audit().run(folder, progress=False), read_audit),
    "stability": Kind(lambda folder: stability().run(folder, progress=False), read_audit),
    "orbits": Kind(lambda folder: digits_like(explainers=["saliency"]).run(folder, progress=False), read_orbits),
}


def flip(file: Path, chance: random.Random) -> None:
    """One bit."""
    data = bytearray(file.read_bytes())
    place = chance.randrange(len(data) * 8)
    data[place // 8] ^= 1 << (place % 8)
    file.write_bytes(data)


def cut(file: Path, chance: random.Random) -> None:
    """A shorter file."""
    data = file.read_bytes()
    file.write_bytes(data[: chance.randrange(len(data))])


def empty(file: Path, chance: random.Random) -> None:
    """Nothing."""
    file.write_bytes(b"")


def delete(file: Path, chance: random.Random) -> None:
    """No file."""
    file.unlink()


def append(file: Path, chance: random.Random) -> None:
    """A longer file."""
    file.write_bytes(file.read_bytes() + chance.randbytes(chance.randint(1, 64)))


ACCIDENTS: dict[str, Callable[[Path, random.Random], None]] = {
    "bit flipped": flip,
    "cut short": cut,
    "emptied": empty,
    "deleted": delete,
    "appended to": append,
}
SWAPS = {"swapped, same kind": True, "swapped, any kind": False}


def files(folder: Path) -> list[Path]:
    """Every file of a run folder, in order."""
    return sorted(one for one in folder.rglob("*") if one.is_file() and one.name not in LEFT_OUT)


@dataclass(frozen=True)
class Outcome:
    """What became of one case."""

    subject: str
    kind: str
    accident: str
    noticed: bool
    silent: bool
    healed: bool
    why: str = ""


def case(number: int, seed: int, wholes: dict[str, Path], truth: dict[str, Any], where: Path) -> Outcome:
    """Damage one file of a copy of a run."""
    chance = random.Random(f"{seed} {number}")
    name = chance.choice(list(SUBJECTS))
    folder = where / f"case{number}"
    shutil.copytree(wholes[name], folder)
    kinds: dict[str, list[Path]] = {}
    for one in files(folder):
        kinds.setdefault(one.parent.name if one.parent != folder else one.name, []).append(one)
    kind, accident = chance.choice(sorted(kinds)), chance.choice([*ACCIDENTS, *SWAPS])
    file = chance.choice(kinds[kind])
    if accident in SWAPS:
        swap(folder, file, chance, alike=SWAPS[accident])
    else:
        ACCIDENTS[accident](file, chance)
    noticed = silent = healed = False
    why = ""
    try:
        said = SUBJECTS[name].read(folder)
        noticed = "is damaged" in str(said)
        silent = said != truth[name] and not noticed
    except VeracityError:
        noticed = True
    try:
        SUBJECTS[name].run(folder)
        healed = SUBJECTS[name].read(folder) == truth[name] and RunFolder(str(folder)).mend() == []
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    shutil.rmtree(folder)
    return Outcome(name, kind, accident, noticed, silent and accident != "deleted", healed, why)


def swap(folder: Path, file: Path, chance: random.Random, *, alike: bool) -> None:
    """Exchange the contents of two files of a run."""
    others = [one for one in files(folder) if one != file]
    same = [one for one in others if one.parent == file.parent and one.suffix == file.suffix]
    other = chance.choice(same if alike and same else others)
    first, second = file.read_bytes(), other.read_bytes()
    file.write_bytes(second)
    other.write_bytes(first)


def damage(cases: int, seed: int, where: Path, workers: int = 1) -> list[Outcome]:
    """Many cases."""
    wholes, truth = {name: where / name for name in SUBJECTS}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        for name, subject in SUBJECTS.items():
            subject.run(wholes[name])
            truth[name] = subject.read(wholes[name])
        if workers == 1:
            return [case(number, seed, wholes, truth, where) for number in range(cases)]
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=quietly) as pool:
            futures = [pool.submit(case, number, seed, wholes, truth, where) for number in range(cases)]
            done = track(as_completed(futures), total=cases, description="damaging", console=Console(stderr=True))
            return [future.result() for future in done]


def quietly() -> None:
    """A process of its own, without notes."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", Note)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.damage", description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as where:
        found = damage(given.cases, given.seed, Path(where), given.workers)
    table = Table("run", "kind of file", "cases", "refused on reading", "silent changes", "not healed", box=None)
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for one in found:
        groups.setdefault((one.subject, one.kind), []).append(one)
    for (subject, kind), some in sorted(groups.items()):
        counts = (len(some), sum(one.noticed for one in some), sum(one.silent for one in some), sum(not one.healed for one in some))
        table.add_row(subject, kind, *map(str, counts))
    console = Console(width=120)
    console.print(table)
    console.print(f"accidents: {dict(Counter(one.accident for one in found))}")
    console.print(
        f"{len(found)} cases, {sum(one.silent for one in found)} silent changes, {sum(not one.healed for one in found)} not healed"
    )
    for one in [one for one in found if one.silent or not one.healed][:20]:
        console.print(one)


if __name__ == "__main__":
    main()
