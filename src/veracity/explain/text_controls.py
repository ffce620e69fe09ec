"""Controls for texts: what the place of a word and its rarity say, without a look at the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context
from veracity.core.inputs import Inputs, words_of
from veracity.core.registry import EXPLAINERS
from veracity.core.training import Training
from veracity.explain.attention import over_units
from veracity.explain.controls import Control

AT_ONCE = 4096
"""How many texts are counted at once."""


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Position(Control):
    """Importance by place alone: of n numbers the first has 1, the next 1 - 1/n, and so on to 1/n.

    With most="last" the last one has 1. Only numbers that exist are counted, so that padding changes nothing. No audit adds it on its
    own.
    """

    name = "position"
    signed = False
    most: Literal["first", "last"] = "first"

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        exists = torch.ones_like(inputs, dtype=torch.bool) if context.present is None else context.present
        number = exists.flatten(1).cumsum(1)
        count = number[:, -1:].clamp(min=1)
        share = (count - number + 1) / count if self.most == "first" else number / count
        return torch.where(exists, share.to(inputs).reshape(inputs.shape), 0.0)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class WordFrequency(Control):
    """Importance by rarity alone: -log((c + 1) / (C + V)) for a token that occurs c times among C, in a vocabulary of V.

    The occurrences are those in the training texts, or in the audited texts if the audit has none. The pieces of a word are added up.
    Special tokens are not counted. No audit adds it on its own.

    counts   how often each token occurs, (V,); the audit counts, unless they are given
    """

    name = "word_frequency"
    signed = False
    counts: Tensor | None = field(default=None, metadata={"unset": True})

    def with_data(self, inputs: Inputs, training: Training | None = None) -> WordFrequency:
        if self.counts is not None:
            return self
        source = inputs if training is None else training.inputs
        if words_of(source, 0) is None:
            raise InputError("word_frequency explains texts only, since it counts words: pass inputs=TextInputs(...), or leave it out.")
        return replace(self, counts=token_counts(source))

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        self.rarities(inputs, context)
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return over_units(self.rarities(inputs, context), context.structure[1], inputs.shape[1]).to(inputs)

    def rarities(self, inputs: Tensor, context: Context) -> Tensor:
        """-log of the smoothed share of every token (N, T); raises if the inputs are not texts, or nothing was counted."""
        if inputs.ndim != 2 or len(context.structure) < 2:
            raise InputError("word_frequency explains texts only, since it counts words: pass inputs=TextInputs(...), or leave it out.")
        if self.counts is None or self.counts.ndim != 1 or not len(self.counts):
            raise InputError("word_frequency has not counted any words: call with_data(texts) on it, or pass counts of shape (tokens,).")
        ids, counts = context.structure[0], self.counts.to(inputs.device).double()
        known = torch.where(ids < len(counts), counts[ids.clamp(max=len(counts) - 1)], 0.0)
        return -((known + 1) / (counts.sum() + len(counts))).log()


def token_counts(inputs: Inputs) -> Tensor:
    """How often every token occurs in texts, (V,), up to the largest number that occurs; special tokens and padding do not count."""
    found = torch.zeros(0, dtype=torch.long)
    for rows in torch.arange(inputs.size()).split(AT_ONCE):
        ids, units, *_ = inputs.take(rows).structure
        new = torch.bincount(ids[units >= 0], minlength=len(found))
        new[: len(found)] += found
        found = new
    return found
