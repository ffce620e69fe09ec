"""Run folders for tests of the report: made-up measurements, stored as an audit stores them and read back as a `Result`."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veracity.core.measures import Direction
from veracity.core.scores import Score
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import BLOCK, Kind
from veracity.engine.store.records import sealed
from veracity.perturb import CyclicShift
from veracity.results import Result, Row, WorstPair
from veracity.scores import Equivariance, MaxSensitivity, ModelInvariance, SelfAgreement, Symmetry
from veracity.scores.assumptions import ModelRobustness
from veracity.scores.faithfulness.content import Sparseness
from veracity.scores.faithfulness.correlation import MuFidelity
from veracity.scores.faithfulness.curves import Insertion, PixelFlipping
from veracity.scores.faithfulness.masked import ModelFaithfulness
from veracity.scores.gef import GEF, FastGEF, PublicFastGEF
from veracity.scores.randomisation import MPRT
from veracity.scores.sensitivity import RelativeInputStability
from veracity.scores.stability import MeGe, ReCo

NESTED = {"exhaustive": False, "population": None, "anytime": None, "nested": True}
CROSSED = {**NESTED, "nested": False}


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What a score observed of a model or explainer: (samples,) or (samples, draws) values, or quantities (samples, draws, levels)."""

    model: str
    explainer: str
    score: str
    values: Any
    frame: str = "input"
    control: bool = False
    signed: bool = True
    categorical: bool = False
    failed: str = ""
    pending: bool = False


def stored(
    folder: Path,
    scores: Mapping[str, Score],
    observed: Iterable[Observed],
    *,
    models: Mapping[str, float | None] | None = None,
    beside: Mapping[str, Score] | None = None,
    sampling: Mapping[str, Any] = NESTED,
    pairs: Mapping[str, Sequence[WorstPair]] | None = None,
    advice: Sequence[Mapping[str, Any]] = (),
    **manifest: Any,
) -> Result:
    """A run of these scores; those `beside` are companions and assumptions, which have no rows of their own."""
    run, every, cells, samples = RunFolder(str(folder)), {**scores, **(beside or {})}, [], 1
    for one in observed:
        tables = one.values if isinstance(one.values, Mapping) else {"value": np.asarray(one.values, dtype=np.float64)}
        tables = {name: table.reshape(*table.shape, *[1] * (3 - table.ndim)) for name, table in tables.items()}
        size = len(next(iter(tables.values())))
        samples = max(samples, size)
        kept = [pair for pair in (pairs or {}).get(one.score, ()) if (pair.model, pair.explainer) == (one.model, one.explainer)]
        for start in range(0, max(size, 1), BLOCK):
            stop = min(start + BLOCK, max(size, 1))
            key = hashlib.sha256(f"{one.model}/{one.explainer}/{one.score}/{start}".encode()).hexdigest()[:24]
            score = every[one.score]
            cells.append(
                {
                    "key": key, "base": key, "model": one.model, "explainer": one.explainer, "control": one.control, "signed": one.signed,
                    "frame": one.frame if one.explainer else "", "categorical": one.categorical, "score": one.score, "start": start,
                    "stop": stop, "sampling": dict(sampling), "bounds": [str(end) for end in bounds(score)],
                    "direction": direction(score).value,
                }
            )  # fmt: skip
            if one.failed:
                run.write_failure(key, one.failed)
            elif not one.pending:
                write_cell(run, key, {name: table[start:stop] for name, table in tables.items()}, start)
            if kept and not start:
                run.write_tensors("worst", key, packed(kept))
    known = models if models is not None else dict.fromkeys(cell["model"] for cell in cells)
    run.write_manifest({"kind": Kind.AUDIT, **about(known, samples, scores, every), "cells": cells, **manifest})
    if advice:
        run.files.write("advice.json", sealed({"advice": list(advice)}))
    return Result(folder)


def write_cell(run: RunFolder, key: str, tables: Mapping[str, np.ndarray], start: int) -> None:
    sample, draw, level = np.indices(next(iter(tables.values())).shape)
    run.write_cell(key, sample.ravel() + start, draw.ravel(), level.ravel(), {name: table.ravel() for name, table in tables.items()})


