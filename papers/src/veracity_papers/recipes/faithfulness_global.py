"""Fast-GEF of global methods beside local ones (Table A.5, Figures 7, 8 and A.10): what a restart does to feature visualisation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from veracity.audit import Audit
from veracity.core.explainers import Explainer
from veracity.explain import DeepViz, Fourier, Maco, Visualisation
from veracity.recipe import Scale, recipe
from veracity.results import Result
from veracity.scores import FastGEF, PublicFastGEF
from veracity.scores.common import as_score
from veracity.scores.gef import Alignment
from veracity.studies.several import Audits
from veracity_papers.data import files
from veracity_papers.recipes.faithfulness_methods import PAPER, SIGMA, TASKS, first_two, local_methods
from veracity_papers.recipes.imagenet import photographs
from veracity_papers.recipes.published import published
from veracity_papers.recipes.seeds import paired_over_seeds

METHODS = ("maco", "fourier", "deep-viz")
STORED = {"maco-50": "maco", "fourier-50": "fourier", "deep-viz-50": "act-max"}
"""The settings whose distortions the authors stored, under their names in `golden_gef`."""
RESTARTED = ", restarted"
WAYS = ("fast_gef", "restarted", "public")
KINDS = ("local", "global")
SPAN = 1.0
"""The values that EfficientNet-Lite0 expects behind its scaling, (255 x - 127) / 128, lie within -1 and 1."""
DATA = {"mnist": "digits", "fashion-mnist": "clothing"}


@dataclass(frozen=True)
class Size:
    """How much a scale measures: samples, the stops of a trajectory, seeds, draws of a path, and data sets."""

    samples: int
    stops: tuple[int, ...]
    seeds: int
    draws: int
    data: tuple[str, ...]


SIZES = {
    Scale.SMOKE: Size(6, (1, 2, 4), 1, 1, ("mnist",)),
    Scale.SMALL: Size(48, (50, 100, 250), 1, 2, tuple(DATA)),
    Scale.PAPER: Size(250, (50, 100, 250), 5, 5, tuple(DATA)),
}


def global_methods(
    stops: tuple[int, ...], *, common: bool = True, grey: bool = False, amplitude: Tensor | None = None, span: float = 2.5
) -> dict[str, Explainer]:
    """MACO, Fourier and Deep-Viz, each as one trajectory that is read at every stop; MACO may be given the amplitudes of a spectrum.

    The images of the first two lie within plus and minus `span`.

    >>> list(global_methods((50, 100)))
    ['maco-50', 'maco-100', 'fourier-50', 'fourier-100', 'deep-viz-50', 'deep-viz-100']
    """
    made: dict[str, Visualisation] = {
        "maco": Maco(common=common, grey=grey, amplitude=amplitude, span=span),
        "fourier": Fourier(common=common, grey=grey, span=span),
        "deep-viz": DeepViz(common=common, grey=grey),
    }
    return {f"{name}-{one.steps}": one for name, method in made.items() for one in method.at(*stops)}


def both_ways(stops: tuple[int, ...], **settings: Any) -> dict[str, Explainer]:
    """Every setting with common random numbers, and restarted for every copy of the model."""
    restarted = global_methods(stops, common=False, **settings)
    return {**global_methods(stops, **settings), **{f"{label}{RESTARTED}": one for label, one in restarted.items()}}


@recipe("faithfulness-global", reference=f"{PAPER}, Table A.5 and Figures 7, 8 and A.10")
def faithfulness_global(folder: Path, scale: Scale) -> Audits:
    """Fast-GEF of MACO, Fourier and Deep-Viz at 50, 100 and 250 steps beside local methods: the authors' LeNets on MNIST and FashionMNIST.

    Each setting twice: with random numbers that are the same for every copy of the network, and restarted for every copy. The
    audits named `public` follow the authors' code, which restarts, with independent noise at every level and a first level of .001;
    the published figures and the authors' stored distortions stand beside them. An explanation that moves as far at the first level
    as at the last one measures its restart: `levels` are the mean explanation distortions of the five levels, as shares of the last.
    Small: 48 images, one seed, two draws. Paper: 250 images, five seeds, five draws; take a GPU.
    """
    size, audits = SIZES[scale], dict[str, Audit]()
    for name in size.data:
        for seed in range(size.seeds):
            audits[f"{name}-{seed}"] = global_audit(name, scale, seed)
            audits[f"{name}-public-{seed}"] = public_audit(name, scale, seed)
    return Audits(audits=audits, title="Do global explanations change as much as their network does?", summary=local_and_global)


def global_audit(name: str, scale: Scale, seed: int) -> Audit:
    """Our score of global methods, both ways, and of local ones."""
    size = SIZES[scale]
    return replace(
        TASKS[name].audit(scale),
        **chosen(name, size.samples),
        title=f"Do local and global explanations of a classifier of {DATA[name]} change as much as the network does?",
        explainers={**first_two(local_methods(), scale), **both_ways(size.stops)},
        scores={"fast_gef": FastGEF(draws=size.draws, sigma=SIGMA[scale])},
        companions=False,
        seed=seed,
        about={"series": "faithfulness-global", "scale": scale.value},
    )


def public_audit(name: str, scale: Scale, seed: int) -> Audit:
    """The public score of global methods that are restarted for every copy, beside the published figures."""
    size = SIZES[scale]
    return replace(
        TASKS[name].audit(scale),
        **chosen(name, size.samples),
        title=f"Global explanations of a classifier of {DATA[name]}, as in the public code",
        explainers=global_methods(size.stops, common=False),
        scores={"fast_gef_public": PublicFastGEF(draws=size.draws, sigma=SIGMA[scale])},
        companions=False,
        seed=seed,
        about={
            "series": "faithfulness-global",
            "scale": scale.value,
            "published": published("faithfulness A.5 global", {name: "lenet"}),
        },
    )


def chosen(name: str, count: int) -> dict[str, Any]:
    """The first test samples."""
    some = TASKS[name].data().some(count)
    return {"inputs": some.inputs, "targets": some.labels}


@dataclass(frozen=True)
class PhotoSize:
    """The same for photographs, of which each class has one."""

    classes: int
    stops: tuple[int, ...]
    seeds: int
    draws: int


PHOTO_SIZES = {
    Scale.SMOKE: PhotoSize(2, (1, 2), 1, 1),
    Scale.SMALL: PhotoSize(5, (10, 25), 1, 1),
    Scale.PAPER: PhotoSize(20, (50, 100, 250), 2, 3),
}


@recipe("faithfulness-global-imagenet", reference=f"{PAPER}, Table A.5 and Figures 7 and 8")
def faithfulness_global_imagenet(folder: Path, scale: Scale) -> Audits:
    """Fast-GEF of MACO, Fourier and Deep-Viz beside local methods: EfficientNet-Lite0 on photographs of ImageNet.

    The network's own scaling is taken out, so that it and the images of classes work with values in [-1, 1]. Images are averaged over
    colours, as in the public code, and one trajectory of 250 steps is read at 50, 100 and 250. MACO takes the amplitudes of ImageNet
    if `weights/maco` is at hand, and else those of the photographs. The published figures are ResNet18's. Needs the extra "imagenet".
    Smoke: a tiny untrained network on images of 32 pixels, two classes. Small: five classes, 96 pixels, 10 and 25 steps. Paper: 20
    classes, 224 pixels, two seeds, three draws; a seed leaves about 2 GB in its folder; take a GPU.
    """
    size, seen = PHOTO_SIZES[scale], photographs(PHOTO_SIZES[scale].classes, scale)
    model, images = without_scaling(seen.model, seen.images)
    settings: dict[str, Any] = {"grey": True, "amplitude": imagenet_amplitude(), "span": SPAN}
    path: dict[str, Any] = {"draws": size.draws, "sigma": SIGMA[scale]}
    shared = Audit(
        models={seen.name: model},
        inputs=images,
        targets=seen.labels,
        explainers={**first_two(local_methods(), scale), **both_ways(size.stops, **settings)},
        scores={"fast_gef": FastGEF(**path)},
        companions=False,
        title="Do global explanations of a classifier of photographs change as much as the network does?",
        about={"series": "faithfulness-global", **seen.facts},
    )
    public = replace(
        shared,
        explainers=global_methods(size.stops, common=False, **settings),
        scores={"fast_gef_public": PublicFastGEF(**path)},
        about={**shared.about, "published": seen.beside("faithfulness A.5 global", "imagenet")},
    )
    audits = {
        f"imagenet-{kind}{seed}": replace(one, seed=seed) for seed in range(size.seeds) for kind, one in (("", shared), ("public-", public))
    }
    return Audits(audits=audits, title=shared.title, summary=local_and_global)


def without_scaling(model: nn.Module, images: Tensor) -> tuple[nn.Module, Tensor]:
    """An EfficientNet without its first layer, and what that layer makes of the images."""
    layers = OrderedDict(model.named_children())
    scale = layers.pop("standardise")
    with torch.no_grad():
        return nn.Sequential(layers).eval(), scale(images)


def imagenet_amplitude() -> Tensor | None:
    """The amplitudes of ImageNet's spectrum in decorrelated colours (3, 512, 257); None if they are not at hand."""
    path = files.locate("weights/maco/spectrum_decorrelated.npy")
    return None if path is None else torch.from_numpy(np.load(path, allow_pickle=False)).float()


