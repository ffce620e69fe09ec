"""The card as a study: plan, run ordinary audits in one folder, and collect what they say about six questions."""

from __future__ import annotations

import inspect
import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from veracity.audit import Audit
from veracity.cards.case import cases_of, print_of, save_cases
from veracity.cards.checks import MAPS, SCAN, SEARCH, TRAINING
from veracity.cards.collect import collect
from veracity.cards.new_case import CasePlan
from veracity.cards.plan import AUTO, NOISE, RADIUS, Plan, on_rows, plan, seconds_of
from veracity.cards.racing import Race, looks
from veracity.cards.reading import Reading
from veracity.cards.remedies import remedies
from veracity.cards.result import Card
from veracity.cards.runs import Runs
from veracity.cards.trust import meta_verdicts
from veracity.core.errors import InputError, Note, SpecError, VeracityError, unknown
from veracity.core.graphs import EdgeInputs, GraphInputs, NodeInputs
from veracity.core.inputs import Inputs, TokenInputs, whole
from veracity.core.settings import Count, check_fields, short_repr
from veracity.core.targets import as_target
from veracity.core.training import CrossTrained
from veracity.core.wording import joined
from veracity.engine.admission import admit, first_pass
from veracity.engine.executors import Executor
from veracity.engine.resolve import as_outputs
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.store.study import FINDINGS, study
from veracity.engine.versions import versions
from veracity.inputs import SeveralInputs, TextInputs
from veracity.inputs.units import spoken
from veracity.results import Result

BUDGET = "5m"
FOLDS = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class CardStudy:
    """What to make a card of: an audit of one model, which gives the data, the explainers and all settings but scores.

    audit      with explainers="auto", all explainers of this package that fit the model and its inputs are taken
    trainer    for question 5: a function (inputs, targets, seed) -> model, the name of a trainer, or a CrossTrained
    budget     about how long it may take on a modest machine, such as "90s", "10m" or a number of seconds
    samples    how many samples to use instead of as many as the budget allows
    racing     whether explainers about which nothing is open get no more samples (see `racing`); without it, all get all samples
    advise     whether explainers that do not follow a symmetry of the model are changed and measured again (see `studies.advice`)
    """

    audit: Audit
    trainer: Any = None
    budget: Any = BUDGET
    samples: Count | None = None
    racing: bool = True
    advise: bool = False

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
        if "://" in str(folder):
            raise SpecError(f"A card writes its page into a folder on a disk, not into {folder}: give another folder.")
        store = RunFolder(str(folder))
        store.check_writable(Kind.CARD)
        crossed, dropped = self.crossed(), self.dropped_groups(store)
        chosen = plan(replace(self.audit, controls=True, companions=True), self.budget, self.samples)
        how: dict[str, Any] = {"workers": workers, "on": on, "batch": batch, "memory": memory, "progress": progress}
        parts = [MAPS, SCAN, *([SEARCH] if chosen.searches else []), *([TRAINING] if crossed else [])]
        settings = {"budget": str(self.budget), "samples": len(chosen.rows), "seed": self.audit.seed}
        about: dict[str, Any] = {"title": self.title, "settings": settings, "versions": versions()}
        with study(store, Kind.CARD, parts, **about) as kept, quietly():
            early = self.racing and not chosen.audit.subgroups  # whose words need all samples
            race = Race(list(chosen.audit.explainers), len(chosen.rows), self.audit.confidence, early=early, shares=chosen.shares)
            runs = Runs(chosen, self.title, folder, how)
            reading = runs.measure(crossed, self.audit, race)
            told = self.about(chosen, reading.results[MAPS], reading.samples)
            beside, notes = self.beside(runs, reading)
            told |= beside | {"notes": [*told["notes"], *notes, *dropped]}
            record, judged = collect(reading, race.explainers, confidence=race.confidences[-1], about=told, race=race)
            titles = {part: words for part, (words, _) in reading.symmetries.items()}
            rows, prints = chosen.rows[: reading.samples].tolist(), prints_of(chosen.audit.data)[: reading.samples]
            cases = cases_of(judged, rows, prints, reading.units, titles)
            save_cases(store, cases)
            measures = CasePlan.of(runs.audits, reading.results, reading.symmetries)
            found = Card(record, cases, measures, title=self.title, path=store.root, confidence=self.audit.confidence)
            kept.conclude(found.findings())
        return found

    def beside(self, runs: Runs, reading: Reading) -> tuple[dict[str, Any], list[str]]:
        """What the record says of a meta-evaluation and of advice, with notes on what could not be said."""
        meta, notes = meta_verdicts(runs.folder, reading.about["fingerprint"])
        advice, more = remedies(runs) if self.advise else (None, [])
        return {"meta": meta, "advice": advice}, [*notes, *more]

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
        found = given if isinstance(given, CrossTrained) else CrossTrained(fit=given, folds=FOLDS)
        found.check()
        if not found.models:
            check_trainer(found.trainer())
        return found

    def all_to_all(self, chosen: Plan) -> list[str]:
        """A sentence if there is no race because of subgroups."""
        if not (self.racing and chosen.audit.subgroups and len(looks(len(chosen.rows))) > 1):
            return []
        return ["Racing is off, because the words of subgroups need all samples: no explainer was stopped early."]

    def dropped_groups(self, store: RunFolder) -> list[str]:
        """A sentence if the card that the folder holds has subgroups, and this one is made without them."""
        if self.audit.subgroups or not store.files.exists(FINDINGS):
            return []
        with suppress(VeracityError, ValueError):
            before = Card.read(store, store.manifest(Kind.CARD)).record
            if names := list(dict.fromkeys(spoken(one.by) for one in before.groups)):
                return [f"The card before this one had subgroups by {joined(names)}. It was made again without by=..., so they are gone."]
        return []

    def about(self, chosen: Plan, maps: Result, samples: int) -> dict[str, Any]:
        """What the record says beside the answers; the accuracy is that on the samples that were used."""
        labels, majority = chosen.audit.labels, None
        accuracy = maps.manifest["models"][self.name]["accuracy"]
        if labels is not None and samples < len(chosen.rows):
            labels = labels[:samples]
            accuracy = None if accuracy is None else accuracy_on(chosen.audit, self.name, samples)
        if accuracy is not None and labels is not None and labels.ndim == 1 and not labels.is_floating_point():
            majority = float(labels.unique(return_counts=True)[1].max()) / len(labels)
        told = [note_text(note) for note in maps.manifest.get("notes") or [] if note.get("text")]
        return {
            "title": self.title,
            "unit": (maps.manifest["data"].get("units") or {"name": ""})["name"],
            "majority": majority,
            "modality": modality_of(self.audit.data),
            "available": chosen.size,
            "seed": self.audit.seed,
            "confidence": self.audit.confidence,
            "planned": len(chosen.rows),
            "budget": str(self.budget),
            "noise": NOISE * chosen.scale if chosen.scale > 0 else None,
            "radius": RADIUS * chosen.scale if chosen.searches else None,
            "left_out": {**chosen.unfit, **chosen.costly},
            "accuracy": accuracy,
            "notes": [*at_chance(accuracy, majority, samples), *dict.fromkeys(told), *self.all_to_all(chosen)],
            "versions": versions(),
        }


