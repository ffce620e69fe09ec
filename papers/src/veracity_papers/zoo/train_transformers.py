"""Train small networks of `transformers` on a GPU: python -m veracity_papers.zoo.train_transformers OUT [--only NAME ...] [--data DIR]

    sst2, sms                     DistilBERT with 2 layers of width 128 and a WordPiece vocabulary made from the texts
    eurosat-vit, eurosat-resnet   a vision transformer with 6 layers of width 192, and a residual network of 8 blocks, on 64 x 64 images

Weights are written in half precision, and tokenizers as JSON. A line of JSON tells the accuracy on the data that was held out.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from veracity_papers.data.eurosat import eurosat

WIDTH, LAYERS, VOCABULARY, LENGTH = 128, 2, 8000, 64


def texts(name: str, data: Path) -> tuple[list[str], list[int], list[str], list[int]]:
    """Training and held-out texts with their labels."""
    if name == "sst2":
        parts = []
        for split in ("train", "dev"):
            with (data / "sst2" / f"{split}.tsv").open(encoding="utf-8", newline="") as file:
                rows = [row for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if len(row) == 2 and {*row} & {"0", "1"}]
            first = rows[0][0] in ("0", "1")  # the label may be the first or the last column
            parts += [[row[first].strip() for row in rows], [int(row[not first]) for row in rows]]
        return tuple(parts)  # type: ignore[return-value]
    lines = (data / "sms_spam" / "SMSSpamCollection").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("\t", 1) for line in lines if "\t" in line]
    held = [number % 5 == 0 for number in range(len(pairs))]
    train = [pair for pair, out in zip(pairs, held, strict=True) if not out]
    test = [pair for pair, out in zip(pairs, held, strict=True) if out]
    return [t for _, t in train], [int(k == "spam") for k, _ in train], [t for _, t in test], [int(k == "spam") for k, _ in test]


def tokenizer_of(given: list[str], out: Path) -> Any:
    """A WordPiece tokenizer made from texts, written to a file, and as `transformers` reads it."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import PreTrainedTokenizerFast

    made = BertWordPieceTokenizer(lowercase=True)
    made.train_from_iterator(given, vocab_size=VOCABULARY, min_frequency=2, show_progress=False)
    made.save(str(out))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_file=str(out), **special)


