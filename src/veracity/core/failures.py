"""What failed, told once: the same error of many explainers is one sentence that lists them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from veracity.core.sentences import tell


@dataclass(frozen=True)
class Failure:
    """One error, and every model, score and explainer that it concerns; scores and explainers are empty where there are none.

    `cells` says how many cells failed, and of how many, by explainer; of models themselves by "". It is empty where that is not known.
    `samples` says it of single samples of cells that were measured otherwise.
    """

    error: str
    models: tuple[str, ...]
    scores: tuple[str, ...]
    explainers: tuple[str, ...]
    cells: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    samples: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __str__(self) -> str:
        what = " / ".join(", ".join(names) for names in (self.models, self.scores) if names)
        who = f" for {', '.join(name + self._partly(name) for name in self.explainers)}" if self.explainers else self._partly("")
        return tell("failed", what, who, self.error, failures=1)

    @property
    def share(self) -> str:
        """How many cells failed, and of how many, and how many samples; "" where that is not known."""
        return ", ".join(filter(None, (of_all(self.cells, "cell"), of_all(self.samples, "sample"))))

    def _partly(self, name: str) -> str:
        """How many cells failed where not all of them did, and how many samples."""
        lost, every = self.cells.get(name, (0, 0))
        said = [f"{lost:,} of {every:,} cells"] if lost < every else []
        lost, every = self.samples.get(name, (0, 0))
        said += [f"{lost:,} of {every:,} samples"] if lost else []
        return f" ({', '.join(said)})" if said else ""


def of_all(counts: Mapping[str, tuple[int, int]], what: str) -> str:
    """How many failed of how many, over all explainers."""
    lost, every = (sum(numbers) for numbers in zip(*counts.values(), strict=True)) if counts else (0, 0)
    return f"{lost:,} of {every:,} {what}{'' if every == 1 else 's'}" if every else ""


def failures_of(records: Iterable[Mapping[Any, Any]]) -> list[Failure]:
    """Records with `model`, `explainer`, `error` and, where there are scores, `score`, one failure for each error.

    >>> rows = [{"model": "net", "explainer": name, "score": "gef", "error": "No weights."} for name in ("ig", "lime")]
    >>> print(*failures_of(rows))
    net / gef failed for ig, lime: No weights.
    >>> print(*failures_of([{**rows[0], "cells_failed": 3, "cells": 3}, {**rows[1], "cells_failed": 1, "cells": 3}]))
    net / gef failed for ig, lime (1 of 3 cells): No weights.

    A record may say `cells_failed`, how many of its `cells` failed, or `samples_failed`, how many of its `samples` did.

    >>> print(*failures_of([{**rows[0], "samples_failed": 1, "samples": 64}]))
    net / gef failed for ig (1 of 64 samples): No weights.
    """
    found: dict[str, list[Mapping[Any, Any]]] = {}
    for record in records:
        found.setdefault(str(record["error"]), []).append(record)
    return [
        Failure(error, names_of(alike, "model"), names_of(alike, "score"), names_of(alike, "explainer"), cells_of(alike), samples_of(alike))
        for error, alike in found.items()
    ]


def names_of(records: Iterable[Mapping[Any, Any]], key: str) -> tuple[str, ...]:
    """What records name, each once."""
    return tuple(dict.fromkeys(str(record[key]) for record in records if record.get(key)))


def cells_of(records: Iterable[Mapping[Any, Any]]) -> dict[str, tuple[int, int]]:
    """How many cells failed, and of how many, by explainer; several records of one model, explainer and score share their cells."""
    lost: Counter[str] = Counter()
    every: dict[tuple[str, ...], int] = {}
    for record in (one for one in records if one.get("cells", 0) > 0 and one.get("cells_failed", 0) > 0):
        lost[str(record.get("explainer") or "")] += int(record["cells_failed"])
        every[tuple(str(record.get(key) or "") for key in ("explainer", "model", "score"))] = int(record["cells"])
    return {name: (number, sum(cells for key, cells in every.items() if key[0] == name)) for name, number in lost.items()}


def samples_of(records: Iterable[Mapping[Any, Any]]) -> dict[str, tuple[int, int]]:
    """How many samples failed, and of how many, by explainer: of each model, in the score that lost most."""
    most: dict[tuple[str, str], tuple[int, int]] = {}
    for record in (one for one in records if one.get("samples_failed", 0) > 0):
        key = (str(record.get("explainer") or ""), str(record.get("model") or ""))
        most[key] = max(most.get(key, (0, 0)), (int(record["samples_failed"]), int(record["samples"])))
    found: dict[str, tuple[int, int]] = {}
    for (name, _), (lost, every) in most.items():
        before = found.get(name, (0, 0))
        found[name] = (before[0] + lost, before[1] + every)
    return found
