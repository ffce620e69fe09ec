"""A card, read from its folder: the answers to six questions about every explainer of a model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pandas as pd

from veracity.cards.case import Case, Cases, audited_case, find, read_cases
from veracity.cards.checks import MAPS
from veracity.cards.claim import Claim, check_asked
from veracity.cards.record import AnswerRecord, CardRecord, ExplainerRecord
from veracity.core.errors import InputError, unknown
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.store.study import findings
from veracity.results.pages import frame, save_text
from veracity.studies.result import StudyResult, gate_rows

if TYPE_CHECKING:
    from veracity.cards.changes import Changes
    from veracity.cards.new_case import CasePlan

PAGE, JSON, MARKDOWN, LATEX = "card.html", "card.json", "card.md", "card.tex"


@dataclass(frozen=True)
class Card(StudyResult):
    """A card: the answers to six questions about every explainer of a model."""

    kind: ClassVar[Kind] = Kind.CARD
    record: CardRecord = field(repr=False)
    cases: Cases | None = field(default=None, repr=False)
    measures: CasePlan | None = field(default=None, repr=False, compare=False)

    @classmethod
    def read(cls, folder: RunFolder, manifest: Mapping[str, Any]) -> Self:
        """The card that a folder holds."""
        record = CardRecord.model_validate(findings(folder, CardRecord))
        return cls(record, title=manifest.get("title"), path=folder.root, confidence=record.confidence)

    def findings(self) -> dict[str, Any]:
        """The record as plain data: the content of card.json."""
        return self.record.model_dump()

    @cached_property
    def explainers(self) -> dict[str, ExplainerRecord]:
        """The explainers by name, without controls."""
        return {one.name: one for one in self.record.explainers if not one.control}

    @property
    def undominated(self) -> list[str]:
        """The explainers that depend on the model and that nobody dominates."""
        return list(self.record.undominated)

    def answer(self, question: str, explainer: str = "") -> AnswerRecord:
        """The answer to a question, by its key such as "faithful", about an explainer."""
        check_asked(self.record, question, explainer)
        if explainer not in self.explainers:
            raise unknown("explainer of this card", explainer, self.explainers)
        found = {one.question: one for one in self.explainers[explainer].answers}
        if question not in found:
            raise unknown("question of a card", question, found)
        return found[question]

    def word(self, question: str, explainer: str = "") -> str:
        """The word of an answer: "holds", "falls short", "cannot tell yet" or "does not apply"."""
        return self.answer(question, explainer).word

    def holds(self, question: str, explainer: str = "") -> Claim:
        """Whether an explainer holds on a question: true or false, and `assert` shows the card's sentence if it is false."""
        said = self.answer(question, explainer)
        titles = {one.key: one.title for one in self.record.questions}
        return Claim(explainer, titles[question], said.word, said.sentence)

    def changes_since(self, before: Card) -> Changes:
        """What got worse and better beyond chance since the card of an earlier version of the model."""
        from veracity.cards.changes import changes

        return changes(before, self)

    def case(self, sample: Any, *, model: Any = None, inputs: Any = None) -> Case:
        """One case among the audited ones: its percentile by every check, and a sentence about each explainer.

        An audited sample is found by its number in the data, or by its input. Any other input is explained and measured now, for which the
        model must be at hand: that of a card that was just made is, and a card that was read from a folder needs `model`, and for a table
        also the `inputs` of the card.
        """
        from veracity.cards.new_case import plan_for

        cases = read_cases(self.path) if self.cases is None else self.cases
        place = find(cases, sample)
        return (
            plan_for(self, sample, model, inputs).measure(self.record, cases, sample)
            if place is None
            else audited_case(self.record, cases, place)
        )

    def answers(self, by: str | None = None) -> list[tuple[dict[str, str], AnswerRecord]]:
        """Every answer with the explainer that it is about; with `by`, those of the subgroups by this name."""
        if by is None:
            return [({"explainer": name}, said) for name, one in self.explainers.items() for said in one.answers]
        known = dict.fromkeys(one.by for one in self.record.groups)
        if not known:
            raise InputError(f"This card has no subgroups: make it with by={{'{by}': labels}}, one label per sample, to get them.")
        if by not in known:
            raise unknown("grouping of this card", by, known)
        mine = [one for one in self.record.groups if one.by == by]
        return [({"group": group.label, "explainer": one.name}, said) for group in mine for one in group.explainers for said in one.answers]

    def table(self, by: str | None = None) -> pd.DataFrame:
        """One row per explainer and question: the word and its sentence. With `by`, such as "sex", one for each of its subgroups."""
        columns = [*([] if by is None else ["group"]), "explainer", "question", "word", "sentence"]
        rows = [{**who, "question": said.question, "word": said.word, "sentence": said.sentence} for who, said in self.answers(by)]
        return pd.DataFrame(rows, columns=columns)

    def numbers(self, by: str | None = None) -> pd.DataFrame:
        """One row per explainer, question and check: the numbers behind the words. With `by`, one for each of its subgroups."""
        rows = [{**who, "question": said.question, **check.model_dump()} for who, said in self.answers(by) for check in said.checks]
        return pd.DataFrame(rows)

    def requirements(self) -> pd.DataFrame:
        """The value of every check with its interval, by the name of the check, such as `deletion`."""
        rows = []
        for row in self.numbers().to_dict("records"):
            numbers = {name: math.nan if row[name] is None else row[name] for name in ("value", "low", "high")}
            rows.append({"model": self.record.model, "explainer": row["explainer"], "score": row["check"], **numbers, "n": row["n"]})
        return gate_rows(rows)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The words and the numbers behind them."""
        return {"table": self.table(), "numbers": self.numbers()}

    def parameters(self) -> dict[str, Any]:
        """What was measured: the model, its explainers and the settings of the card."""
        own = {name: getattr(self.record, name) for name in ("samples", "seed", "budget", "confidence", "undominated")}
        spec = RunFolder(f"{self.path}/{MAPS}").manifest().get("spec") or {} if self.path else {}
        precision = {"precision": spec.get("precision", "float32")} if spec else {}
        return {"models": [self.record.model], "explainers": list(self.explainers), **own, **precision}

    def write_pages(self, folder: Path) -> None:
        """Write all files of the card."""
        self.save(folder)

    def __str__(self) -> str:
        from veracity.cards.page import text

        return text(self.record)

    def _repr_html_(self) -> str:
        """The page, for a notebook."""
        from veracity.cards.page import html

        return frame(html(self.record))

    def save_report(self, path: str | Path) -> Path:
        """Write the page, one HTML file that opens anywhere."""
        from veracity.cards.page import html

        return save_text(lambda: html(self.record), path)

    def to_markdown(self, *, numbers: bool = False) -> str:
        """The words of every explainer as a Markdown table; with `numbers`, the numbers behind them."""
        from veracity.cards.tables import as_markdown

        return as_markdown(self.record, numbers=numbers)

    def to_latex(self, *, numbers: bool = False) -> str:
        """The words of every explainer as a LaTeX table, which needs no package; with `numbers`, the numbers behind them."""
        from veracity.cards.tables import as_latex

        return as_latex(self.record, numbers=numbers)

    def save(self, folder: str | Path) -> list[Path]:
        """Write card.html, card.json, card.md and card.tex into a folder."""
        from veracity.cards.page import markdown

        where = Path(folder)
        content = json.dumps(self.findings(), indent=1, ensure_ascii=False) + "\n"
        return [
            self.save_report(where / PAGE),
            save_text(lambda: content, where / JSON),
            save_text(lambda: markdown(self.record), where / MARKDOWN),
            save_text(self.to_latex, where / LATEX),
        ]
