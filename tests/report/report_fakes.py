"""A made-up run with everything that a report must cope with, on real digits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from veracity.engine.store.state import Progress

COLUMNS = [
    "model", "explainer", "frame", "control", "score", "value", "low", "high", "draws_low", "draws_high", "n", "undefined",
    "undefined_draws", "draws", "self_agreement", "random_control", "direction", "failed",
]  # fmt: skip
SAMPLE_COLUMNS = ["model", "explainer", "control", "sample", "value", "draws", "undefined"]
DIFFERENCE_COLUMNS = ["model", "first", "second", "difference", "low", "high", "n", "differs"]

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


@dataclass(frozen=True)
class Pair:
    model: str
    explainer: str
    sample: int
    draw: int
    element: list[float]
    value: float
    input: Tensor
    moved: Tensor
    explanation: Tensor
    expected: Tensor
    found: Tensor


@dataclass(frozen=True)
class FakeRun:
    path: str
    manifest: Mapping[str, Any]
    rows: list[dict[str, Any]]
    sample_rows: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    failed: list[dict[str, str]] = field(default_factory=list)
    pairs: Mapping[str, Sequence[Pair]] = field(default_factory=dict)
    learnt: list[dict[str, Any]] = field(default_factory=list)
    values: Mapping[str, Mapping[tuple[str, str], np.ndarray]] = field(default_factory=dict)
    advised: list[dict[str, Any]] = field(default_factory=list)
    series: Sequence[Any] = ()
    distances: Mapping[str, Mapping[tuple[str, str], tuple[np.ndarray, np.ndarray]]] = field(default_factory=dict)
    fold_rows: list[dict[str, Any]] = field(default_factory=list)
    progress: Progress = field(default_factory=lambda: Progress(cells=1, done=frozenset("k")))

    def sets(self, score: str) -> Mapping[tuple[str, str], tuple[np.ndarray, np.ndarray]]:
        return self.distances.get(score, {})

    def folds(self) -> pd.DataFrame:
        return pd.DataFrame(self.fold_rows, columns=["model", "fold", "held_out", "trained_on", "samples", "accuracy", "seconds"])

    def facts(self) -> pd.DataFrame:
        return pd.DataFrame(self.learnt)

    def draws(self, score: str) -> Mapping[tuple[str, str], np.ndarray]:
        return self.values.get(score, {})

    def advice(self) -> list[dict[str, Any]]:
        return self.advised

    def table(self) -> pd.DataFrame:
        found = pd.DataFrame(self.rows)
        return found[[*COLUMNS, *(name for name in found if name not in COLUMNS)]] if len(found) else pd.DataFrame(columns=COLUMNS)

    def samples(self, score: str) -> pd.DataFrame:
        return pd.DataFrame(self.sample_rows.get(score, []), columns=SAMPLE_COLUMNS)

    def failures(self) -> pd.DataFrame:
        columns = ["model", "explainer", "score", "error", "cells_failed", "cells"]
        return pd.DataFrame([{"cells_failed": 1, "cells": 1, **one} for one in self.failed], columns=columns)

    def worst(self, score: str, count: int) -> Sequence[Pair]:
        groups: dict[tuple[str, str], list[Pair]] = {}
        for pair in self.pairs.get(score, []):
            groups.setdefault((pair.model, pair.explainer), []).append(pair)
        return [pair for group in groups.values() for pair in group[:count]]

    def differences(self, score: str) -> pd.DataFrame:
        samples = self.samples(score)
        rows = []
        for model, frame in samples.groupby("model", sort=False):
            wide = frame.pivot(index="sample", columns="explainer", values="value")
            names, values = list(wide.columns), wide.to_numpy(dtype=np.float64)
            for place, first in enumerate(names):
                for other, second in enumerate(names[place + 1 :], place + 1):
                    gap = values[:, place] - values[:, other]
                    gap = gap[np.isfinite(gap)]
                    middle = float(gap.mean()) if len(gap) else math.nan
                    half = 3.4 * float(gap.std(ddof=1)) / math.sqrt(len(gap)) if len(gap) > 1 else math.nan
                    rows.append([model, first, second, middle, middle - half, middle + half, len(gap), abs(middle) > half])
        return pd.DataFrame(rows, columns=DIFFERENCE_COLUMNS)


def manifest(models: Mapping[str, float | None], shape: Sequence[int], samples: int, **changes: Any) -> dict[str, Any]:
    made = {
        "schema": "veracity-run/1",
        "created": "2025-03-04T05:06:07+00:00",
        "title": "Do explanations of digits move with the digit?",
        "seed": 20240611,
        "symmetry": "cyclic_shift over axes (-2, -1), 196 elements",
        "spec": {
            "models": {name: {"import": "nets:" + name} for name in models},
            "symmetry": {"name": "cyclic_shift", "axes": [-2, -1]},
            "walk": {"name": "exhaustive"},
            "scores": [
                {"name": "equivariance", "measure": {"name": "cosine"}, "space": None, "walk": None, "common_draws": False},
                {"name": "model_invariance", "measure": {"name": "cosine"}},
            ],
            "explainers": [{"name": name} for name in EXPLAINERS] + [{"name": "occlusion", "window": 3, "baseline": 0.0}],
        },
        "versions": {"veracity": "0.1.0", "python": "3.12.3", "torch": "2.13.0", "captum": "0.9.0", "numpy": "2.4.6", "pandas": "3.1.1"},
        "data": {"samples": samples, "shape": list(shape), "fingerprint": "5b0f1c6a2e904d7788aa01c3"},
        "models": {
            name: {"fingerprint": f"{index:024x}", "accuracy": accuracy} for index, (name, accuracy) in enumerate(models.items(), 11)
        },
        "notes": [],
    }
    return {**made, **changes}


def result(model: str, explainer: str, score: str, values: np.ndarray, **changes: Any) -> dict[str, Any]:
    """A row of the table from the values of the samples, with a normal interval."""
    finite = values[np.isfinite(values)]
    mean = float(finite.mean()) if len(finite) else math.nan
    half = 1.96 * float(finite.std()) / math.sqrt(len(finite)) if len(finite) > 1 else math.nan
    row = {
        "model": model, "explainer": explainer, "frame": "input" if explainer else "", "control": False, "score": score,
        "value": mean, "low": mean - half, "high": min(mean + half, 1.0),
        "draws_low": mean - half / 4, "draws_high": min(mean + half / 4, 1.0), "n": len(finite), "undefined": len(values) - len(finite),
        "undefined_draws": 0, "draws": 196.0, "self_agreement": math.nan, "random_control": math.nan, "direction": "higher", "failed": "",
        "unseen": math.nan,
    }  # fmt: skip
    return {**row, **changes}


def sample_rows(row: Mapping[str, Any], values: np.ndarray) -> list[dict[str, Any]]:
    shared = {name: row[name] for name in ("model", "explainer", "control")}
    return [{**shared, "sample": index, "value": float(value), "draws": 196, "undefined": 0} for index, value in enumerate(values)]


def digits_run(
    *, samples: int = 60, seed: int = 0, models: Mapping[str, tuple[float, float]] = MODELS, score: str = "equivariance"
) -> FakeRun:
    """Three models, fourteen explainers and four controls; some samples are undefined, one cell failed."""
    random = np.random.default_rng(seed)
    rows, points, failed = [], [], []
    for model, (invariance, _) in models.items():
        own = np.clip(invariance - np.abs(random.normal(0, 0.4 * (1 - invariance) + 1e-9, samples)), 0, 1)
        rows.append(result(model, "", "model_invariance", own))
        hard = random.beta(2, 3, samples)
        for name, (top, loss, spread, own_agreement, signed) in EXPLAINERS.items():
            fall = loss * min(1.0, 12 * (1 - invariance) ** 0.75) * (0.35 + hard)
            values = np.clip(top - fall - np.abs(random.normal(0, spread + 0.06 * min(fall.mean(), 1), samples)) + spread / 2, -0.4, 1.0)
            if name == "grad_cam":
                values[random.choice(samples, 7, replace=False)] = math.nan
            row = result(
                model, name, score, values, self_agreement=own_agreement, random_control=0.0 if signed else 0.752,
                undefined_draws=41 if name == "grad_cam" else 0,
            )  # fmt: skip
            if name == "deep_lift" and model == list(models)[-1]:
                row |= {"value": math.nan, "low": math.nan, "high": math.nan, "draws_low": math.nan, "draws_high": math.nan, "n": 0}
                row["failed"] = "RuntimeError: a module was used twice"
                failed.append({"model": model, "explainer": name, "score": score, "error": "RuntimeError: a module was used twice"})
            else:
                points += sample_rows(row, values)
            rows.append(row)
        for name, top in CONTROLS.items():
            values = top + (random.normal(0, 0.02, samples) if top < 1 else np.zeros(samples))
            row = result(model, name, score, values, control=True, self_agreement=top)
            rows.append(row)
            points += sample_rows(row, values)
    notes = [
        {
            "model": "all-cnn",
            "explainer": "deep_lift",
            "text": "The model calls a functional ReLU, so DeepLift equals Input x Gradient there.",
        },
        {"model": "", "explainer": "feature_permutation", "text": "The reference set is the first 100 inputs."},
    ]
    accuracy = {name: value for name, (_, value) in models.items()}
    return FakeRun(
        path="runs/digits",
        manifest=manifest(accuracy, (1, 14, 14), samples, notes=notes),
        rows=rows,
        sample_rows={score: points},
        failed=failed,
        pairs={score: digit_pairs(list(models), seed=seed)},
    )


def digit_pairs(models: Sequence[str], *, size: int = 14, each: int = 4, seed: int = 0) -> list[Pair]:
    """Digits with maps that look like attributions; what is found is what is expected, plus another pattern."""
    from sklearn.datasets import load_digits

    generator = torch.Generator().manual_seed(seed)
    images = torch.tensor(load_digits().images, dtype=torch.float32)[:, None] / 16
    scale = max(size // 14, 1)
    images = torch.nn.functional.interpolate(images, scale_factor=scale, mode="bilinear")
    edge = (size - images.shape[-1]) // 2
    images = torch.nn.functional.pad(images, (edge, size - images.shape[-1] - edge, edge, size - images.shape[-1] - edge))
    pairs = []
    for place, model in enumerate(models):
        for rank, name in enumerate(["feature_permutation", "lime", "gradient_shap", "saliency"][:each]):
            sample = int(torch.randint(len(images), (1,), generator=generator))
            shift = torch.randint(-5, 6, (2,), generator=generator).tolist()
            x = images[sample]

            def map_of(image: Tensor) -> Tensor:
                noise = torch.nn.functional.avg_pool2d(torch.randn(1, size, size, generator=generator), 3, 1, 1)
                return image * noise + 0.06 * noise

            e = map_of(x).abs() if name == "saliency" else map_of(x)
            expected = e.roll(shift, (-2, -1))
            moved = x.roll(shift, (-2, -1))
            found = (0.4 + 0.1 * rank) * expected + (0.5 + 0.15 * place) * map_of(moved)
            found = found.abs() if name == "saliency" else found
            value = float(torch.nn.functional.cosine_similarity(expected.flatten(), found.flatten(), dim=0))
            pairs.append(Pair(model, name, sample, int(rank), [float(item) for item in shift], value, x, moved, e, expected, found))
    return pairs


def series_run(*, samples: int = 20, channels: int = 1, length: int = 187, seed: int = 3) -> FakeRun:
    """One model of a heartbeat, two explainers, the worst pairs as series (C, T)."""
    random = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    rows, points, pairs = [result("ecg-cnn", "", "model_invariance", np.ones(samples))], [], []
    for name, centre in (("integrated_gradients", 1.0), ("occlusion", 0.8)):
        values = np.clip(centre - np.abs(random.normal(0, 1 - centre, samples)), -1, 1)
        rows.append(result("ecg-cnn", name, "equivariance", values, self_agreement=1.0, random_control=0.0))
        points += sample_rows(rows[-1], values)
        for sample in range(2):
            time = torch.linspace(0, 1, length)
            beat = (
                torch.exp(-(((time - 0.3) / 0.015) ** 2))
                - 0.25 * torch.exp(-(((time - 0.34) / 0.02) ** 2))
                + 0.25 * torch.exp(-(((time - 0.55) / 0.05) ** 2))
            )
            x = (beat + 0.01 * torch.randn(channels, length, generator=generator)) * torch.linspace(1, 0.4, channels)[:, None]
            e = x * torch.nn.functional.avg_pool1d(torch.randn(channels, length, generator=generator), 9, 1, 4)
            shift = 40 + 25 * sample
            found = e.roll(shift, -1) + (1 - centre) * 3 * x.roll(shift, -1) * torch.nn.functional.avg_pool1d(
                torch.randn(channels, length, generator=generator), 9, 1, 4
            )
            pairs.append(Pair("ecg-cnn", name, sample, 1, [float(shift)], centre - 0.3, x, x.roll(shift, -1), e, e.roll(shift, -1), found))
    made = manifest({"ecg-cnn": None}, (channels, length), samples, symmetry="cyclic_shift over axes (-1,), 187 elements", title=None)
    return FakeRun(path="runs/ecg", manifest=made, rows=rows, sample_rows={"equivariance": points}, pairs={"equivariance": pairs})


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


def kinds_run(*, samples: int = 40, draws: int = 24, stages: int = 0, extra: int = 0, long: bool = False, seed: int = 5) -> FakeRun:
    """Explanations of all three kinds on two models (or on stages of one training), with everything that the symmetry part shows."""
    random = np.random.default_rng(seed)
    names = [f"step-{place}" for place in range(stages)] if stages else ["all-cnn", "augmented-cnn"]
    fall = {model: 0.02 * place if stages else 0.06 * place for place, model in enumerate(names)}
    specs: dict[str, Any] = {label: {"name": label.split("-")[0]} for kind in KINDS.values() for label in kind}
    specs["cav-equiv"] = {"name": "cav", "layer": "conv3", "per_side": 100}
    table, points, values, cells = [], {"symmetry": [], "max_sensitivity": []}, {}, []
    sampling = {"exhaustive": False, "population": None, "anytime": None, "nested": True}

    def add(model: str, label: str, frame: str, centre: float, control: bool = False, null: float = math.nan) -> None:
        bounds = (0.0, 1.0) if frame == "concepts" else (-1.0, 1.0)
        spread = 0.25 * min(1.0, 4 * (1 - centre)) if centre < 1 else 0.0
        own = np.clip(centre + random.normal(0, spread / 3 + 1e-12, samples), *bounds)
        drawn = np.clip(own[:, None] + random.normal(0, spread + 1e-12, (samples, draws)), *bounds)
        each = drawn.mean(axis=1)
        common = {"frame": frame, "control": control, "draws": float(draws)}
        table.append(result(model, label, "symmetry", each, self_agreement=1.0, random_control=null, **common))
        points["symmetry"] += sample_rows(table[-1], each)
        moved = np.abs(0.02 + 0.05 * (1 - each) + random.normal(0, 0.01, samples))
        table.append(result(model, label, "max_sensitivity", moved, direction="lower", self_agreement=1.0, random_control=0.0, **common))
        points["max_sensitivity"] += sample_rows(table[-1], moved)
        values[model, label] = drawn
        cells.append(
            {"model": model, "explainer": label, "score": "symmetry", "sampling": sampling, "bounds": [str(end) for end in bounds]}
        )

    for model in names:
        table.append(result(model, "", "model_invariance", np.clip(1 - fall[model] + random.normal(0, 0.01, samples) * fall[model], 0, 1)))
        for frame, members in KINDS.items():
            for label, centre in members.items():
                add(
                    model,
                    label,
                    frame,
                    centre - (5 * fall[model] if frame == "input" else fall[model]),
                    null=next(iter(NULLS[frame].values())),
                )
            for label, centre in NULLS[frame].items():
                add(model, label, frame, centre, control=True)
        for size in (*SIZES, None):
            label = f"cav-equiv, {'whole group' if size is None else f'{size} draws'}"
            specs[label] = {"name": "symmetrised", "explainer": specs["cav-equiv"], "space": None, "draws": size}
            add(model, label, "concepts", 1.0 - fall[model] - (0.0 if size is None else 0.36 / (1 + size)), null=0.5)
        for place in range(extra):
            label = f"my own explainer number {place} with settings that nobody would type twice" if long else f"own-{place}"
            add(model, label, "input", 1.0 - 0.03 * place, null=0.0)
    accuracy = dict.fromkeys(names, 0.97)
    made = manifest(accuracy, (1, 14, 14), samples, title="All three kinds of explanations", cells=cells)
    made["spec"] |= {
        "explainers": specs,
        "walk": {"name": "monte_carlo", "draws": draws},
        **({"steps": {name: 100 * place for place, name in enumerate(names)}} if stages else {}),
    }
    made["score_specs"] = {
        "symmetry": {"spec": {"name": "symmetry", "measure": None, "walk": None}, "reduce": "mean"},
        "max_sensitivity": {
            "spec": {"name": "max_sensitivity", "measure": {"name": "l2"}, "walk": {"name": "monte_carlo"}},
            "reduce": "own",
        },
    }
    return FakeRun(
        path="runs/kinds",
        manifest=made,
        rows=table,
        sample_rows=points,
        pairs={"symmetry": kind_pairs(names)},
        learnt=[concept_fact(model, label, concept) for model in names for label in KINDS["concepts"] for concept in CONCEPTS],
        values={"symmetry": values},
        advised=[advice(model) for model in names] + [advice(model, explainer="influence", robust=True) for model in names],
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


def kind_pairs(models: Sequence[str], *, train: int = 200, seed: int = 1) -> list[Pair]:
    """A feature map, the importance of training examples and concept bits of the same digits."""
    generator = torch.Generator().manual_seed(seed)
    pairs = []
    for pair in digit_pairs(models, each=1):
        x, moved = pair.input, pair.moved
        before = torch.randn(train, generator=generator) * torch.rand(train, generator=generator) ** 4
        after = before + 0.4 * torch.randn(train, generator=generator) * torch.rand(train, generator=generator) ** 6
        bits, other = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 0.0])
        pairs.append(
            Pair(
                pair.model, "gradient_shap", pair.sample, 0, pair.element, pair.value, x, moved, pair.explanation, pair.expected, pair.found
            )
        )
        pairs.append(Pair(pair.model, "simplex-equiv", pair.sample, 1, pair.element, 0.4, x, moved, before, before, after))
        pairs.append(Pair(pair.model, "cav-equiv", pair.sample, 2, pair.element, 0.5, x, moved, bits, bits, other))
    return pairs
