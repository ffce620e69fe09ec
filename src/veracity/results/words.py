"""The sentences beside a run's numbers: assumptions, caveats, costs, ends of paths; and its table as text."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from veracity.core.sentences import tell
from veracity.core.wording import AT_MOST, count
from veracity.engine.store.state import State
from veracity.results.rows import Row
from veracity.scores.assumptions import sentence

if TYPE_CHECKING:
    from veracity.results.run import Result

MAIN = [
    "model",
    "explainer",
    "score",
    "value",
    "low",
    "high",
    "n",
    "units",
    "undefined",
    "samples_failed",
    "self_agreement",
    "random_control",
]
"""The columns of a table that are shown as text."""


@dataclass(frozen=True, kw_only=True)
class Assumed:
    """One score on one model: the assumption's label, on how many of `n` samples it `holds`, and that in a sentence."""

    model: str
    score: str
    assumption: str
    holds: int
    n: int
    text: str

    @property
    def fails(self) -> int:
        """On how many samples it does not hold."""
        return self.n - self.holds


def assumptions(run: Result, scores: Iterable[str], models: Sequence[str]) -> tuple[Assumed, ...]:
    """Every assumption of these scores that was measured, in their order."""
    labels = run.manifest.get("assumptions") or {}
    asked = [score for score in scores if score in labels]
    held = {label: holding(run, label) for label in dict.fromkeys(labels[score] for score in asked)}
    return tuple(
        assumed(run, model, score, labels[score], *held[labels[score]][model])
        for score in asked
        for model in models
        if model in held[labels[score]]
    )


def holding(run: Result, label: str) -> dict[str, tuple[int, int]]:
    """On how many samples an assumption holds, and for how many it is known, by model; empty if it was not measured."""
    found: dict[str, tuple[int, int]] = {}
    for one in run.series:
        if one.score == label and not one.pending and len(values := one.per_sample):
            holds, known = found.get(one.model, (0, 0))
            found[one.model] = (holds + int((values == 1).sum()), known + int(np.isfinite(values).sum()))
    return found


def assumed(run: Result, model: str, score: str, label: str, holds: int, n: int) -> Assumed:
    """One assumption with its sentence, which uses the run's name of the score."""
    own, other = run.known_score(score), run.known_score(label)
    text = tell("assumed.label", score, label, holds, n, samples=n) or tell("assumed.label_untold", score, label, assumed=1)
    if own.name and hasattr(other, "assumes"):
        text = score + sentence(own, other, holds, n).removeprefix(own.name)
    return Assumed(model=model, score=score, assumption=label, holds=holds, n=n, text=text)


def caveats(entries: Sequence[Mapping[str, Any]], score: str, models: Collection[str], explainers: Collection[str]) -> list[str]:
    """One sentence per caveat of the published figures that are shown, with the explainers that it is about.

    >>> told = {"model": "net", "score": "gef", "caveat": "come from another network"}
    >>> caveats([{**told, "explainer": "lime"}, {**told, "explainer": "shap"}], "gef", ["net"], ["lime", "shap"])
    ['The published figures of lime and shap come from another network.']
    """
    found: dict[str, list[str]] = {}
    for entry in entries:
        shown = entry.get("score") == score and entry.get("model") in models and entry.get("explainer") in explainers
        if shown and entry.get("caveat"):
            found.setdefault(str(entry["caveat"]), []).append(str(entry["explainer"]))
    return [f"The published figures of {join_names(list(dict.fromkeys(names)))} {caveat}." for caveat, names in found.items()]


