"""Requirements on a run. The worse end of an interval must meet them. What was found, for people, for GitHub, and as JUnit XML."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from veracity.core.errors import InputError, SpecError, unknown
from veracity.core.wording import count, percentage
from veracity.engine.store.manifest import Kind
from veracity.engine.store.state import State

RULE = re.compile(r"^\s*(?P<score>[A-Za-z_][\w@]*)\s*(?P<sign>>=|<=|>|<)\s*(?P<bound>[-+]?[\d.]+(?:e[-+]?\d+)?)\s*$")
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow."""
ROUNDING = 1e-9
HOLDS = {
    ">=": lambda value, bound: value >= bound - ROUNDING,
    ">": lambda value, bound: value > bound,
    "<=": lambda value, bound: value <= bound + ROUNDING,
    "<": lambda value, bound: value < bound,
}


Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Case:
    """One row that was judged: what was `asked` of `who`, why it does not hold, "" if it does, and what a reader should know anyway.

    A failure is `open` if the data leave both possible: what was asked is not shown to hold, and not shown to be broken.
    """

    asked: str
    who: str
    failure: str = ""
    note: str = ""
    open: bool = False

    @property
    def said(self) -> str:
        """The failure or the note with whom it is about."""
        return f"{self.who}: {self.failure or self.note}"

    @property
    def line(self) -> str:
        """All of it in a line."""
        return f"{self.asked} for {self.said}"

    @property
    def state(self) -> str:
        """What became of the requirement, in two words."""
        return "not shown" if self.open else "not held"


