"""How far do a network and its explanations move, side by side? Figures 3, A.6 and A.7 of the faithfulness paper, as distortions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from veracity.audit import Audit
from veracity.recipe import Scale, recipe
from veracity.scores import GEF, FastGEF, InputAlignment
from veracity.studies.several import Audits
from veracity_papers.recipes.faithfulness_methods import PAPER, SIGMA, local_methods
from veracity_papers.recipes.faithfulness_tasks import TASKS

EXPLAINERS = ("gradient", "gradient_shap", "saliency")
NAMES = ("mnist", "avila", "compas")


@recipe("alignment-patterns", reference=f"{PAPER}, Figures 3, A.6 and A.7")
def alignment_patterns(folder: Path, scale: Scale) -> Audits:
    """How far networks for MNIST, Avila and COMPAS and their explanations move, under noise on the input and under scaled weights.

    Three alignments, each of the model's distortion with the explanation's: `input_alignment` under Gaussian noise on the
    input in ten levels, `fast_gef` and `gef` under scaled weights in five. The noise ends where the predictions have lost
    nine tenths of what noise can take from them, since it does not leave them to chance. An explanation that ignores the
    model can follow the noise on the input, and the edge filter among the controls does: only scaled weights tell. The
    paper's figures have no numbers to stand beside.
    """
    return Audits(
        audits={name: aligned(name, scale) for name in (NAMES[:2] if scale is Scale.SMOKE else NAMES)},
        title="Do explanations move as far as their model does?",
    )


def aligned(name: str, scale: Scale) -> Audit:
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
