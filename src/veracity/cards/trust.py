"""Can the scores be trusted? How alike they order the explainers here, what planted truth says of them, and what meta-evaluation found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from veracity.cards.checks import MAPS, SEARCH, TRAINING, Check
from veracity.cards.dominate import Gains
from veracity.cards.questions import QUESTIONS
from veracity.cards.reading import Reading
from veracity.cards.record import MetaRecord, OrderRecord, TruthRecord
from veracity.core.errors import VeracityError
from veracity.planted.metric_truth import metric_truth
from veracity.results import Result
from veracity.statistics.correlation import spearman_correlation
from veracity.statistics.intervals import mean_interval
from veracity.statistics.resampling import resamplings
from veracity.studies.meta import TOGETHER, MetaResult
from veracity.studies.result import load, or_none

META = "meta"
"""The part of a card's folder that a meta-evaluation of its model may lie in."""
FEW_ORDERED = 4
"""Explainers, below which a rank correlation says nothing."""
WITNESSES = tuple(check for question in QUESTIONS if question.witnesses for check in question.checks)
"""Checks that measure the same thing in different ways."""


def planted_truth(modality: str) -> list[TruthRecord]:
    """How well the witnesses of a question order explainers where the right order is planted, for this kind of data.

    >>> [one.score for one in planted_truth("texts")], planted_truth("points")
    (['deletion', 'insertion', 'fast_gef'], [])
    """
    known = metric_truth().get(modality)
    found = [] if known is None else [one for check in WITNESSES if (one := known.find(check.score)) is not None and math.isfinite(one.rho)]
    return [TruthRecord(score=one.metric, rho=one.rho, low=one.low, high=one.high) for one in found]


def orders(gains: Sequence[tuple[tuple[Check, str], Gains]], reading: Reading) -> Iterator[OrderRecord]:
    """How alike every two checks order the explainers here, of those whose values are means over samples."""
    checks = [(key, one) for key, one in gains if key[0].part not in (SEARCH, TRAINING)]
    whole = np.ones((1, reading.samples))
    weights = list(resamplings(reading.samples, reading.units))
    titles = [reading.symmetries.get(part, (check.title, None))[0] for (check, part), _ in checks]
    values = [one.values(whole) for _, one in checks]
    drawn = [np.concatenate([one.values(part) for part in weights]) for _, one in checks]
    for first, second in combinations(range(len(checks)), 2):
        known = int((np.isfinite(values[first]) & np.isfinite(values[second])).sum())
        rho, low, high = math.nan, math.nan, math.nan
        if known >= FEW_ORDERED:
            rho = float(spearman_correlation(values[first], values[second])[0])
            again = spearman_correlation(drawn[first], drawn[second])
            again = again[np.isfinite(again)]
            low, high = (float(end) for end in np.quantile(again, [0.025, 0.975])) if len(again) else (math.nan, math.nan)
        ends = {"rho": or_none(rho), "low": or_none(low), "high": or_none(high)}
        yield OrderRecord(first=titles[first], second=titles[second], **ends, explainers=known)


def meta_verdicts(folder: str | Path, content: str) -> tuple[list[MetaRecord], list[str]]:
    """What a meta-evaluation in the folder of a card says of its scores, and notes; `content` is the hash of the card's model.

    The mean of both tests if both were run, with its t interval over iterations.
    """
    where = Path(folder) / META
    if not (where / "manifest.json").exists():
        return [], []
    try:
        found = load(where)
        if not isinstance(found, MetaResult):
            return [], [f"The folder {META} of this card holds no meta-evaluation, so nothing is said about it."]
        if Result(where / "base").manifest["models"]["model"]["fingerprint"] != content:
            return [], [f"The meta-evaluation in the folder {META} is about another model, so it is not shown."]
    except VeracityError as error:
        return [], [f"The meta-evaluation in the folder {META} cannot be read: {str(error).replace(str(where), META)}"]
    every = dict(found.by_test())
    own = {check.score: check for question in QUESTIONS for check in question.checks if check.part == MAPS}
    records = []
    for score in dict.fromkeys(name for name, _ in every if name in own):
        test = TOGETHER if (score, TOGETHER) in every else next(test for name, test in every if name == score)
        mean = mean_interval(every[score, test]["mc"].to_numpy(dtype=np.float64))
        if math.isfinite(mean.value):
            records.append(
                MetaRecord(score=score, test=test, mc=mean.value, low=or_none(mean.low), high=or_none(mean.high), iterations=mean.n)
            )
    return records, []