@dataclass(frozen=True)
class Verdict:
    """All rows that were judged: how many, a line for each that did not hold, and one for each note."""

    cases: tuple[Case, ...]

    @property
    def count(self) -> int:
        """How many rows were judged."""
        return len(self.cases)

    @property
    def failed(self) -> list[Case]:
        """The rows that do not hold, those that are surely broken first."""
        return sorted((one for one in self.cases if one.failure), key=lambda one: one.open)

    @property
    def failures(self) -> tuple[str, ...]:
        """A line for each row that does not hold."""
        return tuple(one.line for one in self.failed)

    @property
    def summary(self) -> str:
        """How many rows are broken and how many are open, in a sentence.

        >>> Verdict((Case("a>=1", "net", "low end 0", open=True), Case("b>=1", "net", "low end 0"), Case("c>=1", "net"))).summary
        '2 of 3 do not pass: 1 is broken, and 1 is open, neither shown to hold nor shown to be broken.'
        """
        late = sum(one.open for one in self.failed)
        sure = len(self.failed) - late
        broken, waiting = (f"{number} {'is' if number == 1 else 'are'} {what}" for number, what in ((sure, "broken"), (late, "open")))
        unclear = f"{waiting}, neither shown to hold nor shown to be broken"
        said = broken if not late else f"{broken}, and {unclear}" if sure else unclear
        return f"{len(self.failed)} of {self.count} {'does' if len(self.failed) == 1 else 'do'} not pass: {said}."

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for each row with a note."""
        return tuple(one.line for one in self.cases if one.note and not one.failure)


def judge(
    rows: Sequence[Row],
    rules: Sequence[str],
    explainers: Sequence[str] = (),
    models: Sequence[str] = (),
    max_unseen: float | None = None,
    confidence: float = 0.95,
) -> Verdict:
    """Each rule against each row of its score, controls left out: the low end for >=, the high end for <=.

    `explainers` restricts scores of explanations; scores of models are always judged. A row without an interval, or without the end
    that counts, does not hold. If all samples are equal, the interval has no width: with `max_unseen`, the rule then holds only if at most
    this share of the population may differ unseen. A rule without a sign is a question of a card, whose word must be "holds".
    """
    check_share(max_unseen)
    own = [row for row in rows if not row["control"]]
    for column, names in (("explainer", explainers), ("model", models)):
        present = {row[column] for row in own} - {""}
        for name in names:
            if name not in present:
                raise unknown(f"{column} of this run", name, present)
    cases = []
    for rule in rules:
        asked = rule.strip()
        said = [row for row in own if "word" in row and row["score"] == asked]
        cases += [
            Case(
                asked,
                who_of(row),
                "" if row["word"] == "holds" else f"{row['word']}. {row['sentence']}",
                open=row["word"] == "cannot tell yet",
            )
            for row in said
            if (not explainers or row["explainer"] in explainers) and (not models or row["model"] in models)
        ]
        if said:
            continue
        score, sign, bound = parse_rule(rule)
        mine = [row for row in own if row["score"] == score and "word" not in row]
        if not mine:
            raise unknown("score of this run", score, {row["score"] for row in rows if "word" not in row})
        end = "low" if sign.startswith(">") else "high"
        for row in mine:
            if (explainers and row["explainer"] not in (*explainers, "")) or (models and row["model"] not in models):
                continue
            equal = math.isfinite(row["unseen"])
            told = equal_text(row["n"], row["unseen"]) if equal else ""
            against = reason_against(row, end, sign, bound)
            reason = against or too_much_unseen(row["n"], row["unseen"], max_unseen, confidence, row.get("unit") or "sample")
            cases.append(Case(f"{score}{sign}{bound:g}", who_of(row), reason, told, open=not against or undecided(row, end, sign, bound)))
    if not cases:
        raise InputError("No row of these explainers and models has such a requirement: choose others, or fewer at once.")
    return Verdict(tuple(cases))


def who_of(row: Row) -> str:
    """Whom a row is about."""
    return " / ".join(part for part in (row.get("audit", ""), row["model"], row["explainer"]) if part)


def check_share(max_unseen: float | None) -> None:
    """Raise if --max-unseen is no share."""
    if max_unseen is not None and not 0.0 < max_unseen < 1.0:
        raise SpecError(f"--max-unseen is a share between 0 and 1, such as 0.05, not {max_unseen:g}.")


def equal_text(n: int, unseen: float) -> str:
    """What samples that are all equal leave open."""
    return f"all {n} samples are equal; up to {percentage(unseen)} of the population may differ unseen"


def too_much_unseen(n: int, unseen: float, most: float | None, confidence: float, unit: str = "sample") -> str:
    """Why samples that are all equal are too few; "" if they are not. What counts is the number of each `unit`, such as patients."""
    if most is None or not unseen > most:
        return ""
    needed = math.ceil(math.log(1.0 - confidence) / math.log1p(-most))
    return f"{equal_text(n, unseen)}, more than {100 * most:g} %; {needed} equal {count(needed, unit).partition(' ')[2]} are needed"


def reason_against(row: Row, end: str, sign: str, bound: float) -> str:
    """Why a row does not hold a rule; "" if it does."""
    if row["state"] == State.PENDING:
        return f"pending, {row['cells_measured']} of {row['cells']} cells are measured"
    if row["failed"]:
        return str(row["failed"])
    holds = row["state"] == State.DONE and math.isfinite(row[end]) and HOLDS[sign](row[end], bound)
    return "" if holds else end_text(row, end)


def undecided(row: Row, end: str, sign: str, bound: float) -> bool:
    """Whether a rule that is not shown to hold may still hold: it is not measured to the end, the other end of the interval meets it, or
    there is no interval."""
    if row["state"] == State.PENDING:
        return True
    if row["failed"]:
        return False
    other = row["high" if end == "low" else "low"]
    return not math.isfinite(other) or bool(HOLDS[sign](other, bound))


def requirements(result: Any) -> tuple[list[dict[str, Any]], float]:
    """The rows of a result that a gate judges, marked if their score is in the map's own units, and their confidence."""
    from veracity.results import Result

    runs = {"": result} if isinstance(result, Result) else result.results if getattr(result, "kind", None) is Kind.AUDITS else {}
    table = result.table() if isinstance(result, Result) else result.requirements()
    units = {(name, score) for name, run in runs.items() for score in run.manifest["score_specs"] if run.in_map_units(score)}
    people = {name: (run.manifest["data"].get("units") or {}).get("name", "") for name, run in runs.items()}
    rows = [
        {**row, "in_map_units": (row.get("audit", ""), row["score"]) in units, "unit": people.get(row.get("audit", ""), "")}
        for row in table.to_dict("records")
    ]
    if getattr(result, "kind", None) is Kind.CARD:
        about = {"model": result.record.model, "control": False, "in_map_units": False}
        said = result.table().rename(columns={"question": "score"}).to_dict("records")
        rows += [{**about, **{str(name): value for name, value in row.items()}} for row in said]
    confidence = result.manifest["spec"].get("confidence", 0.95) if isinstance(result, Result) else result.confidence
    return rows, float(confidence)


