"""One case among the audited ones: where it lies by every check, and whether its explanation can be trusted as much as the average.

The value of a case is in the unit of the card: line + (gap - line room) / mean room, whose mean over cases is the value of the check. A
case is weak on a check if its value lies below the line and in the lowest tenth of the audited cases. How many audited cases are weak on
some check is said beside it, since with many checks some cases are. The percentile of a case has a 95 % interval, for other audited cases
from the same population; the random draws behind the value of the case itself are not in it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import betaincinv
from torch import Tensor

from veracity.cards.checks import TRAINING, Evidence
from veracity.cards.record import CardRecord
from veracity.core.errors import InputError, StoreError
from veracity.core.wording import count, interval, number
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Count, Part, check
from veracity.engine.store.records import LARGEST, sealed, unsealed
from veracity.statistics.intervals import Array, mean_interval, unseen_share
from veracity.statistics.units import Codes, independent

if TYPE_CHECKING:
    from veracity.cards.collect import Judged

CASES = "cases.json"
LOWEST = 0.1
"""A weak case lies in this lowest share of the audited cases."""
NAMED = 5
"""How many audited samples an error names."""


class CaseValues(Part):
    """The values of all audited cases by one check of an explainer, null where undefined; the part of the folder, and the mean room."""

    explainer: str
    question: str
    check: str
    title: str
    line: float
    values: list[float | None]
    part: str = ""
    room: float | None = None


class Cases(Part):
    """The audited cases: their places in the data, the hashes of their inputs, the units that they belong to, and their values."""

    samples: list[Count]
    prints: list[str]
    rows: list[CaseValues]
    units: list[Count] | None = None


@dataclass(frozen=True)
class Place:
    """Where a case lies by one check: its value, and which per cent of the audited cases lie below it (half of those that are equal).

    `low` and `high` are the ends of the percentile's interval.
    """

    explainer: str
    question: str
    title: str
    value: float
    percentile: float
    line: float
    mean: float
    weak: bool
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Case:
    """One case: its places, and a sentence about each explainer.

    Of a new one, which has no number, `maps` are its explanations by explainer, `prediction` says what the model predicts, and `notes` say
    what was not measured.
    """

    sample: int | None
    audited: int
    places: tuple[Place, ...]
    said: Mapping[str, str]
    prediction: str = ""
    maps: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()

    def table(self) -> pd.DataFrame:
        """One row per explainer and check."""
        columns = ["explainer", "question", "check", "value", "percentile", "percentile_low", "percentile_high", "mean", "line", "weak"]
        rows = [
            [one.explainer, one.question, one.title, one.value, one.percentile, one.low, one.high, one.mean, one.line, one.weak]
            for one in self.places
        ]
        return pd.DataFrame(rows, columns=columns)

    @property
    def head(self) -> str:
        """What the case is."""
        return f"{'A new case' if self.sample is None else f'Sample {self.sample}'} among {self.audited} audited cases"

    def __str__(self) -> str:
        table = self.table().to_string(index=False, float_format="{:.2f}".format, na_rep="undefined")
        told = [*([self.prediction] if self.prediction else []), "", *(f"{name}: {text}" for name, text in self.said.items())]
        return "\n".join([self.head, *told, *self.notes, "", table])

    def _repr_html_(self) -> str:
        """Sentences and a table, for a notebook."""
        said = "".join(f"<li><b>{escape(name)}</b>: {escape(text)}</li>" for name, text in self.said.items())
        cells = "".join(
            f"<tr><td>{escape(one.explainer)}</td><td>{escape(one.title)}</td><td>{number(one.value, 2)}</td>"
            f"<td>{number(one.percentile, 0)}</td><td>{interval(one.low, one.high, 0)}</td>"
            f"<td>{number(one.mean, 2)}</td><td>{number(one.line, 2)}</td></tr>"
            for one in self.places
        )
        head = "".join(f"<th>{name}</th>" for name in ("Explainer", "Check", "Value", "Percentile", "95 %", "Mean", "Line"))
        told = "".join(f"<p>{escape(text)}</p>" for text in (self.prediction, *self.notes) if text)
        return f"<h4>{escape(self.head)}</h4>{told}<ul>{said}</ul><table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>"


def cases_of(
    judged: Iterable[Judged],
    samples: Sequence[int],
    prints: Sequence[str],
    units: Codes | None = None,
    titles: Mapping[str, str] | None = None,
) -> Cases:
    """The values of every case, from the evidence of a card; what is one number for all cases is left out.

    An explainer that a race stopped has values of the first samples alone. `titles` name what a part of the folder is about.
    """
    rows, nothing = [], np.full(len(samples), np.nan)
    for one in judged:
        for question, found in one.evidence.items():
            for (asked, part), evidence in found.items():
                if not isinstance(evidence, Evidence) or evidence.gap is None or evidence.room is None or part == TRAINING:
                    continue
                size = mean_room(evidence.gap, evidence.room)
                values = case_values(evidence.gap, evidence.room, asked.line, size)
                padded = np.concatenate([values, nothing[len(values) :]])
                listed = [None if not math.isfinite(value) else kept(value) for value in padded.tolist()]
                about: dict[str, Any] = {
                    "explainer": one.name,
                    "question": question,
                    "check": asked.key,
                    "title": (titles or {}).get(part, asked.title),
                    "line": asked.line,
                    "part": part,
                    "room": size if size > 0 else None,
                }
                rows.append(CaseValues(**about, values=listed))
    codes = None if units is None else [int(one) for one in units]
    return Cases(samples=list(samples), prints=list(prints), rows=rows, units=codes)


def kept(value: float) -> float:
    """The value to the four digits that the folder keeps, so that a new case that equals the audited ones is seen as equal.

    >>> kept(2 / 3)
    0.6667
    """
    return float(f"{value:.4g}")


def mean_room(gap: Array, room: Array) -> float:
    """The mean room over the cases that have a value; NaN without any."""
    known = np.isfinite(gap) & np.isfinite(room)
    return float(room[known].mean()) if known.any() else math.nan


def case_values(gap: Array, room: Array, line: float, size: float) -> Array:
    """line + (gap - line room) / mean room of every case, whose mean room over the audited cases is the `size`.

    >>> case_values(np.array([0.2, 0.4]), np.array([1.0, 1.0]), 0.1, 1.0).round(3).tolist()
    [0.2, 0.4]
    """
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
        lengths = {len(cases.samples), *(len(row.values) for row in cases.rows), *([] if cases.units is None else [len(cases.units)])}
        if len(lengths) > 1 or len(cases.prints) not in (0, len(cases.samples)):
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


def find(cases: Cases, which: Any) -> int | None:
    """The place among the audited cases of a sample: by its number in the data, or by its input; None of an input that is new."""
    known, total = {sample: place for place, sample in enumerate(cases.samples)}, count(len(cases.samples), "sample")
    if isinstance(which, (int, np.integer)) and not isinstance(which, bool):
        if which < 0:
            raise InputError(f"Samples are counted from 0, so that there is no sample {which}: give its number from the start of the data.")
        if int(which) not in known:
            some = ", ".join(map(str, sorted(known)[:NAMED]))
            raise InputError(
                f"Sample {which} is not one of the {total} that this card measured, such as {some}: give one of these, a larger budget, "
                f"samples=... to measure all, or the input itself, as in card.case(x[{which}])."
            )
        return known[int(which)]
    if isinstance(which, (Tensor, np.ndarray)):
        for one in (which, which[0] if which.ndim and len(which) == 1 else which):
            if (found := print_of(one)) in cases.prints:
                return cases.prints.index(found)
    return None


def audited_case(record: CardRecord, cases: Cases, place: int) -> Case:
    """One of the audited cases."""
    sizes, least = reaches(record, cases), fewest(record, cases)
    rows = [row for row in cases.rows if place < sizes.get((row.explainer, row.title), len(cases.samples))]
    places = [place_of(row, values_of(row)[place], cases, own=True) for row in rows]
    gone = [one.name for one in record.explainers if one.name not in {row.explainer for row in rows}]
    unmeasured = {
        name: f"not measured for this case, because it stopped after {count(least[name], 'sample')}." for name in gone if name in least
    }
    skipped = [row for row in cases.rows if row not in rows]
    return Case(cases.samples[place], len(cases.samples), tuple(places), sentences(record, cases, places, unmeasured, skipped))


def reaches(record: CardRecord, cases: Cases) -> dict[tuple[str, str], int]:
    """How many of the cases a race measured for a check of an explainer, where it stopped before the end."""
    every = len(cases.samples)
    ends = {one.name: every if one.stopped is None else one.stopped.samples for one in record.explainers}
    checks = [(one.name, check) for one in record.explainers for said in one.answers for check in said.checks]
    return {(name, check.title): ends[name] if check.samples is None else check.samples for name, check in checks}


def fewest(record: CardRecord, cases: Cases) -> dict[str, int]:
    """How many of the cases a race measured for all checks of an explainer."""
    sizes, found = reaches(record, cases), dict[str, int]()
    for row in cases.rows:
        reach = sizes.get((row.explainer, row.title), len(cases.samples))
        found[row.explainer] = min(reach, found.get(row.explainer, reach))
    return found


def values_of(row: CaseValues) -> Array:
    """The values of all audited cases, NaN where undefined."""
    return np.array([math.nan if value is None else value for value in row.values])


def place_of(row: CaseValues, value: float, cases: Cases, *, own: bool) -> Place:
    """Where a value lies among those of the audited cases, whether it is one of its `own` or that of a new case."""
    values = values_of(row)
    known = values[np.isfinite(values)]
    least = np.searchsorted(np.sort(known), value, side="right") + (not own)
    weak = math.isfinite(value) and value < row.line and bool(least <= LOWEST * (len(known) + (not own)))
    units = None if cases.units is None else np.array(cases.units)
    low, high = percentile_ends(values, value, units)
    mean = float(known.mean()) if len(known) else math.nan
    return Place(
        row.explainer, row.question, row.title, float(value), percentile(values, value), row.line, mean, weak=weak, low=low, high=high
    )


def sentences(
    record: CardRecord, cases: Cases, places: Sequence[Place], unmeasured: Mapping[str, str], skipped: Sequence[CaseValues] = ()
) -> dict[str, str]:
    """A sentence about each explainer, of which some were not measured for this case; of others, some checks were `skipped`."""
    weak_by, sizes, said = dict[str, NDArray[np.bool_]](), fewest(record, cases), dict[str, str]()
    for row in cases.rows:
        weak_by[row.explainer] = weak_by.get(row.explainer, np.zeros(len(cases.samples), dtype=np.bool_)) | weak_cases(
            values_of(row), row.line
        )
    for one in (one for one in record.explainers if not one.control):
        if one.name in unmeasured and not one.out:
            said[one.name] = unmeasured[one.name]
            continue
        short = [answer.question for answer in one.answers if answer.word == "falls short"]
        mine, audited = [where for where in places if where.explainer == one.name], sizes.get(one.name, len(cases.samples))
        text = sentence(mine, int(weak_by[one.name][:audited].sum()) if mine else 0, audited, short, one.out)
        if mine and not one.out and (left := [row.title for row in skipped if row.explainer == one.name]):
            text = f"{text} Not measured for this case, since these checks stopped early: {', '.join(left)}."
        words = {answer.question: answer.word for answer in one.answers}
        open_ = [what for key, what in TRUST.items() if words.get(key) == "cannot tell yet" and not one.out]
        said[one.name] = f"{text} Nobody can tell yet whether it {' and '.join(open_)}." if open_ else text
    return said


TRUST = {"model": "depends on the model", "faithful": "is faithful"}
"""The questions without which no explanation of a case can be trusted."""
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


def percentile(values: Array, own: float) -> float:
    """Which per cent of the cases lie below a value, half of those that are equal counted; NaN if it is undefined.

    >>> percentile(np.array([1.0, 2.0, 3.0, np.nan]), 2.0), percentile(np.ones(4), 1.0)
    (50.0, 50.0)
    """
    known = values[np.isfinite(values)]
    return float(100.0 * ((known < own).sum() + 0.5 * (known == own).sum()) / len(known)) if math.isfinite(own) and len(known) else math.nan


def percentile_ends(values: Array, own: float, units: Codes | None = None) -> tuple[float, float]:
    """The 95 % interval of the percentile: exact for independent cases (Clopper and Pearson), over `units` if cases belong to some.

    The lower end counts the cases below the value, the upper one those that are equal, too.

    >>> [round(end, 1) for end in percentile_ends(np.arange(20.0), -1.0)], [round(end, 1) for end in percentile_ends(np.arange(20.0), 9.5)]
    ([0.0, 16.8], [27.2, 72.8])
    >>> [round(end, 1) for end in percentile_ends(np.arange(20.0), -1.0, np.arange(20))]  # units of one case each
    [0.0, 16.8]
    """
    known = np.isfinite(values)
    n = int(known.sum())
    if not math.isfinite(own) or n == 0:
        return math.nan, math.nan
    below, upto = (np.where(known, found, np.nan) for found in (values < own, values <= own))
    if units is not None:
        size = independent(known, units)
        ends = mean_interval(below, units=units).low, mean_interval(upto, units=units).high
        unseen = unseen_share(size, 0.975) if size else 1.0  # one end of a two-sided 95 %
        low = 1.0 - unseen if below[known].all() else ends[0] if below[known].any() else 0.0
        high = unseen if not upto[known].any() else 1.0 if upto[known].all() else ends[1]
        return 100.0 * max(0.0, low if math.isfinite(low) else 0.0), 100.0 * min(1.0, high if math.isfinite(high) else 1.0)
    less, most = int(below[known].sum()), int(upto[known].sum())
    low = float(betaincinv(less, n - less + 1, 0.025)) if less else 0.0
    high = float(betaincinv(most + 1, n - most, 0.975)) if most < n else 1.0
    return 100.0 * low, 100.0 * high


def reach(one: Place) -> str:
    """The interval of how many cases lie above, as a remark; "" without one."""
    return f" ({100 - one.high:.0f} to {100 - one.low:.0f} %)" if math.isfinite(one.low) else ""


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
        f"{100 - one.percentile:.0f} % of cases{reach(one)}"
        for one in places
        if one.weak
    ]
    if not low:
        few = f" {count(audited, 'case')} are too few to call one of them weak." if audited < TENTH else ""
        return f"can be trusted as much as for the average of {count(audited, 'case')}{average}.{few}{undefined}"
    return f"can be trusted less than on average{average}: {'; '.join(low)} ({weak} of {audited} are weak on some check).{undefined}"
