"""One case among the audited ones: where it lies by every check, and whether its explanation can be trusted as much as the average.

The value of a case is in the unit of the card: line + (gap - line room) / mean room, whose mean over cases is the value of the check. A
case is weak on a check if its value lies below the line and in the lowest tenth of the audited cases. How many audited cases are weak on
some check is said beside it, since with many checks some cases are.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from veracity.cards.checks import TRAINING, Evidence
from veracity.cards.record import CardRecord
from veracity.core.errors import InputError, StoreError
from veracity.core.settings import short_repr
from veracity.core.wording import count, number
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Count, Part, check
from veracity.engine.store.records import LARGEST, sealed, unsealed
from veracity.statistics.intervals import Array

if TYPE_CHECKING:
    from veracity.cards.collect import Judged

CASES = "cases.json"
LOWEST = 0.1
"""A weak case lies in this lowest share of the audited cases."""
NAMED = 5
"""How many audited samples an error names."""


class CaseValues(Part):
    """The values of all audited cases by one check of an explainer; null where undefined."""

    explainer: str
    question: str
    check: str
    title: str
    line: float
    values: list[float | None]


class Cases(Part):
    """The audited cases: their places in the data, the hashes of their inputs, and their values."""

    samples: list[Count]
    prints: list[str]
    rows: list[CaseValues]


@dataclass(frozen=True)
class Place:
    """Where a case lies by one check: its value, and which per cent of the audited cases lie below it (half of those that are equal)."""

    explainer: str
    question: str
    title: str
    value: float
    percentile: float
    line: float
    mean: float
    weak: bool


@dataclass(frozen=True)
class Case:
    """One case: its places, and a sentence about each explainer."""

    sample: int
    audited: int
    places: tuple[Place, ...]
    said: Mapping[str, str]

    def table(self) -> pd.DataFrame:
        """One row per explainer and check."""
        columns = ["explainer", "question", "check", "value", "percentile", "mean", "line", "weak"]
        rows = [[one.explainer, one.question, one.title, one.value, one.percentile, one.mean, one.line, one.weak] for one in self.places]
        return pd.DataFrame(rows, columns=columns)

    @property
    def head(self) -> str:
        """What the case is."""
        return f"Sample {self.sample} among {self.audited} audited cases"

    def __str__(self) -> str:
        table = self.table().to_string(index=False, float_format="{:.2f}".format, na_rep="undefined")
        return "\n".join([self.head, "", *(f"{name}: {text}" for name, text in self.said.items()), "", table])

    def _repr_html_(self) -> str:
        """Sentences and a table, for a notebook."""
        said = "".join(f"<li><b>{escape(name)}</b>: {escape(text)}</li>" for name, text in self.said.items())
        cells = "".join(
            f"<tr><td>{escape(one.explainer)}</td><td>{escape(one.title)}</td><td>{number(one.value, 2)}</td>"
            f"<td>{number(one.percentile, 0)}</td><td>{number(one.mean, 2)}</td><td>{number(one.line, 2)}</td></tr>"
            for one in self.places
        )
        head = "".join(f"<th>{name}</th>" for name in ("Explainer", "Check", "Value", "Percentile", "Mean", "Line"))
        return f"<h4>{escape(self.head)}</h4><ul>{said}</ul><table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>"


def cases_of(judged: Iterable[Judged], samples: Sequence[int], prints: Sequence[str]) -> Cases:
    """The values of every case, from the evidence of a card; what is one number for all cases is left out.

    An explainer that a race stopped has values of the first samples alone.
    """
    rows, nothing = [], np.full(len(samples), np.nan)
    for one in judged:
        for question, found in one.evidence.items():
            for (asked, part), evidence in found.items():
                if not isinstance(evidence, Evidence) or evidence.gap is None or evidence.room is None or part == TRAINING:
                    continue
                values = case_values(evidence.gap, evidence.room, asked.line)
                padded = np.concatenate([values, nothing[len(values) :]])
                listed = [None if not math.isfinite(value) else float(f"{value:.4g}") for value in padded.tolist()]
                about: dict[str, Any] = {
                    "explainer": one.name,
                    "question": question,
                    "check": asked.key,
                    "title": asked.title,
                    "line": asked.line,
                }
                rows.append(CaseValues(**about, values=listed))
    return Cases(samples=list(samples), prints=list(prints), rows=rows)


def case_values(gap: Array, room: Array, line: float) -> Array:
    """line + (gap - line room) / mean room of every case.

    >>> case_values(np.array([0.2, 0.4]), np.array([1.0, 1.0]), 0.1).round(3).tolist()
    [0.2, 0.4]
    """
    known = np.isfinite(gap) & np.isfinite(room)
    size = float(room[known].mean()) if known.any() else math.nan
    return np.asarray(line + (gap - line * room) / size) if size > 0 else np.full(len(gap), np.nan)


def save_cases(store: RunFolder, cases: Cases) -> None:
    """Write the cases into the folder of a card."""
    store.files.write(CASES, sealed({**cases.model_dump(), "run": store.run}))


def read_cases(path: str) -> Cases:
    """The cases of a card's folder; raises if there are none."""
    again = "make the card again with folder=..., which keeps them"
    if not path:
        raise InputError(f"This card keeps no measurements of single cases: {again}.")
    store = RunFolder(path)
    if not store.files.exists(CASES):
        raise InputError(f"{path} has no measurements of single cases: {again}.")
    try:
        found = unsealed(store.files.read(CASES, LARGEST))
        check(Cases, found)
        cases = Cases.model_validate(found)
        if any(len(row.values) != len(cases.samples) for row in cases.rows) or len(cases.prints) not in (0, len(cases.samples)):
            raise ValueError("its lists differ in length")
    except (ValueError, OSError) as error:
        raise StoreError(f"{store.files.path(CASES)} is damaged ({error}): run the same command again, which writes it anew.") from error
    return cases