def check_questions(rows: Sequence[Row], rules: Sequence[str]) -> None:
    """Refuse a rule without a sign that is no question of a card."""
    words = {row["score"] for row in rows if "word" in row}
    for rule in rules:
        if words and rule.strip().isidentifier() and rule.strip() not in words:
            raise unknown("question of a card", rule.strip(), words)


def check_units(rows: Sequence[Row], rules: Sequence[str], explainers: Sequence[str]) -> None:
    """Refuse one bound for several explainers by a score in the map's own units."""
    words = {row["score"] for row in rows if "word" in row}
    for score in dict.fromkeys(parse_rule(rule)[0] for rule in rules if rule.strip() not in words):
        measured = {row["explainer"] for row in rows if row["score"] == score and row["in_map_units"] and not row["control"]} - {""}
        chosen = measured & set(explainers) if explainers else measured
        if len(chosen) > 1:
            raise SpecError(
                f"The score '{score}' is in each map's own units, so one bound cannot hold for {len(chosen)} explainers: choose one "
                "with --explainer."
            )


def end_text(row: Row, end: str) -> str:
    """Why a row does not hold: its end, or that there is none.

    >>> row = {"n": 30, "value": -100.0, "bound": True, "low": -math.inf, "high": -9.5}
    >>> end_text(row, "low"), end_text(row, "high")
    ('low end not known, since samples are censored', 'high end -9.5 of at most -100')
    """
    value = row[end]
    if math.isnan(value) and math.isfinite(row.get("pairs_same", math.nan)):
        return "no interval: reco never has one, reco_ks and reco_auc need 10 samples in the smaller of S= and S!=, mege 5 in S="
    if math.isnan(value):
        few = f"{row['n']} samples are too few for it, or share a single draw"
        if row["n"] < 2:
            few = f"only {row['n']} sample has a value" if row["n"] == 1 else "no sample has a value"
        return f"no interval, since {few}"
    if math.isinf(value):
        return f"{end} end not known, since samples are censored"
    return f"{end} end {value:.6g} of {'at most ' if row['bound'] else ''}{row['value']:.6g}"


def parse_rule(rule: str) -> tuple[str, str, float]:
    """A rule's score, sign and bound.

    >>> parse_rule("equivariance>=0.9")
    ('equivariance', '>=', 0.9)
    """
    with suppress(ValueError):
        if match := RULE.match(rule):
            return match["score"], match["sign"], float(match["bound"])
    raise SpecError(f"A requirement is written like equivariance>=0.9, not '{rule}'.")


def github_line(level: str, title: str, message: str) -> str:
    r"""An annotation of a GitHub workflow, one line.

    >>> github_line("error", "gate: a>=1, b", "50 % of\nall")
    '::error title=gate%3A a>=1%2C b::50 %25 of%0Aall'
    """

    def escaped(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    return f"::{level} title={escaped(title).replace(':', '%3A').replace(',', '%2C')}::{escaped(message)}"


def junit(verdict: Verdict) -> str:
    """The verdict as JUnit XML: a test case for each row that was judged."""
    numbers = {"tests": str(verdict.count), "failures": str(len(verdict.failures)), "errors": "0", "skipped": "0"}
    suites = ElementTree.Element("testsuites", {"name": "veracity gate", **numbers})
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "veracity gate", **numbers})
    for case in verdict.cases:
        element = ElementTree.SubElement(suite, "testcase", classname=printable(case.who), name=printable(case.asked), time="0")
        if case.failure:
            ElementTree.SubElement(element, "failure", message=printable(case.failure), type=case.state).text = printable(case.said)
        elif case.note:
            ElementTree.SubElement(element, "system-out").text = printable(case.said)
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def printable(text: str) -> str:
    r"""A text with a question mark for each character that XML does not allow.

    >>> printable("a\x00b")
    'a?b'
    """
    return NOT_XML.sub("?", text)
