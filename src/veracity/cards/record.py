"""The content of card.json, schema veracity-card/1: everything that a page shows, as plain data.

What is not a finite number is null. Fields may be added within a version; none changes its meaning or goes away.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from veracity.engine.store.manifest import Count, Part, Plain

SCHEMA: Literal["veracity-card/1"] = "veracity-card/1"
Share = Annotated[float, Field(ge=0, le=1)]
Answer = Literal["holds", "falls short", "cannot tell yet", "does not apply"]
Why = Literal["out", "dominated", "settled", "unlikely"]
OUT: Literal["out"] = "out"
DOMINATED: Literal["dominated"] = "dominated"
SETTLED: Literal["settled"] = "settled"
UNLIKELY: Literal["unlikely"] = "unlikely"


class CheckRecord(Part):
    """One check of one explainer.

    `value` is the share of the way from the reference to the ideal, `low` and `high` its interval at the card's `level`, and `line` what
    it is held against. Where all samples are equal, at most the share `unseen` of the population may differ unseen. `raw` is the score
    itself and `reference` what it was compared with: `against`. `assumed` is the share of samples on which the model does what the score
    assumes. `more` is about how many more samples would tell. If a race measured it on the first `samples` of its explainer's alone, its
    interval is at its own `level`.
    """

    check: str
    title: str
    score: str
    word: Answer
    value: float | None
    low: float | None
    high: float | None
    line: float
    n: Count
    undefined: Count
    raw: float | None
    reference: float | None
    against: str
    assumed: float | None
    more: Count | None
    unseen: Share | None
    why: str
    samples: Count | None = None
    level: float | None = None


class AnswerRecord(Part):
    """The answer to one question about one explainer; `hint` is what an open answer waits for, in a few words, else ""."""

    question: str
    word: Answer
    hint: str
    sentence: str
    checks: list[CheckRecord]


class StopRecord(Part):
    """Why a race gave an explainer no more samples than these, and the confidence of each of its intervals.

    It was `out`, `dominated` by those that `by` names, `settled`: nothing about it was open any more, or `unlikely`: all of its checks
    paused, since the samples that were left would hardly have told what was open.
    """

    why: Why
    samples: Count
    level: float
    by: list[str]


class ExplainerRecord(Part):
    """One explainer with its six answers. `out` if it falls short on question 0; a `control` is shown, and never recommended.

    `undominated` is the share of resamples in which nobody dominates it, and `dominated_by` names those that do for sure. If a race
    `stopped` measuring it, its answers are those of that look.
    """

    name: str
    control: bool
    out: bool
    answers: list[AnswerRecord]
    undominated: Share | None = None
    dominated_by: dict[str, Share]
    stopped: StopRecord | None = None


class QuestionRecord(Part):
    """One question, and the rule behind its word."""

    number: Count
    key: str
    title: str
    about: str
    rule: str


class UseRecord(Part):
    """A use of explanations: the questions that count, and which explainers are fit, still `open`, or not fit."""

    key: str
    title: str
    why: str
    questions: list[str]
    fit: list[str]
    open: list[str]
    unfit: list[str]


class OrderRecord(Part):
    """How alike two checks order the explainers: Spearman's rho over explainers, with its range over resamples."""

    first: str
    second: str
    rho: float | None
    low: float | None
    high: float | None
    explainers: Count


class TruthRecord(Part):
    """How a score orders explainers on planted tasks of the modality: Spearman's rho with the right order."""

    score: str
    rho: float
    low: float
    high: float


class MetaRecord(Part):
    """What a meta-evaluation of this model says of a score: its meta-consistency `mc`, from 0 to 1, with its interval over iterations.

    `test` is "ipt" (inputs perturbed), "mpt" (weights perturbed) or "both".
    """

    score: str
    test: str
    mc: float
    low: float | None
    high: float | None
    iterations: Count


class AdviceRecord(Part):
    """What to change in an explainer that does not follow a `symmetry`, and what that gained where it was measured."""

    explainer: str
    symmetry: str
    reason: str
    change: str
    before: float | None
    after: float | None
    gain: float | None
    low: float | None
    high: float | None


class GroupExplainer(Part):
    """The answers about one explainer in a subgroup."""

    name: str
    answers: list[AnswerRecord]


class GroupRecord(Part):
    """A subgroup of the samples: those with the `label` in what they are grouped `by`.

    One with too `few` samples has no answers. `units` is how many units, such as patients, its samples belong to.
    """

    by: str
    label: str
    samples: Count
    units: Count | None = None
    few: bool
    explainers: list[GroupExplainer]


class LookRecord(Part):
    """One look of a race before its end: after how many samples, the confidence of all of its decisions, how many comparisons there were,
    each at `level`, the `explainers` that were in, and those that it `stopped`; of those that went on, the checks that `paused`.
    """

    samples: Count
    confidence: float
    comparisons: Count
    level: float
    explainers: list[str]
    stopped: list[str]
    paused: dict[str, list[str]] = Field(default_factory=dict)


class CardRecord(Part):
    """A card.

    The samples belong to so many `units`, each called a `unit` such as "patient"; None if each sample stands alone. The words of all
    `groups` are a family of their own: their intervals are at `group_level`, for `group_comparisons`. `advice` is None if nobody asked.
    """

    card: Literal["veracity-card/1"]
    title: str
    model: str
    accuracy: float | None
    majority: float | None
    modality: str
    samples: Count
    planned: Count | None = None
    available: Count
    seed: Count
    budget: str
    confidence: float
    comparisons: Count
    level: float
    margin: float
    noise: float | None
    radius: float | None
    symmetries: list[str]
    questions: list[QuestionRecord]
    explainers: list[ExplainerRecord]
    undominated: list[str]
    uses: list[UseRecord]
    orders: list[OrderRecord]
    truth: list[TruthRecord]
    meta: list[MetaRecord] = Field(default_factory=list)
    advice: list[AdviceRecord] | None = None
    race: list[LookRecord] = Field(default_factory=list)
    left_out: dict[str, str]
    notes: list[str]
    versions: dict[str, Plain]
    units: Count | None = None
    unit: str = ""
    groups: list[GroupRecord] = Field(default_factory=list)
    group_comparisons: Count = 0
    group_level: float | None = None
