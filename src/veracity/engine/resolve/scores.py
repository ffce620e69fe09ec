"""Scores under unique labels, with the companions that are measured beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import Explainer, maps_only
from veracity.core.registry import MEASURES, SCORES
from veracity.core.scores import Reads, Score, reads_after, reads_before
from veracity.core.spaces import InputSpace
from veracity.engine.resolve.settings import check_labels
from veracity.scores import ActionFloor, SelfAgreement, SymmetryScore
from veracity.scores.common import as_score
from veracity.scores.faithfulness.masked import settled
from veracity.scores.presets import listed_scores


@dataclass(frozen=True)
class Scores:
    """All scores by label, which of them were requested, and which model score checks the assumption of which score."""

    named: dict[str, Score]
    asked: tuple[str, ...]
    assumptions: dict[str, str]


def all_scores(scores: Any, companions: bool = True, probabilities: bool | None = None) -> Scores:
    """The requested scores and their companions: self-agreement, the floor of the action, and the assumptions about models.

    `probabilities` says whether all models give probabilities of what is explained, for scores that leave open what they read; None
    is not known yet.
    """
    scores = listed_scores(scores)
    given = scores if isinstance(scores, Mapping) else None
    built = [as_score(score) for score in (scores if given is None else given.values())]
    built = built if probabilities is None else [settled(score, probabilities) for score in built]
    if not built:
        raise SpecError("There is no score to measure: pass scores=['equivariance', ...].")
    labels = [score.name for score in built] if given is None else [str(label) for label in given]
    named = dict(zip(labels, built, strict=True))
    if len(named) < len(built):
        raise SpecError("Two scores have the same name: give them labels with scores={'label': ...}.")
    check_labels("score", labels)
    for label, score in named.items():
        if label in SCORES and score.name != label:
            raise SpecError(f"The label '{label}' of the score '{score.name}' is the name of another score: choose another label.")
    for score in built:
        if "own" in (score.about()["reduce"], score.about()["values"]) and score.name not in SCORES:
            raise SpecError(
                f"The score '{score.name}' reduces its draws in a way of its own: register it with SCORES.add, so that runs can be read."
            )
        if score.about()["values"] == "own" and score.measure is not None and score.measure.name not in MEASURES:
            raise SpecError(
                f"The measure '{score.measure.name}' of score '{score.name}' is not registered: make it with @measure(...), so that "
                "runs can be read."
            )
    asked = list(named)
    if not companions:
        return Scores(named, tuple(asked), {})
    about_maps = [score for score in built if score.reads is Reads.EXPLANATION]
    alike = next((score.measure for score in about_maps if "self_agreement" in score.beside), None)
    symmetric = next((score for score in built if isinstance(score, SymmetryScore)), None)
    if about_maps and "self_agreement" not in named:
        named["self_agreement"] = SelfAgreement(measure=alike)
    if symmetric is not None and "action_floor" not in named:
        named["action_floor"] = ActionFloor(space=symmetric.space, walk=symmetric.walk)
        asked.append("action_floor")
    return Scores(named, tuple(asked), add_assumptions(named))


def add_assumptions(named: dict[str, Score]) -> dict[str, str]:
    """Which label checks the assumption of which score; missing scores of the model are added."""
    holds: dict[str, str] = {}
    for label, score in list(named.items()):
        model = score.assumption
        if model is None:
            continue
        same = next((other for other, one in named.items() if one.spec() == model.spec()), None)
        holds[label] = same or (model.name if model.name not in named else f"{model.name} of {label}")
        named.setdefault(holds[label], model)
    return holds


def check_asked(
    scores: Mapping[str, Score], asked: Sequence[str], space: InputSpace | None, explainers: Mapping[str, Explainer], truth: bool = True
) -> None:
    """Raise if a requested score lacks explainers, a symmetry or the ground truth."""
    for name in asked:
        score = scores[name]
        if Reads.TRUTH in reads_before(score) and not truth:
            raise InputError(f"The score '{name}' compares maps with the ground truth: pass Audit(truth=...), one mask per input.")
        if score.reads is Reads.EXPLANATION and not explainers:
            raise SpecError(f"The score '{name}' needs explainers: pass explainers=['saliency', ...].")
        maps_alone = [label for label, one in explainers.items() if maps_only(one)]
        if Reads.EXPLANATION in reads_after(score) and maps_alone:
            raise InputError(
                f"The score '{name}' explains perturbed inputs or models anew, and '{maps_alone[0]}' is maps without their explainer: "
                "give Precomputed(maps=..., explainer=...), or choose scores of the maps alone, such as pixel_flipping."
            )
        if isinstance(score, SymmetryScore) and score.space is None and space is None and name != "action_floor":
            raise InputError(f"The score '{name}' needs a symmetry: pass Audit(symmetry=...), for example CyclicShift(axes=(-1,)).")
