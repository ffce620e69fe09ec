"""Train sparse autoencoders of the layers of a language model: python -m veracity_papers.zoo.train_sae tinystories260k OUT

g(z) = W_dec^T z + b_dec with z = sigma(W_enc^T (h - b_dec) + b_enc) and columns of W_dec of unit length, by Adam on
|h - g(z)|^2 + l1 |z|_1, or with the k largest features and no penalty. Activations stream from texts, for all layers at once, so
that none are stored. The first token of a text is left out: its activations are far larger than all others, whatever the text.

stories260K learns from stories that it tells by itself. For SmolLM2 (30 layers, GPU):

    python -m veracity_papers.zoo.train_sae smollm2 OUT --widths 4096 16384 --k 32 --rate 0.0005 \\
        --tokens 1280000 --length 256 --batch 4096 --rows 64 --steps 2000 --device cuda

It streams IMDb's training reviews in the prompt of the recipe. Put OUT into the data folder as weights/smollm2_sae.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from veracity.core.errors import InputError
from veracity.core.long_rows import long_normal
from veracity.core.models import device_of, evaluating
from veracity.explain.sparse import read_layers
from veracity_papers.zoo.language_models import CausalLM, load_stories, told_stories
from veracity_papers.zoo.scripts import say
from veracity_papers.zoo.storage import save

Stream = Iterator[dict[str, Tensor]]
"""Batches of activations (tokens, d), by layer."""


@dataclass(frozen=True)
class Training:
    """How autoencoders are trained: the penalty l1, or k features at a time if it is given; Adam's rate, which falls to zero."""

    l1: float = 0.0
    k: int | None = None
    rate: float = 2e-3
    steps: int = 2000
    seed: int = 0


class SparseAutoencoder(nn.Module):
    """An autoencoder of activations that are centred at their mean and divided by their root mean square `scale`."""

    def __init__(self, first: Tensor, width: int, training: Training, name: str) -> None:
        super().__init__()
        d, self.k = first.shape[1], training.k
        self.register_buffer("scale", first.sub(first.mean(0)).square().mean().sqrt())
        directions = long_normal(width * d, "autoencoder", name, training.seed, device=first.device).reshape(width, d)
        directions = functional.normalize(directions, dim=1)
        self.W_dec = nn.Parameter(directions)
        self.W_enc = nn.Parameter(directions.T.clone())
        self.b_enc = nn.Parameter(torch.zeros(width, device=first.device))
        self.b_dec = nn.Parameter(first.mean(0) / self.scale)

    def encode(self, h: Tensor) -> Tensor:
        """Features (N, m) of activations in units of the scale."""
        pre = (h - self.b_dec) @ self.W_enc + self.b_enc
        if self.k is None:
            return functional.relu(pre)
        values, places = pre.topk(self.k, dim=1)
        return torch.zeros_like(pre).scatter(1, places, functional.relu(values))

    def loss(self, h: Tensor, l1: float) -> Tensor:
        """Mean squared error per number, and the penalty per number."""
        x = h / self.scale
        z = self.encode(x)
        error = (x - z @ self.W_dec - self.b_dec).square().sum(1).mean()
        return (error + l1 * z.sum(1).mean()) / h.shape[1]

    @torch.no_grad()
    def normalise(self) -> None:
        """Unit length for every column of the decoder."""
        self.W_dec.copy_(functional.normalize(self.W_dec, dim=1))

    def tensors(self) -> dict[str, Tensor]:
        """The tensors for activations in their own units: ReLU and top-k scale with their input."""
        scaled = {"b_enc": self.b_enc * self.scale, "b_dec": self.b_dec * self.scale}
        return {name: part.detach().cpu() for name, part in {"W_enc": self.W_enc, "W_dec": self.W_dec, **scaled}.items()}


def train(stream: Stream, widths: Sequence[int], training: Training, report: Any = None) -> dict[tuple[str, int], SparseAutoencoder]:
    """Autoencoders of every layer of a stream and every width, all trained along it."""
    first = next(stream)
    made = {(layer, width): SparseAutoencoder(h, width, training, f"{layer} {width}") for layer, h in first.items() for width in widths}
    parameters = [part for one in made.values() for part in one.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=training.rate, betas=(0.9, 0.99))
    for step, batch in zip(range(training.steps), stream, strict=False):
        for group in optimiser.param_groups:
            group["lr"] = training.rate * min(1.0, 5 * (1 - step / training.steps), (step + 1) / 50)
        optimiser.zero_grad(set_to_none=True)
        total = 0.0
        for (layer, _), one in made.items():
            error = one.loss(batch[layer], training.l1)
            error.backward()
            total += float(error.detach()) if step % 200 == 0 else 0.0
        optimiser.step()
        for one in made.values():
            one.normalise()
        if report is not None and step % 200 == 0:
            report(step, total / len(made))
    return made


Made = Mapping[tuple[str, int], SparseAutoencoder]
Quality = dict[tuple[str, int], dict[str, float]]