def packed(pairs: Sequence[WorstPair]) -> dict[str, Tensor]:
    tensors = ("input", "moved", "explanation", "expected", "found")
    found = {name: torch.stack([getattr(pair, name) for pair in pairs]).contiguous() for name in tensors}
    numbers = {name: torch.tensor([getattr(pair, name) for pair in pairs]) for name in ("sample", "draw", "element", "value")}
    return {**found, **numbers}


def bounds(score: Score) -> tuple[float, float]:
    return score.bounds if score.measure is not None or type(score).bounds is not Score.bounds else score.compare.range


def direction(score: Score) -> Direction:
    return score.direction


def about(models: Mapping[str, float | None], samples: int, scores: Mapping[str, Score], every: Mapping[str, Score]) -> dict[str, Any]:
    return {
        "created": "2025-03-04T05:06:07+00:00",
        "title": "Do explanations of digits move with the digit?",
        "seed": 20240611,
        "symmetry": "cyclic_shift over axes (-2, -1), 196 elements",
        "spec": {"symmetry": {"name": "cyclic_shift", "axes": [-2, -1]}, "walk": {"name": "exhaustive"}},
        "scores": list(scores),
        "score_specs": {label: score.about() for label, score in every.items()},
        "versions": {"veracity": "0.1.0", "python": "3.12.3", "torch": "2.13.0", "captum": "0.9.0"},
        "data": {"samples": samples, "shape": [1, 14, 14], "fingerprint": "5b0f1c6a2e904d7788aa01c3"},
        "models": {
            name: {"fingerprint": f"{place:024x}", "accuracy": accuracy, "outputs": "logits"}
            for place, (name, accuracy) in enumerate(models.items(), 11)
        },
        "notes": [],
    }


def row(explainer: str = "saliency", value: float = 1.0, half: float = 0.0, **changes: Any) -> Row:
    """A row of a table, of equivariance unless changed."""
    symmetric = changes.get("score", "equivariance") in ("equivariance", "symmetry", "model_invariance")
    made: dict[str, Any] = {
        "model": "net", "explainer": explainer, "frame": "input" if explainer else "", "score": "equivariance", "value": value,
        "low": value - half, "high": value + half, "n": 20, "draws": 4.0, "mark": 0.99 if symmetric else math.nan,
    }  # fmt: skip
    return Row(**{**made, **changes})


# --- shifted digits: three models, fourteen explainers and four controls

MODELS = {"all-cnn": (1.0, 0.981), "augmented-cnn": (0.973, 0.977), "standard-cnn": (0.611, 0.969)}
# explainer: its equivariance on an invariant model, its loss on others, its spread, its self-agreement, whether it is signed
EXPLAINERS = {
    "saliency": (1.0, 1.0, 0.0, 1.0, False),
    "gradient": (1.0, 1.3, 0.0, 1.0, True),
    "input_x_gradient": (1.0, 0.9, 0.0, 1.0, True),
    "integrated_gradients": (1.0, 0.62, 0.0, 1.0, True),
    "deep_lift": (1.0, 0.66, 0.0, 1.0, True),
    "guided_backprop": (1.0, 0.5, 0.0, 1.0, True),
    "deconvolution": (1.0, 0.55, 0.0, 1.0, True),
    "grad_cam": (1.0, 0.74, 0.0, 1.0, True),
    "feature_ablation": (1.0, 0.68, 0.0, 1.0, True),
    "occlusion": (1.0, 0.48, 0.0, 1.0, True),
    "smooth_grad": (0.941, 0.95, 0.02, 0.944, True),
    "gradient_shap": (0.984, 0.7, 0.01, 0.984, True),
    "lime": (0.52, 0.45, 0.09, 0.58, True),
    "feature_permutation": (0.64, 0.55, 0.16, 1.0, True),
}
CONTROLS = {"constant": 1.0, "edge_filter": 1.0, "random_uniform": 0.75, "random_gaussian": 0.0}
NOTES = [
    {
        "model": "all-cnn",
        "explainer": "deep_lift",
        "text": "The model calls a functional ReLU, so DeepLift equals Input x Gradient there.",
    },
    {"model": "", "explainer": "feature_permutation", "text": "The reference set is the first 100 inputs."},
]