def local_and_global(results: Mapping[str, Result]) -> pd.DataFrame:
    """One row per data set and method: the mean score over seeds of each way to measure it, the published one, and distortions by level.

    `minus restarted` is what common random numbers change, with a 95 % interval over samples and seeds.
    """
    found: dict[tuple[str, str], dict[str, list[Any]]] = {}
    seeds: dict[str, list[Result]] = {}
    for audit, result in results.items():
        data, way = (audit.rsplit("-", 1)[0].removesuffix("-public"), "public" if "-public-" in audit else "")
        score = next(iter(result.manifest["score_specs"]))
        if not way:
            seeds.setdefault(data, []).append(result)
        rows = {row.explainer: row for row in result.rows}
        for one in result.series:
            if not one.explainer:
                continue
            method, restarted = one.explainer.removesuffix(RESTARTED), one.explainer.endswith(RESTARTED)
            row = found.setdefault((data, method), {})
            column = way or ("restarted" if restarted else "fast_gef")
            row.setdefault(column, []).append(rows[one.explainer].value)
            row.setdefault(f"{column} levels", []).append(distortion_levels(as_score(result.manifest["score_specs"][score]["spec"]), one))
            row.setdefault("no response", []).append(rows[one.explainer].no_response)
            row.setdefault("kind", []).append(kind_of(method, rows[one.explainer].control))
    lines = [{**line(*key, row), **restart(seeds.get(key[0], []), key[1])} for key, row in found.items()]
    means = [mean_line(data, kind, lines) for data in dict.fromkeys(key[0] for key in found) for kind in KINDS]
    return pd.DataFrame([*lines, *(one for one in means if one)])


