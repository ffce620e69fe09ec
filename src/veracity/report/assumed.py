"""What scores take for granted of the models, and on how many samples it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from veracity.core.errors import VeracityError
from veracity.core.sentences import tell
from veracity.report.kinds import score_of
from veracity.scores.assumptions import sentence


@dataclass(frozen=True, kw_only=True)
class Assumed:
    """One score on one model: the assumption's label, on how many of `n` samples it `holds`, and that in a sentence."""

    model: str
    score: str
    assumption: str
    holds: int
    n: int
    text: str

    @property
    def fails(self) -> int:
        """On how many samples it does not hold."""
        return self.n - self.holds


def assumed(
    manifest: Mapping[str, Any], samples: Callable[[str], pd.DataFrame], scores: Iterable[str], models: Sequence[str]
) -> tuple[Assumed, ...]:
    """Every assumption of these scores that was measured, in their order; `samples` gives a score's value of every sample."""
    labels = manifest.get("assumptions") or {}
    asked = [score for score in scores if score in labels]
    held = {label: by_model(samples, label) for label in dict.fromkeys(labels[score] for score in asked)}
    return tuple(
        in_words(manifest, model, score, labels[score], held[labels[score]][model])
        for score in asked
        for model in models
        if model in held[labels[score]]
    )


def by_model(samples: Callable[[str], pd.DataFrame], label: str) -> dict[str, tuple[int, int]]:
    """On how many samples an assumption holds, and on how many that can be told, by model; nothing if it was not measured."""
    try:
        frame = samples(label)
    except VeracityError:
        return {}
    values = {str(model): group["value"].to_numpy(dtype=np.float64) for model, group in frame.groupby("model", sort=False)}
    return {model: (int((found == 1).sum()), int(np.isfinite(found).sum())) for model, found in values.items()}


def in_words(manifest: Mapping[str, Any], model: str, score: str, label: str, found: tuple[int, int]) -> Assumed:
    """The sentence that the assumption has for it, about the score as the run calls it."""
    holds, n = found
    own, other = score_of(manifest, score), score_of(manifest, label)
    text = tell("assumed.label", score, label, holds, n, samples=n) or tell("assumed.label_untold", score, label, assumed=1)
    if own is not None and other is not None and hasattr(other, "assumes"):
        text = score + sentence(own, other, holds, n).removeprefix(own.name)
    return Assumed(model=model, score=score, assumption=label, holds=holds, n=n, text=text)