def digits_run(folder: Path, *, samples: int = 60, seed: int = 0, pairs: Sequence[WorstPair] | None = None) -> Result:
    """Some samples are undefined, one cell failed."""
    random, observed = np.random.default_rng(seed), []
    for model, (invariance, _) in MODELS.items():
        own = np.clip(invariance - np.abs(random.normal(0, 0.4 * (1 - invariance) + 1e-9, samples)), 0, 1)
        observed.append(Observed(model=model, explainer="", score="model_invariance", values=own))
        hard = random.beta(2, 3, samples)
        for name, (top, loss, spread, agreement, signed) in EXPLAINERS.items():
            fall = loss * min(1.0, 12 * (1 - invariance) ** 0.75) * (0.35 + hard)
            values = np.clip(top - fall - np.abs(random.normal(0, spread + 0.06 * min(fall.mean(), 1), samples)) + spread / 2, -0.4, 1.0)
            if name == "grad_cam":
                values[random.choice(samples, 7, replace=False)] = math.nan
            failed = "RuntimeError: a module was used twice" if (name, model) == ("deep_lift", list(MODELS)[-1]) else ""
            shared = {"model": model, "explainer": name, "signed": signed}
            observed.append(Observed(**shared, score="equivariance", values=values, failed=failed))
            observed.append(Observed(**shared, score="self_agreement", values=np.full(samples, agreement)))
        for name, top in CONTROLS.items():
            values = top + (random.normal(0, 0.02, samples) if top < 1 else np.zeros(samples))
            observed.append(Observed(model=model, explainer=name, score="equivariance", values=values, control=True))
            observed.append(Observed(model=model, explainer=name, score="self_agreement", values=np.full(samples, top), control=True))
    return stored(
        folder,
        {"equivariance": Equivariance(), "model_invariance": ModelInvariance()},
        observed,
        beside={"self_agreement": SelfAgreement()},
        models={name: accuracy for name, (_, accuracy) in MODELS.items()},
        pairs={"equivariance": digit_pairs(list(MODELS), seed=seed) if pairs is None else pairs},
        notes=NOTES,
    )


