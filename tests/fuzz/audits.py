"""A random audit: models, data, explainers, scores, symmetry, walk, target; and what must hold after it."""

from __future__ import annotations

import math
import random as randomness
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import fields
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from veracity import Audit, Custom
from veracity.core.registry import EXPLAINERS, MEASURES, SCORES, WALKS
from veracity.results import Result

from .outcome import Outcome, judged
from .values import hostile, mutated, settings_of
from .worlds import COMMON, WORLDS, World, broken, labels, rand, told

LEARNING = (
    "influence_functions", "tracin", "simplex", "representation_similarity", "cav", "car", "tcav", "random_concepts", "random_examples",
    "random_mixture", "random_sensitivities", "natural_activation",
)  # fmt: skip
"""Explainers that refer to training examples."""
PICTURES = (
    "full_grad",
    "grad_cam",
    "grad_cam_plus_plus",
    "extremal_perturbation",
    "superpixel_lime",
    "superpixel_shap",
    "edge_filter",
    "fourier_visualisation",
    "maco",
    "deep_visualisation",
)
"""Explainers of images and series alone."""
CONCEPTS = ("cav", "car", "tcav")
POSITIONS = ("continuity", "irof", "road")
"""Scores of images and series alone."""
PARTS = ("characterisation", "fidelity_minus", "fidelity_plus", "unfaithfulness")
"""Scores of words, edges and nodes alone."""
FOLDED = ("mege", "reco", "reco_auc", "reco_ks")
"""Scores of cross-trained models."""
SLOW = {"extremal_perturbation": 0.2, "superpixel_lime": 0.2, "superpixel_shap": 0.2, "car": 0.3, "symmetrised": 0.5}
"""How often slow explainers are kept where they are drawn."""


def audit(random: Random) -> Outcome:
    """Run a random audit and look at what it left behind."""
    with tempfile.TemporaryDirectory() as folder:
        return judged("audit", lambda seen: measured(random, folder, seen))


def measured(random: Random, folder: str, seen: Outcome) -> None:
    """One audit from its settings to its tables."""
    settings = audit_settings(random, seen)
    before = State(settings)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = Audit(**settings).run(folder, progress=False, **run_settings(random))
            look(result, seen)
            if random.random() < 0.05:
                result.save_report(f"{folder}/report.html")
    finally:
        seen.findings += before.changes()


def run_settings(random: Random) -> dict[str, Any]:
    """How to run it, mostly as by default."""
    found: dict[str, Any] = {}
    if random.random() < 0.15:
        found["batch"] = random.choice([1, 2, 3, 7])
    if random.random() < 0.03:
        found[random.choice(["batch", "memory", "workers"])] = random.choice([0, -1, "a", 1.5, True, None, 2**70])
    return found


