"""Texts for models of `transformers`: the explained values are one gate per token or word, applied at the word embedding.

A gate g moves a token's embedding E from the embedding b of a baseline token: b + g (E - b). With g = 1 the text is as it was, with
g = 0 the token is replaced. Every explainer and score therefore works on (N, U) numbers, and no array over the vocabulary exists.
Integrated gradients over gates equal Captum's LayerIntegratedGradients, summed over the embedding's dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Size, Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.inputs import Signals
from veracity.core.models import View, unwrap

Removal = Literal["replace", "blank", "drop"]
FIXED = -1
"""The unit of a token that no gate moves: special tokens and padding."""


@dataclass(frozen=True, eq=False)
class TextInputs:
    """Texts with the tokenizer of the model, which may have different lengths.

    unit      what gets a gate: "token" or "word"
    removal   what a gate of 0 does: "replace" the token by the mask token, "blank" it with the padding token, or "drop" it, so
              that nothing attends to it
    length    the longest text in tokens; longer ones are an error, unless `truncate`

    >>> from tests.text_models import tokenizer  # doctest: +SKIP
    """

    texts: Sequence[str]
    tokenizer: Any
    unit: Literal["token", "word"] = "token"
    removal: Removal = "replace"
    length: int | None = None
    truncate: bool = False

    def __post_init__(self) -> None:
        texts = self.texts
        if isinstance(texts, str) or not hasattr(texts, "__len__") or not len(texts):
            raise InputError("The texts are a list of at least one text, such as ['a fine film', 'a dull one'].")
        wrong = next((row for row, text in enumerate(texts) if not isinstance(text, str)), None)
        if wrong is not None:
            raise InputError(f"Text {wrong} is a {type(texts[wrong]).__name__}: every text must be a string.")
        if not callable(self.tokenizer) or not hasattr(self.tokenizer, "pad_token_id"):
            raise InputError(
                f"The tokenizer must be one of transformers, not {type(self.tokenizer).__name__}: AutoTokenizer.from_pretrained(...)."
            )
        if self.removal == "replace" and self.tokenizer.mask_token_id is None:
            raise InputError("This tokenizer has no mask token: pass removal='blank' or removal='drop'.")
        if self.tokenizer.pad_token_id is None and (self.removal != "replace" or len(texts) > 1):
            raise InputError("This tokenizer has no padding token: set tokenizer.pad_token = tokenizer.eos_token.")

    @cached_property
    def encoding(self) -> dict[str, Tensor]:
        """The tokens of all texts, padded to the longest."""
        coded = self.tokenizer(list(self.texts), padding=True, truncation=False, return_tensors="pt", return_special_tokens_mask=True)
        longest = coded["input_ids"].shape[1]
        limit = self.length or min(getattr(self.tokenizer, "model_max_length", longest), 10**6)
        if longest > limit:
            if not self.truncate:
                row = int(coded["attention_mask"].sum(1).argmax())
                raise InputError(f"Text {row} has {longest} tokens, and the model takes {limit}: shorten it, or pass truncate=True.")
            options = {"padding": True, "truncation": True, "max_length": limit}
            coded = self.tokenizer(list(self.texts), return_tensors="pt", return_special_tokens_mask=True, **options)
        self.__dict__["_words"] = [coded.word_ids(row) for row in range(len(self.texts))] if getattr(coded, "is_fast", False) else None
        return {name: coded[name] for name in coded}

    @cached_property
    def units(self) -> Tensor:
        """The unit of every token (N, T), numbered from 0 in each text; -1 for tokens that are never perturbed."""
        free = (self.encoding["attention_mask"] == 1) & (self.encoding["special_tokens_mask"] == 0)
        if self.unit == "token":
            return torch.where(free, free.cumsum(1) - 1, FIXED)
        words = self.__dict__["_words"]
        if words is None:
            raise InputError("unit='word' needs a fast tokenizer: AutoTokenizer.from_pretrained(..., use_fast=True).")
        rows = []
        for row, known in enumerate(words):
            order = {word: number for number, word in enumerate(dict.fromkeys(word for word in known if word is not None))}
            rows.append([order[word] if word is not None and bool(free[row, at]) else FIXED for at, word in enumerate(known)])
        return torch.tensor(rows)

    @property
    def counts(self) -> Tensor:
        """The number of units of every text, (N,)."""
        return self.units.amax(1) + 1

    @property
    def shape(self) -> Size:
        """(U,), the number of units of the longest text."""
        return Size((int(self.counts.max()),))

    def size(self) -> int:
        """The number of texts."""
        return len(self.texts)

    @property
    def carried(self) -> tuple[str, ...]:
        """What the model gets besides the tokens, by its name."""
        return tuple(name for name in self.encoding if name not in ("input_ids", "special_tokens_mask"))

    def take(self, index: Tensor) -> Signals:
        """Gates of 1 for every unit of these texts, 0 beyond; tokens, units and masks are carried along."""
        rows = index.cpu()
        gates = (torch.arange(self.shape[0]) < self.counts[rows, None]).float()
        carried = (self.encoding[name][rows] for name in self.carried)
        return Signals(gates, (self.encoding["input_ids"][rows], self.units[rows], *carried))

    def names(self, row: int) -> list[str]:
        """The words or tokens of one text, in order."""
        found: dict[int, list[int]] = {}
        for at, unit in enumerate(self.units[row].tolist()):
            if unit != FIXED:
                found.setdefault(unit, []).append(int(self.encoding["input_ids"][row, at]))
        return [self.tokenizer.decode(ids).strip() for ids in found.values()]

    def fingerprint(self) -> str:
        """A hash of the tokens and of what a gate does."""
        parts = [fingerprint.of_tensor(self.encoding[name]) for name in ("input_ids", *self.carried)]
        return fingerprint.of_json(["texts", self.unit, self.removal, self.baseline, fingerprint.of_tensor(self.units), *parts])

    @property
    def baseline(self) -> int:
        """The token in the place of a removed one."""
        return int(self.tokenizer.mask_token_id if self.removal == "replace" else self.tokenizer.pad_token_id)

    def adapt(self, model: nn.Module) -> nn.Module:
        """The model as a map from gates and tokens to scores."""
        return GatedText(model, self.baseline, self.carried, self.removal == "drop")


class GatedText(View):
    """A text model whose word embeddings are moved by gates (N, U)."""

    def __init__(self, model: nn.Module, baseline: int, carried: tuple[str, ...], drop: bool) -> None:
        super().__init__(model)
        self.baseline, self.carried, self.drop = baseline, carried, drop
        rows = word_embedding(model).weight.shape[0]
        if baseline >= rows:
            raise InputError(f"The baseline token {baseline} is not among the model's {rows} tokens: pass the tokenizer of this model.")

    def real_positions(self, gates: Tensor, ids: Tensor, units: Tensor, *carried: Tensor) -> Tensor:
        """Which positions hold a token and no padding, (N, T)."""
        mask = dict(zip(self.carried, carried, strict=True)).get("attention_mask")
        return torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()

    def forward(self, gates: Tensor, ids: Tensor, units: Tensor, *carried: Tensor) -> Tensor:
        """The model's output for gated tokens."""
        embedding = word_embedding(self.model)
        if int(ids.max()) >= embedding.weight.shape[0]:
            raise InputError(
                f"The texts have the token {int(ids.max())}, and the model knows {embedding.weight.shape[0]}: pass the tokenizer of this model."
            )
        fixed = units < 0
        strength = torch.where(fixed, 1.0, gates.gather(1, units.clamp(min=0))).to(embedding.weight.dtype)

        def gate(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
            floor = embedding.weight[self.baseline]
            return floor + strength.unsqueeze(-1) * (output - floor)

        named = dict(zip(self.carried, carried, strict=True))
        if self.drop and "attention_mask" in named:
            named["attention_mask"] = named["attention_mask"] * (strength != 0)
        handle = embedding.register_forward_hook(gate)
        try:
            output = self.model(input_ids=ids, **named)
        finally:
            handle.remove()
        return output if isinstance(output, Tensor) else output[0] if not hasattr(output, "logits") else output.logits


def word_embedding(model: nn.Module) -> nn.Module:
    """The layer that looks up the tokens' vectors; raises if the model does not tell."""
    inner = unwrap(model)
    found = inner.get_input_embeddings() if hasattr(inner, "get_input_embeddings") else None
    if found is None:
        tables = [part for part in inner.modules() if isinstance(part, nn.Embedding)]
        found = tables[0] if len(tables) == 1 else None
    if found is None or not hasattr(found, "weight"):
        raise InputError("The model has no layer of word embeddings that can be found: give it a method get_input_embeddings().")
    return found
