"""A small causal language model on film reviews (IMDb), with a head that says whether a review is positive: see train_causal.

A Llama of 2 layers of width 64 over 4,000 pieces of words. The head reads the last token, and the language model shares its layers;
its next-token scores use the embedding. Reviews are cut to their last 160 tokens. The weights name the vocabulary that they were trained
with: the same pieces of words in another order would give wrong scores without an error.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors import safe_open

from veracity.core.errors import InputError

WEIGHTS = Path(__file__).parent / "weights"
NAME, LENGTH = "imdb-llama", 160
SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}


def load_causal(folder: Path = WEIGHTS) -> tuple[Any, Any]:
    """The classifier, a LlamaForSequenceClassification, and its tokenizer."""
    from transformers import LlamaForSequenceClassification

    state = stored(folder)
    model = LlamaForSequenceClassification(config_of(folder))
    model.load_state_dict({name: part.float() for name, part in state.items()})
    return model.eval(), tokenizer_of(folder)


def load_language_model(folder: Path = WEIGHTS) -> tuple[Any, Any]:
    """The language model without the head, a LlamaForCausalLM, and its tokenizer."""
    from transformers import LlamaForCausalLM

    state = stored(folder)
    model = LlamaForCausalLM(config_of(folder))
    body = {name: part.float() for name, part in state.items() if name.startswith("model.")}
    model.load_state_dict({**body, "lm_head.weight": body["model.embed_tokens.weight"]})
    return model.eval(), tokenizer_of(folder)


def tokenizer_of(folder: Path) -> Any:
    """The WordPiece tokenizer in a folder."""
    return wrapped(tokenizer_file=str(folder / f"{NAME}-tokenizer.json"))


def wrapped(**source: Any) -> Any:
    """A tokenizer of `transformers`, from a file or an object, that keeps the end of a review that is too long."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(**source, truncation_side="left", model_max_length=LENGTH, **SPECIAL)


def config_of(folder: Path) -> Any:
    """The configuration of the network."""
    from transformers import LlamaConfig

    return LlamaConfig.from_dict(json.loads((folder / f"{NAME}.json").read_text()))


def stored(folder: Path) -> dict[str, Any]:
    """The weights; raises if nobody has trained them, or with another vocabulary than the one beside them."""
    path = folder / f"{NAME}.safetensors"
    if not path.is_file():
        raise InputError(f"There are no weights at {path}: train them with python -m veracity_papers.zoo.train_causal OUT.")
    with safe_open(path, framework="pt") as file:
        facts, state = file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if facts.get("vocabulary") != vocabulary_key(tokenizer_of(folder)):
        raise InputError(
            f"{path} was trained with another vocabulary than that of {NAME}-tokenizer.json beside it: train both again with "
            "python -m veracity_papers.zoo.train_causal OUT."
        )
    return state


def vocabulary_key(tokenizer: Any) -> str:
    """A short hash of the pieces of words, in the order of their numbers."""
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    return hashlib.sha256(json.dumps(pieces).encode()).hexdigest()[:16]