def audit_settings(random: Random, seen: Outcome) -> dict[str, Any]:
    """Everything that an Audit takes; one part in seven is hostile."""
    name = random.choice(COMMON)
    world = WORLDS[name]
    count = random.choice([1, 2, 4, 4, 5, 6, 8])
    inputs = world.inputs(count)
    count = inputs.size() if callable(getattr(inputs, "size", None)) and not isinstance(inputs, Tensor) else len(inputs)
    needs_labels = name == "crossed"
    settings: dict[str, Any] = {
        "models": {"model": world.model()},
        "inputs": inputs,
        "targets": labels(count, world.classes) if needs_labels or random.random() < 0.7 else None,
        "explainers": {f"e{number}": explainer(random, world, name) for number in range(random.choice([1, 1, 2]))},
        "scores": {},
        "symmetry": random.choice(world.symmetries),
        "controls": random.random() < 0.4,
        "companions": random.random() < 0.4,
        "seed": random.choice([0, 1, 7]),
        "reference": WORLDS["mlp"].inputs(3) if name in ("mlp", "normed") and random.random() < 0.3 else None,
    }
    if isinstance(inputs, Tensor) and random.random() < 0.9:
        settings["reference"] = world.inputs(3)
    if isinstance(inputs, Tensor) and random.random() < 0.9:
        settings["truth"] = hostile(random) if random.random() < 0.05 else inputs >= inputs.double().mean()
    placed = isinstance(inputs, Tensor) and inputs.ndim > 2
    unfit = (() if placed else POSITIONS) + (PARTS if isinstance(inputs, Tensor) else ())
    for label in random.sample([one for one in SCORES if one not in unfit], random.choice([1, 1, 2])):
        settings["scores"][label] = score(random, label)
    if name == "crossed" and random.random() < 0.8:
        label = random.choice(FOLDED)
        settings["scores"] = {label: score(random, label)}
    elif name != "crossed":
        settings["scores"] = {key: one for key, one in settings["scores"].items() if key not in FOLDED} or {"equivariance": "equivariance"}
    if random.random() < 0.8:
        settings["walk"] = walk(random) if random.random() < 0.08 else {"name": "monte_carlo", "draws": random.choice([1, 2, 3])}
    if random.random() < 0.3:
        settings["target"] = target(random, world)
    if uses(settings["explainers"].values(), LEARNING) and isinstance(inputs, Tensor) and random.random() < 0.9:
        settings["training"] = (world.inputs(12), labels(12, world.classes))
        if isinstance(settings["models"]["model"], nn.Module):
            state = world.model().state_dict()
            settings["checkpoints"] = {
                "model": random.choice(
                    [[state, state], [state, state], [(state, 0.1), (state, 0.01)], [(state, 0.1)], [state, (state, 0.1)]]
                )
            }
        settings["concepts"] = {"first": {0}, "odd": torch.arange(12) % 2 == 1}
    if random.random() < 0.15:
        spoil(random, settings, world)
        seen.hostile = True
    return settings


def uses(explainers: Iterable[Any], names: tuple[str, ...]) -> bool:
    return any((one.get("name") if isinstance(one, dict) else one) in names for one in explainers)


def explainer(random: Random, world: World, name: str) -> Any:
    """An explainer by {name, settings}, or something that stands for one."""
    chance = random.random()
    if chance < 0.02:
        return told
    if chance < 0.03:
        return broken
    if chance < 0.3 or world.explainers is not None:
        return random.choice(
            world.explainers or ("gradient", "saliency", "input_x_gradient", "feature_ablation", {"name": "lime", "samples": 9, "patch": 1})
        )
    chosen = random.choice(list(EXPLAINERS))
    pictured = chosen in PICTURES and name not in ("cnn", "colour", "series")
    if random.random() > SLOW.get(chosen, 1.0) or chosen == "precomputed" or (pictured and random.random() < 0.9):
        chosen = "gradient"
    if chosen in LEARNING and (name in ("tokens", "crossed", "regression") or random.random() < 0.3):
        chosen = "saliency"
    settings = settings_of(random, EXPLAINERS[chosen])
    if chosen == "symmetrised":
        settings = {"explainer": "gradient", "draws": random.choice([None, 1, 2])}
    if "patch" in {item.name for item in fields(EXPLAINERS[chosen])} and random.random() < 0.8:
        settings["patch"] = random.choice([1, 2])
    if "window" in settings or chosen == "occlusion":
        settings["window"] = random.choice([1, 2, 3])
    if "k" in {item.name for item in fields(EXPLAINERS[chosen])}:
        settings["k"] = random.choice([1, 2])
    if chosen in CONCEPTS:
        settings.setdefault("layer", "0")
    for key in ("baseline", "baselines", "segments", "reference_set"):
        if isinstance(settings.get(key), Tensor) and random.random() < 0.9:
            del settings[key]
    if random.random() < 0.04:
        settings = mutated(random, settings, [item.name for item in fields(EXPLAINERS[chosen]) if item.init])
    return {"name": chosen, **settings}