def check_trainer(fit: Any) -> None:
    """Raise if a trainer cannot be called with (inputs, targets, seed), before anything is measured."""
    try:
        asked = inspect.signature(fit)
    except (TypeError, ValueError):  # some callables have none
        return
    try:
        asked.bind(None, None, 0)
    except TypeError:
        raise SpecError(f"A trainer is a function (inputs, targets, seed) -> model, and this one takes {asked}.") from None


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
    racing: bool = True,
    advise: bool = False,
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
    racing      whether explainers about which nothing is open get no more samples; False gives all samples to all
    advise      whether to change explainers that do not follow a symmetry of the model, and to say what that gains
    settings    further settings of `Audit`, such as units (which samples belong to one patient), by (subgroups), target, seed, title

    Without a folder, nothing is kept: save the page with `card.save("here")`.
    """
    if own := [key for key in ("scores", "models") if key in settings]:
        raise SpecError(f"A card chooses its own {own[0]}: leave {own[0]}=... out, or measure them with veracity.Audit.")
    known = [one.name for one in fields(Audit) if one.init and one.name not in ("scores", "models")]
    if odd := [key for key in settings if key not in known]:
        raise unknown("setting of a card", odd[0], [*known, *(one for one in inspect.signature(card).parameters if one != "settings")])
    audit = Audit(models={name: model}, inputs=inputs, targets=targets, explainers=explainers, **settings)
    asked = CardStudy(audit=audit, trainer=trainer, budget=budget, samples=samples, racing=racing, advise=advise)
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


def accuracy_on(audit: Audit, name: str, samples: int) -> float | None:
    """The model's accuracy on the first samples of an audit, as an audit of these alone would give it."""
    first = on_rows(audit, torch.arange(samples))
    module = first.modules[name]
    if not isinstance(module, nn.Module):
        return None
    adapted, budget = first_pass(name, first.data.adapt(module), first.data, None, None, 1)
    return admit(name, adapted, first.data, first.labels, as_target(first.target), as_outputs(first.outputs), budget)[1]


def prints_of(data: Inputs) -> list[str]:
    """The hashes by which `card.case(x)` finds an input; none of inputs that are no single array of numbers."""
    if isinstance(whole(data), (EdgeInputs, GraphInputs, NodeInputs, SeveralInputs, TextInputs, TokenInputs)):
        return []
    return [print_of(values) for part in torch.arange(data.size()).split(64) for values in data.take(part).values]


def modality_of(data: Inputs) -> str:
    """What the inputs are, for what planted truth says about scores: by their kind, else by their axes."""
    data = whole(data)
    if isinstance(data, (EdgeInputs, GraphInputs, NodeInputs)):
        return "graphs"
    if isinstance(data, (TextInputs, TokenInputs)):
        return "texts"
    return {1: "tables", 2: "series", 3: "images"}.get(len(data.shape), "")


def note_text(note: Mapping[str, str]) -> str:
    """A note of an audit with the explainer that it is about, unless it says so itself.

    >>> note_text({"explainer": "lime", "text": "its baseline is 0."}), note_text({"text": "masked values become 0."})
    ('lime: its baseline is 0.', 'masked values become 0.')
    """
    who, text = note.get("explainer", ""), note["text"]
    return f"{who}: {text}" if who and who not in text else text


def at_chance(accuracy: float | None, majority: float | None, samples: int) -> list[str]:
    """A sentence about a model that is not shown to beat naming the most frequent class by two standard errors.

    >>> at_chance(0.12, 0.1, 100)[0][:57]
    'The model is right on 12 % of these 100 samples, and nami'
    >>> at_chance(0.9, 0.1, 100)
    []
    """
    if accuracy is None or majority is None or accuracy > majority + 2.0 * math.sqrt(majority * (1.0 - majority) / samples):
        return []
    shares = [f"{100 * share:.0f} %" for share in (accuracy, majority)]
    return [
        f"The model is right on {shares[0]} of these {samples} samples, and naming the most frequent class would be right on {shares[1]}: "
        "this does not show that it is better than chance. If it is not, an explanation may still be true to the model, but it says "
        "nothing about the task."
    ]