def digit_pairs(models: Sequence[str], *, size: int = 14, each: int = 4, seed: int = 0) -> list[WorstPair]:
    """Digits with maps that look like attributions; what is found is what is expected, plus another pattern."""
    from sklearn.datasets import load_digits

    generator = torch.Generator().manual_seed(seed)
    images = torch.tensor(load_digits().images, dtype=torch.float32)[:, None] / 16
    images = torch.nn.functional.interpolate(images, scale_factor=max(size // 14, 1), mode="bilinear")
    edge = (size - images.shape[-1]) // 2
    images = torch.nn.functional.pad(images, (edge, size - images.shape[-1] - edge, edge, size - images.shape[-1] - edge))

    def map_of(image: Tensor) -> Tensor:
        noise = torch.nn.functional.avg_pool2d(torch.randn(1, size, size, generator=generator), 3, 1, 1)
        return image * noise + 0.06 * noise

    pairs = []
    for place, model in enumerate(models):
        for rank, name in enumerate(["feature_permutation", "lime", "gradient_shap", "saliency"][:each]):
            sample = int(torch.randint(len(images), (1,), generator=generator))
            shift = torch.randint(-5, 6, (2,), generator=generator).tolist()
            x = images[sample]
            e = map_of(x).abs() if name == "saliency" else map_of(x)
            expected, moved = (one.roll(shift, (-2, -1)) for one in (e, x))
            found = (0.4 + 0.1 * rank) * expected + (0.5 + 0.15 * place) * map_of(moved)
            found = found.abs() if name == "saliency" else found
            value = float(torch.nn.functional.cosine_similarity(expected.flatten(), found.flatten(), dim=0))
            pairs.append(WorstPair(model, name, sample, int(rank), [float(item) for item in shift], value, x, moved, e, expected, found))
    return pairs


def series_run(folder: Path, *, samples: int = 20, channels: int = 1, length: int = 187, seed: int = 3) -> Result:
    """One model of a heartbeat, two explainers, the worst pairs as series (C, T)."""
    random, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    observed, pairs = [Observed(model="ecg-cnn", explainer="", score="model_invariance", values=np.ones(samples))], []

    def smooth() -> Tensor:
        return torch.nn.functional.avg_pool1d(torch.randn(channels, length, generator=generator), 9, 1, 4)

    for name, centre in (("integrated_gradients", 1.0), ("occlusion", 0.8)):
        values = np.clip(centre - np.abs(random.normal(0, 1 - centre, samples)), -1, 1)
        observed.append(Observed(model="ecg-cnn", explainer=name, score="equivariance", values=values))
        for sample in range(2):
            time = torch.linspace(0, 1, length)
            beat = torch.exp(-(((time - 0.3) / 0.015) ** 2)) + 0.25 * torch.exp(-(((time - 0.55) / 0.05) ** 2))
            x = (beat + 0.01 * torch.randn(channels, length, generator=generator)) * torch.linspace(1, 0.4, channels)[:, None]
            e, shift = x * smooth(), 40 + 25 * sample
            moved, expected = x.roll(shift, -1), e.roll(shift, -1)
            found = expected + (1 - centre) * 3 * moved * smooth()
            pairs.append(WorstPair("ecg-cnn", name, sample, 1, [float(shift)], centre - 0.3 + 0.01 * sample, x, moved, e, expected, found))
    return stored(
        folder,
        {"model_invariance": ModelInvariance(), "equivariance": Equivariance()},
        observed,
        pairs={"equivariance": pairs},
        title=None,
        symmetry="cyclic_shift over axes (-1,), 187 elements",
    )


# --- explanations of all three kinds

KINDS = {
    "input": {"integrated_gradients": 1.0, "gradient_shap": 0.44, "feature_permutation": 0.61},
    "training set": {"influence": 1.0, "simplex-inv": 1.0, "simplex-equiv": 0.52, "similarity-equiv": 0.71},
    "concepts": {"cav-inv": 1.0, "cav-equiv": 0.66, "car-equiv": 0.83},
}
NULLS = {
    "input": {"random_gaussian": 0.0, "constant_map": 1.0},
    "training set": {"random_examples": 0.0},
    "concepts": {"random_concepts": 0.5},
}
CONCEPTS = ("top", "shoe", "striped")
SIZES = (1, 2, 4, 16, 64)


def kinds_run(
    folder: Path, *, samples: int = 40, draws: int = 24, stages: int = 0, extra: int = 0, long: bool = False, seed: int = 5, **manifest: Any
) -> Result:
    """Two models, or stages of one training, with everything that the symmetry part shows."""
    random, observed = np.random.default_rng(seed), []
    names = [f"step-{place}" for place in range(stages)] if stages else ["all-cnn", "augmented-cnn"]
    fall = {model: 0.02 * place if stages else 0.06 * place for place, model in enumerate(names)}
    specs: dict[str, Any] = {label: {"name": label.split("-")[0]} for kind in KINDS.values() for label in kind}
    specs["cav-equiv"] = {"name": "cav", "layer": "conv3", "per_side": 100}

    def add(model: str, label: str, frame: str, centre: float, control: bool = False) -> None:
        bounds = (0.0, 1.0) if frame == "concepts" else (-1.0, 1.0)
        spread = 0.25 * min(1.0, 4 * (1 - centre)) if centre < 1 else 0.0
        own = np.clip(centre + random.normal(0, spread / 3 + 1e-12, samples), *bounds)
        drawn = np.clip(own[:, None] + random.normal(0, spread + 1e-12, (samples, draws)), *bounds)
        moved = np.abs(0.02 + 0.05 * (1 - drawn.mean(axis=1)) + random.normal(0, 0.01, samples))
        shared = {"model": model, "explainer": label, "frame": frame, "control": control, "categorical": frame == "concepts"}
        observed.append(Observed(**shared, score="symmetry", values=drawn))
        observed.append(Observed(**shared, score="max_sensitivity", values=moved))

    for model in names:
        own = np.clip(1 - fall[model] + random.normal(0, 0.01, samples) * fall[model], 0, 1)
        observed.append(Observed(model=model, explainer="", score="model_invariance", values=own))
        for frame, members in KINDS.items():
            for label, centre in members.items():
                add(model, label, frame, centre - (5 * fall[model] if frame == "input" else fall[model]))
            for label, centre in NULLS[frame].items():
                add(model, label, frame, centre, control=True)
        for size in (*SIZES, None):
            label = f"cav-equiv, {'whole group' if size is None else f'{size} draws'}"
            specs[label] = {"name": "symmetrised", "explainer": specs["cav-equiv"], "space": None, "draws": size}
            add(model, label, "concepts", 1.0 - fall[model] - (0.0 if size is None else 0.36 / (1 + size)))
        for place in range(extra):
            label = f"my own explainer number {place} with settings that nobody would type twice" if long else f"own-{place}"
            add(model, label, "input", 1.0 - 0.03 * place)
    steps = {"steps": {name: 100.0 * place for place, name in enumerate(names)}} if stages else {}
    spec = {"explainers": specs, "symmetry": {"name": "cyclic_shift"}, "walk": {"name": "monte_carlo", "draws": draws}, **steps}
    given = {
        "title": "All three kinds of explanations",
        "spec": spec,
        "facts": [concept_fact(model, label, concept) for model in names for label in KINDS["concepts"] for concept in CONCEPTS],
        "advice": [advice(model) for model in names] + [advice(model, explainer="influence", robust=True) for model in names],
    }
    return stored(
        folder,
        {
            "symmetry": Symmetry(space=CyclicShift(axes=(-2, -1))),
            "max_sensitivity": MaxSensitivity(),
            "model_invariance": ModelInvariance(),
        },
        sorted(observed, key=lambda one: bool(one.explainer)),
        models=dict.fromkeys(names, 0.97),
        pairs={"symmetry": kind_pairs(names)},
        **{**given, **manifest},
    )


def concept_fact(model: str, explainer: str, concept: str) -> dict[str, Any]:
    doubtful = concept == "striped" and explainer == "cav-equiv"
    share = 0.55 if doubtful else 0.92
    fact = {
        "model": model, "explainer": explainer, "concept": concept, "positives": 100, "negatives": 100, "held_out": 200,
        "accuracy": share, "low": share - 0.07, "high": share + 0.05, "trusted": not doubtful,
    }  # fmt: skip
    return fact | ({"warning": f"The concept '{concept}' cannot be told from the layer 'conv3'."} if doubtful else {})


def advice(model: str, explainer: str = "cav-equiv", robust: bool = False, **changes: Any) -> dict[str, Any]:
    made = {
        "model": model, "explainer": explainer, "branch": "concept explanations, not invariant", "guideline": 3, "robust": robust,
        "assumption": "The layer 'conv3' is not invariant.", "measured": "invariance of the layer 0.31 (0.28 to 0.34)",
        "reason": "A classifier on a layer that moves sees other features when the input moves.", "change": "Use the layer 'dense1'.",
        "after_label": "cav on dense1", "before": 0.66, "before_low": 0.62, "before_high": 0.7, "after": 1.0, "after_low": 1.0,
        "after_high": 1.0, "gain": 0.34, "gain_low": 0.3, "gain_high": 0.38,
    }  # fmt: skip
    return {**made, **changes}


def kind_pairs(models: Sequence[str], *, train: int = 200, seed: int = 1) -> list[WorstPair]:
    """A feature map, the importance of training examples and concept bits of the same digits."""
    generator = torch.Generator().manual_seed(seed)
    pairs = []
    for pair in digit_pairs(models, each=1):
        before = torch.randn(train, generator=generator) * torch.rand(train, generator=generator) ** 4
        after = before + 0.4 * torch.randn(train, generator=generator) * torch.rand(train, generator=generator) ** 6
        bits, other = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 0.0])
        pairs.append(replace(pair, explainer="gradient_shap", draw=0))
        pairs.append(replace(pair, explainer="simplex-equiv", draw=1, value=0.4, explanation=before, expected=before, found=after))
        pairs.append(replace(pair, explainer="cav-equiv", draw=2, value=0.5, explanation=bits, expected=bits, found=other))
    return pairs


