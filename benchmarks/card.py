"""How often a card is wrong where the right words are known: python -m benchmarks.card [--seeds 5] [--first 0] [--samples 256]

A linear model whose exact contributions are w x, beside explainers that are wrong by construction. Every seed has its own weights, data and
random numbers. Counted are cards with a wrong word, planted failures that were named, and words that cannot tell.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

import veracity
from veracity.core.errors import Note

FEATURES, CLASSES = 16, 4


def weights_of(model: nn.Module) -> Tensor:
    return next(one for one in model.modules() if isinstance(one, nn.Linear)).weight.detach()


def exact(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return weights_of(model)[targets] * inputs


def summed(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return weights_of(model).sum(0) * inputs


def noisy(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    found = exact(model, inputs, targets)
    return found + 0.5 * found.std() * torch.randn_like(found)


def random_map(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return torch.randn_like(inputs)


def edges(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return (inputs.roll(1, -1) - inputs.roll(-1, -1)).abs()


KNOWN = {
    ("exact", "model"): "holds",
    ("exact", "faithful"): "holds",
    ("exact", "calm"): "holds",
    ("noisy", "calm"): "falls short",
    ("random", "model"): "falls short",
    ("edges", "model"): "falls short",
    ("summed", "model"): "falls short",
}
"""The right words. Noise lowers the other scores of a copy by an amount that is not known, so its other words are not counted."""


def card(seed: int, samples: int) -> veracity.Card:
    generator = torch.Generator().manual_seed(seed)
    model = nn.Linear(FEATURES, CLASSES).eval()
    with torch.no_grad():
        model.weight.copy_(0.6 * torch.randn(CLASSES, FEATURES, generator=generator))
        model.bias.zero_()
    x = torch.randn(samples, FEATURES, generator=generator)
    named = {"exact": exact, "summed": summed, "noisy": noisy, "random": random_map, "edges": edges}
    settings: dict[str, Any] = {"samples": samples, "budget": "1s", "seed": seed, "progress": False}
    return veracity.card(model, x, model(x).argmax(1), explainers=named, **settings)


def main(seeds: int = 5, first: int = 0, samples: int = 256) -> None:
    """Print how often each word is right, open or wrong."""
    said: Counter[tuple[str, str, str]] = Counter()
    wrong_cards, better_noise, started = 0, 0, time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        for seed in range(first, first + seeds):
            found = card(seed, samples)
            wrong = 0
            for (explainer, question), right in KNOWN.items():
                word = found.word(question, explainer)
                said[explainer, question, "right" if word == right else "open" if word == "cannot tell yet" else "wrong"] += 1
                wrong += word not in (right, "cannot tell yet")
            wrong += sum(one.answers[0].word == "holds" for one in found.record.explainers if one.control)
            better_noise += "noisy" in found.undominated
            wrong_cards += wrong > 0
    for explainer, question in KNOWN:
        counts = {what: said[explainer, question, what] for what in ("right", "open", "wrong")}
        print(f"{explainer:8} {question:10} {counts}")
    took = time.perf_counter() - started
    print(f"{seeds} cards of {samples} samples, {wrong_cards} with a wrong word; {took:.0f} s")
    print(f"cards in which nobody dominates the noisy copy: {better_noise}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.card", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--samples", type=int, default=256)
    main(**vars(parser.parse_args()))
