"""Small language models for tests: a random Llama with a tokenizer over whole words, and models that prefer given words."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from text_models import seeded

VOCABULARY = ("<pad>", "<unk>", "<s>", "</s>", '"', "is", "word", "important", "most", "The", "a", "fine", "film", "dull", "very", "no")
PIECES = ("##ly", "##ness", "heart", "at", "all", "not", "with", "less", "more", "confident")
CHAT = "{% for m in messages %}<s>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}</s>{% endif %}"


@cache
def llm_tokenizer(chat: bool = True) -> Any:
    """Words and pieces of words; anything else is unknown."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate((*VOCABULARY, *PIECES))}
    made = Tokenizer(models.WordPiece(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    found = PreTrainedTokenizerFast(tokenizer_object=made, **special)
    found.chat_template = CHAT if chat else None
    return found


def tiny_llama(seed: int = 0, **changes: Any) -> Any:
    """A Llama with two layers of width 16."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    settings = {"vocab_size": 26, "max_position_embeddings": 256, **sizes, **changes}
    return seeded(lambda: LlamaForCausalLM(LlamaConfig(**settings)), seed)


class Preferring(nn.Module):
    """A language model that gives every token the same scores, whatever stands before; it counts its rows."""

    def __init__(self, words: dict[str, float]) -> None:
        super().__init__()
        self.rows: list[int] = []
        self.config = SimpleNamespace(to_dict=dict)  # as models of transformers have it, which count by configuration and weights
        numbers = llm_tokenizer().get_vocab()
        self.scores = nn.Parameter(torch.zeros(len(numbers)))
        with torch.no_grad():
            for word, score in words.items():
                self.scores[numbers[word]] = score

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        """Scores (N, T, V)."""
        self.rows.append(len(input_ids))
        return SimpleNamespace(logits=self.scores.expand(*input_ids.shape, -1))


class Writing(Preferring):
    """A language model that always writes the same."""

    def generate(self, input_ids: Tensor, **settings: Any) -> Tensor:
        self.rows.append(len(input_ids))
        return torch.cat((input_ids, torch.zeros(len(input_ids), 1, dtype=torch.long)), dim=1)
