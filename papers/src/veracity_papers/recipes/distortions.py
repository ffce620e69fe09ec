"""How far models and explanations move under noise (Figures 2B, 3, A.6, A.7); whether models do what scores assume (A.1, A.3 to A.5)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from veracity.audit import Audit
from veracity.core.scores import Score
from veracity.recipe import Scale, recipe
from veracity.scores import (
    GEF,
    AlignedOutcomes,
    FastGEF,
    InputAlignment,
    InputGrowth,
    ModelFaithfulness,
    ModelRobustness,
    ModelSensitivity,
    WeightGrowth,
)
from veracity.studies.several import Audits, join_tables
from veracity.walk import MonteCarlo
from veracity_papers.recipes.faithfulness_methods import PAPER, SIGMA, TASKS, first_two, local_methods

EXPLAINERS = ("gradient", "gradient_shap", "saliency")
NAMES = ("mnist", "avila", "compas")


@recipe("alignment-patterns", reference=f"{PAPER}, Figures 3, A.6 and A.7")
def alignment_patterns(folder: Path, scale: Scale) -> Audits:
    """How far networks for MNIST, Avila and COMPAS and their explanations move, under noise on the input and under scaled weights.

    Three alignments, each of the model's distortion with the explanation's: `input_alignment` under Gaussian noise on the
    input in ten levels, `fast_gef` and `gef` under scaled weights in five. The noise ends where the predictions have lost
    nine tenths of what noise can take from them, since it does not leave them to chance. An explanation that ignores the
    model can follow the noise on the input, as the edge filter among the controls does. Only scaled weights expose it. The
    paper's figures print no numbers to compare with.
    """
    return Audits(
        audits={name: alignment_audit(name, scale) for name in (NAMES[:2] if scale is Scale.SMOKE else NAMES)},
        title="Do explanations move as far as their model does?",
    )


def alignment_audit(name: str, scale: Scale) -> Audit:
    """The audit of one of the networks."""
    draws, sigma, methods = 1 if scale is Scale.SMOKE else 5, SIGMA[scale], local_methods()
    return replace(
        TASKS[name].audit(scale),
        title=f"Do explanations of a network for {name.upper()} move as far as it does?",
        explainers={label: methods[label] for label in EXPLAINERS[: 1 if scale is Scale.SMOKE else None]},
        scores={
            "input_alignment": InputAlignment(sigma=TASKS[name].noise, draws=draws),
            "fast_gef": FastGEF(sigma=sigma, draws=draws),
            "gef": GEF(sigma=sigma, draws=draws),
        },
        about={"series": "alignment-patterns", "scale": scale.value},
    )


@recipe("outcome-quadrants", reference=f"{PAPER}, section 3.2 and Figure 2(B)")
def outcome_quadrants(folder: Path, scale: Scale) -> Audits:
    """Prediction kept or changed, explanation kept or changed: how often, along paths of scaled weights? Four data sets.

    The paper draws the four outcomes and counts none. The summary counts them with intervals, controls among them: a map that never
    changes is aligned wherever the prediction is kept. An explanation is kept if its correlation with the original one is at least .5;
    `result.quadrants(threshold=...)` counts for another limit. Small and paper: as `alignment-patterns`, with nine explainers.
    """
    names = list(TASKS)[:1] if scale is Scale.SMOKE else list(TASKS)
    return Audits(
        audits={name: outcome_audit(name, scale) for name in names},
        title="Do prediction and explanation change together?",
        summary=lambda results: join_tables({name: one.quadrants() for name, one in results.items()}),
    )


def outcome_audit(name: str, scale: Scale) -> Audit:
    """The audit of one of the networks."""
    return replace(
        TASKS[name].audit(scale),
        title=f"Do the prediction of a network for {name.upper()} and its explanations change together?",
        explainers=first_two(local_methods(), scale),
        scores={"aligned_outcomes": AlignedOutcomes(sigma=SIGMA[scale], draws=2 if scale is Scale.SMOKE else 5)},
        about={"series": "outcome-quadrants", "scale": scale.value},
    )


NOISE = (0.001, 0.01, 0.1, 0.2, 0.5, 1.0)
PATCHES = (1, 2, 4, 8)
BASELINES = ("black", "white", "mean")
MASKED = ("mnist", "fashion-mnist")


@recipe("assumptions", reference=f"{PAPER}, Figures A.1 and A.3 to A.5")
def assumptions(folder: Path, scale: Scale) -> Audits:
    """On which share of samples networks do what robustness, sensitivity and faithfulness scores assume: four data sets.

    No explainer takes part. Robust (Assumption 1): five draws of Gaussian noise keep the predicted class, and the
    probabilities to within .1. Sensitive (Assumption 2): layers randomised one after the other, or all at once, move the
    probabilities by more than .1. Faithful (Assumption 3, images alone): the more is masked, in a random order, the further
    the explained score moves away, to within a tenth of its largest distance; with single pixels and with patches of side 2,
    4 and 8, which are 4 wide at the far edges of 28 pixels, in black, white or the image's mean. Growing asks the same of
    noise in ten steps, and of scaled weights in 2, 5 and 20. The distortions of all levels are kept. The paper's figures
    show curves and print no numbers to compare with.
    """
    return Audits(
        audits={name: assumption_audit(name, scale) for name in (MASKED[:1] if scale is Scale.SMOKE else TASKS)},
        title="On which samples do models do what scores assume?",
    )


def assumption_audit(name: str, scale: Scale) -> Audit:
    """The audit of one of the networks."""
    walk, noise = MonteCarlo(draws=2 if scale is Scale.SMOKE else 5), NOISE[::4] if scale is Scale.SMOKE else NOISE
    return replace(
        TASKS[name].audit(scale),
        title=f"On which samples does a network for {name.upper()} do what scores assume?",
        scores={
            **{f"robust, noise {sigma:g}": ModelRobustness(sigma=sigma, walk=walk) for sigma in noise},
            **sensitive(walk),
            **growing(TASKS[name].noise, SIGMA[scale], walk),
            **(faithful(scale) if name in MASKED else {}),
        },
        controls=False,
        companions=False,
        about={"series": "assumptions", "scale": scale.value},
    )


def sensitive(walk: MonteCarlo) -> dict[str, Score]:
    """Layers randomised one after the other from either end, the mean over all stages, and all at once."""
    return {
        "sensitive, top-down": ModelSensitivity(layer_order="top_down", layers="mean", walk=walk),
        "sensitive, bottom-up": ModelSensitivity(layer_order="bottom_up", layers="mean", walk=walk),
        "sensitive, at once": ModelSensitivity(walk=walk),
    }


def growing(noise: float, sigma: float | None, walk: MonteCarlo) -> dict[str, Score]:
    """Whether what is stronger moves the model further: noise on the input, and scaled weights along a path of Z levels."""
    weights: dict[str, Score] = {
        f"growing, weights, Z = {steps}": WeightGrowth(steps=steps, sigma=sigma, walk=walk) for steps in (2, 5, 20)
    }
    return {"growing, noise, Z = 10": InputGrowth(sigma=noise, walk=walk), **weights}


def faithful(scale: Scale) -> dict[str, Score]:
    """Masking with every patch size and every replacement."""
    patches, baselines = (PATCHES[2:], BASELINES[:1]) if scale is Scale.SMOKE else (PATCHES, BASELINES)
    return {
        f"faithful, patch {patch}, {baseline}": ModelFaithfulness(patch_size=patch, perturb_baseline=baseline)
        for patch in patches
        for baseline in baselines
    }
