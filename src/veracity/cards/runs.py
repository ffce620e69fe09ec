"""The runs of a card: ordinary audits in one folder, each for one or more questions, and why some of them were not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from veracity.audit import Audit
from veracity.cards.checks import MAPS, SCAN, SEARCH, SYMMETRY, TRAINING
from veracity.cards.decide import Standing, Word
from veracity.cards.plan import ALONG, SEARCHED, Plan, on_rows, search_scores, written
from veracity.cards.racing import Race, Round
from veracity.cards.reading import Reading
from veracity.core.errors import VeracityError
from veracity.core.inputs import TokenInputs, whole
from veracity.core.spaces import InputSpace
from veracity.core.targets import as_target
from veracity.core.training import CrossTrained
from veracity.core.wording import duration, joined
from veracity.engine.defaults import look
from veracity.engine.executors import as_executor
from veracity.inputs import TextInputs
from veracity.results import Result
from veracity.studies.symmetry_scan import KeptSymmetry, Verdict, scan
from veracity.walk import Exhaustive, MonteCarlo

OUT_BEFORE = "it was out before this was asked"
NOT_YET = Standing(word=Word.UNTOLD, why=OUT_BEFORE)
ASKED = 2
"""How many kept symmetries are asked of explanations."""
PART_OF = {"window_shift": "cyclic_shift", "flips": "d4", "c4": "d4", "mirror": "d4", "cube_rotations": "so3"}
"""Symmetries that are kept with a larger one."""
OF_PLACES = ("cyclic_shift", "window_shift", "mirror")
"""Symmetries that move values to places beside them, which the columns of a table do not have."""


@dataclass(frozen=True)
class Runs:
    """The runs that were made so far, by part of the folder; `how` are the settings of every run.

    `missing` says why a part or a score was not measured, and `symmetries` what the parts of question 3 ask for: (words, elements).
    """

    chosen: Plan
    title: str
    folder: str | Path
    how: Mapping[str, Any]
    results: dict[str, Result] = field(default_factory=dict)
    missing: dict[str, Standing] = field(default_factory=dict)
    symmetries: dict[str, tuple[str, float | None]] = field(default_factory=dict)
    audits: dict[str, Audit] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The model's name."""
        return next(iter(self.chosen.audit.modules))

    def run(self, part: str, audit: Audit, about: str, stop: int | None = None, race: Race | None = None) -> None:
        """Measure a part, or what is left of it; in a `race`, what it still wants of the first samples up to `stop`."""
        how = dict(self.how)
        if stop is not None and race is not None:
            where = as_executor(how.get("on"), how.get("workers", 1))
            how["on"] = Round(where=where, stop=stop, wanted=partial(race.wants, part))
        self.audits[part] = audit
        self.results[part] = replace(audit, title=f"{self.title}: {about}").run(f"{self.folder}/{part}", **how)

    def leave_out(self, part: str, word: Word, why: str) -> None:
        """Say why a part or a score is not measured."""
        self.missing[part] = Standing(word=word, why=lowered(why))

    def measure(self, crossed: CrossTrained | None, everything: Audit, race: Race) -> Reading:
        """Measure all parts, in the rounds of a race: what is asked of every sample in nested prefixes, and the rest once.

        Questions 4 and 5 follow the first look, for those that are not out by then. Until they are answered, nobody is dominated.
        """
        for score, why in self.chosen.unmeasured.items():
            self.leave_out(score, Word.NOT_ASKED, why)
        symmetries: list[tuple[InputSpace, float | None]] = []
        for number, size in enumerate(race.sizes):
            ends, stop = size == race.sizes[-1], None if len(race.sizes) == 1 else size
            self.run(MAPS, replace(self.chosen.audit, scores=self.chosen.scores), "questions 0 to 2", stop, race)
            symmetries = symmetries or ([] if number else self.kept_symmetries())
            for space, elements in symmetries:
                self.measure_symmetry(space, elements, stop, race)
            once = number == 0 and (self.chosen.searches or crossed is not None)
            if once and not ends:
                race.look(self.reading(size, asked=False), compared=False)
            if number == 0:
                self.search(list(race.told))
                self.train(crossed, everything, list(race.told))
            if not ends and not once:
                race.look(self.reading(size))
            if ends or not race.inside:
                return self.reading(size)
        raise AssertionError("a race has an end")

    def reading(self, samples: int, asked: bool = True) -> Reading:
        """What the first samples say; before questions 4 and 5 are `asked`, that they are open."""
        missing = self.missing if asked else {**self.missing, **dict.fromkeys((SEARCH, TRAINING), NOT_YET)}
        given = (self.results.copy(), self.name, samples, classes_of(self.chosen.audit), missing, self.symmetries)
        return Reading(*given, whole=(TRAINING,))

    def kept_symmetries(self) -> list[tuple[InputSpace, float | None]]:
        """Find the symmetries that the model keeps: the largest of them are asked of explanations."""
        audit, module = self.chosen.audit, self.chosen.audit.modules[self.name]
        if not isinstance(module, nn.Module):
            self.leave_out(SYMMETRY, Word.NOT_ASKED, "only a trained model has symmetries to ask for")
            return []
        if isinstance(whole(audit.data), (TextInputs, TokenInputs)):
            self.leave_out(
                SYMMETRY,
                Word.NOT_ASKED,
                "the card tries no symmetry of texts; an audit with symmetry=TokenPermutations() asks whether the order of words matters",
            )
            return []
        try:
            found = scan(module, audit.data, folder=f"{self.folder}/{SCAN}", seed=audit.seed, progress=False)
        except VeracityError as error:
            self.leave_out(SYMMETRY, Word.NOT_ASKED, str(error))
            return []
        rows = [row for row in found.rows if len(audit.data.shape) > 1 or row.space is None or row.space.name not in OF_PLACES]
        kept = largest_kept(rows)
        if not rows:
            self.leave_out(SYMMETRY, Word.NOT_ASKED, "the columns of a table have no places to move to")
        elif all(row.verdict is Verdict.EMPTY for row in rows):
            self.leave_out(
                SYMMETRY, Word.NOT_ASKED, "the outputs hardly differ between samples, so that the scan of symmetries says nothing"
            )
        elif not kept:
            best = rows[0]
            near = f"it comes closest with {best.symmetry}: outputs agree by {best.moved:.2f}, the identity left out"
            self.leave_out(SYMMETRY, Word.NOT_ASKED, f"the model keeps none of the {len(rows)} symmetries that were tried; {near}")
        return kept

    def measure_symmetry(self, space: InputSpace, elements: float | None, stop: int | None, race: Race) -> None:
        """Ask explanations for a symmetry that the model keeps."""
        part = f"{SYMMETRY}-{space.name}"
        walk = Exhaustive() if elements is not None and elements <= ALONG else MonteCarlo(draws=ALONG)
        asked = replace(self.chosen.audit, symmetry=space, walk=walk, scores=["symmetry"])
        self.run(part, asked, words_for(space), stop, race)
        self.symmetries[part] = (words_for(space), elements)

    def search(self, without: Sequence[str] = ()) -> None:
        """Search for misleading points around some samples, if the budget allows it and explainers are left."""
        chosen = self.chosen
        if chosen.scale <= 0:
            self.leave_out(SEARCH, Word.NOT_ASKED, "the inputs do not vary, so that no ball around them has a size")
            return
        if not chosen.searches:
            need, took = written(chosen.seconds + chosen.seconds_to_search), duration(chosen.seconds_to_search)
            self.leave_out(
                SEARCH, Word.UNTOLD, f"the search takes about {took} more, which this budget does not allow; a budget of {need} does"
            )
            return
        rows = torch.arange(min(SEARCHED, len(chosen.rows)))
        asked = replace(on_rows(chosen.audit, rows), scores=search_scores(chosen.scale), controls=False, companions=False)
        named = {label: one for label, one in dict(chosen.audit.explainers or {}).items() if label not in without}
        if not named:
            self.leave_out(SEARCH, Word.UNTOLD, OUT_BEFORE)
            return
        try:
            self.run(SEARCH, replace(asked, explainers=named), "question 4")
        except VeracityError as error:
            self.leave_out(SEARCH, Word.NOT_ASKED, str(error))

    def train(self, crossed: CrossTrained | None, everything: Audit, without: Sequence[str] = ()) -> None:
        """Train models without parts of the data, and compare their explanations; `everything` is the audit of all samples."""
        if crossed is None:
            self.leave_out(TRAINING, Word.UNTOLD, "nobody gave a trainer, or models trained without parts of the data, so this is open")
            return
        if crossed.data is None:
            crossed = replace(crossed, data=(everything.given.samples, everything.labels), place=self.chosen.rows)
        audit = self.chosen.audit
        named = {label: one for label, one in dict(audit.explainers or {}).items() if label not in without}
        if not named:
            self.leave_out(TRAINING, Word.UNTOLD, OUT_BEFORE)
            return
        self.run(TRAINING, replace(audit, explainers=named, models={self.name: crossed}, scores=["mege", "reco_ks"]), "question 5")