# --- faithfulness: paths, curves, assumptions, calibrations, and explainers that do not respond

FAITHFUL: dict[str, Score] = {
    "fast_gef": FastGEF(),
    "gef": GEF(segments=2),
    "fast_gef_public": PublicFastGEF(),
    "pixel_flipping": PixelFlipping(features_in_step=4),
    "insertion": Insertion(steps=8),
    "relative_input_stability": RelativeInputStability(),
    "max_sensitivity": MaxSensitivity(),
    "mprt": MPRT(),
    "sparseness": Sparseness(),
}
HELD: dict[str, Score] = {"model_faithfulness": ModelFaithfulness(), "model_robustness": ModelRobustness()}
ASSUMPTIONS = {
    "pixel_flipping": "model_faithfulness",
    "insertion": "model_faithfulness",
    "relative_input_stability": "model_robustness",
    "max_sensitivity": "model_robustness",
}
FOLLOWING = {"gradient": 0.9, "saliency": 0.6, "occlusion": 0.05}
BLIND = ("random_gaussian", "constant_map")


def calibration(model: str, sigma: float = 1.5) -> dict[str, Any]:
    curve = [[0.5, 0.9], [1.0, 0.5], [sigma, 0.105], [2.0, 0.1]]
    return {
        "model": model, "space": "parameter_scaling", "sigma": sigma, "agreement": 0.105, "chance": 0.1, "tolerance": 0.01, "draws": 40,
        "curve": curve,
    }  # fmt: skip


