"""What an examination found: one finding per task and explainer, as a table, as text and as files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from pathlib import Path

import pandas as pd
from torch import Tensor

from veracity.core.errors import StoreError
from veracity.core.registry import RENDERERS
from veracity.core.spreadsheets import as_csv
from veracity.planted.task import PlantedTask


class Verdict(Enum):
    """Whether an explainer finds what was planted."""

    PASS = "pass"
    FAILS = "fails"
    UNTOLD = "cannot tell"


MARKS = {Verdict.PASS: "✓", Verdict.FAILS: "✗", Verdict.UNTOLD: "?"}
ABSENT = "-"
"""In the place of an explainer that does not fit a task."""
EMPTY = "∅"
"""In the place of the value of maps that are zero everywhere."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The score of one explainer on one task, with its 95 % interval over samples, beside that of a random map, and the verdict.

    `over_random` is the paired difference to the random map, with its interval; `why` names a known failure; `accuracy` is that of a
    learnt model, and NaN for a model whose weights were written.
    """

    modality: str
    task: str
    explainer: str
    score: str
    value: float
    low: float
    high: float
    n: int
    undefined: int
    random: float
    over_random: float
    over_random_low: float
    over_random_high: float
    bar: float
    verdict: Verdict
    why: str = ""
    accuracy: float = math.nan

    @property
    def short(self) -> str:
        """The mark of the verdict and the value in two digits; `EMPTY` if the map says nothing on most samples."""
        return f"{MARKS[self.verdict]}{EMPTY if 2 * self.undefined > self.n else short_number(self.value)}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Shown:
    """The first sample of a task: its input, the planted mask, and the maps of the explainers that fail there, by label.

    `words` are those of a text, whose input is only whether each of them is there.
    """

    input: Tensor
    truth: Tensor
    maps: Mapping[str, Tensor]
    words: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Examination:
    """All findings, in the order of tasks and explainers.

    skipped  why an explainer does not fit a task of a modality, or failed on it, by (modality, explainer)
    shown    one sample of every task with a mask on which an explainer fails, by (modality, task)
    """

    findings: tuple[Finding, ...]
    tasks: tuple[tuple[str, PlantedTask], ...]
    explainers: tuple[str, ...]
    skipped: Mapping[tuple[str, str], str]
    samples: Mapping[str, int]
    seed: int
    shown: Mapping[tuple[str, str], Shown] = field(default_factory=dict)

    def table(self) -> pd.DataFrame:
        """One row per task and explainer."""
        columns = [item.name for item in fields(Finding)]
        return pd.DataFrame([{**asdict(one), "verdict": one.verdict.value} for one in self.findings], columns=columns)

    @property
    def key(self) -> str:
        """How much was measured, and what the marks mean."""
        counts = ", ".join(f"{count} {modality}" for modality, count in self.samples.items())
        return f"Samples per task: {counts}; seed {self.seed}. ✓ passes, ✗ fails, ? cannot tell, {EMPTY} empty map, {ABSENT} does not fit."

    @property
    def modalities(self) -> list[str]:
        """The modalities of the tasks, in order."""
        return list(dict.fromkeys(modality for modality, _ in self.tasks))

    def tasks_of(self, modality: str) -> list[PlantedTask]:
        """The tasks of a modality, in order."""
        return [task for name, task in self.tasks if name == modality]

    def find(self, modality: str, task: str, explainer: str) -> Finding | None:
        """One finding; None if the explainer does not fit the task."""
        return self._by_place.get((modality, task, explainer))

    @property
    def _by_place(self) -> dict[tuple[str, str, str], Finding]:
        return {(one.modality, one.task, one.explainer): one for one in self.findings}

    def grid(self, modality: str) -> list[tuple[str, list[str]]]:
        """The explainers that fit some task of a modality, each with its short finding on every task."""
        known, tasks = self._by_place, self.tasks_of(modality)
        rows = [(label, [known.get((modality, task.name, label)) for task in tasks]) for label in self.explainers]
        return [(label, [ABSENT if one is None else one.short for one in row]) for label, row in rows if any(row)]

    def known_failures(self) -> list[str]:
        """Failures whose reason is known, in sentences: explainers that fail on a task for the same reason stand together."""
        found: dict[tuple[str, str, str], list[str]] = {}
        for one in self.findings:
            if one.why:
                found.setdefault((one.modality, one.task, one.why), []).append(one.explainer)
        return [f"{modality}, {task}: {', '.join(labels)}: {why}." for (modality, task, why), labels in found.items()]

    def left_out(self) -> list[str]:
        """Why explainers have no finding on some task, in sentences: those with the same reason stand together."""
        found: dict[tuple[str, str], list[str]] = {}
        for (modality, label), why in self.skipped.items():
            found.setdefault((modality, why), []).append(label)
        return [f"{modality}: {', '.join(labels)}: {why}" for (modality, why), labels in found.items()]

    def legend(self, modality: str) -> list[str]:
        """The tasks of a modality with their numbers: what the model computes, and what passes."""
        return [f"{number} {task.name}: {task.rule} Pass: {told(task)}." for number, task in enumerate(self.tasks_of(modality), start=1)]

    def lines(self) -> Iterator[str]:
        """The examination as Markdown."""
        yield self.key
        for modality in self.modalities:
            tasks = self.tasks_of(modality)
            yield from (
                "",
                f"## {modality}",
                "",
                f"| explainer | {' | '.join(task.name for task in tasks)} |",
                f"|---|{'---|' * len(tasks)}",
            )
            for label, cells in self.grid(modality):
                yield f"| `{label}` | {' | '.join(cells)} |"
            yield ""
            for line in self.legend(modality):
                number, _, rest = line.partition(" ")
                yield f"{number}. {rest}"
        if self.skipped:
            yield from ("", "## Not examined", "", *(f"- {line}" for line in self.left_out()))
        known = self.known_failures()
        if known:
            yield from ("", "## Known failures", "", *(f"- {line}" for line in known))

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def save(self, folder: str | Path) -> tuple[Path, Path, Path]:
        """Write examine.csv, one row per finding, examine.md, and examine.html, a page with pictures; returns the three paths."""
        place = Path(folder)
        paths = place / "examine.csv", place / "examine.md", place / "examine.html"
        try:
            place.mkdir(parents=True, exist_ok=True)
            paths[0].write_text(as_csv(self.table()), encoding="utf-8", newline="")
            paths[1].write_text(f"# Planted truth\n\n{self}\n", encoding="utf-8")
            paths[2].write_text(RENDERERS["examination"].render(self), encoding="utf-8")
        except OSError as error:
            raise StoreError(f"Cannot write to {place} ({error.strerror or error}): choose another folder.") from error
        return paths


TITLES = {
    "auc": "AUC",
    "relevance_mass_accuracy": "relevance mass",
    "focus": "focus",
    "self_agreement": "agreement of two runs",
    "contributions": "cosine with the contributions",
}


def told(task: PlantedTask) -> str:
    """What passes a task, in a few words."""
    return f"{TITLES.get(task.score, task.score)} of at least {task.bar:g}"


def short_number(value: float) -> str:
    """A value in two digits, without a leading zero.

    >>> short_number(0.984), short_number(0.997), short_number(-0.314), short_number(0.0)
    ('.98', '1', '-.31', '0')
    """
    text = f"{value:.2f}"
    if text in ("0.00", "-0.00"):
        return "0"
    return text.replace("0.", ".", 1) if "0." in text[:3] else text.removesuffix(".00")
