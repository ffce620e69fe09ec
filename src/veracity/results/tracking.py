"""Results in MLflow: numbers with their intervals, tables, the page, and what was run.

A number becomes up to four metrics: `model/explainer/score`, and the same name with `.low`, `.high` and `.n`. MLflow 3 groups names by
their slashes. What is not a finite number is left out; the tables hold it.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from veracity.core.digest import of_json
from veracity.core.errors import InputError, StoreError, missing_extra
from veracity.core.spreadsheets import as_csv

ENDS = ("low", "high", "n")
ILLEGAL = re.compile(r"[^\w .\-]", re.ASCII)
"""What MLflow does not take in the name of a metric or parameter; slashes and colons are ours."""
LONGEST_NAME, LONGEST_VALUE = 200, 500
SAME_PARAMETER = "changing param values"
"""What MLflow says, in lower case, if a run has the parameter with another value."""
METRICS, PARAMETERS = 500, 100
"""How many metrics and parameters go into one request."""


@dataclass(frozen=True, kw_only=True)
class Logged:
    """What is logged of a result.

    `numbers` has the columns model, explainer, score, value, low, high and n. `write` writes the page, and what belongs to it, into a
    folder. `manifest` is that of the run folder, which identifies it; it is empty without one.
    """

    kind: str
    title: str
    numbers: pd.DataFrame
    tables: Mapping[str, pd.DataFrame]
    parameters: Mapping[str, Any]
    write: Callable[[Path], object]
    path: str = ""
    manifest: Mapping[str, Any]


def log(result: Logged, prefix: str = "") -> str:
    """Log a result into the active run, or into a run of its own, and return the run's id.

    `prefix` stands before all names, so that one run can hold several results.
    """
    mlflow = imported()
    if prefix and legal(prefix) != prefix:
        raise InputError(f"A prefix is made of letters, digits, spaces and _ . -, not '{prefix}': for example prefix='{legal(prefix)}'.")
    before = f"{prefix}/" if prefix else ""
    with nullcontext(mlflow.active_run()) if mlflow.active_run() else mlflow.start_run(run_name=result.title) as run:
        try:
            for part in parts(metrics(result.numbers, before), METRICS):
                mlflow.log_metrics(part)
            for part in parts(parameters(result, before), PARAMETERS):
                mlflow.log_params(part)
            mlflow.set_tags(tags(result, before))
            with tempfile.TemporaryDirectory(prefix="veracity-") as made:
                result.write(Path(made))
                for name, table in result.tables.items():
                    Path(made, f"{name}.csv").write_text(as_csv(table), encoding="utf-8")
                mlflow.log_artifacts(made, artifact_path=prefix or None)
        except mlflow.exceptions.MlflowException as error:
            said = " ".join(str(error).split())[:LONGEST_VALUE]
            fix = " A second result in the same run needs its own prefix='...'." if SAME_PARAMETER in str(error).lower() else ""
            raise StoreError(f"MLflow refused the result: {said}{fix}") from error
        return str(run.info.run_id)


def imported() -> Any:
    """MLflow; raises a sentence with the fix if it is not installed."""
    try:
        return import_module("mlflow")
    except ModuleNotFoundError as error:
        raise missing_extra("MLflow", "mlflow") from error


def metrics(numbers: pd.DataFrame, before: str = "") -> dict[str, float]:
    """The finite numbers by their names in MLflow.

    >>> row = {"model": "net", "explainer": "lime (k=3)", "score": "deletion", "value": 0.25, "low": 0.2, "high": float("inf"), "n": 8}
    >>> metrics(pd.DataFrame([row]))
    {'net/lime _k_3_/deletion': 0.25, 'net/lime _k_3_/deletion.low': 0.2, 'net/lime _k_3_/deletion.n': 8.0}
    """
    rows = numbers.to_dict("records")
    names = unique(numbered([tuple(str(row[part]) for part in ("model", "explainer", "score") if row[part]) for row in rows]), before)
    found: dict[str, float] = {}
    for name, row in zip(names, rows, strict=True):
        for key, end in ((name, "value"), *((f"{name}.{end}", end) for end in ENDS)):
            value = float(row[end])
            if math.isfinite(value):
                found[key] = value
    return found


def numbered(names: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The names, with a number behind those that came before: a card may ask one check of two symmetries.

    >>> numbered([("a", "b"), ("c",), ("a", "b")])
    [('a', 'b'), ('c',), ('a', 'b 2')]
    """
    seen: Counter[tuple[str, ...]] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else (*name[:-1], f"{name[-1]} {seen[name]}"))
    return found


