"""Photographs of ImageNet under the faithfulness paper's local methods (Table A.5), and meta-evaluation on them (Tables A.1 and A.2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from veracity import scores
from veracity.audit import Audit
from veracity.core.explainers import Explainer
from veracity.core.scores import Score
from veracity.recipe import Scale, recipe
from veracity.studies.meta import MetaEvaluation
from veracity.studies.several import Audits
from veracity.trainers.training import accuracy
from veracity.walk import MonteCarlo
from veracity_papers.data.imagenet import imagenet
from veracity_papers.recipes.faithfulness_methods import PAPER, first_two, local_methods
from veracity_papers.recipes.published import published
from veracity_papers.zoo import efficientnet

NETWORK = "efficientnet-lite0"
SIDES = {Scale.SMOKE: 32, Scale.SMALL: 96, Scale.PAPER: efficientnet.SIDE}
"""The sides of the images: a small run shrinks them, since a pass over 224 pixels takes a core some tenths of a second."""

UNTRAINED = "untrained"


@dataclass(frozen=True)
class Photographs:
    """A network under its name, images for it and their classes; `facts` belong into the manifest."""

    name: str
    model: nn.Module
    images: Tensor
    labels: Tensor
    facts: dict[str, Any]

    def beside(self, table: str, column: str) -> list[dict[str, Any]]:
        """The published figures of a table's network; none beside an untrained one."""
        return published(table, {column: NETWORK}) if self.name == NETWORK else []


def photographs(count: int, scale: Scale, side: int | None = None) -> Photographs:
    """`count` photographs, of the scale's side or another, and the network that classifies them.

    A smoke test must need no download, so it has a tiny untrained network, whose own predictions are the labels: it shows that the recipe
    runs, and nothing about ImageNet.
    """
    side = side or SIDES[scale]
    x, y = imagenet(count, side=side)
    facts: dict[str, Any] = {"scale": scale.value, "pixels": side}
    if scale is Scale.SMOKE:
        model = efficientnet.tiny()
        with torch.no_grad():
            return Photographs(UNTRAINED, model, x, model(x).argmax(dim=1), facts)
    model = efficientnet.pretrained()
    return Photographs(NETWORK, model, x, y, {**facts, "accuracy": round(accuracy(model, x, y), 4)})


@dataclass(frozen=True)
class Effort:
    """How many photographs get the fast scores and the expensive ones, the copies M, the segments T, and the layers per step of MPRT."""

    fast: int
    exact: int
    draws: int
    segments: int
    layers: int
    sigma: float | None = None


EFFORTS = {
    Scale.SMOKE: Effort(4, 2, 2, 2, 10, sigma=1.0),
    Scale.SMALL: Effort(4, 2, 2, 2, 20, sigma=0.1),
    Scale.PAPER: Effort(250, 30, 5, 5, 10),
}


@recipe("faithfulness-imagenet", reference=f"{PAPER}, Table A.5 and Figures 7 and 8")
def faithfulness_imagenet(folder: Path, scale: Scale) -> Audits:
    """Fast-GEF, GEF and MPRT of nine local explainers of EfficientNet-Lite0 on photographs of ImageNet, beside the published ResNet18.

    Two audits: `fast` (Fast-GEF, its public variant and the outcomes of Figure 2B), and `exact` (GEF and MPRT, in steps of 10 of 99
    layers) on fewer photographs. Figures are published for the public variant alone; the paper left GEF out for its cost. Needs the extra
    "imagenet". Smoke: a tiny untrained network on images of 32 pixels. Small: 4 and 2 photographs of 96 pixels, two copies, paths that
    end at .1, steps of 20 layers. Paper: 250 and 30 of 224 pixels.
    """
    effort = EFFORTS[scale]
    seen = photographs(effort.fast, scale)
    path: dict[str, Any] = {"draws": effort.draws, "sigma": effort.sigma}
    fast: dict[str, Score] = {"fast_gef": scores.FastGEF(**path), "fast_gef_public": scores.PublicFastGEF(**path)}
    fast["aligned_outcomes"] = scores.AlignedOutcomes(**path)
    exact: dict[str, Score] = {
        "gef": scores.GEF(segments=effort.segments, **path),
        "mprt": scores.MPRT(layers_in_step=effort.layers, walk=MonteCarlo(draws=effort.draws)),
    }
    return Audits(
        audits={
            "fast": photo_audit(seen, effort.fast, first_two(local_methods(), scale), fast),
            "exact": photo_audit(seen, effort.exact, first_two(local_methods(), scale), exact),
        },
        title="Do explanations of photographs change as much as the network does?",
    )


def photo_audit(seen: Photographs, count: int, explainers: dict[str, Explainer], asked: dict[str, Score]) -> Audit:
    """The audit of the first photographs."""
    return Audit(
        title="Do explanations of photographs change as much as the network does?",
        models={seen.name: seen.model},
        inputs=seen.images[:count],
        targets=seen.labels[:count],
        explainers=explainers,
        scores=asked,
        about={"recipe": "faithfulness-imagenet", **seen.facts, "published": seen.beside("faithfulness A.5", "imagenet")},
    )


