"""Texts for models of `transformers`: the explained values are one gate per token or word, applied at the word embedding.

A gate g moves a token's embedding E from the embedding b of a baseline token: b + g (E - b). With g = 1 the text is as it was, with
g = 0 the token is replaced. Every explainer and score therefore works on (N, U) numbers, and no array over the vocabulary exists.
Integrated gradients over gates equal Captum's LayerIntegratedGradients, summed over the embedding's dimension.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Size, Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, meant, warn
from veracity.core.inputs import Signals
from veracity.core.models import View, unwrap, word_embedding
from veracity.core.settings import short_repr
from veracity.models.base import scores_in
from veracity.models.transformers import PipelineModel

Removal = Literal["replace", "blank", "drop"]
UNITS = {"token": ("tokens", "piece", "pieces"), "word": ("words",)}
"""What gets a gate, and other words for it that people try."""
REMOVALS = {"replace": ("mask", "masked"), "blank": ("pad", "padding", "zero"), "drop": ("delete", "remove", "attention")}
"""What a gate of 0 does, and other words for it that people try."""
FILLERS = ("eos_token", "sep_token", "unk_token", "cls_token", "bos_token")
"""Tokens that may serve as padding, the most usual first."""
SHOWN = 10
"""How many empty texts an error names."""
REMEMBERED = 4096
"""The words of so many texts are remembered."""
FIXED = -1
"""The unit of a token that no gate moves: special tokens and padding."""
WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
"""Letters and digits, with apostrophes and hyphens inside."""


class Word(NamedTuple):
    """A word of a text: its letters, where they are, and the units whose tokens hold any of them."""

    text: str
    start: int
    stop: int
    units: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class TextInputs:
    """Texts with the tokenizer of the model, which may have different lengths.

    unit      what gets a gate: "token" or "word"
    removal   what a gate of 0 does: "replace" the token by the mask token, "blank" it with the padding token, or "drop" it, so
              that nothing attends to it
    length    the longest text in tokens; longer ones are an error, unless `truncate`

    Special tokens and padding have no gate. `floor`, the gate of a token that is not there, is what masks put.
    """

    floor: ClassVar[float] = 0.0

    texts: Sequence[str]
    tokenizer: Any
    unit: Literal["token", "word"] = "token"
    removal: Removal = "replace"
    length: int | None = None
    truncate: bool = False
    given: Mapping[str, Tensor] | None = None
    given_words: Sequence[Sequence[int | None]] | None = None

    def __post_init__(self) -> None:
        texts = self.texts
        if isinstance(texts, str) or not hasattr(texts, "__len__") or not len(texts):
            raise InputError("The texts are a list of at least one text, such as ['a fine film', 'a dull one'].")
        for row, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(no_string(row, text))
        if not callable(self.tokenizer) or not hasattr(self.tokenizer, "pad_token_id"):
            raise InputError(
                f"The tokenizer must be one of transformers, not {type(self.tokenizer).__name__}: AutoTokenizer.from_pretrained(...)."
            )
        if self.length is not None and self.length < 1:
            raise InputError(f"length={self.length} leaves nothing of a text: give the most tokens that the model takes, or leave it out.")
        check_choice("unit", self.unit, UNITS)
        check_choice("removal", self.removal, REMOVALS)
        if self.tokenizer.mask_token_id is None and self.tokenizer.pad_token_id is None:
            raise InputError(
                "This tokenizer has neither a mask token nor a padding token, one of which stands for a removed word (also with "
                "removal='drop', where a gate between 0 and 1 moves a token towards it): set "
                f"{padding_advice(self.tokenizer)}, and pass removal='blank' or removal='drop'."
            )
        if self.removal == "replace" and self.tokenizer.mask_token_id is None:
            raise InputError("This tokenizer has no mask token: pass removal='blank' or removal='drop'.")
        if self.tokenizer.pad_token_id is None and (self.removal != "replace" or (len(texts) > 1 and self.given is None)):
            raise InputError(f"This tokenizer has no padding token: set {padding_advice(self.tokenizer)}.")

    @classmethod
    def of_encoding(
        cls,
        encoding: Any,
        tokenizer: Any = None,
        *,
        unit: Literal["token", "word"] = "token",
        special: Sequence[int] = (),
        mask: int | None = None,
        pad: int | None = None,
    ) -> TextInputs:
        """From `input_ids` (N, T), alone or in a dict or BatchEncoding with a mask of the padding.

        Without a tokenizer, `special` are the numbers of tokens that are never perturbed, `mask` is the one that replaces a token, and
        `pad` the one that fills short texts, unless there is a mask of the padding.
        """
        parts = {"input_ids": encoding} if isinstance(encoding, Tensor) else dict(encoding)
        ids = parts.get("input_ids")
        if not isinstance(ids, Tensor) or ids.ndim != 2 or ids.is_floating_point() or not ids.numel():
            what = f"{ids.dtype} {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
            raise InputError(
                f"input_ids must be whole numbers of shape (texts, tokens), not {what}: pass tokenizer(texts, return_tensors='pt')."
            )
        if tokenizer is None and mask is None:
            raise InputError(
                "Token numbers need the tokenizer, or the number of the token that replaces one: pass TextInputs.of_encoding(encoding, "
                "tokenizer), or TextInputs.of_encoding(encoding, mask=103)."
            )
        if tokenizer is None and pad is None and "attention_mask" not in parts:
            raise InputError(
                "Token numbers without a tokenizer need the number of the token that fills short texts, or a mask: pass "
                "TextInputs.of_encoding(ids, mask=103, pad=0), or a dict with 'input_ids' and 'attention_mask'."
            )
        known = NumbersOnly(mask, tuple(special), pad) if tokenizer is None else tokenizer
        fill = known.pad_token_id
        attended = parts.get("attention_mask", torch.ones_like(ids) if fill is None else (ids != fill).long())
        given = {**parts, "attention_mask": attended, "special_tokens_mask": special_tokens(ids, known, special)}
        texts = [known.decode(row[kept == 1].tolist(), skip_special_tokens=True) for row, kept in zip(ids, attended, strict=True)]
        removal: Removal = "replace" if known.mask_token_id is not None else "blank"
        tensors = {name: part.cpu() for name, part in given.items() if isinstance(part, Tensor)}
        return cls(texts, known, unit=unit, removal=removal, given=tensors, given_words=words_in(encoding, len(ids)))

    @property
    def encoding(self) -> dict[str, Tensor]:
        """The tokens of all texts, padded to the longest."""
        return self.coded[0]

    @property
    def padded(self) -> bool:
        """Whether texts are padded: one text alone needs no padding token."""
        return len(self.texts) > 1

    @cached_property
    def coded(self) -> tuple[dict[str, Tensor], Sequence[Sequence[int | None]] | None]:
        """The tokens of all texts, and the number of the word of each token, where they are known."""
        if self.given is not None:
            return dict(self.given), self.given_words
        asked = {"truncation": False, "return_tensors": "pt", "return_special_tokens_mask": True, "verbose": False}
        coded = self.tokenizer(list(self.texts), padding=self.padded, **asked)
        longest = coded["input_ids"].shape[1]
        limit = self.length or int(min(getattr(self.tokenizer, "model_max_length", longest), 10**6))
        if longest > limit:
            tokens = coded["attention_mask"].sum(1)
            if not self.truncate:
                raise InputError(self.refusal(tokens, limit))
            added = self.tokenizer.num_special_tokens_to_add()
            if limit <= added:
                raise InputError(f"length={limit} leaves no room beside {added} special tokens of this tokenizer: give a larger one.")
            warn(f"{self.too_long(tokens, limit)}: what comes after these was cut off.")
            options = {"padding": self.padded, "truncation": True, "max_length": limit}
            coded = self.tokenizer(list(self.texts), return_tensors="pt", return_special_tokens_mask=True, **options)
        special = coded["special_tokens_mask"] | special_tokens(coded["input_ids"], self.tokenizer)
        return {**{name: coded[name] for name in coded}, "special_tokens_mask": special}, words_in(coded, len(self.texts))

    def too_long(self, tokens: Tensor, limit: int) -> str:
        """Which texts have more tokens (N,) than the model takes, in words."""
        row, many = int(tokens.argmax()), int((tokens > limit).sum())
        most = int(tokens[row])
        if many == 1:
            return f"Text {row} has {most} tokens, and the model takes {limit}"
        return f"{many} of {len(self.texts)} texts have more tokens than the {limit} that the model takes, such as text {row} with {most}"

    def refusal(self, tokens: Tensor, limit: int, how: str = "") -> str:
        """What to do about texts that are too long, in a sentence; `how` are further settings that it takes."""
        which = "it" if int((tokens > limit).sum()) == 1 else "them"
        in_file = f"{how}truncate=True".replace("=", " = ").replace("True", "true")
        return f"{self.too_long(tokens, limit)}: shorten {which}, or pass TextInputs(..., {how}truncate=True); in an audit file, {in_file}."

    @cached_property
    def units(self) -> Tensor:
        """The unit of every token (N, T), numbered from 0 in each text; -1 for tokens that are never perturbed.

        Raises if a text has no unit.
        """
        free = (self.encoding["attention_mask"] == 1) & (self.encoding["special_tokens_mask"] == 0)
        empty = (~free.any(1)).nonzero()[:, 0].tolist()
        if empty:
            shown = ", ".join(map(str, empty[:SHOWN])) + (", ..." if len(empty) > SHOWN else "")
            one = "Text {} is empty or holds" if len(empty) == 1 else "Texts {} are empty or hold"
            which = "it" if len(empty) == 1 else "them"
            raise InputError(f"{one.format(shown)} only special tokens, so there is nothing to explain: leave {which} out.")
        if self.unit == "token":
            return torch.where(free, free.cumsum(1) - 1, FIXED)
        words = self.coded[1]
        if words is None:
            raise InputError(
                "unit='word' needs to know the words of the tokens: pass texts with a fast tokenizer, "
                "AutoTokenizer.from_pretrained(..., use_fast=True), or all that such a tokenizer returned for them."
            )
        rows = []
        for row, known in enumerate(words):
            kept = [word if bool(free[row, at]) else None for at, word in enumerate(known)]
            order = {word: number for number, word in enumerate(dict.fromkeys(word for word in kept if word is not None))}
            rows.append([FIXED if word is None else order[word] for word in kept])
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
        return Signals(gates, (self.encoding["input_ids"][rows], self.units[rows], *carried), gates > 0)

    def words(self, row: int) -> list[str]:
        """The words or tokens of one text, in order."""
        found: dict[int, list[int]] = {}
        for at, unit in enumerate(self.units[row].tolist()):
            if unit != FIXED:
                found.setdefault(unit, []).append(int(self.encoding["input_ids"][row, at]))
        return [self.tokenizer.decode(ids).strip() for ids in found.values()]

    @cached_property
    def rows_by_ids(self) -> dict[bytes, int]:
        """The number of the first text with these tokens."""
        ids = self.encoding["input_ids"].numpy()
        return {ids[row].tobytes(): row for row in reversed(range(len(ids)))}

    def knows(self, ids: Tensor) -> bool:
        """Whether one of the texts has these tokens (T,)."""
        return ids.cpu().numpy().tobytes() in self.rows_by_ids

    def row_of(self, ids: Tensor, likely: int = -1) -> int:
        """The number of a text with these tokens (T,): of the `likely` text if it has them, else of the first; raises if there is none."""
        if 0 <= likely < len(self.texts) and torch.equal(self.encoding["input_ids"][likely], ids.cpu()):
            return likely
        row = self.rows_by_ids.get(ids.cpu().numpy().tobytes())
        if row is None:
            raise InputError("These tokens belong to none of the texts: pass the TextInputs that they were taken from.")
        return row

    @cached_property
    def offsets(self) -> list[list[tuple[int, int]]] | None:
        """Where the letters of every token are in its text; None if the tokenizer does not tell, or there are only tokens."""
        if self.given is not None or not getattr(self.tokenizer, "is_fast", False):
            return None
        width = self.encoding["input_ids"].shape[1]
        options = {"padding": self.padded, "truncation": True, "max_length": width, "return_offsets_mapping": True}
        found: list[list[tuple[int, int]]] = self.tokenizer(list(self.texts), **options)["offset_mapping"]
        return found

    def spelt(self, row: int) -> tuple[str, list[Word]]:
        """One text, as far as the model reads it, and its words, each with its units.

        Without the places of letters, the text is that of its units, and each unit with a letter is a word. Some thousand texts are
        remembered, since copies of a model are shown the same ones.
        """
        if row not in self.spellings:
            if len(self.spellings) >= REMEMBERED:
                self.spellings.clear()
            self.spellings[row] = self.spell(row)
        return self.spellings[row]

    @cached_property
    def spellings(self) -> dict[int, tuple[str, list[Word]]]:
        """The texts and words that are remembered, by row."""
        return {}

    def spell(self, row: int) -> tuple[str, list[Word]]:
        """One text and its words."""
        units = self.units[row].tolist()
        if self.offsets is None:
            parts, found, start = self.words(row), list[Word](), 0
            for unit, part in enumerate(parts):
                if inside := WORD.search(part):
                    found.append(Word(inside[0], start + inside.start(), start + inside.end(), (unit,)))
                start += len(part) + 1
            return " ".join(parts), found
        places = [(unit, low, high) for unit, (low, high) in zip(units, self.offsets[row], strict=True) if unit != FIXED and high > low]
        text = self.texts[row][: max((high for _, _, high in places), default=0)]
        found = []
        for one in WORD.finditer(text):
            inside_units = dict.fromkeys(unit for unit, low, high in places if low < one.end() and high > one.start())
            if inside_units:
                found.append(Word(one[0], one.start(), one.end(), tuple(inside_units)))
        return text, found

    def fingerprint(self) -> str:
        """A hash of the tokens and of what a gate does."""
        parts = [fingerprint.of_tensor(self.encoding[name]) for name in ("input_ids", *self.carried)]
        return fingerprint.of_json(["texts", self.unit, self.removal, self.baseline, fingerprint.of_tensor(self.units), *parts])

    @property
    def baseline(self) -> int:
        """The token in the place of a removed one."""
        return int(self.tokenizer.mask_token_id if self.removal == "replace" else self.tokenizer.pad_token_id)

    def adapt(self, model: nn.Module) -> nn.Module:
        """The model as a map from gates and tokens to scores; raises if it does not know these tokens, or texts of this length."""
        if isinstance(model, GatedText):
            return model
        self.check(model)
        takes = inspect.signature(unwrap(model).forward).parameters
        named = any(one.kind is one.VAR_KEYWORD for one in takes.values())
        return GatedText(model, self.baseline, self.carried, tuple(named or name in takes for name in self.carried), self.removal == "drop")

    def check(self, model: nn.Module) -> None:
        """Raise if the tokens are another model's, or too many."""
        rows, largest = word_embedding(model).weight.shape[0], max(int(self.encoding["input_ids"].max()), self.baseline)
        if largest >= rows:
            raise InputError(f"The texts have the token {largest}, and the model knows {rows} tokens: pass the tokenizer of this model.")
        limit = getattr(getattr(unwrap(model), "config", None), "max_position_embeddings", None)
        if isinstance(limit, int) and self.encoding["input_ids"].shape[1] > limit > 0:
            raise InputError(self.refusal(self.encoding["attention_mask"].sum(1), limit, f"length={limit}, "))