def join_names(names: Sequence[str]) -> str:
    """Names with commas and an "and".

    >>> join_names(["a"]), join_names(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def of_units(data: Mapping[str, Any]) -> str:
    """How many units the samples belong to, in words; "" if each stands alone.

    >>> of_units({"samples": 4, "units": {"name": "patient", "of": [0, 1, 1, 0]}}), of_units({"samples": 4})
    ('2 patients', '')
    """
    known = data.get("units")
    return count(len(set(known["of"])), known["name"]) if known else ""


def units_lines(data: Mapping[str, Any]) -> list[str]:
    """A sentence about units, if there are some.

    >>> units_lines({"samples": 4, "units": {"name": "patient", "of": [0, 1, 1, 0]}})
    ['The 4 samples belong to 2 patients: the intervals are about other patients.']
    """
    found = of_units(data)
    others = count(2, data["units"]["name"]).removeprefix("2 ") if found else ""
    return [f"The {data['samples']:,} samples belong to {found}: the intervals are about other {others}."] if found else []


def strength_range(record: Mapping[str, Any]) -> str:
    """The 95 % range of a calibrated strength in words; "" if none was stored.

    >>> strength_range({"low": 5.412, "high": 11.75}), strength_range({})
    ('95 % range 5.41 to 11.8', '')
    """
    return f"95 % range {record['low']:.3g} to {record['high']:.3g}" if "low" in record else ""


def chance_level(record: Mapping[str, Any]) -> str:
    """What is used as the chance level if it is not 1/C; "" otherwise.

    >>> chance_level({"levels_off": True, "chance": 0.12, "classes": 10, "independent": 0.104})
    'agreement levels off at 0.12, which is used as the chance level instead of 1/10; unrelated predictions would agree on 0.104'
    """
    if not record.get("levels_off"):
        return ""
    return (
        f"agreement levels off at {record['chance']:.3g}, which is used as the chance level instead of 1/{record['classes']}; "
        f"unrelated predictions would agree on {record['independent']:.3g}"
    )


def strength_lines(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line per calibrated path: its strength, the range of that strength, and the chance level if it is not 1/C."""
    lines = []
    for record in records:
        inside = f" ({strength_range(record)})" if strength_range(record) else ""
        beside = f"; {chance_level(record)}" if chance_level(record) else ""
        space = str(record["space"]).replace("_", " ")
        lines.append(f"{record['model']}: paths of {space} end at strength {record['sigma']:.3g}{inside}{beside}")
    return lines


