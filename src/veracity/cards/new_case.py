"""A new case, which no audit has seen: measure it as the card measured its samples, and place it among them.

The explainers, scores, controls, strengths of noise and reference values are those of the card; only the input is another one. Its random
draws are those of a first sample. Questions 4 and 5, a long search and trainings, are not asked of a single case.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from veracity.audit import DATA, Audit
from veracity.cards.case import Case, Cases, case_values, kept, place_of, sentences
from veracity.cards.changes import Side
from veracity.cards.checks import MAPS, Evidence
from veracity.cards.plan import NOISE, on_rows, order_of, scores_of
from veracity.cards.questions import QUESTIONS, evidence_for
from veracity.cards.reading import Reading
from veracity.cards.record import CardRecord
from veracity.core.component import encode_setting
from veracity.core.errors import InputError, Note, VeracityError
from veracity.core.explainers import Explainer
from veracity.core.features import Features
from veracity.core.inputs import FirstSamples, Inputs, TensorInputs
from veracity.core.models import device_of, evaluating, weight_type
from veracity.core.registry import EXPLAINERS
from veracity.core.scores import Subject
from veracity.core.settings import short_repr
from veracity.core.targets import Outputs
from veracity.core.wording import count, number
from veracity.engine.prepare import AuditPlan
from veracity.engine.resolve import as_models
from veracity.inputs.tables import TableInputs, table_of
from veracity.results import Result, Series
from veracity.studies.meta import with_strength

if TYPE_CHECKING:
    from veracity.cards.result import Card

MANY_CLASSES = 3
"""The record says which checks were asked, so that nobody looks for the number of classes again."""
ONE = torch.zeros(1, dtype=torch.long)
AT_HAND = "the card that veracity.card(...) returns knows them"


@dataclass(frozen=True)
class OneCase(FirstSamples):
    """A single new sample, beside the reference values of the audited ones."""

    known: Features | None = None

    @property
    def features(self) -> Features | None:
        """What the values mean."""
        return self.known


@dataclass(frozen=True, kw_only=True)
class CasePlan:
    """What measures a case as a card measured its samples.

    `settings` are those of the audit of each part but for its data, `symmetries` what the parts of question 3 ask for, `features` what the
    values of a table mean, and `table` the data of the card if they are a DataFrame. `content` is the hash of the card's model, and
    `absent` says why explainers cannot be made here.
    """

    name: str
    model: Any
    content: str
    settings: Mapping[str, Mapping[str, Any]]
    symmetries: Mapping[str, tuple[str, float | None]]
    shape: tuple[int, ...]
    features: Features | None = None
    table: TableInputs | None = None
    absent: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, audits: Mapping[str, Audit], results: Mapping[str, Result], symmetries: Mapping[str, tuple[str, float | None]]) -> CasePlan:
        """From the audits of a card that was just made."""
        audit, result = audits[MAPS], results[MAPS]
        ((name, model),) = audit.modules.items()
        about = result.manifest["models"][name]
        own = [one.name for one in fields(Audit) if one.name not in DATA]
        settings = {part: {key: getattr(audits[part], key) for key in own} | {"outputs": about["outputs"]} for part in (MAPS, *symmetries)}
        subject = Subject(name, next(iter(dict(audit.explainers).values())), audit.data.shape)
        settings[MAPS]["scores"] = {label: with_strength(one, subject, result) for label, one in dict(audit.scores).items()}
        features = replace(audit, scores=settings[MAPS]["scores"]).resolve().features
        given: dict[str, Any] = {"shape": tuple(audit.data.shape), "features": features, "symmetries": dict(symmetries)}
        given["table"] = table_of(audit.data)
        return cls(name=name, model=model, content=about["fingerprint"], settings=settings, **given)

    @classmethod
    def read(cls, card: Card, model: Any, inputs: Any) -> CasePlan:
        """From the folder of a card, a model, and the data of the card where these are needed."""
        side = Side(card)
        if not side.results:
            raise InputError(f"A new case is measured with the explainers and scores of the card, and its runs are gone: {AT_HAND}.")
        result, name = side.results[MAPS], card.record.model
        manifest = result.manifest
        spec, shape = manifest["spec"], tuple(manifest["data"]["shape"])
        if spec.get("reference") is not None:
            raise InputError(f"This card was made with reference samples, which its folder does not hold: {AT_HAND}.")
        explainers, absent = rebuilt(spec["explainers"])
        if not explainers:
            raise InputError(f"No explainer of this card can be made from its folder ({next(iter(absent.values()))}): {AT_HAND}.")
        scale = 0.0 if card.record.noise is None else float(f"{card.record.noise / NOISE:.2g}")
        scores = {label: one for label, one in scores_of(scale).items() if label in manifest["scores"]}
        if encode_setting(scores) != spec["scores"]:
            raise InputError("This card was made by another version, whose scores have other settings: make it again.")
        features, table = features_in(inputs, model, card, spec) if len(shape) == 1 else (None, None)
        subject = Subject(name, next(iter(explainers.values())), torch.Size(shape))
        about = manifest["models"][name]
        plain: dict[str, Any] = {key: spec[key] for key in ("target", "seed", "confidence")}
        plain |= {"explainers": explainers, "outputs": about["outputs"], "precision": spec.get("precision", "float32")}
        settings = {MAPS: {**plain, "scores": {label: with_strength(one, subject, result) for label, one in scores.items()}}}
        for part in side.symmetries:
            own = side.results[part].manifest["spec"]
            settings[part] = {**plain, "symmetry": own["symmetry"], "walk": own["walk"], "scores": ["symmetry"]}
        given: dict[str, Any] = {"shape": shape, "features": features, "table": table, "absent": absent, "symmetries": side.symmetries}
        return cls(name=name, model=model, content=about["fingerprint"], settings=settings, **given)

    def with_model(self, model: Any) -> CasePlan:
        """The same with a model that the user gives."""
        return replace(self, model=model)

    def audit(self, part: str, data: Inputs) -> Audit:
        """The audit of a part on one new case."""
        return Audit(models={self.name: self.model}, inputs=OneCase(data, 1, self.features), **self.settings[part])

    def data(self, which: Any, record: CardRecord) -> Inputs:
        """A new case as a data set of one sample; raises on one that is none, or has another shape or type than those of the card."""
        if self.table is not None:
            return self.row(which, self.table)
        if isinstance(which, np.ndarray):
            which = torch.from_numpy(np.ascontiguousarray(which))
        if isinstance(which, Tensor) and record.modality not in ("texts", "graphs"):
            return self.checked(which)
        alone = isinstance(which, str) or record.modality == "graphs"
        found: Inputs = Audit(models={self.name: self.model}, inputs=[which] if alone and not hasattr(which, "adapt") else which).data
        if found.size() != 1:
            raise InputError(f"A case is one sample, and this is {found.size()}: give one at a time.")
        if tuple(found.shape) != self.shape and record.modality != "texts":
            raise InputError(f"The case has the shape {tuple(found.shape)}, and the samples of this card have {self.shape}.")
        return found

    def row(self, which: Any, table: TableInputs) -> Inputs:
        """A row of a DataFrame as one sample, with the levels of categories that the card knows."""
        if not isinstance(which, pd.DataFrame):
            raise InputError("This card was made of a DataFrame: give the case as one row of such a table, as in frame.iloc[[3]].")
        lost = [name for name in table.names if name not in which.columns]
        if lost:
            raise InputError(f"The case has no column '{lost[0]}', which the table of this card has.")
        if len(which) != 1:
            raise InputError(f"A case is one sample, and this is {len(which)}: give one at a time, as in frame.iloc[[3]].")
        return replace(table, frame=which[list(table.names)]).with_levels(table.frame, "table of the card")

    def checked(self, values: Tensor) -> Inputs:
        """A tensor as one sample."""
        if not values.is_floating_point():
            kind = str(values.dtype).removeprefix("torch.")
            raise InputError(f"The case holds {kind}, and the samples of this card are floating-point numbers: prepare it as they were.")
        if tuple(values.shape) == self.shape:
            values = values[None]
        if tuple(values.shape[1:]) != self.shape:
            wanted = f"{self.shape} or {(1, *self.shape)}"
            raise InputError(f"The case has the shape {tuple(values.shape)}, and one of this card has {wanted}.")
        if len(values) != 1:
            raise InputError(f"A case is one sample, and this is {len(values)}: give one at a time, such as x[0].")
        if not bool(values.isfinite().all()):
            raise InputError(
                "The case holds values that are not finite (NaN or infinity): replace them as you did for the audited samples."
            )
        module = as_models({self.name: self.model})[self.name]
        weights = weight_type(module) if isinstance(module, nn.Module) else None
        return TensorInputs(values.detach() if weights is None else values.detach().to(weights))

    def measure(self, record: CardRecord, cases: Cases, which: Any) -> Case:
        """One new case among the audited ones."""
        if self.settings[MAPS]["target"] == "label":
            raise InputError(
                "This card explains the label of each sample, which a new case does not have: make it with target='predicted'."
            )
        if any(row.room is None and any(value is not None for value in row.values) for row in cases.rows):
            raise InputError("This card was made by an older version, which kept too little to place new cases: make it again.")
        with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="veracity-case-") as folder:
            warnings.simplefilter("ignore", Note)
            data = self.data(which, record)
            prepared = self.audit(MAPS, data).prepare()
            if prepared.problem.models[self.name].fingerprint != self.content:
                raise InputError(f"This is not the model '{self.name}' that the card is about: its weights or its code differ.")
            results = {part: self.audit(part, data).run(Path(folder) / part, progress=False) for part in self.settings}
            reading = CaseReading(results, self.name, 1, MANY_CLASSES, symmetries=self.symmetries, against=against(record))
            explainers = [one.name for one in record.explainers if not one.control and one.name not in self.absent]
            found = {name: values_by_check(reading, name, cases) for name in explainers}
            maps = {name: results[MAPS].explanations(self.name, name)[0] for name in explainers}
        rows = [row for row in cases.rows if row.explainer in found]
        places = [place_of(row, found[row.explainer].get((row.check, row.part), math.nan), cases, own=False) for row in rows]
        said = sentences(record, cases, places, {name: f"not measured for this case: {why}." for name, why in self.absent.items()})
        note = "Questions 4 and 5 are not asked of a new case, because they take a search and trainings."
        return Case(None, len(cases.samples), tuple(places), said, prediction(prepared, self.name), maps, (note,))


def plan_for(card: Card, which: Any, model: Any, inputs: Any) -> CasePlan:
    """What measures a new case; raises if it is no case, or if there is no model to measure it with."""
    several = isinstance(which, Mapping) and all(isinstance(one, (Tensor, np.ndarray)) for one in which.values())
    data = several or (hasattr(which, "take") and hasattr(which, "adapt"))
    known = data or isinstance(which, (Tensor, np.ndarray, pd.DataFrame, pd.Series))
    if not known and not (isinstance(which, str) and card.record.modality == "texts") and card.record.modality != "graphs":
        raise InputError(f"A case is the number of a sample, or its input as a tensor or an array, not {short_repr(which)}.")
    if card.measures is not None:
        return card.measures if model is None else card.measures.with_model(model)
    if model is None:
        raise InputError(
            f"This input is none of the {count(card.record.samples, 'sample')} that this card measured, and a new one is measured with the "
            "model: pass it, as in card.case(x, model=net)."
        )
    return CasePlan.read(card, model, inputs)


@dataclass(frozen=True)
class CaseReading(Reading):
    """The reading of a case, whose scores are compared with the controls that the card chose: `against` by explainer and score."""

    against: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def control(self, part: str, explainer: str, score: str, edges: bool) -> Series | None:
        """The control of the card."""
        label = self.against.get((explainer, score))
        return (
            self.series(part, label, score)
            if label is not None and label in self.controls
            else super().control(part, explainer, score, edges)
        )


def against(record: CardRecord) -> dict[tuple[str, str], str]:
    """What each score of each explainer was compared with."""
    return {(one.name, check.score): check.against for one in record.explainers for said in one.answers for check in said.checks}


def values_by_check(reading: Reading, explainer: str, cases: Cases) -> dict[tuple[str, str], float]:
    """The value of the case by each check and part, in the unit of the card."""
    rooms = {(row.check, row.part): (row.line, row.room) for row in cases.rows if row.explainer == explainer}
    found = {}
    for question in QUESTIONS:
        for (check, part), one in evidence_for(reading, explainer, question).items():
            line, room = rooms.get((check.key, part), (0.0, None))
            if isinstance(one, Evidence) and one.gap is not None and one.room is not None and room is not None:
                found[check.key, part] = kept(float(case_values(one.gap, one.room, line, room)[0]))
    return found


def prediction(prepared: AuditPlan, name: str) -> str:
    """What the model predicts for the case, in a sentence."""
    model = prepared.problem.models[name]
    with torch.no_grad(), evaluating(model.module):
        values = model.read(prepared.problem.inputs.take(ONE).to(device_of(model.module)))[0].cpu()
    if model.outputs is Outputs.RAW or values.ndim != 1:
        return f"The model gives {short_repr([round(float(one), 4) for one in values.flatten()[:4]])}."
    best = int(values.argmax())
    explained = int(model.targets[0])
    other = f"; class {explained} is explained" if explained != best and model.outputs is not Outputs.MULTILABEL else ""
    return f"The model predicts class {best} with the probability {number(float(values[best]), 2)}{other}."


def rebuilt(specs: Mapping[str, Any]) -> tuple[dict[str, Explainer], dict[str, str]]:
    """The explainers of a folder that are registered here, and why the others cannot be made: a folder never says what to import."""
    found, absent = dict[str, Explainer](), dict[str, str]()
    for label, spec in specs.items():
        foreign = not isinstance(spec, Mapping) or "code" in spec or spec.get("name") not in EXPLAINERS.own()
        try:
            made = None if foreign else EXPLAINERS.build(spec)
        except VeracityError:
            made = None
        if made is None or made.spec() != spec:
            absent[label] = f"its folder does not hold the function or the arrays that it is made of; {AT_HAND}"
        else:
            found[label] = made
    return found, absent


def features_in(inputs: Any, model: Any, card: Card, spec: Mapping[str, Any]) -> tuple[Features | None, TableInputs | None]:
    """What the values of a table mean, and the table if it is a DataFrame, from the data of the card."""
    if inputs is None:
        raise InputError(
            "Masked values of a table become the means of the audited rows, which this card's folder does not hold: give them, as in "
            "card.case(x, model=net, inputs=data)."
        )
    audit = Audit(models={card.record.model: model}, inputs=inputs, explainers=["saliency"], scores=["deletion"], seed=spec["seed"])
    rows = order_of(audit)[: card.record.planned or card.record.samples]
    chosen = on_rows(audit, rows)
    if Side(card).data != chosen.data.fingerprint():
        raise InputError("These are not the data that the card was made of: pass the same inputs=...")
    return chosen.resolve().features, table_of(chosen.data)
