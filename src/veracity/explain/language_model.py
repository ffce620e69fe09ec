"""A causal language model of `transformers` that can be asked: the likelihood of words after a prompt, and written answers.

The words of a text are packed behind its prompt in one row. Every word sees the prompt and itself, at the positions that it would
have alone, so one pass gives the likelihoods of all words. A model that cannot read such rows gets one row per word instead.
Prompts of many texts go together, padded on the left.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.models import device_of, evaluating, out_of_memory
from veracity.core.settings import short_repr
from veracity.models.transformers import PipelineModel, without_bars

GGUF = ("gguf", "accelerate")
"""What the reader of GGUF files in `transformers` needs."""
APART = {torch.float32: 1e-3, torch.float64: 1e-6}
"""How far packed log-likelihoods may be from those of single rows; 0.1 in half precision."""
NOT_CONTENT = ("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version", "quantization_config")
"""Parts of a configuration that say where a model comes from, and not what it does."""
SHORT, REMEMBERED = 32, 1 << 17
"""The tokens of texts of so many letters are remembered, for so many texts."""
WHY = 160
"""How many characters of another library's error a refusal shows."""
A = TypeVar("A")
B = TypeVar("B")


class Question(NamedTuple):
    """The tokens of a prompt, and of every word that may follow it."""

    prompt: tuple[int, ...]
    words: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.prompt) + sum(map(len, self.words))


