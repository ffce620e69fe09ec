"""A causal language model as a classifier of film reviews: the scores of two words as the next token of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.models import device_of, evaluating
from veracity.inputs import TextInputs
from veracity_papers.data.imdb import CLASSES, imdb_texts
from veracity_papers.zoo.language_models import CausalLM
from veracity_papers.zoo.smollm2 import load_smollm2

HEAD, TAIL = "Movie review: ", "\n\nThe sentiment of this movie review, positive or negative, is"
ROWS = 16


class PromptedClassifier(nn.Module):
    """Scores (N, 2) of " negative" and " positive" after the last token of a prompt, from a causal model of `transformers`.

    Only these two rows of the output matrix are used, at one token, so that no array over the vocabulary exists. `bias` is added to
    the second score.
    """

    bias: Tensor

    def __init__(self, lm: Any, answers: tuple[int, int]) -> None:
        super().__init__()
        self.lm, self.answers = lm, answers
        self.register_buffer("bias", torch.zeros((), device=device_of(lm)))

    @property
    def config(self) -> Any:
        """The configuration of the language model."""
        return self.lm.config

    def get_input_embeddings(self) -> Any:
        """The word embedding."""
        return self.lm.get_input_embeddings()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Scores (N, 2)."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        stream = self.lm.base_model(input_ids=input_ids, attention_mask=mask, use_cache=False).last_hidden_state
        last = (mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)).argmax(1)
        read = stream[torch.arange(len(stream), device=stream.device), last]
        scores: Tensor = read @ self.lm.get_output_embeddings().weight[list(self.answers)].T
        return scores + torch.stack((torch.zeros_like(self.bias), self.bias)).to(scores)


def review_prompts(tokenizer: Any, split: str, count: int, length: int) -> tuple[Tensor, Tensor]:
    """The tokens (count, T) of prompts with reviews, as many of each class, and the labels; reviews are cut so that T <= length.

    Prompts are padded behind.
    """
    texts, labels = imdb_texts(split)
    rows = sorted(row for one in (0, 1) for row in (labels == one).nonzero()[: -(-count // 2), 0].tolist())[:count]
    head, tail = (tokenizer(part)["input_ids"] for part in (HEAD, TAIL))
    room = length - len(head) - len(tail)
    if room < 1:
        raise InputError(f"A prompt needs {len(head) + len(tail)} tokens beside the review, and length is {length}: pass a longer one.")
    found = [[*head, *tokenizer(texts[row])["input_ids"][:room], *tail] for row in rows]
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    ids = torch.full((len(found), max(map(len, found))), int(pad))
    for place, row in enumerate(found):
        ids[place, : len(row)] = torch.tensor(row)
    return ids, labels[rows]


def prompt_inputs(tokenizer: Any, ids: Tensor) -> TextInputs:
    """Prompts as texts."""
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    ends = (ids != tokenizer.pad_token_id).long().flip(1).argmax(1)  # the padding may be a token of the text
    mask = torch.arange(ids.shape[1]) < (ids.shape[1] - ends)[:, None]
    return TextInputs.of_encoding({"input_ids": ids, "attention_mask": mask.long()}, tokenizer)


@torch.no_grad()
def balance(model: PromptedClassifier, ids: Tensor, pad: int) -> None:
    """Set the bias so that both answers are as frequent on some prompts: a small model often gives one answer to all of them."""
    gaps = []
    with evaluating(model):
        for part in ids.to(device_of(model)).split(ROWS):
            scores = model(part, (part != pad).long())
            gaps.append(scores[:, 1] - scores[:, 0])
    model.bias.sub_(torch.cat(gaps).median())


def prompted(name: str, lm: Any, tokenizer: Any, layers: Sequence[int] | None = None) -> CausalLM:
    """A causal model of `transformers` as a classifier of reviews, with the names of its layers, or of some of them."""
    answers = [tokenizer(f" {word}", add_special_tokens=False)["input_ids"] for word in CLASSES]
    if answers[0][0] == answers[1][0]:
        raise InputError(f"The tokenizer of {name} begins 'positive' and 'negative' with the same token: use other words.")
    model = PromptedClassifier(lm, (answers[0][0], answers[1][0])).eval()
    inner = next(key for key, part in model.named_modules() if isinstance(part, nn.ModuleList))
    count = len(model.get_submodule(inner)._modules)
    return CausalLM(name, model, tokenizer, tuple(f"{inner}.{number}" for number in (range(count) if layers is None else layers)))


def smollm2(device: str | None = None, calibration: int = 100, length: int = 256) -> CausalLM:
    """SmolLM2-135M as a classifier of reviews, balanced on training reviews; on a GPU if there is one, or on the given device."""
    loaded = load_smollm2()
    found = prompted("smollm2", loaded.model if device is None else loaded.model.to(device), loaded.tokenizer)
    ids, _ = review_prompts(loaded.tokenizer, "train", calibration, length)
    balance(found.model, ids, int(loaded.tokenizer.pad_token_id or loaded.tokenizer.eos_token_id))
    return found
