"""Random settings of any component, valid ones and hostile ones, made, written down, read again, and used a little."""

from __future__ import annotations

import json
from dataclasses import fields
from random import Random
from typing import Any

import torch

from veracity.core.randomness import Draws
from veracity.core.registry import REGISTRIES
from veracity.core.spaces import GraphSpace, GuidedSpace, InputSpace, RangedSpace

from .outcome import Outcome, judged
from .values import mutated, settings_of

SHAPES = ((6,), (1, 8), (1, 6, 6), (3, 5, 7), (4, 2), (2, 6, 6), (5, 3))


def settings(random: Random) -> Outcome:
    """Make a component with random settings; a space is fitted and acts."""
    return judged("settings", lambda seen: made(random, seen))


def made(random: Random, seen: Outcome) -> None:
    role = random.choice(list(REGISTRIES))
    home = random.choice(REGISTRIES[role])
    name = random.choice(list(home))
    item = home[name]
    if not isinstance(item, type):
        seen.hostile = True
        item.using(**mutated(random, {}, ["window", "size", "sigma", "data_range", "fraction", "directions"]))(
            torch.rand(2, 1, 9, 9), torch.rand(2, 1, 9, 9)
        )
        return
    known = [one.name for one in fields(item) if one.init]
    given: dict[str, Any] = settings_of(random, item, share=0.5)
    if random.random() < 0.6:
        given, seen.hostile = mutated(random, given, known), True
    built = item(**given) if random.random() < 0.5 else home.build({"name": name, **given})
    spec = built.spec()
    if not any(isinstance(value, torch.Tensor) or callable(value) for value in given.values()):
        json.dumps(spec)
        again = home.build(spec) if "code" not in spec else built
        if role != "task" and again.spec() != spec:
            seen.findings.append(f"{name} does not come back from its spec {spec}")
    if isinstance(built, InputSpace):
        acts(random, built)
    seen.measured = True


def acts(random: Random, space: InputSpace) -> None:
    """Fit a space and move something by random elements."""
    shape = torch.Size(random.choice(SHAPES))
    fitted = space.fit(shape)
    if isinstance(fitted, RangedSpace) and fitted.needs_range:
        fitted = fitted.within(0.0, 1.0)
    if fitted.latents * shape.numel() > 10**6:
        return
    x = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
    elements = fitted.sample(Draws.of(0, torch.arange(2)))
    if not isinstance(fitted, GuidedSpace | GraphSpace):
        moved = fitted.act(fitted.at(elements, torch.zeros(2, dtype=torch.long)), x)
        if len(moved) != 2:
            raise AssertionError(f"{space.name} moved 2 samples into {len(moved)}")
