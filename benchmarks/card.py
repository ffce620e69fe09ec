"""How often a card is wrong where the right words are known: python -m benchmarks.card [--seeds 5] [--first 0] [--only linear]

A card per seed of each world, with its own weights, data and random numbers, with explainers that are right or wrong by construction:

    linear     a linear model, whose exact contributions are w x
    symmetric  a network that no cyclic shift changes, explained by integrated gradients from a plain baseline, and from a ramp
    searched   a linear model and a map that is another one inside a small part of the space, a switch that a search finds
    reported   Guided Backprop and smoothed gradients of the symmetric network, which are not counted: nobody knows the right words

Counted are cards with a wrong word, planted failures that were named, and words that cannot tell.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

import veracity
from veracity.core.errors import Note
from veracity.explain import GuidedBackprop, IntegratedGradients, SmoothGrad

FEATURES, CLASSES, SIDE = 16, 4, 4
CELL = 0.1
HOLDS, SHORT, OPEN = "holds", "falls short", "cannot tell yet"


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


def switched(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The exact contributions, in reverse order where three features lie in the first third of a cell of their own: 1 in 27 points."""
    inside = (torch.remainder(inputs[:, :3], CELL) < CELL / 3).all(dim=1, keepdim=True)
    found = exact(model, inputs, targets)
    return torch.where(inside, found.flip(1), found)


class Pooled(nn.Module):
    """Circular convolution, ReLU, mean over all places, classes: cyclic shifts do not change it."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.Conv2d(1, 8, 3, padding=1, padding_mode="circular", bias=False)
        self.act, self.classes = nn.ReLU(), nn.Linear(8, CLASSES, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.classes(self.act(self.maps(x)).mean(dim=(2, 3)))
        return found


def linear_model(generator: torch.Generator) -> tuple[nn.Module, tuple[int, ...]]:
    model = nn.Linear(FEATURES, CLASSES).eval()
    with torch.no_grad():
        model.weight.copy_(0.6 * torch.randn(CLASSES, FEATURES, generator=generator))
        model.bias.zero_()
    return model, (FEATURES,)


def pooled_model(generator: torch.Generator) -> tuple[nn.Module, tuple[int, ...]]:
    model = Pooled().eval()
    with torch.no_grad():
        for one, size in ((model.maps, 9), (model.classes, 0.1)):
            one.weight.copy_(torch.randn(one.weight.shape, generator=generator) / size**0.5)
    return model, (1, SIDE, SIDE)


RAMP = torch.linspace(-2, 2, SIDE * SIDE).reshape(1, SIDE, SIDE)
"""A baseline that does not look alike after a shift."""

World = tuple[Callable[[torch.Generator], tuple[nn.Module, tuple[int, ...]]], Mapping[str, Any], str, Mapping[tuple[str, str], str]]
WORLDS: dict[str, World] = {
    "linear": (
        linear_model,
        {"exact": exact, "summed": summed, "noisy": noisy, "random": random_map, "edges": edges},
        "1s",
        {
            ("exact", "model"): HOLDS,
            ("exact", "faithful"): HOLDS,
            ("exact", "calm"): HOLDS,
            ("noisy", "calm"): SHORT,
            ("random", "model"): SHORT,
            ("edges", "model"): SHORT,
            ("summed", "model"): SHORT,
        },
    ),
    "symmetric": (
        pooled_model,
        {
            "plain": IntegratedGradients(steps=4, baseline=0.0),
            "moving": IntegratedGradients(steps=4, baseline=RAMP),
        },
        "1s",
        {("plain", "symmetric"): HOLDS, ("moving", "symmetric"): SHORT},
    ),
    "searched": (linear_model, {"exact": exact, "switched": switched}, "10h", {("exact", "model"): HOLDS, ("switched", "robust"): SHORT}),
    "reported": (pooled_model, {"guided": GuidedBackprop(), "smooth": SmoothGrad(draws=8)}, "1s", {}),
}
"""Model, explainers, budget (a search needs a large one) and the right words. Noise lowers the other scores of a copy by an unknown amount,
so its other words are not counted, and of the explainers of "reported" nobody knows the right words."""
REPORTED = {"reported": ("guided", "smooth")}


def card(world: str, seed: int, samples: int) -> veracity.Card:
    generator = torch.Generator().manual_seed(seed)
    make, named, budget, _ = WORLDS[world]
    model, shape = make(generator)
    x = torch.randn(samples, *shape, generator=generator)
    settings: dict[str, Any] = {"samples": samples, "budget": budget, "seed": seed, "progress": False}
    return veracity.card(model, x, model(x).argmax(1), explainers=dict(named), **settings)


def better(found: veracity.Card, one: str, other: str, question: str) -> bool:
    """Whether a check of a question puts one explainer above another, with intervals that do not overlap."""
    checks = {name: next(said.checks for said in found.explainers[name].answers if said.question == question) for name in (one, other)}
    pairs = zip(checks[one], checks[other], strict=True)
    return any(here.low is not None and there.high is not None and here.low > there.high for here, there in pairs)


def main(seeds: int = 5, first: int = 0, samples: int = 256, only: str = "") -> None:
    """Print how often each word is right, open or wrong."""
    for world in [only] if only else WORLDS:
        count(world, range(first, first + seeds), samples)


def count(world: str, seeds: range, samples: int) -> None:
    """Print how often each word of one world is right, open or wrong."""
    known, said, reported = WORLDS[world][3], Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    wrong_cards, undominated_noise, better_noise, started = 0, 0, 0, time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        for seed in seeds:
            found = card(world, seed, samples)
            wrong = 0
            for (explainer, question), right in known.items():
                word = found.word(question, explainer)
                said[explainer, question, "right" if word == right else "open" if word == OPEN else "wrong"] += 1
                wrong += word not in (right, OPEN)
            wrong += sum(one.answers[0].word == HOLDS for one in found.record.explainers if one.control)
            wrong_cards += wrong > 0
            if "noisy" in found.explainers:
                undominated_noise += "noisy" in found.undominated
                better_noise += better(found, "noisy", "exact", "faithful")
            for explainer in REPORTED.get(world, ()):
                reported.update((explainer, one.question, one.word) for one in found.explainers[explainer].answers)
    took = time.perf_counter() - started
    print(f"{world}: {len(seeds)} cards of {samples} samples, {wrong_cards} with a wrong word; {took:.0f} s")
    for explainer, question in known:
        counts = {what: said[explainer, question, what] for what in ("right", "open", "wrong")}
        print(f"  {explainer:8} {question:10} {counts}")
    if world == "linear":
        print(f"  cards in which nobody dominates the noisy copy: {undominated_noise}; in which it is better on faithful: {better_noise}")
    for (explainer, question, word), times in sorted(reported.items()):
        print(f"  reported: {explainer:8} {question:10} {word}: {times}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.card", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--only", default="", choices=["", *WORLDS])
    main(**vars(parser.parse_args()))
