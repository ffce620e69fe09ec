"""What features of a layer stand for: the texts in which each fires most, its words in the colour of its activation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from veracity.core.wording import compact
from veracity.report.figures.words import WordLine, word_line

BLANK = "\N{OPEN BOX}"
"""What stands for a space or a line break, which would be invisible."""


@dataclass(frozen=True, kw_only=True)
class FeatureExamples:
    """One feature: its number, its mean and the share of tokens on which it fires in words, and its texts."""

    number: int
    mean: str
    fires: str
    lines: tuple[WordLine, ...]


@dataclass(frozen=True, kw_only=True)
class Meanings:
    """The features of one explainer."""

    explainer: str
    features: tuple[FeatureExamples, ...]


def meaning_data(manifest: Mapping[str, Any], model: str) -> tuple[Meanings, ...]:
    """The features of every explainer of a model that the manifest tells about."""
    mine = [record for record in manifest.get("meanings") or [] if record["model"] == model]
    labels = dict.fromkeys(record["explainer"] for record in mine)
    return tuple(
        Meanings(explainer=label, features=tuple(examples(record) for record in mine if record["explainer"] == label)) for label in labels
    )


def examples(record: Mapping[str, Any]) -> FeatureExamples:
    """One feature; all of its texts share one scale.

    >>> record = {"feature": 3, "mean": 0.25, "fires": 0.125, "lines": [{"sample": 7, "words": ["a", ""], "values": [0.0, 2.0]}]}
    >>> found = examples(record)
    >>> found.fires, found.lines[0].label, found.lines[0].words, found.lines[0].shares
    ('12 %', 'sample 7', ('a', '␣'), (0.0, 1.0))
    """
    top = max((max(line["values"], default=0.0) for line in record["lines"]), default=0.0)
    lines = [
        word_line(
            f"sample {line['sample']}",
            ["\N{HORIZONTAL ELLIPSIS}"] * bool(line.get("cut")) + [word.strip() or BLANK for word in line["words"]],
            np.array([0.0] * bool(line.get("cut")) + line["values"]),
            scale=top or None,
            signed=False,
        )
        for line in record["lines"]
    ]
    share = f"{record['fires']:.0%}".replace("%", " %")
    return FeatureExamples(number=record["feature"], mean=compact(record["mean"]), fires=share, lines=tuple(lines))