SIZES = {Scale.SMOKE: (4, 1, 1), Scale.SMALL: (4, 1, 1), Scale.PAPER: (32, 3, 5)}
"""Photographs, iterations, and perturbations of each kind in an iteration."""

STRENGTHS = (0.001, 0.5)
"""The minor and the disruptive noise on weights; that of ImageNet is weaker than that of digits."""

PUBLISHED = {
    "fast_gef": 0.78,
    "pixel_flipping": 0.63,
    "faithfulness_correlation": 0.51,
    "region_perturbation": 0.63,
    "mprt": 0.71,
    "smooth_mprt": 0.69,
    "efficient_mprt": 0.71,
    "relative_input_stability": 0.72,
    "relative_output_stability": 0.76,
    "relative_representation_stability": 0.75,
}
"""Tables A.1 and A.2, ImageNet, means of both pairs of explainers; GEF is NaN there."""

LAYERS = 20
"""How many of the 99 layers MPRT randomises at each level."""

CHEAP = ("fast_gef", "pixel_flipping", "efficient_mprt")


def meta_scores(scale: Scale) -> dict[str, Score]:
    """The ten scores with the settings of appendix A.8.1 for 224 pixels: 896 values per step, patches of 28, five draws.

    A smaller image keeps the number of steps and patches.

    >>> meta_scores(Scale.PAPER)["region_perturbation"].patch_size, list(meta_scores(Scale.SMOKE))
    (28, ['fast_gef', 'pixel_flipping', 'efficient_mprt'])
    """
    side, effort = SIDES[scale], EFFORTS[scale]
    values, walk = side * side // 56, MonteCarlo(draws=1)
    found: dict[str, Score] = {
        "fast_gef": scores.FastGEF(draws=effort.draws, sigma=effort.sigma),
        "pixel_flipping": scores.PixelFlipping(features_in_step=values),
        "faithfulness_correlation": scores.FaithfulnessCorrelation(nr_runs=5, subset_size=values),
        "region_perturbation": scores.RegionPerturbation(patch_size=side // 8),
        "mprt": scores.MPRT(layers_in_step=LAYERS, walk=walk),
        "smooth_mprt": scores.SmoothMPRT(layers_in_step=LAYERS, walk=walk),
        "efficient_mprt": scores.EfficientMPRT(walk=walk),
        "relative_input_stability": scores.RelativeInputStability(),
        "relative_output_stability": scores.RelativeOutputStability(),
        "relative_representation_stability": scores.RelativeRepresentationStability(),
    }
    left_out = {Scale.SMOKE: set(found) - set(CHEAP), Scale.SMALL: {"smooth_mprt"}}.get(scale, set())
    return {name: one for name, one in found.items() if name not in left_out}


def meta_evaluation(pair: tuple[str, str], scale: Scale) -> MetaEvaluation:
    """The scores on one pair of explainers."""
    count, iterations, perturbations = SIZES[scale]
    seen, methods, asked = photographs(count, scale), local_methods(efficientnet.LAYER), meta_scores(scale)
    return MetaEvaluation(
        title="Which scores can be trusted on photographs?",
        model=seen.model,
        inputs=seen.images,
        explainers={name: methods[name] for name in pair},
        scores=asked,
        iterations=iterations,
        perturbations=perturbations,
        weight_noise=STRENGTHS,
        published=[{"score": name, "test": "both", "value": PUBLISHED[name]} for name in asked if seen.name == NETWORK],
    )


@recipe("meta-evaluation-imagenet", reference=f"{PAPER}, Tables A.1 and A.2")
def meta_evaluation_imagenet(folder: Path, scale: Scale) -> MetaEvaluation:
    """Meta-consistency of ten scores of Gradient and Grad-CAM on photographs of ImageNet, beside the published ResNet18.

    The first pair of the paper, as in `meta-evaluation-mnist`; GEF is left out, as published. MPRT randomises 20 more of 99 layers at each
    level, in one copy. Needs the extra "imagenet". Smoke: three scores of a tiny untrained network. Small: 4 photographs of 96 pixels, one
    iteration of one perturbation, without SmoothMPRT. Paper: 32 photographs of 224 pixels, 3 iterations of 5; the paper does not say
    how many it had.
    """
    return meta_evaluation(("gradient", "grad_cam"), scale)


@recipe("meta-evaluation-imagenet-saliency", reference=f"{PAPER}, Tables A.1 and A.2")
def meta_evaluation_imagenet_saliency(folder: Path, scale: Scale) -> MetaEvaluation:
    """Meta-consistency of ten scores of Saliency and GradientSHAP on photographs of ImageNet, beside the published ResNet18.

    The second pair of the paper, as `meta-evaluation-imagenet` is the first; the published numbers are means of both.
    """
    return meta_evaluation(("saliency", "gradient_shap"), scale)