def unique(names: Sequence[tuple[str, ...]], before: str = "") -> list[str]:
    """Names for MLflow: legal, short enough, and different if they were; a hash tells those apart that would be equal.

    >>> unique([("a:b", "c"), ("d",)]), unique([("a:",), ("a!",)])[0] == unique([("a!",), ("a:",)])[1]
    (['a_b/c', 'd'], True)
    """
    plain = [before + "/".join(map(legal, name)) for name in names]
    owners: dict[str, set[tuple[str, ...]]] = {}
    for short, name in zip(plain, names, strict=True):
        owners.setdefault(short.lower()[:LONGEST_NAME], set()).add(name)
    return [
        short
        if len(owners[short.lower()[:LONGEST_NAME]]) == 1 and len(short) <= LONGEST_NAME
        else f"{short[:LONGEST_NAME]}-{of_json(name)[:8]}"
        for short, name in zip(plain, names, strict=True)
    ]


def legal(name: str) -> str:
    """A part of a name that MLflow takes.

    >>> legal("lime (k=3)"), legal(".."), legal("é")
    ('lime _k_3_', '__', '_')
    """
    cleaned = ILLEGAL.sub("_", name)
    return cleaned if cleaned.strip(". ") else "_" * max(len(cleaned), 1)


def parameters(result: Logged, before: str = "") -> dict[str, str]:
    """What was run, as short texts."""
    said = {name: text(value) for name, value in result.parameters.items() if value not in (None, "", [], {})}
    return {
        f"{before}{result.kind}.{name}": value if len(value) <= LONGEST_VALUE else f"{value[: LONGEST_VALUE - 3]}..."
        for name, value in said.items()
    }


def text(value: Any) -> str:
    """A parameter in words: names of a mapping or a list with commas."""
    return ", ".join(map(str, value)) if isinstance(value, (Mapping, list, tuple)) else str(value)


def tags(result: Logged, before: str = "") -> dict[str, str]:
    """Which run folder the result comes from."""
    manifest = result.manifest
    found = {
        "kind": result.kind,
        "run": manifest.get("run"),
        "folder": Path(result.path).name if result.path else None,
        "created": manifest.get("created"),
    }
    found["version"] = (manifest.get("versions") or {}).get("veracity")
    return {f"{before}veracity.{name}": str(value) for name, value in found.items() if value}


def parts(found: Mapping[str, Any], size: int) -> Iterable[dict[str, Any]]:
    """A mapping in parts of at most so many entries."""
    items = list(found.items())
    return (dict(items[start : start + size]) for start in range(0, len(items), size))


def spec_parameters(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The models, explainers, scores and settings in the manifest of an audit or an orbit evaluation."""
    spec, data = manifest.get("spec") or {}, manifest.get("data") or {}
    plain = {name: spec.get(name) for name in ("target", "walk", "confidence") if isinstance(spec.get(name), (str, int, float))}
    orbit = spec.get("orbit") or {}
    return {
        "models": spec.get("models") or list(manifest.get("models") or ()),
        "explainers": spec.get("explainers"),
        "scores": spec.get("scores"),
        "symmetry": manifest.get("symmetry"),
        "orbit": orbit.get("name") if isinstance(orbit, Mapping) else None,
        "seed": manifest.get("seed"),
        "precision": spec.get("precision", "float32"),
        "samples": data.get("samples"),
        **plain,
    }