def print_of(sample: Any) -> str:
    """A hash of one input: its shape, and its values in single precision."""
    try:
        plain = sample.detach().cpu().float().numpy() if isinstance(sample, Tensor) else sample
        values = np.ascontiguousarray(plain).astype(np.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"A case is found by its input as numbers, and these are none: {str(error)[:80]}.") from error
    return hashlib.blake2b(repr(values.shape).encode() + values.tobytes(), digest_size=12).hexdigest()


def find(cases: Cases, which: Any) -> int:
    """The place among the audited cases of a sample: by its number in the data, or by its input."""
    known, total = {sample: place for place, sample in enumerate(cases.samples)}, count(len(cases.samples), "sample")
    if isinstance(which, (int, np.integer)) and not isinstance(which, bool):
        if int(which) not in known:
            some = ", ".join(map(str, sorted(known)[:NAMED]))
            raise InputError(
                f"Sample {which} is not one of the {total} that this card measured, such as {some}: give one of these, a larger budget, or "
                "samples=... to measure all."
            )
        return known[int(which)]
    if not isinstance(which, (Tensor, np.ndarray)):
        raise InputError(f"A case is the number of a sample, or its input as a tensor or an array, not {short_repr(which)}.")
    for one in (which, which[0] if which.ndim and len(which) == 1 else which):
        if (found := print_of(one)) in cases.prints:
            return cases.prints.index(found)
    raise InputError(
        f"This input is none of the {total} that this card measured: give the number of one of them, or make a card of data that hold it."
    )