def largest_kept(rows: list[KeptSymmetry]) -> list[tuple[InputSpace, float | None]]:
    """The first kept symmetries of a scan with their numbers of elements, each kind once.

    A shift along one axis is a part of that along both.
    """
    kept: dict[str, tuple[InputSpace, float | None]] = {}
    for row in rows:
        if row.verdict is Verdict.KEPT and row.space is not None and PART_OF.get(row.space.name) not in kept:
            kept.setdefault(row.space.name, (row.space, row.elements))
    return list(kept.values())[:ASKED]


def words_for(space: InputSpace) -> str:
    """A symmetry in words.

    >>> from veracity.perturb import CyclicShift, Mirror
    >>> words_for(CyclicShift(axes=(-2, -1))), words_for(Mirror(axis=-1))
    ('cyclic shift along the axes -2 and -1', 'mirror along the axis -1')
    """
    single = getattr(space, "axis", None)
    axes = getattr(space, "axes", None) or ([] if single is None else [single])
    where = f" along the {'axis' if len(axes) == 1 else 'axes'} {joined([str(axis) for axis in axes])}" if axes else ""
    return f"{space.name.replace('_', ' ')}{where}"


def classes_of(audit: Audit) -> int:
    """How many outputs the model has; 0 if it cannot be seen."""
    ((name, model),) = audit.modules.items()
    sight = look(audit.data, name, model, as_target(audit.target)) if isinstance(model, nn.Module) else None
    if sight is None:
        return 0
    with torch.no_grad():
        return int(sight.signals.through(sight.module).shape[1])


def lowered(text: str) -> str:
    """A sentence as a part of another one."""
    flat = " ".join(text.split()).rstrip(".")
    return flat[:1].lower() + flat[1:] if flat[1:2].islower() else flat
