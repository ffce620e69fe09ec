"""What a block of samples shows under the models of the other folds, which were trained on them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.explainers import Cost, Frame
from veracity.core.models import device_of, evaluating
from veracity.core.scores import OUTPUTS, Pair, Reading, Reads, Request
from veracity.core.walks import Ask
from veracity.engine.learning import recall
from veracity.engine.memory import MEMORY, Found
from veracity.engine.perturbation.inputs import pair_of
from veracity.engine.perturbation.rows import Rows
from veracity.engine.problem import AuditedModel, Problem
from veracity.engine.progress import weight
from veracity.engine.reader import Reader
from veracity.engine.store import RunFolder
from veracity.engine.trial import Guard

VERDICTS = frozenset({Reads.CORRECT, Reads.CLASS})
"""What is known of a model before anything is asked: its predictions."""


class Refitted:
    """One block and one request on folds: readings of one other model after the other, beside those of the block's own."""

    def __init__(self, rows: Rows, reader: Reader, request: Request, after: frozenset[Reads], folder: RunFolder) -> None:
        self.rows, self.own, self.request, self.after, self.folder = rows, reader, request, after, folder
        self.problem: Problem = reader.problem

    def observe(self, ask: Ask, before: Found, see: Callable[[slice, Pair], None]) -> None:
        """Every model of an ask, which goes model by model through all samples."""
        count, device = len(self.rows), self.rows.device
        frame = self.own.explainer.frame if self.own.explainer else Frame.INPUT
        for first in range(0, len(ask), count):
            part = slice(first, first + count)
            piece = ask[part]
            name = self.problem.sibling(self.own.name, int(piece.element[0, 0]))
            model = self.problem.models[name]
            targets = model.targets[self.rows.samples].to(device)
            with evaluating(model.module):
                found = {**verdicts(model, self.rows.samples, self.after, device), **self.read(name, model, piece, targets)}
            own = Reading(self.rows.targets, before)
            see(part, pair_of(self.request.space, piece.element, own, Reading(targets, found), frame))

    def read(self, name: str, model: AuditedModel, piece: Ask, targets: Tensor) -> Found:
        """Outputs and explanations of one other model."""
        label = next((label for label, one in self.problem.explainers.items() if one is self.own.explainer), "")
        learnt = recall(self.folder, self.problem.learnt_key(name, label) if label else "", device_of(model.module))
        reader = Reader(self.problem, name, self.own.explainer, self.own.budget, learnt)
        found: Found = {}
        if wanted := self.after & OUTPUTS:
            found |= {one: value.to(self.rows.device) for one, value in self.outputs(name, wanted, reader).items()}
        if Reads.EXPLANATION in self.after:
            guard = Guard(label, self.own.explainer, model.module, self.rows.x[:1])
            with guard.watching():
                found[Reads.EXPLANATION] = self.rows.explained(reader, self.request, piece, targets)
        return found

    def outputs(self, name: str, wanted: frozenset[Reads], reader: Reader) -> Found:
        """The outputs of one other model for the block, on the CPU."""

        def compute(missing: frozenset[Reads]) -> Found:
            parts: list[Found] = []
            self.rows.budget.spend(
                len(self.rows), 1, lambda part: parts.append(reader.outputs(missing, self.rows.x[part], self.request.layer))
            )
            self.rows.moved(len(self.rows) * weight(Cost(forward=1)))
            return {one: torch.cat([part[one] for part in parts]).cpu() for one in missing}

        key = fingerprint.of_json([self.rows.key, name, self.problem.models[name].fingerprint, self.request.layer])
        return MEMORY.recall(key, wanted, compute)


def verdicts(model: AuditedModel, samples: Tensor, what: frozenset[Reads], device: torch.device) -> Found:
    """Whether a model is right about samples, and the class that it predicts, as far as they are asked for."""
    found: Found = {}
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
