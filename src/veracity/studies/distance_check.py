"""Distance check: does a distance between explanations grow as they become more different? (Appendix F of the stability paper.)

A spot moves away from its first place, and noise grows on a map; a distance that compares explanations should grow with both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from veracity.core.errors import SpecError
from veracity.core.failures import failures_of
from veracity.core.measures import Measure
from veracity.core.registry import MEASURES
from veracity.core.settings import Whole, Within, check_fields, short_repr
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind, Part
from veracity.engine.store.study import findings
from veracity.measure.distance import Distance, as_distance
from veracity.studies.distances import DistanceCurve, curve, growth, partings
from veracity.studies.result import StudyResult, gate_rows, or_none, write_study


class CurveRecord(Part):
    """A distance in one test: values (levels, repeats) at each level."""

    distance: str
    test: str
    at: Annotated[list[float], Field(min_length=1)]
    values: list[list[float | None]]
    seconds: float | None
    error: str

    @model_validator(mode="after")
    def fits(self) -> Self:
        """Raise unless all levels have equally many values."""
        if len(self.values) != len(self.at) or len({len(row) for row in self.values}) != 1 or not self.values[0]:
            raise ValueError("needs one row of values per level, all of the same length")
        return self


class Findings(Part):
    """What the folder of a distance check keeps."""

    curves: list[CurveRecord]


@dataclass(frozen=True)
class DistanceResult(StudyResult):
    """The curve of every distance in every test, and how it grows."""

    kind: ClassVar[Kind] = Kind.DISTANCES
    curves: tuple[DistanceCurve, ...]

    @classmethod
    def read(cls, folder: RunFolder, manifest: Mapping[str, Any]) -> Self:
        """The curves that a folder holds."""
        curves = []
        for one in findings(folder, Findings)["curves"]:
            at, values = (np.array(one[name], dtype=np.float64) for name in ("at", "values"))
            seconds = math.nan if one["seconds"] is None else one["seconds"]
            found = DistanceCurve(distance=one["distance"], test=one["test"], at=at, values=values, seconds=seconds, error=one["error"])
            curves.append(found)
        return cls(tuple(curves), title=manifest.get("title"), path=folder.root)

    def findings(self) -> dict[str, Any]:
        """The curves."""
        curves = []
        for one in self.curves:
            values = [[or_none(float(value)) for value in row] for row in one.values]
            curves.append({**vars(one), "at": one.at.tolist(), "values": values, "seconds": or_none(one.seconds)})
        return {"curves": curves}

    def requirements(self) -> pd.DataFrame:
        """The `trend`, `fall`, `reach` and `spread` of every distance in every test; a check repeats exactly, so there is no interval."""
        return gate_rows(
            [
                {"model": row["distance"], "explainer": row["test"], "score": name, **dict.fromkeys(("value", "low", "high"), row[name])}
                for row in self.rows.to_dict("records")
                for name in ("trend", "fall", "reach", "spread")
            ]
        )

    @cached_property
    def rows(self) -> pd.DataFrame:
        """One row per distance and test."""
        records = []
        for one in self.curves:
            found = asdict(growth(one.at, one.values))
            records.append({"distance": one.distance, "test": one.test, **found, "microseconds": 1e6 * one.seconds, "error": one.error})
        return pd.DataFrame(records)

    def table(self) -> pd.DataFrame:
        """One row per distance and test: verdict, trend with its p-value, fall, reach, spread, undefined pairs, microseconds per pair."""
        return self.rows.assign(verdict=[str(verdict) for verdict in self.rows["verdict"]])

    def verdicts(self) -> pd.DataFrame:
        """One row per distance, one column per test; then the pairs without a distance, and the fewest microseconds per pair."""
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
    steps      number of maps along the path of a spot
    repeats    number of noisy copies per level

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
        """Check every plain setting; `as_distances` checks the distances."""
        check_fields(self, "the distance check", others=("distances",))

    def run(self, folder: str | Path, *, workers: int = 1, progress: bool = True) -> DistanceResult:
        """Measure every distance in every test; `workers` has no effect."""
        chosen = self.as_distances()
        settings = {"seed": self.seed, "size": self.size, "steps": self.steps, "repeats": self.repeats}
        tests = partings(self.size, self.steps, self.repeats, self.seed)
        about: dict[str, Any] = {"title": self.title, "settings": settings, "steps": len(tests), "unit": "distance", "progress": progress}
        found = []
        with write_study(Kind.DISTANCES, folder, list(chosen), doing="checking distances", **about) as (written, advance):
            for (name, distance), test in product(chosen.items(), tests):
                advance(0, name)
                found.append(curve(name, distance, test))
                advance(1, name)
            result = DistanceResult(tuple(found), title=self.title, path=RunFolder(str(folder)).root)
            written.conclude(result.findings())
        return result

    def on(self, device: str) -> DistanceCheck:
        """The same check: it has no model, and its maps are small."""
        return self

    def as_distances(self) -> dict[str, Distance]:
        """The distances by name; raises on anything else."""
        if isinstance(self.distances, str):
            raise SpecError(f"The distances are a list, such as ['{self.distances}'], not one name.")
        if self.distances is None:
            return {one.name: as_distance(one) for one in MEASURES.values()}
        if isinstance(self.distances, Mapping):
            pairs = [(str(name), build_distance(one)) for name, one in self.distances.items()]
        else:
            pairs = [(name_of(one), one) for one in map(build_distance, self.distances)]
        if not pairs:
            raise SpecError("There is no distance to check: give distances=None for all, or at least one.")
        names = [name for name, _ in pairs]
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise SpecError(f"Two distances are called '{double}': give a dictionary from names to distances.")
        return {name: as_distance(one) for name, one in pairs}


def build_distance(one: Any) -> Measure | Distance:
    """A measure from its name or {name, settings}; a measure or a function as it is."""
    found: Measure | Distance = MEASURES.build(one)
    if not callable(found):
        raise SpecError(f"A distance is a name, a measure or a function of two batches of maps, not {short_repr(one)}.")
    return found


def name_of(one: Measure | Distance) -> str:
    """A measure's name with its settings, or a function's."""
    if isinstance(one, Measure):
        return ", ".join([one.name, *(f"{key}={value}" for key, value in one.settings.items())])
    return str(getattr(one, "__name__", type(one).__name__))
