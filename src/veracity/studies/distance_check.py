"""Distance check: can a distance between explanations be trusted to grow with what parts them? (Appendix F of the stability paper.)

A spot moves away from where it was, and noise grows on a map; a distance that compares explanations should grow with both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from veracity.core.errors import SpecError, StoreError
from veracity.core.failures import failures_of
from veracity.core.measures import Measure
from veracity.core.registry import MEASURES
from veracity.core.settings import Whole, Within, check_fields, short_repr
from veracity.engine.progress import bar
from veracity.engine.store import lock
from veracity.engine.store.files import Files
from veracity.engine.store.records import sealed
from veracity.engine.store.study import studying
from veracity.measure.distance import Distance, as_distance
from veracity.studies.distances import Array, DistanceCurve, curve, growth, partings

MARK = "distance_check.json"
TABLE = "distances.json"
TITLE = "Which distances grow with what parts two explanations?"


@dataclass(frozen=True)
class DistanceResult:
    """The curve of every distance in every test, and how it grows."""

    curves: tuple[DistanceCurve, ...]
    title: str | None = None

    @cached_property
    def rows(self) -> pd.DataFrame:
        """One row a distance and test."""
        records = [
            {
                "distance": one.distance,
                "test": one.test,
                **asdict(growth(one.at, one.values)),
                "microseconds": 1e6 * one.seconds,
                "error": one.error,
            }
            for one in self.curves
        ]
        return pd.DataFrame(records)

    def table(self) -> pd.DataFrame:
        """One row a distance and test: verdict, trend with its p-value, fall, reach, spread, undefined pairs, microseconds a pair."""
        return self.rows.assign(verdict=[str(verdict) for verdict in self.rows["verdict"]])

    def verdicts(self) -> pd.DataFrame:
        """One row a distance, one column a test; then the pairs without a distance, and microseconds a pair where it was quickest."""
        table = self.table()
        found = table.pivot(index="distance", columns="test", values="verdict")
        found = found.loc[list(dict.fromkeys(table["distance"])), list(dict.fromkeys(table["test"]))]
        found["undefined"] = table.groupby("distance")["undefined"].sum()
        found["microseconds"] = table.groupby("distance")["microseconds"].min().round(1)
        return found.rename_axis(columns=None).reset_index()

    def failures(self) -> pd.DataFrame:
        """The distances that raised an error, and the error."""
        table = self.table()
        return table.loc[table["error"] != "", ["distance", "test", "error"]].reset_index(drop=True)

    def plain(self) -> dict[str, Any]:
        """The table and the curves as JSON can write them: None for what is not a number."""
        curves = [
            {"distance": one.distance, "test": one.test, "at": one.at.tolist(), "mean": numbers(one.mean), "sd": numbers(one.sd)}
            for one in self.curves
        ]
        records = self.table().astype(object).where(self.table().notna(), None).to_dict("records")
        return {"rows": records, "curves": curves}

    def save_report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that opens anywhere."""
        from veracity import report

        return report.write_distances(self.curves, self.table(), self.verdicts(), path, self.title or TITLE)

    def __str__(self) -> str:
        table = str(self.verdicts().to_string(index=False, na_rep=""))
        failed = failures_of({"model": one["distance"], "error": one["error"]} for one in self.failures().to_dict("records"))
        return "\n".join([table, *map(str, failed)])


@dataclass(frozen=True, kw_only=True, eq=False)
class DistanceCheck:
    """What to check: distances, through a moving spot, a moving disc and growing noise.

    distances  names, measures or plain functions (N, ...) x (N, ...) -> (N,), or these by name; all registered ones by default.
               Similarities are turned into distances by `as_distance`
    size       pixels along a map's side
    steps      maps along a way
    repeats    noisy copies a level

    >>> import tempfile
    >>> check = DistanceCheck(distances=["l1", "sliced_wasserstein"], steps=20, repeats=5)
    >>> check.run(tempfile.mkdtemp(), progress=False).verdicts()["spot"].tolist()
    ['saturates', 'passes']

    Reference: Fel et al. 2022, appendix F.
    """

    distances: Sequence[Any] | Mapping[str, Any] | None = None
    size: Annotated[int, Within(least=11)] = 32
    steps: Annotated[int, Within(least=4)] = 100
    repeats: Annotated[int, Within(least=2)] = 50
    seed: Whole = 0
    title: str | None = None

    def __post_init__(self) -> None:
        """Check every plain setting; distances are looked at by `chosen`."""
        check_fields(self, "the distance check", others=("distances",))

    def run(self, folder: str | Path, *, workers: int = 1, progress: bool = True) -> DistanceResult:
        """Measure every distance in every test and write `distances.json`; one worker is enough, whatever is asked for."""
        chosen = self.chosen()
        files = Files(str(folder))
        if not begun(folder) and files.everything() - {lock.NAME}:
            raise StoreError(f"{folder} holds other files and no {MARK}: choose an empty or a new folder.")
        about = {"what": "a distance check", "seed": self.seed, "size": self.size, "steps": self.steps, "repeats": self.repeats}
        tests = partings(self.size, self.steps, self.repeats, self.seed)
        found = []
        with (
            studying(files, MARK, about, list(chosen), unit="distance"),
            bar("checking distances", len(chosen) * len(tests), progress) as advance,
        ):
            for name, distance in chosen.items():
                for test in tests:
                    advance(0, name)
                    found.append(curve(name, distance, test))
                    advance(1, name)
        result = DistanceResult(tuple(found), self.title)
        files.write(TABLE, sealed(result.plain()))
        return result

    def on(self, device: str) -> DistanceCheck:
        """The same check: it has no model, and its maps are small."""
        return self

    def chosen(self) -> dict[str, Distance]:
        """The distances by name; raises on one that is none."""
        if isinstance(self.distances, str):
            raise SpecError(f"The distances are a list, such as ['{self.distances}'], not one name.")
        if self.distances is None:
            return {one.name: as_distance(one) for one in MEASURES.values()}
        if isinstance(self.distances, Mapping):
            pairs = [(str(name), built(one)) for name, one in self.distances.items()]
        else:
            pairs = [(name_of(one), one) for one in map(built, self.distances)]
        if not pairs:
            raise SpecError("There is no distance to check: give distances=None for all, or at least one.")
        names = [name for name, _ in pairs]
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise SpecError(f"Two distances are called '{double}': give a dictionary from names to distances.")
        return {name: as_distance(one) for name, one in pairs}


def begun(folder: str | Path) -> bool:
    """Whether a folder already holds a distance check."""
    return Files(str(folder)).exists(MARK)


def built(one: Any) -> Measure | Distance:
    """A measure from its name or {name, settings}; a measure or a function as it is."""
    found: Any = MEASURES.build(one)
    if not callable(found):
        raise SpecError(f"A distance is a name, a measure or a function of two batches of maps, not {short_repr(one)}.")
    chosen: Measure | Distance = found
    return chosen


def name_of(one: Measure | Distance) -> str:
    """A measure's name with its settings, or a function's."""
    if isinstance(one, Measure):
        return ", ".join([one.name, *(f"{key}={value}" for key, value in one.settings.items())])
    return str(getattr(one, "__name__", type(one).__name__))


def numbers(values: Array) -> list[float | None]:
    """Numbers as JSON can write them."""
    return [float(value) if np.isfinite(value) else None for value in values]