def case(record: CardRecord, cases: Cases, which: Any) -> Case:
    """One case among the audited ones."""
    place = find(cases, which)
    sizes = {one.name: one.stopped.samples for one in record.explainers if one.stopped is not None}
    places, weak_by = [], dict[str, NDArray[np.bool_]]()
    for row in cases.rows:
        values = np.array([math.nan if value is None else value for value in row.values])
        weak = weak_cases(values, row.line)
        weak_by[row.explainer] = weak_by.get(row.explainer, np.zeros(len(values), dtype=np.bool_)) | weak
        if place >= sizes.get(row.explainer, len(values)):
            continue
        known = values[np.isfinite(values)]
        mean = float(known.mean()) if len(known) else math.nan
        about = (row.explainer, row.question, row.title, float(values[place]), percentile(values, place), row.line, mean)
        places.append(Place(*about, weak=bool(weak[place])))
    said = {}
    for one in (one for one in record.explainers if not one.control):
        short = [answer.question for answer in one.answers if answer.word == "falls short"]
        mine, audited = [where for where in places if where.explainer == one.name], sizes.get(one.name, len(cases.samples))
        if place >= audited and not one.out:
            said[one.name] = f"not measured for this case, because it stopped after {count(audited, 'sample')}."
            continue
        text = sentence(mine, int(weak_by[one.name].sum()) if mine else 0, audited, short, one.out)
        unproven = " Nobody can tell yet whether it depends on the model." if one.answers[0].word == "cannot tell yet" else ""
        said[one.name] = text + unproven
    return Case(cases.samples[place], len(cases.samples), tuple(places), said)


TENTH = 10
"""Cases, below which none lies in the lowest tenth."""


def weak_cases(values: Array, line: float) -> NDArray[np.bool_]:
    """Which cases lie below the line and in the lowest tenth of those with a value.

    >>> weak_cases(np.arange(20.0), 5.0).nonzero()[0].tolist(), weak_cases(np.zeros(20), 5.0).any()
    ([0, 1], np.False_)
    """
    known = np.sort(values[np.isfinite(values)])
    most = LOWEST * len(known)
    return np.asarray(np.isfinite(values) & (values < line) & (np.searchsorted(known, values, side="right") <= most))


def percentile(values: Array, place: int) -> float:
    """Which per cent of the cases lie below one, half of those that are equal counted; NaN if it is undefined.

    >>> percentile(np.array([1.0, 2.0, 3.0, np.nan]), 1), percentile(np.ones(4), 0)
    (50.0, 50.0)
    """
    known, own = values[np.isfinite(values)], values[place]
    return float(100.0 * ((known < own).sum() + 0.5 * (known == own).sum()) / len(known)) if math.isfinite(own) else math.nan


def sentence(places: Sequence[Place], weak: int, audited: int, short: Sequence[str], out: bool) -> str:
    """Whether the explanation of this case can be trusted as much as the average; `weak` of the `audited` cases are weak on some check.

    >>> place = Place("ig", "faithful", "deletion", -0.12, 4.0, 0.1, 0.3, weak=True)
    >>> print(sentence([place], 3, 32, [], False).partition(" and lower")[0])
    can be trusted less than on average: by deletion it gets −0.12, below the line of 0.10
    """
    if out:
        return "not to be trusted for any case: it does not depend on the model."
    average = f", which falls short on: {', '.join(short)}" if short else ""
    lost = [one.title for one in places if not math.isfinite(one.value)]
    undefined = f" Not known for this case: {', '.join(lost)}." if lost else ""
    if not places or len(lost) == len(places):
        return "nothing was measured for this case alone."
    low = [
        f"by {one.title} it gets {number(one.value, 2)}, below the line of {number(one.line, 2)} and lower than "
        f"{100 - one.percentile:.0f} % of cases"
        for one in places
        if one.weak
    ]
    if not low:
        few = f" {count(audited, 'case')} are too few to call one of them weak." if audited < TENTH else ""
        return f"can be trusted as much as for the average of {count(audited, 'case')}{average}.{few}{undefined}"
    return f"can be trusted less than on average{average}: {'; '.join(low)} ({weak} of {audited} are weak on some check).{undefined}"
