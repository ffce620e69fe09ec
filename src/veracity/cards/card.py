"""The card: one page per model that answers six questions about its explainers, as a study of ordinary audits in one folder."""

from __future__ import annotations

import json
import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import pandas as pd
import torch
from torch import nn

from veracity.audit import Audit
from veracity.cards.collect import collect
from veracity.cards.decide import Standing, Word
from veracity.cards.plan import ALONG, AUTO, NOISE, RADIUS, SEARCHED, Plan, listed, on_rows, plan, search_scores, seconds_of, written
from veracity.cards.questions import MAPS, SCAN, SEARCH, SYMMETRY, TRAINING
from veracity.cards.reading import Reading
from veracity.cards.record import AnswerRecord, CardRecord, ExplainerRecord
from veracity.core.errors import InputError, Note, SpecError, unknown
from veracity.core.graphs import EdgeInputs, GraphInputs, NodeInputs
from veracity.core.inputs import Inputs, TokenInputs
from veracity.core.settings import Count, check_fields, short_repr
from veracity.core.spaces import InputSpace
from veracity.core.training import CrossTrained
from veracity.core.wording import duration
from veracity.engine.executors import Executor
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.store.study import findings, study
from veracity.engine.versions import versions
from veracity.inputs import TextInputs
from veracity.results import Result
from veracity.results.pages import FRAME, save_text
from veracity.studies.result import StudyResult, gate_rows
from veracity.studies.symmetry_scan import KeptSymmetry, Verdict, scan
from veracity.walk import Exhaustive, MonteCarlo

BUDGET = "5m"
FOLDS = 5
ASKED = 2
"""How many kept symmetries are asked of explanations."""
PART_OF = {"window_shift": "cyclic_shift", "flips": "d4", "c4": "d4", "mirror": "d4", "cube_rotations": "so3"}
"""Symmetries that are kept with a larger one."""
PAGE, JSON, MARKDOWN = "card.html", "card.json", "card.md"


