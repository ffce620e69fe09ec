"""What failed, told once: the same error of many explainers is one sentence that lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from veracity.core.sentences import tell


@dataclass(frozen=True)
class Failure:
    """One error, and every model, score and explainer that it concerns; scores and explainers are empty where there are none."""

    error: str
    models: tuple[str, ...]
    scores: tuple[str, ...]
    explainers: tuple[str, ...]

    def __str__(self) -> str:
        what = " / ".join(", ".join(names) for names in (self.models, self.scores) if names)
        who = f" for {', '.join(self.explainers)}" if self.explainers else ""
        return tell("failed", what, who, self.error, failures=1)


def failures_of(records: Iterable[Mapping[Any, Any]]) -> list[Failure]:
    """Records with `model`, `explainer`, `error` and, where there are scores, `score`, one failure for each error.

    >>> rows = [{"model": "net", "explainer": name, "score": "gef", "error": "No weights."} for name in ("ig", "lime")]
    >>> print(*failures_of(rows))
    net / gef failed for ig, lime: No weights.
    """
    found: dict[str, list[Mapping[Any, Any]]] = {}
    for record in records:
        found.setdefault(str(record["error"]), []).append(record)
    return [Failure(error, *(names_of(alike, key) for key in ("model", "score", "explainer"))) for error, alike in found.items()]


def names_of(records: Iterable[Mapping[Any, Any]], key: str) -> tuple[str, ...]:
    """What records name, each once."""
    return tuple(dict.fromkeys(str(record[key]) for record in records if record.get(key)))