def fit(model: nn.Module, batches: Any, steps: int, rate: float, decay: float) -> None:
    """AdamW over one cycle with clipped gradients."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=rate, total_steps=steps)
    model.train()
    for _ in range(steps):
        loss = batches(model)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    model.eval()


def train_text(name: str, data: Path, out: Path, device: str, epochs: int) -> dict[str, Any]:
    """A DistilBERT that classifies texts."""
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    train, labels, test, truth = texts(name, data)
    tokenizer = tokenizer_of(train, out / f"{name}-tokenizer.json")
    config = DistilBertConfig(
        vocab_size=len(tokenizer), dim=WIDTH, hidden_dim=4 * WIDTH, n_layers=LAYERS, n_heads=4, max_position_embeddings=LENGTH,
        num_labels=2, dropout=0.2, attention_dropout=0.1, seq_classif_dropout=0.2, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model = DistilBertForSequenceClassification(config).to(device)
    options = {"padding": "max_length", "truncation": True, "max_length": LENGTH, "return_tensors": "pt"}
    ids, mask = (tokenizer(train, **options)[key].to(device) for key in ("input_ids", "attention_mask"))
    target = torch.tensor(labels, device=device)
    generator = torch.Generator(device=device).manual_seed(0)
    weight = torch.tensor([1.0, (target == 0).sum() / (target == 1).sum()], device=device) if name == "sms" else None

    def batch(net: nn.Module) -> Tensor:
        rows = torch.randint(len(target), (256,), generator=generator, device=device)
        seen = ids[rows]
        drop = torch.rand(seen.shape, generator=generator, device=device) < 0.1  # words that are masked, so the mask token means "nothing"
        seen = torch.where(drop & (seen > 4), tokenizer.mask_token_id, seen)
        return nn.functional.cross_entropy(net(input_ids=seen, attention_mask=mask[rows]).logits, target[rows], weight=weight)

    fit(model, batch, epochs * len(target) // 256, rate=1e-3, decay=0.05)
    coded = tokenizer(test, **options)
    with torch.no_grad():
        logits = model(input_ids=coded["input_ids"].to(device), attention_mask=coded["attention_mask"].to(device)).logits
    right = (logits.argmax(1).cpu() == torch.tensor(truth)).float().mean()
    write(model, out / f"{name}-distilbert.safetensors", config.to_dict())
    return {"accuracy": float(right), "held_out": len(truth), "parameters": sum(one.numel() for one in model.parameters())}


def train_images(name: str, data: Path, out: Path, device: str, epochs: int) -> dict[str, Any]:
    """A vision transformer or a residual network on satellite images."""
    from transformers import ResNetConfig, ResNetForImageClassification, ViTConfig, ViTForImageClassification

    x, y, test, truth = (part.to(device) for part in (*eurosat("train"), *eurosat("test")))
    if name == "eurosat-vit":
        config: Any = ViTConfig(
            image_size=64, patch_size=8, hidden_size=192, num_hidden_layers=6, num_attention_heads=3, intermediate_size=384, num_labels=10,
            hidden_dropout_prob=0.1,
        )  # fmt: skip
        model: nn.Module = ViTForImageClassification(config).to(device)
    else:
        config = ResNetConfig(embedding_size=32, hidden_sizes=[32, 64, 128, 256], depths=[2, 2, 2, 2], layer_type="basic", num_labels=10)
        model = ResNetForImageClassification(config).to(device)
    generator = torch.Generator(device=device).manual_seed(0)

    def batch(net: nn.Module) -> Tensor:
        rows = torch.randint(len(y), (256,), generator=generator, device=device)
        seen = x[rows]
        turns = int(torch.randint(4, (1,), generator=generator, device=device))
        seen = torch.rot90(seen, turns, (2, 3))
        seen = seen.flip(3) if int(torch.randint(2, (1,), generator=generator, device=device)) else seen
        shift = torch.randint(-6, 7, (2,), generator=generator, device=device).tolist()
        seen = torch.roll(seen, shift, (2, 3))
        gain = 1 + 0.2 * torch.randn(256, 3, 1, 1, generator=generator, device=device)
        logits = net(pixel_values=(seen * gain).clamp(0, 1)).logits
        return nn.functional.cross_entropy(logits, y[rows], label_smoothing=0.1)

    fit(model, batch, epochs * len(y) // 256, rate=1e-3 if name == "eurosat-vit" else 3e-3, decay=0.1)
    with torch.no_grad():
        right = (model(pixel_values=test).logits.argmax(1) == truth).float().mean()
    write(model, out / f"{name}.safetensors", config.to_dict())
    return {"accuracy": float(right), "held_out": len(truth), "parameters": sum(one.numel() for one in model.parameters())}


def write(model: nn.Module, path: Path, config: dict[str, Any]) -> None:
    """Weights in half precision, with the configuration beside them."""
    state = {name: part.half() if part.is_floating_point() else part for name, part in model.state_dict().items()}
    save_file({name: part.contiguous().cpu() for name, part in state.items()}, path)
    path.with_suffix(".json").write_text(json.dumps(config, default=str, indent=1))


TASKS = {"sst2": (train_text, 3), "sms": (train_text, 30), "eurosat-vit": (train_images, 400), "eurosat-resnet": (train_images, 200)}


def main() -> None:
    """Read the options and train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--only", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.only:
        torch.manual_seed(0)
        train, epochs = TASKS[name]
        start = time.perf_counter()
        found = train(name, given.data, given.out, given.device, given.epochs or epochs)
        sys.stdout.write(json.dumps({"model": name, **found, "seconds": round(time.perf_counter() - start, 1)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
