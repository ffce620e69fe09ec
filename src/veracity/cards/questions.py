"""The six questions: what is measured, what it is compared with, where the line is, and how the answer is said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from veracity.cards.checks import (
    OWN,
    SEARCH,
    SYMMETRY,
    TRAINING,
    BeatsControls,
    Check,
    Evidence,
    KeepsSymmetry,
    LosesAgreement,
    NotMisled,
    SurvivesTraining,
)
from veracity.cards.decide import Standing, Word
from veracity.cards.reading import Reading


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question of the card: its checks, and the rule of its word.

    The checks of most questions are requirements of their own. Those that are `witnesses` measure the same thing in different ways.
    """

    number: int
    key: str
    title: str
    about: str
    rule: str
    checks: tuple[Check, ...]
    witnesses: bool = False


LINES = {
    "lost": 0.1,
    "faithful": 0.1,
    "calm": 0.9,
    "symmetric": 0.99,
    "misled": 0.4,
    "rarity": math.log(1e-4),
    "trained": 0.5,
    "folds": 0.0,
}
"""Where the lines are. They are choices, stated on every page."""

QUESTIONS = (
    Question(
        number=0,
        key="model",
        title="Does it depend on the model?",
        about="An explanation of the model changes if the model's weights are replaced by random ones, and if another class is explained.",
        rule="Its agreement with itself (rank correlation) must fall by at least 0.1 in both cases. That of the controls (random maps, "
        "and an edge filter on images) should not fall, and the page shows what they get.",
        checks=(
            LosesAgreement(
                key="weights",
                title="random weights",
                score="mprt",
                line=LINES["lost"],
                phrase="with random weights its agreement with itself falls by {value}{ends}",
            ),
            LosesAgreement(
                key="class",
                title="another class",
                score="random_logit",
                line=LINES["lost"],
                phrase="for another class its agreement falls by {value}{ends}",
                directed_only=True,
            ),
        ),
    ),
    Question(
        number=1,
        key="faithful",
        title="Is it faithful?",
        about="What the map calls important drives the output: without it the prediction falls (deletion), with it alone the prediction "
        "comes back (insertion), and the map changes as far as the model does when its weights change (Fast-GEF).",
        rule="By each score, it must cover at least a tenth of the way from the better of its random control and the edge filter to the "
        "ideal value (from the random control alone for Fast-GEF). It holds if all three scores do, and falls short if at least one "
        "lies clearly below that tenth and none clearly above it. If they contradict each other, nobody can tell.",
        witnesses=True,
        checks=(
            BeatsControls(
                key="deletion",
                title="deletion",
                score="deletion",
                line=LINES["faithful"],
                phrase="by deletion it covers {value} of the way from the controls to the ideal{ends}",
                ideal=0.0,
                edges=True,
                probability=True,
            ),
            BeatsControls(
                key="insertion",
                title="insertion",
                score="insertion",
                line=LINES["faithful"],
                phrase="by insertion it covers {value} of the way{ends}",
                ideal=1.0,
                edges=True,
                probability=True,
            ),
            BeatsControls(
                key="gef",
                title="Fast-GEF",
                score="fast_gef",
                line=LINES["faithful"],
                phrase="by Fast-GEF it covers {value} of the way{ends}",
                ideal=1.0,
            ),
        ),
    ),
    Question(
        number=2,
        key="calm",
        title="Is it calm?",
        about="The map is the same if it is made again, and nearly the same if the input changes by noise that leaves the prediction "
        "alone.",
        rule="By each score, it must cover at least nine tenths of the way from its random control to the ideal value: two runs agree, "
        "and noise of a hundredth of the data's standard deviation changes at most a tenth of what it changes in a random map.",
        checks=(
            BeatsControls(
                key="repeat",
                title="made again",
                score=OWN,
                line=LINES["calm"],
                phrase="made again, it covers {value} of the way from a random map to full agreement{ends}",
                ideal=1.0,
            ),
            BeatsControls(
                key="noise",
                title="small noise",
                score="avg_sensitivity",
                line=LINES["calm"],
                phrase="under small noise it covers {value} of the way from a random map to no change{ends}",
                ideal=0.0,
                noise=True,
            ),
            BeatsControls(
                key="stability",
                title="relative stability",
                score="relative_input_stability",
                line=LINES["calm"],
                phrase="by relative input stability it covers {value} of the way{ends}",
                ideal=0.0,
                noise=True,
            ),
        ),
    ),
    Question(
        number=3,
        key="symmetric",
        title="Does it respect what the model respects?",
        about="Where the model ignores a transform of the input, its explanation should move along with the input. Only symmetries that "
        "the model keeps on every scanned sample are asked for.",
        rule="Its map must follow each such symmetry to at least 0.99 of its agreement with itself, by cosine; leaving the "
        "input as it is does not count. A constant map follows too, so read this together with question 0.",
        checks=(
            KeepsSymmetry(
                key="symmetry",
                title="symmetry",
                score="symmetry",
                line=LINES["symmetric"],
                phrase="it follows {what} to {value}{ends}",
                part=SYMMETRY,
            ),
        ),
    ),
    Question(
        number=4,
        key="robust",
        title="Does it resist being misled?",
        about="Near an input there may be a point that the model sees as the same class, but whose map is another one. A search looks for "
        "it in a ball whose radius is a tenth of the data's standard deviation.",
        rule="It falls short if a point with the same label and an agreement below 0.4 is found. It holds if none is found and "
        "such points are surely rare: around at least half of the samples, at most 1 random point of the ball in 10,000 is one (the upper "
        "end of the interval of the median ln P is at most ln 0.0001). "
        "Otherwise the page says how many evaluations found none.",
        checks=(
            NotMisled(
                key="search",
                title="search",
                score="sol_f_hat",
                line=LINES["misled"],
                phrase="{why}; the worst map agrees with the original to {value} on average",
                part=SEARCH,
                rare="ln_p_f_hat",
                rarity=LINES["rarity"],
            ),
        ),
    ),
    Question(
        number=5,
        key="training",
        title="Does it survive another training?",
        about="Models that were trained without a part of the data should explain alike where both are right (MeGe), and less alike where "
        "they contradict each other (ReCo).",
        rule="MeGe must cover at least half of the way from the random control to 1, and ReCo KS must exceed what 95 % of "
        "random relabellings reach. Without a trainer, or models that were each trained without a part of the data, the question is open.",
        checks=(
            SurvivesTraining(
                key="mege",
                title="MeGe",
                score="mege",
                line=LINES["trained"],
                phrase="by MeGe it covers {value} of the way from a random map to the same reasons{ends}",
                part=TRAINING,
            ),
            SurvivesTraining(
                key="reco",
                title="ReCo KS",
                score="reco_ks",
                line=LINES["folds"],
                phrase="by ReCo KS it covers {value} of the way from chance to 1{ends}",
                part=TRAINING,
                permuted=True,
            ),
        ),
    ),
)
"""The questions in their order."""


def evidence_for(reading: Reading, explainer: str, question: Question) -> Mapping[tuple[Check, str], Evidence | Standing]:
    """The evidence of every check of a question, by check and part."""
    found: dict[tuple[Check, str], Evidence | Standing] = {}
    for check in question.checks:
        parts = check.parts(reading)
        if not parts:
            missing = reading.missing.get(check.part, Standing(word=Word.NOT_ASKED, why="it was not measured"))
            found[check, check.part] = replace(missing, lasting=True)
        for part in parts:
            found[check, part] = check.evidence(reading, explainer, part)
    return found
