"""Failures of a run, grouped by error: one sentence per error that lists the models, scores and explainers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from veracity.core.sentences import tell


@dataclass(frozen=True)
class Failure:
    """One error with the models, scores and explainers that it concerns.

    `cells` maps an explainer, or "" for the model itself, to (failed cells, all cells); it is empty if the numbers are unknown.
    `samples` does the same for single samples that failed in cells that were otherwise measured.
    """

    error: str
    models: tuple[str, ...]
    scores: tuple[str, ...]
    explainers: tuple[str, ...]
    cells: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    samples: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __str__(self) -> str:
        what = " / ".join(", ".join(names) for names in (self.models, self.scores) if names)
        who = f" for {', '.join(name + self._counts(name) for name in self.explainers)}" if self.explainers else self._counts("")
        return tell("failed", what, who, self.error, failures=1)

    @property
    def share(self) -> str:
        """The number of failed cells and samples in words; "" if it is unknown."""
        return ", ".join(filter(None, (share_text(self.cells, "cell"), share_text(self.samples, "sample"))))

    def _counts(self, name: str) -> str:
        """How many cells of an explainer failed, unless all did, and how many samples, in parentheses."""
        failed, total = self.cells.get(name, (0, 0))
        counts = [f"{failed:,} of {total:,} cells"] if failed < total else []
        failed, total = self.samples.get(name, (0, 0))
        counts += [f"{failed:,} of {total:,} samples"] if failed else []
        return f" ({', '.join(counts)})" if counts else ""


def share_text(counts: Mapping[str, tuple[int, int]], what: str) -> str:
    """How many failed over all explainers, such as "3 of 12 cells"; "" if the numbers are unknown."""
    failed, total = (sum(numbers) for numbers in zip(*counts.values(), strict=True)) if counts else (0, 0)
    return f"{failed:,} of {total:,} {what}{'' if total == 1 else 's'}" if total else ""


def failures_of(records: Iterable[Mapping[Any, Any]]) -> list[Failure]:
    """One failure per error, from records with `model`, `explainer`, `error` and possibly `score`.

    >>> rows = [{"model": "net", "explainer": name, "score": "gef", "error": "No weights."} for name in ("ig", "lime")]
    >>> print(*failures_of(rows))
    net / gef failed for ig, lime: No weights.
    >>> print(*failures_of([{**rows[0], "cells_failed": 3, "cells": 3}, {**rows[1], "cells_failed": 1, "cells": 3}]))
    net / gef failed for ig, lime (1 of 3 cells): No weights.

    A record may count failures: `cells_failed` of its `cells`, or `samples_failed` of its `samples`.

    >>> print(*failures_of([{**rows[0], "samples_failed": 1, "samples": 64}]))
    net / gef failed for ig (1 of 64 samples): No weights.
    """
    found: dict[str, list[Mapping[Any, Any]]] = {}
    for record in records:
        found.setdefault(str(record["error"]), []).append(record)
    failures = []
    for error, alike in found.items():
        models, scores, explainers = (
            tuple(dict.fromkeys(str(one[key]) for one in alike if one.get(key))) for key in ("model", "score", "explainer")
        )
        failures.append(Failure(error, models, scores, explainers, cell_counts(alike), sample_counts(alike)))
    return failures


def cell_counts(records: Iterable[Mapping[Any, Any]]) -> dict[str, tuple[int, int]]:
    """(failed cells, all cells) by explainer; records of the same model, explainer and score share their cells."""
    failed: Counter[str] = Counter()
    total: dict[tuple[str, ...], int] = {}
    for record in (one for one in records if one.get("cells", 0) > 0 and one.get("cells_failed", 0) > 0):
        failed[str(record.get("explainer") or "")] += int(record["cells_failed"])
        total[tuple(str(record.get(key) or "") for key in ("explainer", "model", "score"))] = int(record["cells"])
    return {name: (number, sum(cells for key, cells in total.items() if key[0] == name)) for name, number in failed.items()}


def sample_counts(records: Iterable[Mapping[Any, Any]]) -> dict[str, tuple[int, int]]:
    """(failed samples, all samples) by explainer, summed over models; each model counts with the score that lost most."""
    most: dict[tuple[str, str], tuple[int, int]] = {}
    for record in (one for one in records if one.get("samples_failed", 0) > 0):
        key = (str(record.get("explainer") or ""), str(record.get("model") or ""))
        most[key] = max(most.get(key, (0, 0)), (int(record["samples_failed"]), int(record["samples"])))
    pairs = {name: [pair for (one, _), pair in most.items() if one == name] for name, _ in most}
    return {name: (sum(failed for failed, _ in counts), sum(total for _, total in counts)) for name, counts in pairs.items()}