@torch.no_grad()
def quality(made: Made, stream: Stream, batches: int) -> Quality:
    """L0, explained variance and the share of features that never fire, on further batches."""
    seen: dict[tuple[str, int], list[Tensor]] = {key: [] for key in made}
    fired: dict[tuple[str, int], Tensor] = {}
    for _, batch in zip(range(batches), stream, strict=False):
        for (layer, width), one in made.items():
            x = batch[layer] / one.scale
            z = one.encode(x)
            rest, whole = (x - z @ one.W_dec - one.b_dec).square().sum(), (x - x.mean(0)).square().sum()
            seen[layer, width].append(torch.stack(((z > 0).sum(1).float().mean(), rest, whole)))
            now = (z > 0).any(0)
            fired[layer, width] = now | fired.get((layer, width), now)
    found: Quality = {}
    for key, rows in seen.items():
        sums = torch.stack(rows).mean(0)
        dead = float((~fired[key]).float().mean())
        found[key] = {"l0": float(sums[0]), "explained_variance": 1 - float(sums[1] / sums[2]), "dead": dead}
    return found


@torch.no_grad()
def activations(language: CausalLM, ids: Tensor, rows: int, batch: int, seed: int = 0) -> Stream:
    """Shuffled activations of the tokens of texts (N, T), over and over: `rows` texts go through the model at once."""
    model, mixed = language.model, torch.Generator().manual_seed(seed)
    device, pad = device_of(model), language.tokenizer.pad_token_id
    pad = language.tokenizer.eos_token_id if pad is None else pad
    while True:
        for part in torch.randperm(len(ids), generator=mixed).split(rows):
            tokens = ids[part].to(device)
            real = (tokens != pad) & (torch.arange(tokens.shape[1], device=device) > 0)
            with evaluating(model):
                found = read_layers(model, language.layers, tokens)
            order = torch.randperm(int(real.sum()), generator=mixed).to(device)
            kept = {layer: one.values[real][order].float() for layer, one in found.items()}
            for place in range(0, len(order) - batch + 1, batch):
                yield {layer: h[place : place + batch] for layer, h in kept.items()}


def write(made: Made, found: Quality, name: str, out: Path, training: Training) -> None:
    """One file per layer and width in half precision, with its quality in the header; prints a line for each."""
    for (layer, width), one in made.items():
        number = layer.rsplit(".", 1)[-1]
        facts = {key: round(value, 4) for key, value in found[layer, width].items()}
        kind = {"activation": "relu", "l1": training.l1} if training.k is None else {"activation": "topk", "k": training.k}
        path = out / f"{name}-sae-{width}-{number}.safetensors"
        save(one.tensors(), path, half=True, layer=layer, **kind, **facts)
        say({"file": path.name, **kind, **facts, "bytes": path.stat().st_size})


def texts(given: argparse.Namespace) -> tuple[CausalLM, Tensor]:
    """The language model, and the tokens (N, T) that it learns from."""
    count = given.tokens // given.length
    if given.model == "tinystories260k":
        language = load_stories()
        parts = [told_stories(language, min(500, count - done), given.length, seed=1000 + done) for done in range(0, count, 500)]
        return language, torch.cat(parts)
    from veracity_papers.zoo.prompted import review_prompts, smollm2

    language = smollm2(given.device)
    return language, review_prompts(language.tokenizer, "train", count, given.length)[0]


def main() -> None:
    """Train, score and write the autoencoders of a language model."""
    parser = argparse.ArgumentParser(description="Train sparse autoencoders of the layers of a language model.")
    parser.add_argument("model", choices=("tinystories260k", "smollm2"))
    parser.add_argument("out", type=Path, help="the folder to write the weights to")
    parser.add_argument("--widths", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--layers", nargs="+", help="some of the layers, by default all")
    parser.add_argument("--l1", type=float, default=2.0)
    parser.add_argument("--k", type=int, help="keep the k largest features, without a penalty")
    for name, default in {"steps": 600, "tokens": 64_000, "length": 128, "batch": 512, "rows": 40, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    if given.rows * (given.length - 1) < given.batch:
        raise InputError(f"{given.rows} texts of {given.length} tokens make no batch of {given.batch} activations: pass more --rows.")
    torch.set_float32_matmul_precision("high")
    start = time.perf_counter()
    language, ids = texts(given)
    language.model.to(given.device)
    if given.layers:
        language = CausalLM(language.name, language.model, language.tokenizer, tuple(given.layers))
    say({"texts": len(ids), "seconds": round(time.perf_counter() - start, 1)})
    training = Training(0.0 if given.k else given.l1, given.k, given.rate, given.steps, given.seed)
    held = max(1, len(ids) // 20)
    stream = activations(language, ids[held:], given.rows, given.batch, given.seed)

    def report(step: int, loss: float) -> None:
        say({"step": step, "loss": round(loss, 4), "seconds": round(time.perf_counter() - start, 1)})

    made = train(stream, given.widths, training, report)
    found = quality(made, activations(language, ids[:held], min(held, given.rows), min(given.batch, 512)), 20)
    write(made, found, language.name, given.out, training)


if __name__ == "__main__":
    main()