class LanguageModel:
    """A causal language model with its tokenizer."""

    def __init__(self, model: nn.Module, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.spelt: dict[str, tuple[int, ...]] = {}

    @classmethod
    def of(cls, model: Any, tokenizer: Any = None) -> LanguageModel:
        """From a model and its tokenizer, a pipeline, or the path of a folder or a GGUF file; raises if it cannot be asked."""
        if isinstance(model, (str, Path)):
            return cls.load(model)
        if PipelineModel.accepts(model):
            model, tokenizer = model.model, tokenizer or model.tokenizer
        if not isinstance(model, nn.Module):
            raise InputError(
                f"The language model must be a causal model of transformers or the path of one, not {short_repr(model)}: pass "
                "model=AutoModelForCausalLM.from_pretrained(...)."
            )
        if not callable(tokenizer) or not hasattr(tokenizer, "decode"):
            raise InputError(
                f"The language model needs its tokenizer, not {short_repr(tokenizer)}: pass tokenizer=AutoTokenizer.from_pretrained(...)."
            )
        return cls(model, tokenizer)

    @classmethod
    def load(cls, path: str | Path) -> LanguageModel:
        """From a folder with a configuration, weights and a tokenizer, or from a GGUF file; nothing is downloaded."""
        from transformers import AutoModelForCausalLM, AutoTokenizer

        place = Path(path)
        if not os.path.exists(place):  # unlike Path.exists, it takes names that no file can have
            raise InputError(
                f"There is no language model at {short_repr(str(place))}: give a folder with config.json and weights, or a GGUF file."
            )
        packed = place.suffix == ".gguf"
        missing = [name for name in GGUF if packed and find_spec(name) is None]
        if missing:
            raise InputError(
                f"'{place.name}' is a GGUF file, and {' and '.join(missing)} to read it {'is' if len(missing) == 1 else 'are'} not "
                f"installed: pip install {' '.join(missing)}."
            )
        settings: dict[str, Any] = {"gguf_file": place.name} if packed else {}
        where = str(place.parent if packed else place)
        try:
            with without_bars():
                tokenizer = AutoTokenizer.from_pretrained(where, local_files_only=True, **settings)
                model = AutoModelForCausalLM.from_pretrained(where, local_files_only=True, **settings)
        except Exception as error:  # damaged files of each kind have an error of their own
            if out_of_memory(error):
                raise
            why = shorten(str(error), WHY, placeholder=" ...")
            raise InputError(f"'{place}' cannot be loaded as a causal language model ({why}): give the folder of one.") from error
        return cls(model.eval(), tokenizer)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the weights with their precision, the configuration, the tokenizer and the tokens that end an answer.

        Where the model was loaded from does not matter. It is computed once, since the model is only asked.
        """
        config: Any = getattr(self.model, "config", None)
        if not hasattr(config, "to_dict"):
            content: Any = fingerprint.of_model(self.model)
        else:
            settings = {name: repr(value) for name, value in config.to_dict().items() if name not in NOT_CONTENT}
            weights = {name: fingerprint.of_tensor(value) for name, value in self.model.state_dict().items()}
            content = [type(self.model).__name__, settings, weights]
        return fingerprint.of_json([content, self.spelling, self.ends, getattr(self.tokenizer, "chat_template", None)])

    @property
    def spelling(self) -> Any:
        """How the tokenizer makes tokens of a text: its words, merges and preparations, without what its last call padded."""
        if (fast := getattr(self.tokenizer, "backend_tokenizer", None)) is not None:
            return {name: part for name, part in json.loads(fast.to_str()).items() if name not in ("padding", "truncation")}
        return self.tokenizer.get_vocab() if hasattr(self.tokenizer, "get_vocab") else fingerprint.of_value(self.tokenizer)

    @property
    def ends(self) -> Any:
        """The number of the token that ends an answer, or several."""
        own = getattr(getattr(self.model, "generation_config", None), "eos_token_id", None)
        return getattr(self.tokenizer, "eos_token_id", None) if own is None else own

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return device_of(self.model)

    @property
    def limit(self) -> int | None:
        """The most tokens that the model reads; None if it does not say."""
        found = getattr(getattr(self.model, "config", None), "max_position_embeddings", None)
        return found if isinstance(found, int) and found > 0 else None

    def tokens(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The tokens of each text as it stands; those of short texts, such as words, are remembered."""
        new = [text for text in dict.fromkeys(texts) if text not in self.spelt]
        found = dict(zip(new, map(tuple, self.tokenizer(new, add_special_tokens=False)["input_ids"]), strict=True)) if new else {}
        if len(self.spelt) < REMEMBERED:
            self.spelt.update({text: numbers for text, numbers in found.items() if len(text) <= SHORT})
        return [found.get(text) or self.spelt.get(text, ()) for text in texts]

    def prompts(self, texts: Sequence[str], chat: bool, start: str = "") -> list[tuple[int, ...]]:
        """The tokens of a user's message in a dialogue, and of the start of the answer, for each text; raises without a chat template."""
        if chat and not getattr(self.tokenizer, "chat_template", None):
            raise InputError(
                "The tokenizer of the language model has no chat template, so it cannot be asked in a dialogue: take a model that was "
                "tuned to follow instructions, or pass chat=False, which asks it to continue the prompt."
            )

        def message(text: str) -> str:
            said = [{"role": "user", "content": text}]
            return str(self.tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)) if chat else text

        first, (last,) = () if chat else self.beginning, self.tokens([start if chat else f"\n{start}"])
        return [(*first, *asked, *last) for asked in self.tokens([message(text) for text in texts])]

    @property
    def unknown(self) -> tuple[int, ...]:
        """The token of a word that the tokenizer has nothing for."""
        named = (getattr(self.tokenizer, f"{name}_token_id", None) for name in ("unk", "eos", "pad"))
        return (next((one for one in named if one is not None), 0),)

    @property
    def beginning(self) -> tuple[int, ...]:
        """The token that begins a text, if there is one."""
        first = getattr(self.tokenizer, "bos_token_id", None)
        return () if first is None else (first,)

    def likelihoods(self, questions: Sequence[Question], batch: int) -> list[list[float]]:
        """The log-likelihood of every word after its prompt: the sum over its tokens of log p(token | prompt, tokens before).

        At most `batch` prompts go together; memory that runs out halves them. Numbers do not depend on that except for rounding.
        """
        if not questions:
            return []
        ask = self.packed if self.packs else self.one_by_one
        with evaluating(self.model), torch.no_grad():
            return in_parts(questions, batch, ask, len)

    def packed(self, questions: Sequence[Question]) -> list[list[float]]:
        """One row per question: padding, the prompt, and all words side by side."""
        rows, device = len(questions), self.device
        width, most = max(map(len, questions)), max(len(one) - len(one.prompt) for one in questions)
        made = np.zeros((3, rows, width), dtype=np.int64)  # tokens, their positions, and the number of the word
        made[2] = -1  # padding; the prompt is 0
        for row, one in enumerate(questions):
            pieces = (one.prompt, *one.words)
            lengths = np.array([len(piece) for piece in pieces])
            within = np.arange(len(one)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            number = np.repeat(np.arange(len(pieces)), lengths)
            made[:, row, width - len(one) :] = (list(chain(*pieces)), within + np.where(number > 0, len(one.prompt), 0), number)
        ids, position, part = torch.from_numpy(made).to(device)
        causal = torch.ones(width, width, dtype=torch.bool, device=device).tril()
        sees = causal & ((part[:, None] == part[:, :, None]) | (part[:, None] == 0) & (part[:, :, None] > 0))
        kind = next((one.dtype for one in self.model.parameters() if one.is_floating_point()), torch.float32)
        mask = torch.where(sees, 0.0, torch.finfo(kind).min)[:, None].to(kind)
        scores = self.logits(most + 1, input_ids=ids, attention_mask=mask, position_ids=position)
        rows_of, before, tokens, sizes = list[int](), list[int](), list[int](), list[int]()
        for row, one in enumerate(questions):
            at = last = scores.shape[1] - (len(one) - len(one.prompt)) - 1
            for word in one.words:
                rows_of += [row] * len(word)
                before += [last, *range(at + 1, at + len(word))]
                tokens += word
                sizes.append(len(word))
                at += len(word)
        found = iter(np.add.reduceat(picked(scores, rows_of, before, tokens).numpy(), np.cumsum([0, *sizes[:-1]])).tolist())
        return [[next(found) for _ in one.words] for one in questions]

    def one_by_one(self, questions: Sequence[Question]) -> list[list[float]]:
        """One row per prompt and beginning of a word, so that words of one token share the row of their prompt."""
        contexts = list(dict.fromkeys((*one.prompt, *word[:-1]) for one in questions for word in one.words))
        longest = max(len(word) for one in questions for word in one.words)
        known: dict[tuple[int, ...], dict[tuple[int, ...], float]] = {context: {} for context in contexts}
        asked = {context: list[tuple[int, ...]]() for context in contexts}
        for one in questions:
            for word in one.words:
                asked[*one.prompt, *word[:-1]].append(word)
        for first in range(0, len(contexts), len(questions)):
            some = contexts[first : first + len(questions)]
            ids, mask = self.padded(some)
            position = (mask.cumsum(1) - 1).clamp(min=0)
            scores = self.logits(longest, input_ids=ids, attention_mask=mask, position_ids=position)
            for row, context in enumerate(some):
                for word in dict.fromkeys(asked[context]):
                    before = range(scores.shape[1] - len(word), scores.shape[1])
                    known[context][word] = float(picked(scores, [row] * len(word), list(before), list(word)).sum())
        return [[known[*one.prompt, *word[:-1]][word] for word in one.words] for one in questions]

    def padded(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Tokens (N, T) with padding on the left, and a mask that is 1 for tokens."""
        width = max(map(len, rows))
        fill = next((one for one in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id) if one is not None), 0)
        ids = torch.tensor([[fill] * (width - len(row)) + list(row) for row in rows], device=self.device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=self.device)
        return ids, mask

    def logits(self, last: int, **inputs: Tensor) -> Tensor:
        """The scores (N, last, V) after the last positions."""
        takes = inspect.signature(self.model.forward).parameters
        anything = any(one.kind is one.VAR_KEYWORD for one in takes.values())
        given: dict[str, Any] = {name: value for name, value in inputs.items() if anything or name in takes}
        if "logits_to_keep" in takes:
            given["logits_to_keep"] = last
        if "use_cache" in takes:
            given["use_cache"] = False
        output = self.model(**given)
        scores: Tensor = getattr(output, "logits", output)
        return scores[:, -last:]

    @cached_property
    def packs(self) -> bool:
        """Whether packed words have the likelihoods that they have one by one, tried on a few tokens."""
        takes = inspect.signature(self.model.forward).parameters
        if "position_ids" not in takes or "attention_mask" not in takes:
            return False
        most = int(getattr(getattr(self.model, "config", None), "vocab_size", 0))
        if most < 2:
            return False
        numbers = [(7 * step + 3) % most for step in range(15)]
        long = Question(tuple(numbers[:6]), (tuple(numbers[6:8]), tuple(numbers[8:11])))
        short = Question(tuple(numbers[11:14]), ((numbers[14],),))
        with evaluating(self.model), torch.no_grad():
            try:
                together = self.packed([long, short])
                apart = [*self.one_by_one([long]), *self.one_by_one([short])]
            except Exception as error:  # models differ in what they make of a mask of their own
                if out_of_memory(error):
                    raise
                return False
        near = APART.get(next(self.model.parameters()).dtype, 0.1)
        return all(abs(a - b) <= near * (1 + abs(b)) for x, y in zip(together, apart, strict=True) for a, b in zip(x, y, strict=True))

    def answers(self, prompts: Sequence[tuple[int, ...]], length: int, batch: int) -> list[str]:
        """What the model writes after each prompt, at most `length` tokens, always the likeliest next one."""
        if not hasattr(self.model, "generate"):
            raise InputError(f"{type(self.model).__name__} cannot write answers, since it has no generate(): pass mode='rank'.")
        from transformers import GenerationConfig

        fill = next((one for one in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id) if one is not None), 0)
        pieces = getattr(getattr(self.tokenizer, "backend_tokenizer", None), "model", None)
        plain = {"clean_up_tokenization_spaces": False} if type(pieces).__name__ == "BPE" else {}  # it would be ignored, with a warning
        greedy = GenerationConfig(do_sample=False, max_new_tokens=length, pad_token_id=fill, eos_token_id=self.ends)

        def write(some: Sequence[tuple[int, ...]]) -> list[str]:
            ids, mask = self.padded(some)
            written = self.model.generate(input_ids=ids, attention_mask=mask, generation_config=greedy)  # type: ignore[operator]
            return [self.tokenizer.decode(row, skip_special_tokens=True, **plain) for row in written[:, ids.shape[1] :].tolist()]

        with evaluating(self.model), torch.no_grad():
            return in_parts(prompts, batch, write, len)

    def about(self) -> dict[str, Any]:
        """The model as plain data."""
        return {"class": type(self.model).__name__, "fingerprint": self.fingerprint}


def picked(scores: Tensor, rows: list[int], before: list[int], tokens: list[int]) -> Tensor:
    """The log-probability of each token under scores (N, T, V) of its row, at the position before it; in float64 on the CPU."""
    row, place, token = (torch.tensor(numbers, device=scores.device) for numbers in (rows, before, tokens))
    total = torch.logsumexp(scores.float(), dim=2)
    return (scores[row, place, token].double() - total[row, place].double()).cpu()


def in_parts(items: Sequence[A], most: int, work: Callable[[Sequence[A]], list[B]], size: Callable[[A], int]) -> list[B]:
    """The work on at most `most` items at a time, those of a similar size together, in the given order; fewer if memory runs out."""
    order = sorted(range(len(items)), key=lambda place: -size(items[place]))
    found: dict[int, B] = {}
    first = 0
    while first < len(order):
        some = order[first : first + most]
        try:
            found |= dict(zip(some, work([items[place] for place in some]), strict=True))
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error) or most == 1:
                raise
            most = max(1, len(some) // 2)
            continue
        first += len(some)
    return [found[place] for place in range(len(items))]