def faithful_run(
    folder: Path, scores: Sequence[str] = tuple(FAITHFUL), models: Sequence[str] = ("lenet",), *, samples: int = 20, draws: int = 8,
    seed: int = 0, names: Mapping[str, float] = FOLLOWING, published: bool = False, own: Mapping[str, Score] | None = None,
    **manifest: Any,
) -> Result:  # fmt: skip
    """Every explainer follows its model by a share of its own; random maps follow nothing, a constant map does not respond."""
    random, observed = np.random.default_rng(seed), []
    chosen = {label: {**FAITHFUL, **(own or {})}[label] for label in scores}
    for model in models:
        for label, score in chosen.items():
            for explainer in (*names, *BLIND):
                values = faithful_values(score, explainer, names.get(explainer, 0.0), samples, draws, random)
                observed.append(Observed(model=model, explainer=explainer, score=label, values=values, control=explainer in BLIND))
        held = {"model_faithfulness": 5, "model_robustness": samples}
        for label, holds in held.items():
            if label in {ASSUMPTIONS.get(score) for score in scores}:
                observed.append(Observed(model=model, explainer="", score=label, values=assumed(HELD[label], holds, samples)))
    figures = [
        {"model": model, "explainer": "gradient", "score": "fast_gef", "value": 0.79, "where": "Table A.5"} for model in models if published
    ]
    given = {
        "title": "Are they faithful?",
        "symmetry": "",
        "assumptions": {label: ASSUMPTIONS[label] for label in scores if label in ASSUMPTIONS},
        "calibrations": [calibration(model) for model in models],
        "data": {"samples": samples, "shape": [1, 4, 4], "fingerprint": "5b0f1c6a2e904d7788aa01c3"},
        "spec": {"published": figures},
    }
    return stored(
        folder, chosen, observed, beside=HELD, sampling=CROSSED, models=dict.fromkeys(models, 0.98), **{**given, **manifest}
    )  # fmt: skip


def assumed(score: Score, holds: int, samples: int) -> dict[str, np.ndarray]:
    """Distortions by which an assumption holds on the first samples alone."""
    good = (np.arange(samples) < holds)[:, None, None]
    if "kept" in score.quantities:
        return {"distortion": np.where(good, 0.0, 1.0), "kept": np.where(good, 1.0, 0.0)}
    return {"distortion": np.where(good, [[[0.0, 0.1, 0.2]]], [[[0.0, 0.9, 0.1]]])}