def score(random: Random, name: str) -> Any:
    """A score by {name, settings}, cheap."""
    settings = settings_of(random, SCORES[name], share=0.2)
    if "range" in settings and random.random() < 0.8:
        settings["range"] = random.choice(["data", [0.0, 1.0]])
    if isinstance(settings.get("steps"), int) and name not in ("deletion", "insertion"):
        settings["steps"] = max(settings["steps"], 3)
    if "sigma" in {item.name for item in fields(SCORES[name])} and random.random() < 0.95:
        settings["sigma"] = settings.get("sigma") or 0.1  # without it the strength is calibrated, which takes seconds
    if name == "input_alignment" or random.random() < 0.5:
        settings = {key: value for key, value in settings.items() if key not in ("segments", "first")}
    if "walk" in {item.name for item in fields(SCORES[name])}:
        settings["walk"] = walk(random) if random.random() < 0.1 else {"name": "monte_carlo", "draws": random.choice([1, 2, 3])}
        if name.startswith("ln_p") and random.random() < 0.8:
            settings["walk"] = {"name": "subset_simulation", **settings_of(random, WALKS["subset_simulation"])}
        if (name.startswith("sol") or name == "worst_loss") and random.random() < 0.8:
            settings["walk"] = {"name": "genetic", "population": 4, "generations": 2, "elites": 1}
    for key in sorted({"patch_size", "k"} & {item.name for item in fields(SCORES[name])}):
        if random.random() < 0.8:
            settings[key] = random.choice([1, 2])  # patches of eight do not fit these inputs
    if "measure" in settings and random.random() < 0.7:
        del settings["measure"]
    if random.random() < 0.1:
        settings["measure"] = random.choice(list(MEASURES))
    for key in ("space",):
        if key in settings and random.random() < 0.8:
            del settings[key]
    if random.random() < 0.04:
        settings = mutated(random, settings, [item.name for item in fields(SCORES[name]) if item.init])
    return {"name": name, **settings}


def walk(random: Random) -> Any:
    """A walk by {name, settings}."""
    name = random.choice(list(WALKS))
    settings = settings_of(random, WALKS[name])
    if name == "subset_simulation":
        settings["population"] = 10
    if name == "simple_monte_carlo":
        settings["draws"] = random.choice([5, 20])
    if name == "strongest":
        settings["searches"] = [
            {"name": "genetic", "population": 3, "generations": 1, "elites": 1},
            {"name": "gradient", "population": 1, "steps": 2},
        ]
    return {"name": name, **settings}


def target(random: Random, world: World) -> Any:
    return random.choice(
        [
            "predicted", "label", 0, world.classes - 1, {"name": "neuron", "layer": "0", "unit": 0}, lambda output: output[:, 0],
            Custom(function=lambda output: output.sum(1)),
        ]
    )  # fmt: skip


def spoil(random: Random, settings: dict[str, Any], world: World) -> None:
    """Make one part wrong."""
    part = random.choice(
        ["inputs", "inputs", "inputs", "targets", "targets", "target", "anything", "anything", "symmetry", "scores", "explainers"]
    )
    if part == "inputs":
        settings["inputs"] = random.choice(SPOILT)(settings["inputs"] if isinstance(settings["inputs"], Tensor) else rand(4, 6))
    elif part == "targets":
        count = len(settings["targets"]) if settings["targets"] is not None else 4
        right = torch.arange(count)
        settings["targets"] = random.choice(
            [
                right + 5,
                -right,
                right * 0.5,
                right.bool(),
                right[:1],
                right[None],
                right.tolist(),
                torch.full((count,), torch.nan),
                right * 1j,
            ]
        )
    elif part == "target":
        settings["target"] = random.choice(
            [-1, 99, "lable", {"name": "class"}, {"name": "neuron", "layer": "x", "unit": 0}, lambda y: y, None, 1.5]
        )
    elif part == "symmetry":
        settings["symmetry"] = random.choice([None, "d4", "so3", "cube_rotations", "ball", "node_permutations", hostile(random)])
    elif part == "scores":
        settings["scores"] = random.choice(
            [[], {}, "equivariance", ["equivariance", "equivariance"], {"": "mprt"}, {3: "mprt"}, hostile(random)]
        )
    elif part == "explainers":
        settings["explainers"] = random.choice(
            [
                [],
                "gradient",
                ["gradient", "gradient"],
                {"a": "gradient"},
                {3: "gradient"},
                ["random_uniform"],
                hostile(random),
                [hostile(random)],
            ]
        )
    else:
        settings[random.choice([item.name for item in fields(Audit)])] = hostile(random)