@dataclass(frozen=True)
class Card(StudyResult):
    """A card: the answers to six questions about every explainer of a model."""

    kind: ClassVar[Kind] = Kind.CARD
    record: CardRecord = field(repr=False)

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

    def answer(self, question: str, explainer: str) -> AnswerRecord:
        """The answer to a question, by its key such as "faithful", about an explainer."""
        if explainer not in self.explainers:
            raise unknown("explainer of this card", explainer, self.explainers)
        found = {one.question: one for one in self.explainers[explainer].answers}
        if question not in found:
            raise unknown("question of a card", question, found)
        return found[question]

    def word(self, question: str, explainer: str) -> str:
        """The word of an answer: "holds", "falls short", "cannot tell yet" or "does not apply"."""
        return self.answer(question, explainer).word

    def holds(self, question: str, explainer: str) -> bool:
        """Whether an explainer holds on a question."""
        return self.word(question, explainer) == Word.HOLDS

    def table(self) -> pd.DataFrame:
        """One row per explainer and question: the word and its sentence."""
        return pd.DataFrame(
            [
                {"explainer": name, "question": said.question, "word": said.word, "sentence": said.sentence}
                for name, one in self.explainers.items()
                for said in one.answers
            ],
            columns=["explainer", "question", "word", "sentence"],
        )

    def numbers(self) -> pd.DataFrame:
        """One row per explainer, question and check: the numbers behind the words."""
        rows = [
            {"explainer": name, "question": said.question, **check.model_dump()}
            for name, one in self.explainers.items()
            for said in one.answers
            for check in said.checks
        ]
        return pd.DataFrame(rows)

    def requirements(self) -> pd.DataFrame:
        """The value of every check with its interval, by the name of the check, such as `deletion`."""
        rows = []
        for row in self.numbers().to_dict("records"):
            numbers = {name: math.nan if row[name] is None else row[name] for name in ("value", "low", "high")}
            rows.append({"model": self.record.model, "explainer": row["explainer"], "score": row["check"], **numbers, "n": row["n"]})
        return gate_rows(rows)

    def __str__(self) -> str:
        from veracity.cards.page import text

        return text(self.record)

    def _repr_html_(self) -> str:
        """The page, for a notebook."""
        from html import escape

        from veracity.cards.page import html

        return FRAME.format(escape(html(self.record)))

    def save_report(self, path: str | Path) -> Path:
        """Write the page, one HTML file that opens anywhere."""
        from veracity.cards.page import html

        return save_text(lambda: html(self.record), path)

    def save(self, folder: str | Path) -> list[Path]:
        """Write card.html, card.json and card.md into a folder."""
        from veracity.cards.page import markdown

        where = Path(folder)
        content = json.dumps(self.findings(), indent=1, ensure_ascii=False) + "\n"
        return [
            self.save_report(where / PAGE),
            save_text(lambda: content, where / JSON),
            save_text(lambda: markdown(self.record), where / MARKDOWN),
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class CardStudy:
    """What to make a card of: an audit of one model, which gives the data, the explainers and all settings but scores.

    audit      with explainers="auto", all explainers of this package that fit the model and its inputs are taken
    trainer    for question 5: a function (inputs, targets, seed) -> model, the name of a trainer, or a CrossTrained
    budget     about how long it may take on a modest machine, such as "90s", "10m" or a number of seconds
    samples    how many samples to use instead of as many as the budget allows
    """

    audit: Audit
    trainer: Any = None
    budget: Any = BUDGET
    samples: Count | None = None

    def __post_init__(self) -> None:
        """Check every plain setting."""
        check_fields(self, "the card", others=("audit", "trainer", "budget"))
        seconds_of(self.budget)
        if not isinstance(self.audit, Audit):
            raise InputError(f"A card is made of an Audit, not {type(self.audit).__name__}: call veracity.card(model, inputs, targets).")
        models = list(self.audit.modules)
        if len(models) != 1:
            raise InputError(f"A card is about one model, not {len(models)}: make one card for each.")
        if isinstance(self.audit.modules[models[0]], CrossTrained):
            raise InputError(
                f"A card is about one trained model, but '{models[0]}' is cross-trained: pass it as trainer=... beside a model."
            )

    @property
    def name(self) -> str:
        """The model's name."""
        return next(iter(self.audit.modules))

    def on(self, device: str) -> CardStudy:
        """The same card with its model on a device."""
        return replace(self, audit=self.audit.on(device))

    def run(
        self,
        folder: str | Path,
        *,
        workers: int = 1,
        on: Executor | str | None = None,
        batch: int | None = None,
        memory: int | None = None,
        progress: bool = True,
    ) -> Card:
        """Measure what the folder does not hold yet, and answer the questions; the same call goes on where it was stopped."""
        store = RunFolder(str(folder))
        store.check_writable(Kind.CARD)
        crossed = self.crossed()
        chosen = plan(self.audit, self.budget, self.samples)
        how: dict[str, Any] = {"workers": workers, "on": on, "batch": batch, "memory": memory, "progress": progress}
        searched = chosen.searches and chosen.scale > 0
        parts = [MAPS, SCAN, *([SEARCH] if searched else []), *([TRAINING] if crossed else [])]
        settings = {"budget": str(self.budget), "samples": len(chosen.rows), "seed": self.audit.seed}
        about: dict[str, Any] = {"title": self.title, "settings": settings, "versions": versions()}
        with study(store, Kind.CARD, parts, **about) as written_study, quietly():
            results, missing, symmetries = dict[str, Result](), dict[str, Standing](), dict[str, tuple[str, float | None]]()
            missing |= {score: Standing(word=Word.NOT_ASKED, why=lowered(why)) for score, why in chosen.unmeasured.items()}
            results[MAPS] = replace(chosen.audit, scores=chosen.scores, title=f"{self.title}: questions 0 to 2").run(
                f"{folder}/{MAPS}", **how
            )
            self.symmetric(chosen, folder, how, results, missing, symmetries)
            self.searched(chosen, folder, how, results, missing, searched)
            if crossed is None:
                missing[TRAINING] = Standing(word=Word.UNTOLD, why="nobody gave a trainer or models of folds, so this is open")
            else:
                results[TRAINING] = self.trained(chosen, crossed, folder, how)
            reading = Reading(results, self.name, len(chosen.rows), classes_of(chosen.audit), missing, symmetries)
            asked = list(chosen.audit.explainers)
            record = collect(reading, asked, confidence=self.audit.confidence, about=self.about(chosen, results[MAPS], searched))
            found = Card(record, title=self.title, path=store.root, confidence=self.audit.confidence)
            written_study.conclude(found.findings())
        return found

    @property
    def title(self) -> str:
        """The title of the page."""
        return self.audit.title or f"Which explanation can you trust for '{self.name}'?"

    def crossed(self) -> CrossTrained | None:
        """The learning algorithm for question 5; raises if it cannot be one."""
        given = self.trainer
        if given is None:
            return None
        if isinstance(given, (list, tuple)):
            raise SpecError(
                "Models of folds need to know which samples they were not trained on: pass trainer=CrossTrained(models=[...], folds=[...])."
            )
        if not (isinstance(given, (CrossTrained, str)) or callable(given)):
            raise SpecError(
                f"A trainer is a function (inputs, targets, seed) -> model, a name, or a CrossTrained, not {short_repr(given)}."
            )
        if self.audit.labels is None:
            raise InputError("Question 5 trains models again, for which it needs the targets: pass targets=...")
        return given if isinstance(given, CrossTrained) else CrossTrained(fit=given, folds=FOLDS)

    def symmetric(
        self,
        chosen: Plan,
        folder: str | Path,
        how: Mapping[str, Any],
        results: dict[str, Result],
        missing: dict[str, Standing],
        symmetries: dict[str, tuple[str, float | None]],
    ) -> None:
        """Find the symmetries that the model keeps, and ask explanations for the largest of them."""
        module = self.audit.modules[self.name]
        try:
            assert isinstance(module, nn.Module)
            found = scan(module, scanned(chosen.audit), folder=f"{folder}/{SCAN}", seed=self.audit.seed, progress=False)
        except InputError as error:
            missing[SYMMETRY] = Standing(word=Word.NOT_ASKED, why=lowered(str(error)))
            return
        kept = largest_kept(found.rows)
        if not kept:
            best = found.rows[0]
            why = f"the model keeps none of the {len(found.rows)} symmetries that were tried; it comes closest with {best.symmetry}"
            missing[SYMMETRY] = Standing(word=Word.NOT_ASKED, why=f"{why} ({best.moved:.2f})")
        for row in kept:
            if row.space is None:
                continue
            part = f"{SYMMETRY}-{row.space.name}"
            walk = Exhaustive() if row.elements is not None and row.elements <= ALONG else MonteCarlo(draws=ALONG)
            asked = replace(chosen.audit, symmetry=row.space, walk=walk, scores=["symmetry"], title=f"{self.title}: {row.symmetry}")
            results[part] = asked.run(f"{folder}/{part}", **how)
            symmetries[part] = (words_for(row.space), row.elements)

    def searched(
        self,
        chosen: Plan,
        folder: str | Path,
        how: Mapping[str, Any],
        results: dict[str, Result],
        missing: dict[str, Standing],
        within: bool,
    ) -> None:
        """Search for misleading points around some samples, if the budget allows it."""
        if chosen.scale <= 0:
            missing[SEARCH] = Standing(word=Word.NOT_ASKED, why="the inputs do not vary, so that no ball around them has a size")
            return
        if not within:
            need = written(chosen.seconds + chosen.seconds_to_search)
            took = duration(chosen.seconds_to_search)
            why = f"the search takes about {took}, which this budget does not allow: raise it to {need}"
            missing[SEARCH] = Standing(word=Word.UNTOLD, why=why)
            return
        rows = torch.arange(min(SEARCHED, len(chosen.rows)))
        some = replace(on_rows(replace(chosen.audit, explainers=None), rows), explainers=chosen.audit.explainers)
        asked = replace(some, scores=search_scores(chosen.scale), controls=False, companions=False, title=f"{self.title}: question 4")
        try:
            results[SEARCH] = asked.run(f"{folder}/{SEARCH}", **how)
        except InputError as error:
            missing[SEARCH] = Standing(word=Word.NOT_ASKED, why=lowered(str(error)))

    def trained(self, chosen: Plan, crossed: CrossTrained, folder: str | Path, how: Mapping[str, Any]) -> Result:
        """Train models without parts of the data, and compare their explanations."""
        placed = (
            crossed if crossed.data is not None else replace(crossed, data=(self.audit.given.samples, self.audit.labels), place=chosen.rows)
        )
        asked = replace(chosen.audit, models={self.name: placed}, scores=["mege", "reco_ks"], title=f"{self.title}: question 5")
        return asked.run(f"{folder}/{TRAINING}", **how)

    def about(self, chosen: Plan, maps: Result, searched: bool) -> dict[str, Any]:
        """What the record says beside the answers."""
        labels = chosen.audit.labels
        majority = None
        if labels is not None and labels.ndim == 1 and not labels.is_floating_point():
            majority = float(labels.bincount().max()) / len(labels)
        accuracy = maps.manifest["models"][self.name]["accuracy"]
        told = [str(note["text"]) for note in maps.manifest.get("notes") or [] if note.get("text")]
        return {
            "title": self.title,
            "majority": majority,
            "modality": modality_of(self.audit.data),
            "available": chosen.size,
            "seed": self.audit.seed,
            "budget": str(self.budget),
            "noise": NOISE * chosen.scale if chosen.scale > 0 else None,
            "radius": RADIUS * chosen.scale if searched else None,
            "left_out": {**chosen.unfit, **chosen.costly},
            "notes": [*at_chance(accuracy, majority, len(chosen.rows)), *dict.fromkeys(told)],
            "versions": versions(),
        }


def card(
    model: Any,
    inputs: Any,
    targets: Any = None,
    *,
    explainers: Any = AUTO,
    trainer: Any = None,
    budget: Any = BUDGET,
    folder: str | Path | None = None,
    samples: int | None = None,
    name: str = "model",
    workers: int = 1,
    progress: bool = True,
    **settings: Any,
) -> Card:
    """Which explanation can you trust for this model? One page that answers six questions about each explainer.

    model       one model, in any form that `Audit` takes
    inputs      the data, and `targets` their classes; as many samples are used as the budget allows, in a fixed random order
    explainers  "auto" takes all of this package that fit; or names and explainers, as for `Audit`
    trainer     for question 5: a function (inputs, targets, seed) -> model, the name of a trainer, or a CrossTrained
    budget      about how long it may take on a modest machine: "90s", "10m", or a number of seconds
    folder      the run folder, which keeps all measurements and the page; the same call with a larger budget goes on there
    samples     how many samples to use instead
    settings    further settings of `Audit`, such as target, reference, outputs, seed, title

    Without a folder, nothing is kept: save the page with `card.save("here")`.
    """
    audit = Audit(models={name: model}, inputs=inputs, targets=targets, explainers=explainers, **settings)
    asked = CardStudy(audit=audit, trainer=trainer, budget=budget, samples=samples)
    where = nullcontext(str(folder)) if folder is not None else tempfile.TemporaryDirectory(prefix="veracity-")
    with where as root:
        found = asked.run(root, workers=workers, progress=progress)
        if folder is not None:
            found.save(root)
            return found
    return replace(found, path="")


@contextmanager
def quietly() -> Iterator[None]:
    """Without the notes of single audits: those that matter stand on the page."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        yield


def largest_kept(rows: list[KeptSymmetry]) -> list[KeptSymmetry]:
    """The first kept symmetries of a scan, each kind once: a shift along one axis is a part of that along both."""
    kept: dict[str, KeptSymmetry] = {}
    for row in rows:
        if row.verdict is Verdict.KEPT and row.space is not None and PART_OF.get(row.space.name) not in kept:
            kept.setdefault(row.space.name, row)
    return list(kept.values())[:ASKED]


def words_for(space: InputSpace) -> str:
    """A symmetry in words.

    >>> from veracity.perturb import CyclicShift, Mirror
    >>> words_for(CyclicShift(axes=(-2, -1))), words_for(Mirror(axis=-1))
    ('cyclic shift along the axes -2 and -1', 'mirror along the axis -1')
    """
    single = getattr(space, "axis", None)
    axes = getattr(space, "axes", None) or ([] if single is None else [single])
    where = f" along the {'axis' if len(axes) == 1 else 'axes'} {listed([str(axis) for axis in axes])}" if axes else ""
    return f"{space.name.replace('_', ' ')}{where}"


def scanned(audit: Audit) -> Inputs:
    """The samples that a scan moves."""
    return audit.data


def classes_of(audit: Audit) -> int:
    """How many outputs the model has; 0 if it cannot be seen."""
    ((name, model),) = audit.modules.items()
    from veracity.core.targets import as_target
    from veracity.engine.defaults import look

    sight = look(audit.data, name, model, as_target(audit.target)) if isinstance(model, nn.Module) else None
    if sight is None:
        return 0
    with torch.no_grad():
        return int(sight.signals.through(sight.module).shape[1])


def modality_of(data: Inputs) -> str:
    """What the inputs are, for what planted truth says about scores: by their kind, else by their axes."""
    if isinstance(data, (EdgeInputs, GraphInputs, NodeInputs)):
        return "graphs"
    if isinstance(data, (TextInputs, TokenInputs)):
        return "texts"
    return {1: "tables", 2: "series", 3: "images"}.get(len(data.shape), "")


def at_chance(accuracy: float | None, majority: float | None, samples: int) -> list[str]:
    """A sentence about a model that is no better than naming the most frequent class, within two standard errors.

    >>> at_chance(0.12, 0.1, 100)[0][:57]
    'The model is right on 12 % of these samples, and naming t'
    >>> at_chance(0.9, 0.1, 100)
    []
    """
    if accuracy is None or majority is None or accuracy > majority + 2.0 * math.sqrt(majority * (1.0 - majority) / samples):
        return []
    shares = [f"{100 * share:.0f} %" for share in (accuracy, majority)]
    return [
        f"The model is right on {shares[0]} of these samples, and naming the most frequent class would be right on {shares[1]}: it is not "
        "better than chance. An explanation may be true to such a model, but it says nothing about the task."
    ]


def lowered(text: str) -> str:
    """A sentence as a part of another one."""
    flat = " ".join(text.split()).rstrip(".")
    return flat[:1].lower() + flat[1:] if flat[1:2].islower() else flat
