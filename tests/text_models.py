"""A tiny DistilBERT and ViT with random weights, and a tokenizer over a few words."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

TEXTS = ["a fine film", "dull", "a dull film with no heart at all", "not a fine film"]
WORDS = ("a", "fine", "film", "dull", "with", "no", "heart", "at", "all", "not", "##ly", "very")


@cache
def tokenizer() -> Any:
    """A WordPiece tokenizer over a few words."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS))}
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_object=BertWordPieceTokenizer(vocabulary)._tokenizer, **special)


def seeded(build: Any, seed: int = 0) -> Any:
    """A model with weights that depend on the seed alone, large enough to make a difference."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = build()
        for one in model.parameters():
            if one.ndim > 1:
                nn.init.normal_(one, std=0.3)
    return model.eval()


def text_model(seed: int = 0, **changes: Any) -> Any:
    """DistilBERT with two layers of width 16."""
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    settings = {"vocab_size": 17, "dim": 16, "hidden_dim": 32, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 20, **changes}
    return seeded(lambda: DistilBertForSequenceClassification(DistilBertConfig(**settings)), seed)


class Pixels(nn.Module):
    """A vision transformer reduced to its logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        """Logits (N, classes)."""
        logits: Tensor = self.model(pixel_values=pixels).logits
        return logits


def vision_model() -> Pixels:
    """A ViT on images (3, 8, 12) in patches of 4."""
    from transformers import ViTConfig, ViTForImageClassification

    settings = {"image_size": [8, 12], "patch_size": 4, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    return Pixels(seeded(lambda: ViTForImageClassification(ViTConfig(**settings, intermediate_size=16, num_labels=3))))
