"""Random values of a declared type: plausible ones, cheap to measure with, and hostile ones of any other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from random import Random
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np
import torch
from torch import Tensor

from veracity.core.registry import REGISTRIES
from veracity.core.settings import Within, hints_of

PLAIN: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3, 2**40, 2**70, -(2**70), 0.0, 0.5, -1.0, 1e-300, 1e308, "", "a", "cosine", "exhaustive", "x" * 300,
    [], {},
    [1], [1, 2, 3], ["a"], [[[]]], {"name": "a"}, {"name": "exhaustive"}, {"name": 3}, {"name": []}, {"a": 1}, [None], [{}], "é\n\x00",
)  # fmt: skip
"""What a file can hold."""
OBJECTS: tuple[Callable[[], Any], ...] = (
    lambda: math.nan, lambda: math.inf, lambda: -math.inf, lambda: 1j, lambda: b"a", lambda: (1, 2), lambda: {1, 2}, lambda: range(3),
    object,
    lambda: object, lambda: len, lambda: np.int64(3), lambda: np.float32(0.5), lambda: np.zeros(3), lambda: np.array(["a"]),
    lambda: torch.zeros(3), lambda: torch.tensor(2), lambda: torch.zeros(2, 2).to_sparse(), lambda: torch.zeros(2, device="meta"),
    lambda: torch.tensor(float("nan")), lambda: torch.nn.Linear(2, 2), lambda: ValueError("a"),
)  # fmt: skip
"""What only Python can give."""

WORDS: dict[str, tuple[str, ...]] = {
    "norm": ("linf", "l2", "l1"),
    "range": ("data",),
    "method": ("gausslegendre", "riemann_trapezoid"),
    "correlation": ("spearman", "pearson"),
    "outputs": ("explained", "all"),
    "perturb_baseline": ("black", "white", "mean", "median"),
    "baseline": ("black", "mean"),
    "order": ("morf", "lerf"),
    "layer_order": ("top_down", "bottom_up"),
    "layers": ("mean", "last"),
    "pairs": ("both_right", "all"),
    "plane": ("xy", "xz"),
    "layer": ("0", "2", "head"),
    "direction": ("top_down", "bottom_up"),
    "discretise": ("top_n_sign", "sign", "rank"),
}
"""Words that mean something to settings that are text."""
COSTLY = (
    "samples", "masks", "iterations", "draws", "nr_runs", "nr_samples", "n_perturb_samples", "steps", "segments", "population",
    "generations", "evaluations", "nr_steps",
    "elites", "epochs", "per_side", "cells", "components", "most", "block", "repeats", "n_bins", "searches", "kernel", "walk", "floor",
    "crops",
)  # fmt: skip
"""Settings whose defaults are made for real data: they are always given, and small."""


def hostile(random: Random, plain: bool = False) -> Any:
    """Anything but what was asked for."""
    return random.choice(PLAIN) if plain or random.random() < 0.6 else random.choice(OBJECTS)()


def required(item: Any) -> bool:
    """Whether a field has no default."""
    return item.default is MISSING and item.default_factory is MISSING


def settings_of(random: Random, made: type, plain: bool = False, share: float = 0.3) -> dict[str, Any]:
    """Plausible settings of a component: all costly ones and a share of the others."""
    hints = hints_of(made)
    found = {}
    for item in fields(made):
        if item.init and (required(item) or item.name in COSTLY or random.random() < share):
            value = plausible(random, hints[item.name], item.name, plain)
            if value is not SKIPPED:
                found[item.name] = value
    if "elites" in found:
        found["elites"] = min(found["elites"], found["population"] - 1) or 1
    return found


SKIPPED: Any = object()
"""Where nothing plausible is known: the default stays."""


def plausible(random: Random, hint: Any, name: str, plain: bool = False) -> Any:
    """A value of a declared type, biased to what works."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return ranged(random, parts[0], [one for one in parts[1:] if isinstance(one, Within)], name)
    if origin in (Union, UnionType):
        return plausible(random, random.choice([part for part in parts if plain is False or part is not Tensor]), name, plain)
    if origin is Literal:
        return random.choice(parts)
    if hint is NoneType:
        return None
    if hint is bool:
        return random.random() < 0.5
    if hint is int:
        return random.choice([-1, -2]) if name == "axis" else random.choice([0, 1, 1, 2, 3])
    if hint is float:
        return random.choice([0.0, 0.01, 0.1, 0.3, 0.5, 1.0])
    if hint is str:
        return random.choice(WORDS[name]) if name in WORDS else SKIPPED
    if hint is Tensor:
        return (
            SKIPPED
            if plain
            else torch.rand(random.choice([(), (6,), (2, 6), (1, 6, 6), (2, 1, 6, 6)]), generator=torch.Generator().manual_seed(3))
        )
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return several(random, parts, name, plain)
    role = getattr(hint, "role", "")
    if role in REGISTRIES and name != "explainer":
        return part_of(random, hint, role, plain)
    return SKIPPED


def several(random: Random, parts: tuple[Any, ...], name: str, plain: bool) -> Any:
    """A list of a few values."""
    if name == "axes":
        return random.choice([[-1], [-2, -1]])
    count = len(parts) if parts and parts[-1] is not Ellipsis and len(parts) > 1 else random.choice([1, 1, 2])
    found = [plausible(random, parts[0], name, plain) for _ in range(count)]
    return SKIPPED if SKIPPED in found else sorted(found) if all(isinstance(one, float) for one in found) else found


def ranged(random: Random, kind: Any, ranges: Sequence[Within], name: str) -> Any:
    """A small number within ranges, sometimes at their ends."""
    low = max([0.0, *(end for one in ranges for end in (one.least, one.above) if end is not None)])
    high = min([*(end for one in ranges for end in (one.most, one.below) if end is not None), max(10.0 * low, 2.0)])
    if name == "floor" and high <= 0:
        return random.choice([-2.0, -8.0])
    if kind is int:
        return int(low) + random.choice([0, 1, 1, 2, 3, 4])
    return round(low + (high - low) * random.choice([0.01, 0.05, 0.1, 0.2, 0.5, 0.9]), 6)


def part_of(random: Random, base: Any, role: str, plain: bool) -> Any:
    """A component that a setting asks for, as {name, settings}."""
    known = [(home, name) for home in REGISTRIES[role] for name in home]
    fitting = [(home, name) for home, name in known if not isinstance(home[name], type) or issubclass(home[name], base)]
    if role == "walk" and random.random() < 0.7:
        fitting = [(home, name) for home, name in fitting if name in ("exhaustive", "monte_carlo", "genetic", "gradient")] or fitting
    if not fitting:
        return SKIPPED
    home, name = random.choice(fitting)
    made = home[name]
    return {"name": name, **(settings_of(random, made, plain) if isinstance(made, type) else {})}


def mutated(random: Random, settings: Mapping[str, Any], known: Sequence[str], plain: bool = False) -> dict[str, Any]:
    """Settings of which one is hostile, or unknown."""
    key = random.choice([*known, *settings, "no_such_setting"] if known else ["no_such_setting"])
    return {**settings, key: hostile(random, plain)}
