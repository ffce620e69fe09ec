"""A block of samples on the model's device: its rows, how they are explained, and what is read before any perturbation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.explainers import Frame, GivenMaps
from veracity.core.models import device_of
from veracity.core.randomness import Draws
from veracity.core.scores import OUTPUTS, Reads, Request
from veracity.core.walks import Ask
from veracity.engine.memory import MEMORY, Budget, Readings
from veracity.engine.plan import Job, numbers
from veracity.engine.problem import AuditedModel, Problem
from veracity.engine.progress import weight
from veracity.engine.reader import Reader
from veracity.engine.store import RunFolder
from veracity.engine.trial import Guard
from veracity.perturb.weights.copies import ScratchModel

EXPLANATIONS = "explanations"
FAILED = "failed"
"""The name under which the stored explanations of a block say which of its rows failed."""


class Block:
    """One model and one explainer of it on the samples of a job, or on some `rows` of them.

    `advance` is told how many model passes were made.
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
        rows: Tensor | None = None,
    ) -> None:
        self.rows = rows
        self.job = job if rows is None else replace(job, samples=tuple(job.samples[row] for row in rows.tolist()))
        self.problem, self.budget, self.folder, self.advance, self.guard = problem, budget, folder, advance, guard
        self.model, self.explainer, self.seed = problem.models[job.model], problem.explainers.get(job.explainer), problem.seed
        self.frame = self.explainer.frame if self.explainer else Frame.INPUT
        self.reader = Reader(problem, job.model, self.explainer, budget, learnt)
        self.rows_each = max(self.reader.cost.forward, self.reader.cost.backward)
        self.device = device_of(self.model.module)
        self.samples = torch.tensor(self.job.samples)
        self.x = problem.inputs.take(self.samples).to(self.device)
        self.targets = self.model.targets[self.samples].to(self.device)
        self.correct = torch.ones(len(self), dtype=torch.bool) if self.model.correct is None else self.model.correct[self.samples]
        about = [self.model.fingerprint, self.model.outputs.value, problem.target.spec(), str(self.device)]
        self.key = fingerprint.of_json([*about, self.x.fingerprint(), numbers(self.samples)])
        self.maps: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return len(self.samples)

    @cached_property
    def copies(self) -> ScratchModel:
        """Copies of the model with other weights."""
        return ScratchModel(self.model.module, self.seed)

    def read(self, what: frozenset[Reads], request: Request) -> Readings:
        """What was asked for, of the unperturbed block; its inputs always."""
        found: Readings = {Reads.INPUT: self.x.values, **predictions(self.model, self.samples, what, self.device)}
        if wanted := what & OUTPUTS:
            found |= self.outputs(lambda: self.reader, wanted, request, fingerprint.of_json([self.key, request.layer]))
        if Reads.EXPLANATION in what:
            found[Reads.EXPLANATION] = self.explanation(request)
        return found

    @torch.no_grad()
    def outputs(self, reader: Callable[[], Reader], what: frozenset[Reads], request: Request, key: str, passes: int = 0) -> Readings:
        """The outputs of the model, or of another one, for the unperturbed block; computed once for all explainers.

        `key` names the model and its weights; `passes` is how many to report for each sample.
        """

        def compute(missing: frozenset[Reads]) -> Readings:
            model, parts = reader(), list[Readings]()
            self.budget.spend(len(self), 1, lambda part: parts.append(model.outputs(missing, self.x[part], request.layer)))
            self.advance(len(self) * passes)
            return {one: torch.cat([part[one] for part in parts]).cpu() for one in missing}

        return {one: value.to(self.device) for one, value in MEMORY.recall(key, what, compute).items()}

    @torch.no_grad()
    def explanation(self, request: Request) -> Tensor:
        """e(x) of the block, computed once and stored in the folder; that of some rows is held in memory alone."""
        key = explanation_key(self.job, request)
        if key in self.maps:
            return self.maps[key]
        stored = self.folder.read_tensors(EXPLANATIONS, key)
        if stored is not None and FAILED not in stored:
            whole = stored["explanation"]
            return (whole if self.rows is None else whole[self.rows]).to(self.device)
        given = self.explainer.given if isinstance(self.explainer, GivenMaps) and request.smoothing is None else None
        parts: list[Tensor] = [] if given is None else [given[self.samples].to(self.x.values)]

        def some(part: slice) -> None:
            draws = Draws.of(self.seed, self.samples[part])
            parts.append(self.reader.explanation(self.x[part], self.targets[part], draws, request.smoothing))

        if given is None:
            self.budget.spend(len(self), self.rows_each * request.repeats, some)
        maps = torch.cat(parts)
        self.guard.check()
        if self.rows is None:
            self.folder.write_tensors(EXPLANATIONS, key, {"explanation": maps})
        else:
            self.maps[key] = maps
        return maps

    def explain_with(self, reader: Reader, request: Request, ask: Ask, targets: Tensor | None = None) -> Tensor:
        """Explanations by another model of the block's own samples, in the order of the ask; of its own `targets` (samples,) if given."""
        chosen = self.targets if targets is None else targets
        parts: list[Tensor] = []

        def some(part: slice) -> None:
            piece = ask[part]
            row = piece.row.to(self.device)
            parts.append(reader.explanation(self.x[row], chosen[row], self.draws(request, piece), request.smoothing))
            self.advance(len(piece) * weight(reader.cost))

        self.budget.spend(len(ask), self.rows_each * request.repeats, some)
        return torch.cat(parts)

    def draws(self, request: Request, piece: Ask) -> Draws:
        """The explainer's random numbers: those of e(x), or fresh ones for every draw and level."""
        fresh = piece.draw * request.space.levels + piece.level + 1
        return Draws(self.seed, self.samples[piece.row], torch.zeros_like(fresh) if request.common_draws else fresh)


def explanation_key(job: Job, request: Request) -> str:
    """The key of the base explanations of a block."""
    return job.base_key if request.smoothing is None else fingerprint.of_json([job.base_key, request.spec()[-1]])


def predictions(model: AuditedModel, samples: Tensor, what: frozenset[Reads], device: torch.device) -> Readings:
    """Whether a model classifies samples correctly, and which class it predicts, as far as that is asked for."""
    found: Readings = {}
    if Reads.CORRECT in what:
        if model.correct is None:
            raise InputError(
                "Whether a model is right is known only where it has an output for each of several classes, and the targets are class "
                "numbers: of a single output, stability cannot be measured."
            )
        found[Reads.CORRECT] = model.correct[samples].double().to(device)
    if Reads.CLASS in what:
        if model.predicted is None:
            raise InputError("Which class a model predicts is known only of outputs that are a row of numbers a sample.")
        found[Reads.CLASS] = model.predicted[samples].to(device)
    return found