def strict_lines(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line per score that was measured in TF32, with its strict value on some of the samples.

    >>> strict_lines([{"model": "net", "explainer": "IG", "score": "s", "samples": 16, "tf32": 0.5, "float32": 0.49, "largest": 0.1}])
    ['net, IG, s: 0.5 in tf32, 0.49 in float32 on the same 16 samples; one sample differs by up to 0.1']
    """
    return [
        f"{', '.join(filter(None, (one['model'], one['explainer'], one['score'])))}: {one['tf32']:.4g} in tf32, {one['float32']:.4g} in "
        f"float32 on the same {one['samples']} samples; one sample differs by up to {one['largest']:.2g}"
        for one in records
    ]


def cost(rows: Sequence[Row]) -> str:
    """How many evaluations one score took: for each explainer, and in all.

    >>> rows = [Row(model="net", explainer=name, score="s", value=0.5, evaluations=500) for name in "ab"]
    >>> cost(rows), cost(rows[:1])
    ('500 evaluations for each of 2 explainers, 1,000 in all.', '500 evaluations.')
    >>> cost([*rows, Row(model="net", explainer="c", score="s", value=0.5, evaluations=700)])
    '1,700 evaluations: 500 each for a, b; 700 for c.'
    """
    found = {row.explainer or row.model: row.evaluations for row in rows}
    total, what = sum(found.values()), "explainer" if any(row.explainer for row in rows) else "model"
    if len(found) < 2:
        return tell("spent.one", count(total, "evaluation"), evaluated=len(found))
    if len(set(found.values())) == 1:
        each = count(total // len(found), "evaluation")
        return tell("spent.each", each, count(len(found), what), f"{total:,}", evaluated=len(found))
    alike = {number: [name for name, other in found.items() if other == number] for number in found.values()}
    parts = [f"{number:,} {'each ' if len(names) > 1 else ''}for {', '.join(names)}" for number, names in alike.items()]
    return tell("spent.some", count(total, "evaluation"), "; ".join(parts), evaluated=len(found))


def set_columns(row: Row, digits: int = 3) -> dict[str, str]:
    """The columns of a score of two sets in a plain table, by heading.

    >>> row = Row(model="net", explainer="ig", score="reco", value=0.4, pairs_same=1200, pairs_differ=40, null_mean=0.05, p_value=0.001)
    >>> set_columns(row)
    {'S=': '1,200', 'S!=': '40', 'null': '0.050', 'null 95 %': '', 'p': '0.001'}
    """
    sizes = {"S=": row.pairs_same, "S!=": row.pairs_differ}
    numbers = {"null": row.null_mean, "null 95 %": row.null_high, "p": row.p_value}
    return {heading: "" if size is None else f"{size:,}" for heading, size in sizes.items()} | {
        heading: f"{value:.{digits}f}" if math.isfinite(value) else "" for heading, value in numbers.items()
    }


def as_text(rows: Sequence[Row]) -> str:
    """The main columns of a table with arrows for the better direction and signs for bounds; searches and pooled scores have more."""
    table = pd.DataFrame([row.record() for row in rows], columns=[*MAIN, "direction", "state", "unseen"])
    arrow = table["direction"].map({"higher": " ↑", "lower": " ↓"})
    main = [*MAIN, "state"] if (table["state"] != State.DONE).any() else MAIN
    nothing = [name for name in ("undefined", "samples_failed") if not table[name].any()]
    nothing += ["units"] if table["units"].isna().all() else []
    shown = table[main].assign(
        score=table["score"] + arrow,
        value=[value_text(row) for row in rows],
        low=["" if row.pending else at_most(row.low) for row in rows],
        high=["" if row.pending else at_most(row.high, math.isinf(row.low)) for row in rows],
    )
    shown = shown.drop(columns=nothing)
    shown = shown.astype({"units": "Int64"}) if "units" in shown else shown
    if any(row.no_response for row in rows):
        shown.insert(list(shown.columns).index("undefined") + 1, "no_response", [row.no_response for row in rows])
    if any(row.searched for row in rows):
        shown = shown.drop(columns=["self_agreement", "random_control"] if all(row.searched for row in rows) else []).assign(
            samples=[row.outcome or "" for row in rows], evaluations=[f"{row.evaluations:,}" if row.searched else "" for row in rows]
        )
    if any(row.pooled for row in rows):
        beside = [set_columns(row) if row.pooled else {} for row in rows]
        names = dict.fromkeys(name for record in beside for name, text in record.items() if text)
        shown = shown.assign(**{name: [record.get(name, "") for record in beside] for name in names})
    unseen = table["unseen"].where(table["state"] != State.PENDING)
    if unseen.notna().any():
        column = [f"≤ {math.ceil(1000 * share) / 1000:.3f}" if share > 0 else "" for share in unseen]
        shown.insert(list(shown.columns).index("high") + 1, "unseen", column)
    return str(shown.to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep=""))


def value_text(row: Row) -> str:
    """The value of a row; for a pending row also how many cells are measured."""
    text = at_most(row.value, row.bound)
    if not row.pending:
        return text
    return f"{text} so far, " * bool(text) + f"{row.cells_measured} of {row.cells} cells"


def at_most(value: float, bound: bool = False) -> str:
    """A number of a plain text table, with a sign if it is a `bound`; empty if there is none.

    >>> at_most(-9.5), at_most(-9.5, True), at_most(-math.inf)
    ('-9.500', '≤ -9.500', '')
    """
    return f"{AT_MOST} {value:.3f}" if bound and math.isfinite(value) else f"{value:.3f}" if math.isfinite(value) else ""
