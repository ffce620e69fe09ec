"""Outputs and explanations of a model: a `Reader` gives those of any rows, a `Block` those of the samples of one job.

A reader may use a copy of the model with other weights; a block stores what is read before any perturbation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, StoreError, error_text
from veracity.core.explainers import (
    Answers,
    Context,
    Cost,
    Explainer,
    Frame,
    GivenMaps,
    Inquirer,
    LayerExplainer,
    finished,
    learner,
    source_of,
)
from veracity.core.inputs import Signals, samples_on
from veracity.core.models import LayerScores, ScoreRecorder, device_of
from veracity.core.randomness import Draws
from veracity.core.scores import OUTPUTS, Reads, Request, Smoothing
from veracity.core.transfer import fetch, send
from veracity.core.walks import Ask
from veracity.engine.later import Later
from veracity.engine.memory import ACTIVATIONS, EXPLAINED, MEMORY, Budget, Readings
from veracity.engine.plan import Job
from veracity.engine.preliminaries import LEARNT
from veracity.engine.problem import AuditedModel, Problem
from veracity.engine.progress import weight
from veracity.engine.store import Place, RunFolder
from veracity.engine.store.answers import StoredAnswers
from veracity.engine.trial import Guard
from veracity.perturb.weights.copies import ScratchModel

T = TypeVar("T")
CALLS = 8
"""How many calls of a model on a GPU an explainer makes for the inputs of one part of a block, if it fills them."""


class Reader:
    """One model and one explainer of it, on the model's own weights or on a copy's."""

    def __init__(
        self,
        problem: Problem,
        name: str,
        explainer: Explainer | None,
        budget: Budget,
        learnt: Mapping[str, Tensor],
        copy: nn.Module | None = None,
        answers: Answers | None = None,
    ) -> None:
        self.problem, self.name, self.explainer, self.budget, self.learnt = problem, name, explainer, budget, learnt
        self.module, self.answers = problem.models[name].module if copy is None else copy, answers
        self.view = problem.view(name, self.module)
        self.decisions = problem.target_of(name).decisions(self.module)
        self.outputs_are = problem.models[name].outputs
        self.training = problem.training_of(name, explainer, self.module) if explainer else None
        self.cost = explainer.cost(problem.inputs.shape) if explainer else Cost(forward=1)
        self.rows_each = explainer.rows_at_once(problem.inputs.shape) if explainer else 1
        several = explainer is not None and explainer.splits and device_of(self.module).type == "cuda"
        self.calls = CALLS if several else 1
        """How many calls of the model the explanations of one part of a block take."""

    def on(self, copy: nn.Module) -> Reader:
        """The same explainer on a copy of the model."""
        return Reader(self.problem, self.name, self.explainer, self.budget, self.learnt, copy, self.answers)

    def by(self, explainer: Explainer | None) -> Reader:
        """The same copy of the model, explained by another explainer."""
        if explainer is self.explainer:
            return self
        return Reader(self.problem, self.name, explainer, self.budget, self.learnt, self.module, self.answers)

    def with_lesson(self, copy: int = 1, classes: Tensor | None = None) -> Reader:
        """This reader, after its explainer has learnt about this copy of the model, which has a number.

        `classes` are those that an explainer by class learns about; None are all that the audit explains.
        """
        if (explainer := learner(self.explainer)) is not None:
            context = self.problem.lesson_context(self.name, explainer, self.budget.rows, (copy,), self.training, classes)
            with torch.enable_grad():
                self.learnt = explainer.lesson.learn(self.view, context)
        return self

    def with_stored_lesson(self, folder: RunFolder, key: str, copy: int, advance: Callable[[int], None]) -> Reader:
        """The same, if the folder does not hold this lesson under its key yet; `advance` gets the number of passes that were made."""
        stored = folder.recovered(LEARNT, key)
        if stored is None:
            self.with_lesson(copy)
            folder.write_tensors(LEARNT, key, dict(self.learnt))
            advance(weight(self.problem.lesson_cost(self.name, self.explainer)))
        else:
            self.learnt = {name: value.to(device_of(self.module)) for name, value in stored.items()}
        return self

    def outputs(self, what: frozenset[Reads], x: Signals, layer: str | None) -> Readings:
        """Scores, probabilities and the output of one layer for R rows, with as few passes as possible."""
        found: Readings = {}
        if Reads.SCORES in what:
            found[Reads.SCORES] = x.through(self.view)
        if Reads.OUTPUT in what and self.decisions is not self.module:
            found[Reads.OUTPUT] = self.outputs_are.read_decisions(x.through(self.decisions))
        elif Reads.OUTPUT in what:
            same = self.view is self.module and Reads.SCORES in found
            found[Reads.OUTPUT] = self.outputs_are.read(found[Reads.SCORES] if same else x.through(self.module))
        if Reads.FIELD in what:
            found[Reads.FIELD] = x.through(self.module)
        if Reads.REPRESENTATION in what:
            if layer is None:
                raise InputError("A score that reads a representation must name its layer.")
            found[Reads.REPRESENTATION] = x.through(LayerScores(self.module, layer))
        return found

    def shown_by(self, scores: Tensor) -> Readings:
        """The outputs that are known with the scores of some rows."""
        whole = self.view is self.module and self.decisions is self.module
        return {Reads.SCORES: scores, **({Reads.OUTPUT: self.outputs_are.read(scores)} if whole else {})}

    def explanation(
        self, x: Signals, targets: Tensor, draws: Draws, smoothing: Smoothing | None = None, original: Tensor | None = None
    ) -> Tensor:
        """e(x), as the explainer gives it; with smoothing, its mean over draws around x.

        `original` are the unperturbed model's scores of x, if they are known already.
        """
        if self.explainer is None:
            raise InputError("A score of explanations needs an explainer.")
        if smoothing is not None:
            return self.smoothed(x, targets, draws, smoothing)
        with torch.enable_grad():
            found = self.explainer.explain(self.view, x.values, targets, self.context(x, draws, original))
        return self.blank(x, found.detach())

    def context(self, x: Signals, draws: Draws, original: Tensor | None = None) -> Context:
        """What the explainer gets besides the model and x."""
        clean = self.original(x) if original is None else original
        given = (x.structure, self.learnt, self.training, x.present, clean, self.answers)
        return self.problem.context(self.name, draws, self.budget.rows, *given)

    @property
    def contrasts(self) -> bool:
        """Whether the explainer compares this copy with the unperturbed model."""
        return self.explainer is not None and self.explainer.contrasts and self.module is not self.problem.models[self.name].module

    @torch.no_grad()
    def original(self, x: Signals) -> Tensor | None:
        """The scores (R, K) of the unperturbed model, if the explainer compares a copy with it."""
        if not self.contrasts:
            return None
        view, parts = self.problem.view(self.name), list[Tensor]()
        self.budget.spend(len(x), 1, lambda part: parts.append(x[part].through(view)))
        return torch.cat(parts)

    def explanation_and_scores(self, x: Signals, targets: Tensor | None, draws: Draws) -> tuple[Tensor, Tensor]:
        """e(x) of a local explainer, and the scores (R, K) that its pass saw; without targets the predicted class is explained."""
        if self.explainer is None:
            raise InputError("A score of explanations needs an explainer.")
        recorder = ScoreRecorder(self.view, follow=targets is None)
        chosen = torch.zeros(len(x), dtype=torch.long, device=x.values.device) if targets is None else targets
        with torch.enable_grad():
            batch = max(self.budget.rows, len(x))
            context = self.problem.context(self.name, draws, batch, x.structure, self.learnt, self.training, x.present)
            found = self.explainer.explain(recorder, x.values, chosen, context)
        return self.blank(x, found.detach()), recorder.scores(len(x))

    def blank(self, x: Signals, maps: Tensor) -> Tensor:
        """Maps with 0 where a value of the input does not exist; explanations that are no maps of the input stay."""
        return x.blank(maps) if self.explainer is not None and self.explainer.frame is Frame.INPUT else maps

    def smoothed(self, x: Signals, targets: Tensor, draws: Draws, smoothing: Smoothing) -> Tensor:
        """The mean over `count` draws of a space around each row, the same ones whatever the weights."""
        count, space = smoothing.count, smoothing.space.fit(x.values.shape[1:])
        device, draws = x.values.device, draws.to(x.values.device)
        row = torch.arange(len(x), device=device).repeat_interleave(count)
        around = Draws(draws.seed, draws.sample[row], torch.arange(count, device=device).repeat(len(x)))
        element = space.decode(around.normal(space.latents, stream="smoothing"))
        parts: list[Tensor] = []

        def some(part: slice) -> None:
            here = row[part]
            own = Draws(draws.seed, draws.sample[here], draws.draw[here] * count + around.draw[part])
            parts.append(self.explanation(space.move(element[part], x[here]), targets[here], own))

        self.budget.spend(len(row), self.rows_each, some, self.calls)
        return torch.cat(parts).reshape(len(x), count, *parts[0].shape[1:]).mean(1)


EXPLANATIONS = "explanations"
KEPT = 1 << 30
"""How many bytes of explanations of one model by one explainer are kept in the folder; of later samples they are made again if needed."""
FAILED = "failed"
"""The tensor beside stored explanations that lists the rows that failed."""


class Block:
    """One model and one explainer of it on the samples of a job, or on some `rows` of them.

    `advance` gets the number of model passes that were made.
    """

    def __init__(
        self,
        job: Job,
        problem: Problem,
        budget: Budget,
        learnt: Mapping[str, Tensor],
        folder: RunFolder,
        advance: Callable[[int], None],
        guard: Guard,
        later: Later,
        rows: Tensor | None = None,
    ) -> None:
        self.rows, self.later = rows, later
        self.job = job if rows is None else replace(job, samples=tuple(job.samples[row] for row in rows.tolist()))
        self.problem, self.budget, self.folder, self.advance, self.guard = problem, budget, folder, advance, guard
        self.model, self.explainer, self.seed = problem.models[job.model], problem.explainers.get(job.explainer), problem.seed
        self.frame = self.explainer.frame if self.explainer else Frame.INPUT
        self.reader = Reader(problem, job.model, self.explainer, budget, learnt, answers=StoredAnswers(folder))
        self.source = self.explainer if self.explainer is None or learner(self.explainer) else source_of(self.explainer)
        """The explainer that is asked about the block; its explanations are then `finished`."""
        self.rows_each, self.calls = self.reader.rows_each, self.reader.calls
        self.device = device_of(self.model.module)
        self.samples = torch.tensor(list(self.job.samples))
        self.numbers = send(self.samples, self.device)
        self.x = samples_on(problem.inputs, self.samples, self.device)
        self.targets = send(self.model.targets[self.samples], self.device)
        self.correct = torch.ones(len(self), dtype=torch.bool) if self.model.correct is None else self.model.correct[self.samples]
        about = [self.model.fingerprint, self.model.outputs.value, problem.target.spec(), str(self.device)]
        self.key = fingerprint.of_json([*about, job.data, fingerprint.of_tensor(self.samples)])
        self.maps: dict[str, Tensor] = {}
        self.whole_maps: Mapping[str, Tensor] = {}
        """Explanations of the whole block of the job, of which this may be a part."""

    def __len__(self) -> int:
        return len(self.samples)

    @cached_property
    def copies(self) -> ScratchModel:
        """Copies of the model with other weights."""
        make = ScratchModel.of if self.guard.trusted else ScratchModel
        return make(self.model.module, self.seed)

    def read(self, what: frozenset[Reads], request: Request) -> Readings:
        """The wanted readings of the unperturbed block, and always its inputs."""
        found: Readings = {Reads.INPUT: self.x.values, **predictions(self.model, self.samples, what, self.device)}
        if Reads.TRUTH in what and self.problem.truth is not None:
            found[Reads.TRUTH] = self.problem.truth[self.samples].to(self.device)
        if Reads.EXPLANATION in what:  # first, since the pass of an explainer of layers shows the outputs too
            found[Reads.EXPLANATION] = self.explanation(request)
        if wanted := what & OUTPUTS:
            found |= self.own_outputs(wanted, request)
        return found

    def own_outputs(self, what: frozenset[Reads], request: Request) -> Readings:
        """The outputs of the unperturbed model; those of the first pass, which fixed the targets, are not computed again."""
        known = {one: value for one, value in self.first_outputs.items() if one in what}
        missing = what - set(known)
        return {**known, **(self.outputs(lambda: self.reader, missing, request, self.own_key(request)) if missing else {})}

    @cached_property
    def first_outputs(self) -> Readings:
        """What the first pass of the unperturbed model shows of the whole block; nothing if it was made in other batches."""
        first = None if self.rows is not None or self.model.first is None else self.model.first.of(self.job.samples, self.device)
        return {} if first is None else self.reader.shown_by(send(first, self.device))

    def own_key(self, request: Request) -> str:
        """What outputs of the unperturbed model depend on."""
        return fingerprint.of_json([self.key, request.layer])

    def scores(self, request: Request) -> Tensor:
        """The scores (samples, K) of the unperturbed model, which explanations of all copies share."""
        return self.own_outputs(frozenset({Reads.SCORES}), request)[Reads.SCORES].to(self.device)

    @torch.no_grad()
    def outputs(self, reader: Callable[[], Reader], what: frozenset[Reads], request: Request, key: str, passes: int = 0) -> Readings:
        """The outputs of the model, or of another one, for the unperturbed block; computed once for all explainers.

        `key` names the model and its weights; `passes` is how many to report for each sample.
        """

        def compute(missing: frozenset[Reads]) -> Readings:
            model, parts = reader(), list[Readings]()
            self.budget.spend(len(self), 1, lambda part: parts.append(model.outputs(missing, self.x[part], request.layer)))
            self.advance(len(self) * passes)
            return {one: torch.cat([part[one] for part in parts]) for one in missing}

        return MEMORY.recall(key, what, compute)

    @torch.no_grad()
    def explanation(self, request: Request) -> Tensor:
        """e(x) of the block, computed once and stored in the folder; explanations of some rows stay in memory."""
        key = explanation_key(self.job, request)
        if key in self.maps:
            return self.maps[key]
        if key in self.whole_maps and self.rows is not None:
            return self.whole_maps[key][send(self.rows, self.device)]
        stored = self.folder.read_tensors(EXPLANATIONS, key)
        if stored is not None and FAILED not in stored:
            whole = stored["explanation"]
            self.maps[key] = (whole if self.rows is None else whole[self.rows]).to(self.device)
            return self.maps[key]
        given = self.explainer if isinstance(self.explainer, GivenMaps) and request.smoothing is None else None
        name = self.problem.label(self.job.model)
        parts: list[Tensor] = [] if given is None else [given.maps_for(name, self.samples, self.targets.cpu()).to(self.x.values)]

        reader = self.reader if request.smoothing is not None else self.reader.by(self.source)

        def some(part: slice) -> None:
            draws = Draws.of(self.seed, self.numbers[part])
            parts.append(reader.explanation(self.x[part], self.targets[part], draws, request.smoothing))

        def compute() -> Tensor:
            self.budget.spend(len(self), self.rows_each * request.repeats, some, self.calls)
            return torch.cat(parts)

        if given is None and self.shares(request):
            maps = self.explain_layer(lambda: self.reader, self.key, self.own_key(request))
        elif given is not None:
            maps = torch.cat(parts)
        else:
            maps = compute() if request.smoothing is not None else self.finished(self.recall(self.key, compute))
        self.guard.check()
        if self.rows is None:
            self.later(partial(self.store_explanation, key, fetch(maps)))
        self.maps[key] = maps
        return maps

    @cached_property
    def kept_as(self) -> str | None:
        """A hash of what explanations of the block by its source depend on, besides the weights and draws; None if nobody else asks for
        them, or if they may depend on more."""
        shared = self.problem.shared_sources.get(self.job.explainer)
        if shared is None or self.problem.depends_on_batch(self.job.model, self.job.explainer):
            return None
        return fingerprint.of_json([shared, self.model.targets[self.samples].tolist(), self.seed, self.problem.precision])

    def recall(self, key: str, compute: Callable[[], Tensor]) -> Tensor:
        """The explanations of the block by its source, which explainers with the same source share; `key` names the weights and draws."""
        if self.kept_as is None:
            return compute()
        found = EXPLAINED.recall(f"{key} {self.kept_as}", frozenset({"maps"}), lambda _: {"maps": compute()}, scope=self.key)
        return found["maps"]

    def knows(self, key: str) -> bool:
        """Whether `recall` would compute nothing."""
        return self.kept_as is not None and f"{key} {self.kept_as}" in EXPLAINED

    def finished(self, maps: Tensor) -> Tensor:
        """The explanations of the block from those of its source."""
        if self.explainer is None or self.source is self.explainer:
            return maps
        return self.reader.blank(self.x, finished(self.explainer, maps, self.x.present).detach())

    def shares(self, request: Request) -> bool:
        """Whether the explainer shares its pass with those of other layers."""
        explainer = self.explainer
        return isinstance(explainer, LayerExplainer) and explainer.place is not None and request.smoothing is None

    def explain_layer(self, reader: Callable[[], Reader], key: str, outputs: str | None, passes: int = 0) -> Tensor:
        """Explanations of the block by the activations of a layer; one pass reads the layers of all such explainers.

        `key` names the model and its weights; the outputs that the pass shows are kept under the key `outputs`, if there is one. `passes`
        is how many to report for each sample.
        """
        explainer = self.explainer
        if not isinstance(explainer, LayerExplainer):
            raise InputError("Only an explainer of a layer shares its pass.")
        alike = [one for one in self.problem.explainers.values() if isinstance(one, LayerExplainer) and one.place == explainer.place]
        layers = list(dict.fromkeys(one.layer for one in alike))

        def compute(_missing: frozenset[str]) -> dict[str, Tensor]:
            model, parts, seen = reader(), list[dict[str, Tensor]](), list[Tensor]()

            def some(part: slice) -> None:
                x, recorder = self.x[part], ScoreRecorder(model.view, follow=False)
                parts.append(explainer.activations(recorder, layers, x.values, x.structure))
                seen.extend([recorder.scores(len(x))] if explainer.local and outputs is not None else [])

            self.budget.spend(len(self), 1, some)
            if seen and outputs is not None:
                shown = model.shown_by(torch.cat(seen))
                MEMORY.recall(outputs, frozenset(shown), lambda missing: {one: shown[one] for one in missing})
            return {layer: torch.cat([part[layer] for part in parts]) for layer in layers}

        found = ACTIVATIONS.recall(f"{key} {explainer.place} {layers}", frozenset({explainer.layer}), compute, scope=self.key)
        self.advance(len(self) * passes)
        return self.reader.blank(self.x, explainer.from_activations(found[explainer.layer]).detach())

    def store_explanation(self, key: str, maps: Callable[[], Tensor]) -> None:
        """Store e(x) of the whole block, unless those of the samples before it fill the room for explanations."""
        try:
            found = maps()
            if self.job.samples[0] * (found.nbytes // max(1, len(found))) < KEPT:
                self.folder.write_tensors(EXPLANATIONS, key, {"explanation": found})
            else:
                self.folder.unkept.add(Place(EXPLANATIONS, key))
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(f"The explanations of {self.job.explainer} could not be stored: {error_text(error)}") from error

    def explain_with(self, reader: Reader, request: Request, ask: Ask, targets: Tensor | None = None) -> Tensor:
        """Explanations of the block's samples by another reader, in the order of the ask; `targets` (samples,) replace the block's own."""

        def explain(x: Signals, chosen: Tensor, draws: Draws, original: Tensor | None) -> Tensor:
            return reader.explanation(x, chosen, draws, request.smoothing, original)

        return torch.cat(self.in_parts(reader, request, ask, explain, targets))

    def inquire_with(self, reader: Reader, request: Request, ask: Ask) -> list[Any]:
        """What an explainer wants to know about the block's samples, by another reader, as parts in the order of the ask."""
        explainer = reader.explainer
        if not isinstance(explainer, Inquirer):
            raise InputError("Only an explainer that asks somebody else has inquiries.")

        def inquire(x: Signals, chosen: Tensor, draws: Draws, original: Tensor | None) -> Any:
            return explainer.inquiry(reader.view, x.values, chosen, reader.context(x, draws, original))

        return self.in_parts(reader, request, ask, inquire)

    def in_parts(
        self,
        reader: Reader,
        request: Request,
        ask: Ask,
        work: Callable[[Signals, Tensor, Draws, Tensor | None], T],
        targets: Tensor | None = None,
    ) -> list[T]:
        """The work on as many rows of the ask as fit at once: their inputs, targets, random numbers and unperturbed scores, if needed."""
        chosen = self.targets if targets is None else targets
        scores = self.scores(request) if reader.contrasts and reader.name == self.job.model and request.smoothing is None else None
        parts: list[T] = []

        def some(part: slice) -> None:
            piece = ask[part]
            row = piece.row.to(self.device)
            original = None if scores is None else scores[row]
            parts.append(work(self.x[row], chosen[row], self.draws(request, piece), original))
            self.advance(len(piece) * weight(reader.cost))

        self.budget.spend(len(ask), self.rows_each * request.repeats, some, self.calls)
        return parts

    def draws(self, request: Request, piece: Ask) -> Draws:
        """The explainer's random numbers: those of e(x) if draws are common, else new ones per draw and level."""
        piece = piece.to(self.device)
        fresh = piece.draw * request.space.levels + piece.level + 1
        return Draws(self.seed, self.numbers[piece.row], torch.zeros_like(fresh) if request.common_draws else fresh)


def explanation_key(job: Job, request: Request) -> str:
    """The key of the base explanations of a block."""
    return job.base_key if request.smoothing is None else fingerprint.of_json([job.base_key, request.spec()[-1]])


def predictions(model: AuditedModel, samples: Tensor, what: frozenset[Reads], device: torch.device) -> Readings:
    """Which samples a model classifies correctly, and which classes it predicts, if that is wanted."""
    found: Readings = {}
    if Reads.CORRECT in what:
        if model.correct is None:
            raise InputError(
                "Correctness is known only if a model has one output for each of several classes and the targets are class numbers: "
                "stability cannot be measured for a single output."
            )
        found[Reads.CORRECT] = model.correct[samples].double().to(device)
    if Reads.CLASS in what:
        if model.predicted is None:
            raise InputError("Predicted classes are known only for outputs that are one row of numbers per sample.")
        found[Reads.CLASS] = model.predicted[samples].to(device)
    return found