def check_choice(name: str, given: Any, known: Mapping[str, Sequence[str]]) -> None:
    """Raise unless a value is one of the known ones; the error names them, and the one that was probably meant."""
    if isinstance(given, str) and given in known:
        return
    same = next((value for value, others in known.items() if str(given).lower() in others), "")
    found = same or meant(str(given), list(known))
    hint = f". Did you mean '{found}'?" if found else "."
    first, last = ", ".join(f"'{one}'" for one in list(known)[:-1]), list(known)[-1]
    raise InputError(f"{name} must be {first} or '{last}', not {short_repr(given)}{hint}")


def padding_advice(tokenizer: Any) -> str:
    """How to give a tokenizer a padding token: by a token that it has."""
    found = next((name for name in FILLERS if getattr(tokenizer, name, None) is not None), None)
    return f"tokenizer.pad_token = tokenizer.{found}" if found else "tokenizer.pad_token to a token of its vocabulary"


def special_tokens(ids: Tensor, tokenizer: Any, more: Sequence[int] = ()) -> Tensor:
    """1 for every token (N, T) that is never perturbed, also where the text itself spells it out; else 0."""
    fixed = {*more, *tokenizer.all_special_ids} - {tokenizer.mask_token_id, tokenizer.unk_token_id}
    return torch.isin(ids.cpu(), torch.tensor(sorted(fixed), dtype=ids.dtype)).long()


