"""Several audits under one name: run one after the other, each into a folder of its own, and read together."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from veracity.audit import Audit
from veracity.core.errors import StoreError
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import MANIFEST, Kind, Part, Plain
from veracity.engine.store.state import State
from veracity.engine.store.study import FINDINGS, findings, study
from veracity.engine.versions import versions
from veracity.results import Result
from veracity.results.pages import save_page
from veracity.studies.result import StudyResult, records

SHOWN = ["explainer", "score", "value", "low", "high", "undefined", "published", "state", "failed"]
Summary = Callable[[Mapping[str, Result]], pd.DataFrame]


@dataclass(frozen=True, kw_only=True, eq=False)
class Audits:
    """Audits of different data that belong together, by name; `summary` makes a further table from their results.

    The folder of a run holds one run folder per audit, under its name. Running it again measures what is missing.
    """

    audits: Mapping[str, Audit]
    title: str | None = None
    summary: Summary | None = None

    def on(self, device: str) -> Audits:
        """The same audits with their models on a device."""
        return replace(self, audits={name: audit.on(device) for name, audit in self.audits.items()})

    def run(
        self, folder: str | Path, *, workers: int = 1, batch: int | None = None, memory: int | None = None, progress: bool = True
    ) -> JointResult:
        """Measure what the folder does not hold yet, one audit after the other."""
        store = RunFolder(str(folder))
        store.check_writable(Kind.AUDITS)
        with study(store, Kind.AUDITS, list(self.audits), title=self.title, versions=versions()) as written:
            found = {
                name: audit.run(f"{folder}/{name}", workers=workers, batch=batch, memory=memory, progress=progress)
                for name, audit in self.audits.items()
            }
            summary = None if self.summary is None else self.summary(found)
            result = JointResult(found, summary, title=self.title, path=store.root, confidence=confidence_of(found))
            written.conclude(result.findings())
        return result


class Findings(Part):
    """What the folder of several audits keeps beside them."""

    columns: list[str] | None = None
    summary: list[dict[str, Plain]] | None = None


@dataclass(frozen=True)
class JointResult(StudyResult):
    """The results of several audits by name, as one table; `summary` is a further table from all of them."""

    kind: ClassVar[Kind] = Kind.AUDITS
    results: Mapping[str, Result]
    summary: pd.DataFrame | None = None

    @classmethod
    def read(cls, folder: RunFolder, manifest: Mapping[str, Any]) -> Self:
        """The audits that have begun, and the summary if all have ended."""
        paths = {part: folder.files.folder(part) for part in manifest["parts"]}
        found = {part: Result(path) for part, path in paths.items() if folder.files.exists(f"{part}/{MANIFEST}")}
        if not found:
            raise StoreError(f"{folder.root} has no results yet. {folder.progress(manifest).sentence()}")
        kept = findings(folder, Findings) if folder.files.exists(FINDINGS) or manifest["finished"] else {}
        summary = None if kept.get("summary") is None else pd.DataFrame(kept["summary"], columns=kept["columns"])
        return cls(found, summary, title=manifest.get("title"), path=folder.root, confidence=confidence_of(found))

    def findings(self) -> dict[str, Any]:
        """The summary."""
        if self.summary is None:
            return {}
        return {"columns": [str(name) for name in self.summary.columns], "summary": records(self.summary)}

    def table(self) -> pd.DataFrame:
        """The tables of all audits as one, with the audit's name in the first column."""
        return join_tables({name: one.table() for name, one in self.results.items()})

    def failures(self) -> pd.DataFrame:
        """What could not be measured, and why, with the audit's name in the first column."""
        return join_tables({name: one.failures() for name, one in self.results.items()})

    def __str__(self) -> str:
        """The summary, then the numbers of every model."""
        parts = [] if self.summary is None else [as_text(self.summary, 28)]
        for (audit, model), rows in self.table().groupby(["audit", "model"], sort=False):
            parts.append(f"{audit} / {model}\n{as_text(shown(rows))}")
        return "\n\n".join(parts)

    def save_report(self, path: str | Path) -> Path:
        """Write every audit's own report into its folder, and one page that leads to them and holds the joint numbers."""
        target, links = Path(path), {}
        for name, one in self.results.items():
            written = one.save_report(Path(one.path) / "report.html")
            links[name] = Path(os.path.relpath(written, target.parent)).as_posix()
        return save_page(self.kind, self, target, links=links)


def confidence_of(results: Mapping[str, Result]) -> float:
    """The confidence of the first audit's intervals."""
    return next((float(one.manifest["spec"].get("confidence", 0.95)) for one in results.values()), 0.95)


def join_tables(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Tables below each other, with the audit's name in the first column."""
    return pd.concat(tables, names=["audit"]).reset_index("audit").reset_index(drop=True)


def shown(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns that are not empty and not 0 for all rows; bounds are marked, open ends are empty."""
    found = rows[SHOWN].replace([np.inf, -np.inf], np.nan)
    if rows["bound"].any():
        found["value"] = [bounded(row) for row in rows.to_dict("records")]
    return found.loc[:, [bool((found[name].notna() & ~found[name].isin(["", 0, State.DONE.value])).any()) for name in SHOWN]]


def bounded(row: Mapping[Any, Any]) -> str:
    """A value as text, and as a bound where it is only one.

    >>> bounded({"value": -100.0, "bound": True}), bounded({"value": 0.25, "bound": False})
    ('≤ -100.0', '0.250')
    """
    return "" if math.isnan(row["value"]) else f"≤ {row['value']:.1f}" if row["bound"] else f"{row['value']:.3f}"


def as_text(table: pd.DataFrame, widest: int | None = None) -> str:
    """A table as text, its columns cut at a width if one is given."""
    return str(table.to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep="", max_colwidth=widest))
