"""What every study's result can do, and how any folder that veracity wrote is read."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from veracity.core.errors import SpecError
from veracity.core.registry import RENDERERS
from veracity.engine.progress import bar
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.store.state import Progress, State
from veracity.engine.store.study import Study, study
from veracity.engine.versions import versions
from veracity.results.pages import save_page
from veracity.results.tracking import Logged, log

READERS = {
    Kind.AUDIT: ("veracity.results", "Result"),
    Kind.ORBITS: ("veracity.orbits", "OrbitResult"),
    Kind.AUDITS: ("veracity.studies.several", "JointResult"),
    Kind.META: ("veracity.studies.meta", "MetaResult"),
    Kind.DEGRADATION: ("veracity.studies.degradation", "DegradationResult"),
    Kind.DISTANCES: ("veracity.studies.distance_check", "DistanceResult"),
    Kind.SCAN: ("veracity.studies.symmetry_scan", "Scan"),
    Kind.EXAMPLES: ("veracity.studies.example_check", "ExampleResult"),
    Kind.CARD: ("veracity.cards.result", "Card"),
}
"""The class that reads each kind of folder, imported when it is needed."""
GATED = ["model", "explainer", "score", "value", "low", "high", "n", "unseen"]


@dataclass(frozen=True)
class StudyResult(ABC):
    """What a study found: a table, a text, a report, and rows that a gate can judge.

    `path` is the folder that it was read from or written to, "" if there is none.
    """

    kind: ClassVar[Kind]
    failures_expected: ClassVar[bool] = False
    """Whether failures belong to the study, as of damaged models, and do not make its command fail."""
    title: str | None = field(default=None, kw_only=True)
    path: str = field(default="", kw_only=True)
    confidence: float = field(default=0.95, kw_only=True)

    @classmethod
    @abstractmethod
    def read(cls, folder: RunFolder, manifest: Mapping[str, Any]) -> Self:
        """The result that a folder holds."""

    @abstractmethod
    def findings(self) -> dict[str, Any]:
        """What the folder keeps of the result, as plain JSON."""

    @abstractmethod
    def table(self) -> pd.DataFrame:
        """One row per thing that the study compares."""

    @abstractmethod
    def __str__(self) -> str:
        """The main numbers as text."""

    def save_report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that opens anywhere."""
        if self.kind not in RENDERERS:
            raise SpecError(f"{self.kind.words.capitalize()} has no report: print it with 'veracity show'.")
        return save_page(self.kind, self, path)

    def failures(self) -> pd.DataFrame:
        """What could not be measured, and why."""
        return pd.DataFrame(columns=["error"])

    def requirements(self) -> pd.DataFrame:
        """The rows that `veracity gate` judges: one per number with its ends `low` and `high`."""
        return self.table()

    def log_to_mlflow(self, prefix: str = "") -> str:
        """Log numbers with intervals, tables, the page and the settings into MLflow's active run, or a new one; returns the run's id.

        `prefix` stands before all names, for a run that holds several results.
        """
        rows = pd.DataFrame(self.requirements()).reindex(columns=GATED)
        for name in GATED[:3]:
            rows[name] = rows[name].fillna("").astype(str)
        manifest = RunFolder(self.path).manifest(self.kind) if self.path else {}
        return log(
            Logged(
                kind=self.kind,
                title=self.title or self.kind.words.capitalize(),
                numbers=rows,
                tables=self.tables(),
                parameters={**self.parameters(), **(manifest.get("settings") or {})},
                write=self.write_pages,
                path=self.path,
                manifest=manifest,
            ),
            prefix,
        )

    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables that MLflow keeps, by the names of their files."""
        return {"table": self.table()}

    def parameters(self) -> dict[str, Any]:
        """What MLflow keeps beside the study's own settings."""
        return {"confidence": self.confidence}

    def write_pages(self, folder: Path) -> None:
        """Write the report, if this kind of study has one."""
        if self.kind in RENDERERS:
            self.save_report(folder / "report.html")

    @cached_property
    def progress(self) -> Progress | None:
        """The progress of the study when it was first read; None without a folder."""
        if not self.path:
            return None
        folder = RunFolder(self.path)
        return folder.progress(folder.manifest(self.kind))


def load(folder: str | Path) -> Any:
    """What a folder holds, by the kind in its manifest: a Result, an OrbitResult, or the result of a study."""
    store = RunFolder(str(folder))
    manifest = store.manifest(None)
    kind = Kind(manifest["kind"])
    module, name = READERS[kind]
    reader = getattr(import_module(module), name)
    return reader.read(store, manifest) if kind.study else reader(folder)


@contextmanager
def write_study(
    kind: Kind,
    folder: str | Path,
    parts: Sequence[str],
    *,
    doing: str,
    progress: bool,
    title: str | None,
    settings: Mapping[str, Any],
    steps: int = 1,
    unit: str = "run",
) -> Iterator[tuple[Study, Callable[[int, str], None]]]:
    """Hold the folder of a study for writing, and show a progress bar with so many `steps` per part."""
    store = RunFolder(str(folder))
    store.check_writable(kind)
    with (
        study(store, kind, parts, title=title, settings=settings, versions=versions(), unit=unit) as written,
        bar(doing, steps * len(parts), progress) as advance,
    ):
        yield written, advance


def gate_rows(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of model, explainer, score, value, low, high, n and unseen as a gate reads them: measured, and not of a control.

    What is left out is "" or NaN.
    """
    found = pd.DataFrame([{"explainer": "", "n": 1, "unseen": np.nan, **row} for row in rows], columns=GATED)
    state = np.where(found["value"].isna(), State.UNDEFINED, State.DONE)
    return found.assign(state=state, failed="", control=False, bound=False, cells=1, cells_measured=1)


def or_none(value: float) -> float | None:
    """A number for JSON, which has neither NaN nor infinity."""
    return value if math.isfinite(value) else None


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON: None for what is not a finite number."""
    finite = table.replace([np.inf, -np.inf], np.nan)
    found = finite.astype(object).where(finite.notna(), None).to_dict("records")
    return [{str(name): value for name, value in record.items()} for record in found]
