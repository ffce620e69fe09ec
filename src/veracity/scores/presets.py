"""Presets: short lists of scores for one question each, by name: `Audit(scores="faithfulness")`. And what a score needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from torch import Size

from veracity.core.errors import SpecError, unknown
from veracity.core.explainers import Explainer
from veracity.core.registry import SCORES
from veracity.core.scores import Defaults, Reads, Score, Subject, reads_after, reads_before
from veracity.core.settings import Checking, check_value
from veracity.core.spaces import TrainingSpace, WeightSpace
from veracity.core.walks import Search
from veracity.perturb.parts import ExplainedPart
from veracity.scores.stability import StabilityScore
from veracity.scores.symmetry import SymmetryScore
from veracity.walk import MonteCarlo


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Scores that answer one question together, and the reason for this choice."""

    name: str
    scores: tuple[str, ...]
    why: str

    def summary(self) -> str:
        """The scores and the reason."""
        return f"{', '.join(self.scores)}: {self.why}"


PRESETS = {
    one.name: one
    for one in (
        Preset(
            name="faithfulness",
            scores=("faithfulness_correlation", "insertion", "deletion"),
            why="do the features that the map names drive the output? Masks need outputs alone, so maps without their explainer will do.",
        ),
        Preset(
            name="quick",
            scores=("insertion", "max_sensitivity", "efficient_mprt", "sparseness"),
            why="one cheap score per question: does the map find what drives the output, is it stable under small noise, does it depend "
            "on the weights, and how few features does it name?",
        ),
        Preset(
            name="robustness",
            scores=("max_sensitivity", "relative_input_stability", "relative_output_stability"),
            why="how far do explanations move under small random noise? The searches for the worst case, such as sol_f_hat, cost "
            "thousands of explanations per sample: ask for them by name.",
        ),
        Preset(
            name="sanity",
            scores=("mprt", "random_logit"),
            why="does the explanation change when the model's weights are random, and when another class is explained?",
        ),
        Preset(
            name="stability",
            scores=("mege", "reco_ks"),
            why="would another training give the same explanation? They need a cross-trained model, CrossTrained(...).",
        ),
        Preset(
            name="symmetry",
            scores=("symmetry", "model_invariance"),
            why="does the explanation respect a symmetry, and does the model? They need symmetry=..., such as CyclicShift(axes=(-1,)).",
        ),
    )
}
CLOSE = 0.85
"""How similar a name must be to that of a preset to be read as one that was misspelt."""


def listed_scores(scores: Any) -> Sequence[Any] | Mapping[str, Any]:
    """Scores as a list or a table: one score becomes a list of one, and the name of a preset its scores.

    >>> listed_scores("sanity"), listed_scores("fast_gef")
    (('mprt', 'random_logit'), ('fast_gef',))
    """
    if isinstance(scores, str):
        close = get_close_matches(scores, PRESETS, n=1, cutoff=CLOSE)
        if close and scores not in PRESETS and scores not in SCORES:
            raise unknown("preset", scores, PRESETS)
        return PRESETS[scores].scores if scores in PRESETS else (scores,)
    if isinstance(scores, (Score, Checking)):
        return (scores,)
    found: Sequence[Any] | Mapping[str, Any] = check_value(scores, Sequence[Any] | Mapping[Any, Any], "The setting 'scores'")
    wrong = next((one for one in found if isinstance(one, str) and one in PRESETS and one not in SCORES), None)
    names = [one for one in found if isinstance(one, str) and one not in SCORES and one not in PRESETS]
    presets = [name for name in PRESETS if name not in SCORES]
    misspelt = [(one, meant) for one in names for meant in get_close_matches(one, presets, n=1, cutoff=CLOSE)]
    if misspelt and not isinstance(found, Mapping):
        given, meant = misspelt[0]
        raise SpecError(f"Unknown score '{given}'. Did you mean the preset '{meant}'? A preset stands alone: pass scores='{meant}'.")
    if wrong is not None and not isinstance(found, Mapping):
        raise SpecError(f"'{wrong}' is a preset, not a score: pass scores='{wrong}', or its scores {list(PRESETS[wrong].scores)}.")
    return found


@dataclass(frozen=True)
class Needs:
    """What a score needs besides the model's outputs.

    maps       explanations of the unperturbed inputs
    anew       explanations of perturbed inputs or models too, so that maps without their explainer will not do
    weights    a model with weights
    layers     a model whose layers can be watched
    symmetry   a symmetry of the inputs
    training   models that are trained again
    truth      masks of the positions that explanations should point to
    searches   a search, which follows gradients where there are any
    gates      edges, nodes or words that can be removed
    """

    maps: bool
    anew: bool
    weights: bool
    layers: bool
    symmetry: bool
    training: bool
    searches: bool
    truth: bool = False
    gates: bool = False

    def words(self) -> list[str]:
        """Each need in words."""
        every = {
            "explanations": self.maps and not self.anew,
            "an explainer, since perturbed inputs or models are explained anew": self.anew,
            "a model with weights": self.weights,
            "a model whose layers can be watched": self.layers,
            "a symmetry: Audit(symmetry=...)": self.symmetry,
            "models trained again: models=CrossTrained(...)": self.training,
            "gradients, as far as there are any, for its search": self.searches,
            "the ground truth: Audit(truth=...)": self.truth,
            "inputs with gates: EdgeInputs, NodeInputs or TextInputs": self.gates,
        }
        return [word for word, needed in every.items() if needed]


def needs(score: Score, explainer: Explainer) -> Needs:
    """What a score needs, from what it reads and from the perturbations that it requests of some explainer."""
    shape, read = Size((1, 16, 16)), reads_before(score) | reads_after(score)
    symmetry = isinstance(score, SymmetryScore) and score.space is None
    spaces: list[Any] = []
    walks: list[Any] = []
    if not symmetry:
        for one in (None, explainer):
            subject = Subject("model", one, shape, layers=("first", "middle", "last"), folds=2, floor=0.0)
            for request in score.for_subject(subject).requests(subject, Defaults(None, MonteCarlo())):
                spaces.append(request.space)
                walks.append(request.walk)
    return Needs(
        maps=Reads.EXPLANATION in read,
        anew=Reads.EXPLANATION in reads_after(score),
        weights=any(isinstance(space, WeightSpace) for space in spaces),
        layers=Reads.REPRESENTATION in read,
        symmetry=symmetry,
        training=isinstance(score, StabilityScore) or any(isinstance(space, TrainingSpace) for space in spaces),
        searches=any(isinstance(walk, Search) and walk.follows_slopes for walk in walks),
        truth=Reads.TRUTH in read,
        gates=any(isinstance(space, ExplainedPart) for space in spaces),
    )