def faithful_values(score: Score, explainer: str, share: float, samples: int, draws: int, random: np.random.Generator) -> Any:
    """What a score observes of an explainer that follows its model by this share; better values follow more."""
    if score.quantities == ("model", "explanation"):
        steps, segments = getattr(score, "steps", 1), getattr(score, "segments", 1)
        shape = (samples, draws, steps * segments)
        caused = np.exp(np.linspace(0.0, 4.0, shape[2])) * random.uniform(0.95, 1.0, shape)
        path = 1.0 + share * np.log(caused) + (1 - share) * random.uniform(0.0, 6.0, shape)
        followed = np.repeat(path[:, :, segments - 1 :: segments], segments, axis=2) / segments
        return {"model": caused, "explanation": np.zeros(shape) if explainer == "constant_map" else followed}
    if "curve" in score.figures:
        levels = {"pixel_flipping": 4, "insertion": 9}.get(score.name, 5)
        fall = np.exp(-(0.2 + 3 * share) * np.arange(levels)) * random.uniform(0.95, 1.0, (samples, draws, levels))
        return {score.quantities[0]: 1.0 - fall if score.direction is Direction.HIGHER else fall}
    size = 40_000.0 if score.name == "relative_input_stability" else 1.0
    level = share if score.direction is Direction.HIGHER else 1.0 - share
    return size * (level + random.normal(0.0, 0.01, (samples, draws)))


# --- stability: distances of cross-trained models

# explainer: its mean distance where models agree, how much further apart they are where not, its fidelity, whether it is a control
STABLE = {
    "saliency": (0.52, 0.06, 0.21, False),
    "input_x_saliency": (0.13, 0.05, 0.31, False),
    "integrated_gradients": (0.12, 0.09, 0.42, False),
    "smooth_grad": (0.48, 0.14, 0.23, False),
    "grad_cam": (0.21, 0.22, 0.51, False),
    "grad_cam_plus_plus": (0.16, 0.18, 0.29, False),
    "rise": (0.34, 0.0, 0.47, False),
    "edge_filter": (0.0, 0.0, 0.12, True),
    "random_uniform": (0.96, 0.0, 0.0, True),
}


def distances(random: np.random.Generator, near: float, further: float, wrong: float, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """Distances of pairs of models, and which of the two is right."""
    right, other = ((random.random(shape) > wrong).astype(float) for _ in range(2))
    distance = np.clip(random.normal(near + further * (right + other == 1.0), 0.35 * near * (1 - near) + 1e-12, shape), 0.0, 1.0)
    return {"distance": distance, "right": right, "other_right": other, "same": np.ones(shape)}


def stable_run(
    folder: Path, scores: Mapping[str, Score] | None = None, models: Sequence[str] = ("resnet",), *, samples: int = 40, folds: int = 4,
    wrong: float = 0.1, accuracies: Sequence[float] = (0.91, 0.92, 0.9, 0.915), published: Mapping[str, float] | None = None, seed: int = 0,
    names: Mapping[str, tuple[float, float, float, bool]] = STABLE, **manifest: Any,
) -> Result:  # fmt: skip
    """Explainers whose distances grow where models contradict each other, more or less."""
    scores = {"mege": MeGe(), "reco": ReCo(), "mu_fidelity": MuFidelity()} if scores is None else scores
    random, observed = np.random.default_rng(seed), []
    for model in models:
        for name, (near, further, fidelity, control) in names.items():
            shared = {"model": model, "explainer": name, "control": control, "signed": False}
            found = distances(random, near, further, wrong, (samples, folds - 1))
            drop = random.normal(0.0, 1.0, (samples, 20))
            attributed = fidelity * drop + math.sqrt(1 - fidelity**2) * random.normal(0.0, 1.0, drop.shape)
            for label, score in scores.items():
                values = found if score.pooled else {"attributed": attributed, "drop": drop}
                tables = {key: table[:, :, None] for key, table in values.items()}
                observed.append(Observed(**shared, score=label, values=tables))
    rows = [
        {"model": model, "fold": fold, "held_out": samples // folds, "trained_on": samples - samples // folds, "samples": samples // folds,
         "accuracy": accuracy, "seconds": 12.4}
        for model in models
        for fold, accuracy in enumerate(accuracies)
    ]  # fmt: skip
    figures = [
        {"model": model, "explainer": name, "score": "mege", "value": value}
        for model in models
        for name, value in (published or {}).items()
    ]
    given = {"title": "Are explanations stable?", "symmetry": "", "folds": rows, "spec": {"published": figures}}
    return stored(folder, scores, observed, models=dict.fromkeys(models, 0.91), **{**given, **manifest})
