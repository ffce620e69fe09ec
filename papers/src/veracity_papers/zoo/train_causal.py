"""Train a small causal language model with a head on IMDb: python -m veracity_papers.zoo.train_causal OUT [--epochs 12] [--device cuda]

The loss is that of the head, at the last token, plus a share of the language model's, at every token. A line of JSON tells the
accuracy on the 5,000 test reviews, and the language model's loss beside that of the words' frequencies.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from veracity_papers.data.imdb import imdb_texts
from veracity_papers.zoo import scripts
from veracity_papers.zoo.causal import LENGTH, NAME, SPECIAL, vocabulary_key, wrapped

WIDTH, LAYERS, VOCABULARY, BATCH, SHARE = 64, 2, 4000, 64, 1.0
"""The language model's loss counts as much as the head's: with a fifth of it, next words are guessed no better than by their frequency."""


def make_tokenizer(texts: list[str]) -> Any:
    """A WordPiece tokenizer in lower case, made from texts: special tokens, then pieces of words in alphabetical order.

    The trainer numbers pieces that are as frequent in another order every time it is called.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    made = Tokenizer(models.WordPiece(unk_token=SPECIAL["unk_token"]))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=list(SPECIAL.values()), show_progress=False)
    )
    special = list(SPECIAL.values())
    pieces = special + sorted(set(made.get_vocab()) - set(special))
    made.model = models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token=SPECIAL["unk_token"])
    return wrapped(tokenizer_object=made)


def build(tokenizer: Any) -> Any:
    """The network with fresh weights."""
    from transformers import LlamaConfig, LlamaForSequenceClassification

    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=LAYERS, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=LENGTH + 16, num_labels=2, pad_token_id=tokenizer.pad_token_id, bos_token_id=None,
        eos_token_id=None, tie_word_embeddings=True, id2label={0: "negative", 1: "positive"}, label2id={"negative": 0, "positive": 1},
    )  # fmt: skip
    return LlamaForSequenceClassification(config)


def loss_of(model: Any, ids: Tensor, mask: Tensor, labels: Tensor, words: Tensor, share: float) -> Tensor:
    """The loss of the head at the last token, plus a share of that of the next word, which `words` (N, T) know where `ids` hide it."""
    hidden: Tensor = model.model(input_ids=ids, attention_mask=mask).last_hidden_state
    last = mask.sum(1) - 1
    dropped = nn.functional.dropout(hidden[torch.arange(len(ids), device=ids.device), last], 0.1, training=model.training)
    head = nn.functional.cross_entropy(model.score(dropped), labels)
    if share == 0:
        return head
    kept = mask[:, 1:] == 1
    scores = hidden[:, :-1][kept] @ model.model.embed_tokens.weight.T
    return head + share * nn.functional.cross_entropy(scores, words[:, 1:][kept])


def coded(tokenizer: Any, texts: list[str], device: str) -> tuple[Tensor, Tensor]:
    """Tokens and mask (N, LENGTH)."""
    made = tokenizer(texts, padding="max_length", truncation=True, max_length=LENGTH, return_tensors="pt")
    return made["input_ids"].to(device), made["attention_mask"].to(device)


def train(out: Path, device: str, epochs: int, seed: int) -> dict[str, object]:
    """Train, score and write the network."""
    start = time.perf_counter()
    texts, labels = imdb_texts("train")
    tokenizer = make_tokenizer(texts)
    ids, mask = coded(tokenizer, texts, device)
    truth = labels.to(device)
    torch.manual_seed(seed)
    model = build(tokenizer).to(device)
    generator = torch.Generator().manual_seed(seed)

    def step() -> Tensor:
        rows = torch.randint(len(truth), (BATCH,), generator=generator).to(device)
        hidden = torch.rand(ids[rows].shape, generator=generator).to(device) < 0.15  # words that are blank, so that [MASK] means nothing
        seen = torch.where(hidden & (mask[rows] == 1), tokenizer.mask_token_id, ids[rows])
        longest = int(mask[rows].sum(1).max())
        return loss_of(model, seen[:, :longest], mask[rows][:, :longest], truth[rows], ids[rows][:, :longest], SHARE)

    report = scripts.progress(NAME, start, 100, "loss")
    scripts.one_cycle(model, step, epochs * len(truth) // BATCH, rate=2e-3, decay=0.1, clip=1.0, report=report)
    scripts.halve(model)
    facts = {**scored(model, tokenizer, device), **language_loss(model, tokenizer, ids, mask, device)}
    facts["vocabulary"] = vocabulary_key(tokenizer)
    tokenizer.backend_tokenizer.save(str(out / f"{NAME}-tokenizer.json"))
    (out / f"{NAME}.json").write_text(json.dumps(model.config.to_dict(), default=str, indent=1))
    return scripts.write(model, NAME, out, start, **facts)


@torch.no_grad()
def scored(model: Any, tokenizer: Any, device: str) -> dict[str, object]:
    """The accuracy on the test reviews."""
    texts, labels = imdb_texts("test")
    ids, mask = coded(tokenizer, texts, device)
    found = [model(input_ids=ids[part], attention_mask=mask[part]).logits.argmax(1) for part in torch.arange(len(ids)).split(250)]
    right = float((torch.cat(found).cpu() == labels).float().mean())
    return {"accuracy": round(right, 4), "held_out": len(labels), "parameters": sum(one.numel() for one in model.parameters())}


@torch.no_grad()
def language_loss(model: Any, tokenizer: Any, trained: Tensor, shown: Tensor, device: str) -> dict[str, object]:
    """The language model's loss per token on 250 test reviews, and that of the frequencies of the training words."""
    ids, mask = coded(tokenizer, imdb_texts("test")[0][:250], device)
    hidden = model.model(input_ids=ids, attention_mask=mask).last_hidden_state
    kept = mask[:, 1:] == 1
    after = ids[:, 1:][kept]
    own = nn.functional.cross_entropy(hidden[:, :-1][kept] @ model.model.embed_tokens.weight.T, after)
    counts = Counter(trained[shown == 1].tolist())
    frequency = torch.tensor([counts[word] + 1.0 for word in range(len(tokenizer))])
    plain = -(frequency / frequency.sum()).log()[after.cpu()].mean()
    return {"loss": round(float(own), 3), "frequency_loss": round(float(plain), 3)}


def main() -> None:
    """Read the options and train."""
    given = scripts.command((__doc__ or "").split("\n")[0], epochs=12).parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    scripts.say(train(given.out, given.device, given.epochs, given.seed))


if __name__ == "__main__":
    main()