def restart(results: Sequence[Result], method: str) -> dict[str, float]:
    """The difference between common random numbers and a restart for every copy, over samples and seeds; empty for other methods."""
    both = (method, f"{method}{RESTARTED}")
    if not results or not all(set(both) <= {one.explainer for one in result.series} for result in results):
        return {}
    found = paired_over_seeds(results, "fast_gef", *both)
    return {"minus restarted": found.value, "minus restarted low": found.low, "minus restarted high": found.high}


def mean_line(data: str, kind: str, lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean scores of all local or all global methods on a data set (Figure 8C)."""
    same = [one for one in lines if (one["data"], one["kind"]) == (data, kind)]
    if not same:
        return {}
    shown: dict[str, Any] = {"data": data, "method": f"mean of {len(same)}", "kind": kind}
    for column in (*WAYS, "published"):
        known = [one[column] for one in same if np.isfinite(one[column])]
        shown[column] = float(np.mean(known)) if known else np.nan
    return shown | {f"levels {way}": "" for way in (*WAYS, "stored")} | {"no response": sum(one["no response"] for one in same)}


def kind_of(method: str, control: bool) -> str:
    """Whether a method is local, global or a control."""
    return "control" if control else "global" if method.rsplit("-", 1)[0] in METHODS else "local"


def line(data: str, method: str, row: Mapping[str, list[Any]]) -> dict[str, Any]:
    """One row of the table from the values of all seeds."""
    shown: dict[str, Any] = {"data": data, "method": method, "kind": row["kind"][0]}
    for column in WAYS:
        values = np.array(row.get(column, []), dtype=float)
        known = values[np.isfinite(values)]
        shown[column] = float(known.mean()) if len(known) else np.nan
        shown[f"sd {column}"] = float(known.std(ddof=1)) if len(known) > 1 else np.nan
    shown["published"] = published_value(data, method)
    stored = stored_distortions(data, method)
    shown["stored"] = np.nan if stored is None else float(stored["score"].mean())
    for column in WAYS:
        parts = row.get(f"{column} levels", [])
        shown[f"levels {column}"] = in_shares(np.mean(parts, axis=0)) if parts else ""
    shown["levels stored"] = "" if stored is None else in_shares(stored["explanation_distortion"].mean((0, 2)))
    shown["no response"] = sum(row["no response"])
    return shown


def distortion_levels(score: Any, one: Any) -> NDArray[np.float64]:
    """The mean explanation distortion at every level of the path."""
    if not isinstance(score, Alignment):
        return np.full(1, np.nan)
    return np.asarray(np.nanmean(score.distortions(one.measured)[1], axis=(0, 1)), dtype=np.float64)


def in_shares(levels: NDArray[np.float64]) -> str:
    """Distortions of the levels as shares of the last one.

    >>> in_shares(np.array([1.0, 3.0, 4.0])), in_shares(np.zeros(2))
    ('.25 .75 1.00', '0 0')
    """
    if not levels[-1]:
        return " ".join("0" for _ in levels)
    return " ".join(f"{level / levels[-1]:.2f}".removeprefix("0") for level in levels)


def published_value(data: str, method: str) -> float:
    """The published score of a global or local method; NaN if there is none."""
    rows = [row for table in ("faithfulness A.5 global", "faithfulness A.5") for row in published(table) if row["model"] == data]
    return next((float(row["value"]) for row in rows if row["explainer"] == method), np.nan)


def stored_distortions(data: str, method: str) -> dict[str, NDArray[np.float64]] | None:
    """What the authors stored of a setting; None if they did not, or if it is not at hand."""
    path = files.locate(f"golden_gef/toy-{data}-lenet-{STORED[method]}.npz") if method in STORED else None
    if path is None:
        return None
    with np.load(path, allow_pickle=False) as stored:
        return {name: np.asarray(stored[name], dtype=np.float64) for name in ("explanation_distortion", "model_distortion", "score")}