def words_in(encoding: Any, count: int) -> list[list[int | None]] | None:
    """The number of the word of every token of `count` texts; None if this is not the answer of a fast tokenizer."""
    return [encoding.word_ids(row) for row in range(count)] if getattr(encoding, "is_fast", False) else None


@dataclass(frozen=True)
class NumbersOnly:
    """What is known of tokens without a tokenizer: which token replaces one, and which are never perturbed."""

    mask_token_id: int | None
    all_special_ids: tuple[int, ...]
    pad_token_id: int | None
    unk_token_id: int | None = None

    def __call__(self, *_texts: Any) -> Any:
        """Raise, since numbers alone cannot be made from texts."""
        raise InputError("There is no tokenizer: pass TextInputs.of_encoding(encoding, tokenizer=...).")

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """The numbers themselves."""
        return " ".join(str(one) for one in ids if not skip_special_tokens or one not in self.all_special_ids)


class GatedText(View):
    """A text model whose word embeddings are moved by gates (N, U), and by noise (N, U, width) if there is any."""

    def __init__(self, model: nn.Module, baseline: int, carried: tuple[str, ...], taken: tuple[bool, ...], drop: bool) -> None:
        super().__init__(model)
        self.baseline, self.carried, self.taken, self.drop = baseline, carried, taken, drop

    def real_positions(self, gates: Tensor, ids: Tensor, units: Tensor, *carried: Tensor) -> Tensor:
        """Which positions hold a token and no padding, (N, T)."""
        mask = dict(zip(self.carried, carried, strict=False)).get("attention_mask")
        return torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()

    def extended(self, tokens: Tensor, *inputs: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """The inputs with the same tokens (L,), which have no gate, after the last token of every text; and its position (N,)."""
        gates, ids, units, *carried = inputs
        count = len(tokens)
        limit = getattr(getattr(unwrap(self.model), "config", None), "max_position_embeddings", None)
        if isinstance(limit, int) and 0 < limit < ids.shape[1] + count:
            raise InputError(
                f"The longest text has {ids.shape[1]} tokens, and {count} more follow it, but the model takes {limit}: shorten the texts, "
                f"or pass TextInputs(..., length={limit - count}, truncate=True)."
            )
        real = self.real_positions(gates, ids, units, *carried).long()
        last = (real * torch.arange(1, ids.shape[1] + 1, device=ids.device)).amax(1) - 1
        place = torch.arange(ids.shape[1] + count, device=ids.device).expand(len(ids), -1)
        after = place - last[:, None] - 1  # 0 for the first new token
        new = (after >= 0) & (after < count)
        source = torch.where(after < count, place, place - count).clamp(max=ids.shape[1] - 1)

        def longer(part: Tensor, filled: Tensor | int) -> Tensor:
            return torch.where(new, filled, part.gather(1, source)).to(part.dtype)

        chosen = tokens.to(ids)[after.clamp(0, count - 1)] if count else ids.new_zeros(1)
        named = zip(self.carried, carried, strict=False)
        masks = [longer(part, int(name == "attention_mask")) if part.shape == ids.shape else part for name, part in named]
        return (gates, longer(ids, chosen), longer(units, FIXED), *masks, *carried[len(self.carried) :]), last

    def forward(self, gates: Tensor, ids: Tensor, units: Tensor, *carried: Tensor) -> Any:
        """The model's scores for gated tokens."""
        embedding = word_embedding(self.model)
        fixed, place = units < 0, units.clamp(min=0)
        strength = torch.where(fixed, 1.0, gates.gather(1, place)).to(embedding.weight.dtype)
        noise = carried[len(self.carried)] if len(carried) > len(self.carried) else None

        def gate(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
            floor = embedding.weight[self.baseline]
            moved = floor + strength.unsqueeze(-1) * (output - floor)
            if noise is None:
                return moved
            added = noise.gather(1, place.unsqueeze(-1).expand(-1, -1, noise.shape[-1])).to(moved)
            return torch.where(fixed.unsqueeze(-1), moved, moved + added)

        named = {name: part for name, part, taken in zip(self.carried, carried, self.taken, strict=False) if taken}
        if self.drop and "attention_mask" in named:
            named["attention_mask"] = named["attention_mask"] * (strength != 0)
        handle = embedding.register_forward_hook(gate)
        try:
            output = unwrap(self.model)(input_ids=ids, **named)
        finally:
            handle.remove()
        return scores_in(output)


def tokenizer_of(model: Any) -> Any:
    """The tokenizer that comes with a model: that of a pipeline, else None."""
    if PipelineModel.accepts(model):
        return model.tokenizer
    while isinstance(model, View):
        if isinstance(model, PipelineModel):
            return model.tokenizer
        model = model.model
    return None


def is_text(inputs: Any) -> bool:
    """Whether inputs are texts: a list of strings, or what a tokenizer returned for them."""
    if isinstance(inputs, Mapping) or hasattr(inputs, "input_ids"):
        return "input_ids" in inputs
    listed = isinstance(inputs, (list, tuple)) or type(inputs).__name__ in ("Series", "ndarray", "Column")
    return listed and len(inputs) > 0 and all(isinstance(one, str) for one in inputs)


def meant_as_text(inputs: Any, tokenizer: Any) -> bool:
    """Whether a list was meant to hold texts, though some or all of it is none: one text is enough, or a tokenizer and no arrays.

    >>> meant_as_text(["a fine film", None], None), meant_as_text([1, 2], None), meant_as_text([[1.0], [2.0]], object())
    (True, False, False)
    """
    if not isinstance(inputs, (list, tuple)) or not inputs:
        return False
    return any(isinstance(one, str) for one in inputs) or (
        tokenizer is not None and all(one is None or isinstance(one, (int, float)) for one in inputs)
    )


def texts_for(model: Any, texts: Any, tokenizer: Any = None) -> TextInputs:
    """The inputs of a text model: from strings with the tokenizer of its pipeline, or from what a tokenizer returned.

    `model` is a pipeline, an adapted one, or a model that finds its word embedding by get_input_embeddings().
    """
    found = tokenizer_of(model) if tokenizer is None else tokenizer
    if isinstance(texts, Mapping) or hasattr(texts, "input_ids"):
        return TextInputs.of_encoding(texts, found)
    if isinstance(texts, Tensor):
        inner = unwrap(model) if isinstance(model, nn.Module) else getattr(model, "model", None)
        if not hasattr(inner, "get_input_embeddings"):
            raise InputError(
                "Token numbers go to a model that has get_input_embeddings(): for one-hot rows pass TokenInputs(ids, vocabulary)."
            )
        return TextInputs.of_encoding(texts, found)
    if found is None:
        raise InputError("Texts need the tokenizer of the model: pass inputs=TextInputs(texts, tokenizer), or a pipeline as the model.")
    listed: Sequence[str] = list(texts)
    return TextInputs(listed, found, removal=removal_for(found))


def no_string(row: int, given: Any) -> str:
    """A sentence about something among texts that is none.

    >>> no_string(3, None), no_string(3, float("nan")) == no_string(3, None)
    ('Text 3 is missing: fill it in, or leave it out.', True)
    >>> no_string(3, 5)
    'Text 3 is 5, of type int: every text must be a string.'
    """
    if given is None or (isinstance(given, float) and math.isnan(given)):
        return f"Text {row} is missing: fill it in, or leave it out."
    return f"Text {row} is {short_repr(given)}, of type {type(given).__name__}: every text must be a string."


def removal_for(tokenizer: Any) -> Any:
    """What a gate of 0 does with this tokenizer: a token is replaced by the mask token if there is one, else by the padding."""
    return "replace" if getattr(tokenizer, "mask_token_id", None) is not None else "blank"
