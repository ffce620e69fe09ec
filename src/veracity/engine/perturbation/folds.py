"""A block of samples under the models of the other folds, which were trained on them."""

from __future__ import annotations

from torch import Tensor

from veracity.core import fingerprint
from veracity.core.explainers import Cost
from veracity.core.models import device_of, evaluating
from veracity.core.scores import OUTPUTS, Reading, Reads
from veracity.core.spaces import TrainingSpace
from veracity.core.walks import Ask
from veracity.engine.memory import Readings
from veracity.engine.perturbation.base import Perturbation, See, pair_of
from veracity.engine.preliminaries import recall
from veracity.engine.progress import weight
from veracity.engine.reader import Reader, predictions
from veracity.engine.trial import Guard


class FoldPerturbation(Perturbation[TrainingSpace]):
    """Readings of one other model after the other, beside those of the block's own."""

    def observe(self, ask: Ask, see: See) -> None:
        """Every model of an ask, which goes model by model through all samples."""
        block = self.block
        own = Reading(block.targets, self.before)
        for first in range(0, len(ask), len(block)):
            part = slice(first, first + len(block))
            piece = ask[part]
            name = block.problem.sibling(block.job.model, int(piece.element[0, 0]))
            model = block.problem.models[name]
            targets = model.targets[block.samples].to(block.device)
            with evaluating(model.module):
                found = {**predictions(model, block.samples, self.after, block.device), **self.read(name, piece, targets)}
            see(part, pair_of(self.space, piece.element, own, Reading(targets, found), block.frame))

    def read(self, name: str, piece: Ask, targets: Tensor) -> Readings:
        """Outputs and explanations of one other model."""
        block, label = self.block, self.block.job.explainer
        model = block.problem.models[name]
        learnt = recall(block.folder, block.problem.learnt_key(name, label) if label else "", device_of(model.module))
        reader = Reader(block.problem, name, block.explainer, block.budget, learnt, answers=block.reader.answers)
        found: Readings = {}
        if wanted := self.after & OUTPUTS:
            key = fingerprint.of_json([block.key, name, model.fingerprint, self.request.layer])
            found |= block.outputs(lambda: reader, wanted, self.request, key, passes=weight(Cost(forward=1)))
        if Reads.EXPLANATION in self.after:
            with Guard(label, block.explainer, model.module, block.x[:1]).watching():
                found[Reads.EXPLANATION] = block.explain_with(reader, self.request, piece, targets)
        return found
