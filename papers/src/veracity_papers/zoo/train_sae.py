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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from veracity.core.errors import InputError
from veracity.core.long_rows import long_normal
from veracity.core.models import device_of, evaluating
from veracity.explain.sparse import LinearEncoder, SparseFeatures, read_layers
from veracity.inputs import TextInputs
from veracity.studies.sparse_features import sae_report
from veracity_papers.zoo.language_models import CausalLM, load_stories, texts_of, told_stories
from veracity_papers.zoo.prompted import prompt_inputs, review_prompts, smollm2
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

    scale: Tensor

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
FACTS = ("l0", "explained_variance", "loss_recovered", "dead")


def encoder_of(one: SparseAutoencoder) -> LinearEncoder:
    """The autoencoder as an encoder of activations in their own units."""
    tensors: dict[str, Any] = dict(one.tensors())
    return LinearEncoder(**tensors, activation="relu" if one.k is None else "topk", k=one.k)


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


def write(made: Made, language: CausalLM, inputs: TextInputs, labels: Tensor | None, out: Path, training: Training) -> None:
    """One file per layer and width in half precision, with its quality on held-out texts in the header; prints a line for each."""
    explainers = {f"{layer} {width}": SparseFeatures(encoder=encoder_of(one), layer=layer) for (layer, width), one in made.items()}
    found = {row["explainer"]: row for row in sae_report(explainers, language.model, inputs, labels=labels, skip=1).to_dict("records")}
    for (layer, width), one in made.items():
        facts = {key: round(float(found[f"{layer} {width}"][key]), 4) for key in FACTS}
        kind = {"activation": "relu", "l1": training.l1} if training.k is None else {"activation": "topk", "k": training.k}
        path = out / f"{language.name}-sae-{width}-{layer.rsplit('.', 1)[-1]}.safetensors"
        save(one.tensors(), path, half=True, layer=layer, **kind, **facts)
        say({"file": path.name, **kind, **facts, "bytes": path.stat().st_size})


HELD = 64
"""How many texts autoencoders are scored on."""


def texts(given: argparse.Namespace) -> tuple[CausalLM, Tensor, TextInputs, Tensor | None]:
    """The language model, the tokens (N, T) that autoencoders learn from, and held-out texts with labels if there are any."""
    count = given.tokens // given.length
    if given.model == "tinystories260k":
        language = load_stories()
        parts = [told_stories(language, min(500, count - done), given.length, seed=1000 + done) for done in range(0, count, 500)]
        return language, torch.cat(parts), texts_of(language, told_stories(language, HELD, given.length, seed=1)), None
    language = smollm2(given.device)
    held, labels = review_prompts(language.tokenizer, "test", HELD, given.length)
    learnt, _ = review_prompts(language.tokenizer, "train", count, given.length)
    return language, learnt, prompt_inputs(language.tokenizer, held), labels


def main() -> None:
    """Train, score and write the autoencoders of a language model."""
    parser = argparse.ArgumentParser(description="Train sparse autoencoders of the layers of a language model.")
    parser.add_argument("model", choices=("tinystories260k", "smollm2"))
    parser.add_argument("out", type=Path, help="the folder to write the weights to")
    parser.add_argument("--widths", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--layers", nargs="+", help="some of the layers, by default all")
    parser.add_argument("--l1", type=float, default=1.2)
    parser.add_argument("--k", type=int, help="keep the k largest features, without a penalty")
    for name, default in {"steps": 1500, "tokens": 64_000, "length": 128, "batch": 512, "rows": 40, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    if given.rows * (given.length - 1) < given.batch:
        raise InputError(f"{given.rows} texts of {given.length} tokens make no batch of {given.batch} activations: pass more --rows.")
    torch.set_float32_matmul_precision("high")
    start = time.perf_counter()
    language, ids, held, labels = texts(given)
    language.model.to(given.device)
    if given.layers:
        language = replace(language, layers=tuple(given.layers))
    say({"texts": len(ids), "seconds": round(time.perf_counter() - start, 1)})
    training = Training(0.0 if given.k else given.l1, given.k, given.rate, given.steps, given.seed)

    def report(step: int, loss: float) -> None:
        say({"step": step, "loss": round(loss, 4), "seconds": round(time.perf_counter() - start, 1)})

    made = train(activations(language, ids, given.rows, given.batch, given.seed), given.widths, training, report)
    write(made, language, held, labels, given.out, training)


if __name__ == "__main__":
    main()