SPOILT = (
    lambda x: x.index_fill(0, torch.tensor([0]), torch.nan), lambda x: x.index_fill(0, torch.tensor([0]), torch.inf), lambda x: x[:0],
    lambda x: x[0],
    lambda x: x[:1], lambda x: x.long(), lambda x: x.double(), lambda x: x.half(), lambda x: x.to(torch.bfloat16), lambda x: x.bool(),
    lambda x: x * 1j,
    lambda x: x[..., :-1], lambda x: x[:, None], lambda x: x.numpy(), lambda x: x.tolist(), lambda x: x.clone().requires_grad_(),
    lambda x: x.to_sparse(), lambda x: torch.zeros_like(x), lambda x: x.expand(4, *x.shape), lambda x: x * 1e30, lambda x: x * 1e-30,
    lambda x: x.transpose(0, -1), lambda x: list(x), lambda x: x[:1].expand(5, *x.shape[1:]), lambda x: None,
)  # fmt: skip
"""Inputs that are not what they should be; some of them will do."""


def look(result: Result, seen: Outcome) -> None:
    """Read everything, and hold the table against what it must be."""
    table = result.table()
    bounds = {(one.model, one.explainer, one.score): one.bounds for one in result.series}
    for row in table.to_dict("records"):
        low, high = bounds[row["model"], row["explainer"], row["score"]]
        who = f"{row['score']} of {row['explainer'] or row['model']}"
        value = row["value"]
        if math.isfinite(value):
            seen.measured = True
            slack = 1e-6 * max(1.0, abs(value))
            if value < low - slack or value > high + slack:
                seen.findings.append(f"value {value} of {who} outside [{low}, {high}]")
            if row["low"] > value + slack or row["high"] < value - slack:
                seen.findings.append(f"interval [{row['low']}, {row['high']}] of {who} without its value {value}")
            if row["low"] < low - slack or row["high"] > high + slack:
                seen.findings.append(f"interval [{row['low']}, {row['high']}] of {who} outside [{low}, {high}]")
    for row in result.failures().to_dict("records"):
        text = str(row["error"])
        kind = text.split(":")[0]
        if kind.endswith(("Error", "Exception", "Warning")) and "broken on purpose" not in text and "OutOfMemory" not in kind:
            seen.findings.append(f"a cell failed with {text[:300]}")
    str(result)
    for label in dict.fromkeys(table["score"]):
        result.samples(label)
        if not result.in_map_units(label):
            result.differences(label)
        result.differences(label, between="models")


class State:
    """What an audit must leave as it was: random states, models, tensors, torch's settings."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self.before = settings, self.now(settings)

    def now(self, settings: dict[str, Any]) -> dict[str, Any]:
        given = settings.get("models")
        models = list(given.values()) if isinstance(given, dict) else [given]
        modules = [part for one in models for part in (getattr(one, "models", None) or [one]) if isinstance(part, nn.Module)]
        tensors = [value for value in (settings.get("inputs"), settings.get("targets"), settings.get("reference")) if plain(value)]
        return {
            "torch's random state": torch.get_rng_state(),
            "numpy's random state": np.random.get_state(legacy=False)["state"]["key"].copy(),  # noqa: NPY002
            "python's random state": randomness.getstate(),
            "a model's weights": [value.clone() for module in modules for value in (*module.parameters(), *module.buffers())],
            "a model's mode": [part.training for module in modules for part in module.modules()],
            "a model's requires_grad": [value.requires_grad for module in modules for value in module.parameters()],
            "a model's hooks": [len(part._forward_hooks) + len(part._forward_pre_hooks) for module in modules for part in module.modules()],
            "a model's gradients": [value.grad is None for module in modules for value in module.parameters()],
            "a tensor": [value.detach().clone() for value in tensors],
            "a tensor's gradient": [value.grad is None for value in tensors],
            "the default dtype": torch.get_default_dtype(),
            "grad mode": torch.is_grad_enabled(),
        }

    def changes(self) -> list[str]:
        now = self.now(self.settings)
        return [f"{what} changed" for what, value in self.before.items() if not same(value, now[what])]


def plain(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout is torch.strided and not value.is_meta


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and bool((one.eq(other) | (one.ne(one) & other.ne(other))).all())
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    return bool(one == other)
