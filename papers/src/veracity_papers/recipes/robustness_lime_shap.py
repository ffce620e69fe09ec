"""Are LIME and SHAP robust, and is it the segmentation that is not? The paper's Tables 6 and 7."""

from __future__ import annotations

from pathlib import Path

from veracity.audit import Audit
from veracity.core.explainers import Explainer
from veracity.explain import SuperpixelLime, SuperpixelShap
from veracity.recipe import Scale, recipe
from veracity.walk import Genetic, SubsetSimulation
from veracity_papers.recipes.robustness_methods import PAPER, Effort, explained, first_correct, searched
from veracity_papers.recipes.robustness_published import TABLE_6, TABLE_7, by_explainer
from veracity_papers.zoo import lenet5

GREY = 0.0
"""What stands for an absent superpixel, half way between black (-1) and white (1): the mean colour hides next to nothing of a digit."""

SAMPLES = {Scale.SMOKE: (20,), Scale.SMALL: (50, 200), Scale.PAPER: (50, 200, 500)}
EFFORT = {
    Scale.SMOKE: Effort(1, Genetic(population=4, generations=1, elites=1), SubsetSimulation(population=10, steps=1, floor=-2.0)),
    Scale.SMALL: Effort(2, Genetic(population=10, generations=4, elites=1), SubsetSimulation(population=20, steps=2, floor=-10.0)),
    Scale.PAPER: Effort(5, Genetic(population=20, generations=10, elites=2), SubsetSimulation(population=50, steps=3, floor=-20.0)),
}


@recipe("robustness-lime-shap", reference=f"{PAPER}, section 8.8.2, Tables 6 and 7")
def robustness_lime_shap(folder: Path, scale: Scale) -> Audit:
    """LIME and SHAP over superpixels of digits, segmented again after every change or as the unchanged digit was, beside Tables 6 and 7.

    An explanation and that of a changed digit share their random masks, so that what differs is due to the change. Published
    figures are for the same network and radius, with mean colours in the place of absent superpixels; ours become grey, since
    mean colours hide .7 % of a digit's variance. An evaluation takes as many forward passes as there are samples, so that
    searches are short: more evaluations would find lower sol_F-hat. Small: 2 digits, 46 genetic evaluations, n = 20, M = 2, ln P
    down to -10, 50 and 200 samples. Paper: 5 digits, 200 evaluations, n = 50, M = 3, ln P down to -20, 500 samples too.
    """
    effort, model = EFFORT[scale], lenet5.pretrained()
    explainers = superpixels(scale)
    published = by_explainer("lenet", TABLE_6, "Table 6, MNIST") + by_explainer("lenet", TABLE_7, "Table 7, MNIST")
    return searched(
        "Are LIME and SHAP robust, and is it their segmentation that is not?",
        {"lenet": model},
        first_correct([model], lenet5.digits("test"), effort.seeds),
        explainers=explainers,
        scores=explained(effort, lenet5.RADIUS, lenet5.RANGE),
        about={
            "recipe": "robustness-lime-shap",
            "scale": scale.value,
            "published": [one for one in published if one["explainer"] in explainers],
        },
    )


def superpixels(scale: Scale) -> dict[str, Explainer]:
    """Both methods with several numbers of samples, segmented anew; and, with 200 or the most there are, with fixed segments."""
    counts = SAMPLES[scale]
    found: dict[str, Explainer] = {f"lime+{count}": SuperpixelLime(samples=count, baseline=GREY) for count in counts}
    found |= {f"shap+{count}": SuperpixelShap(samples=count, baseline=GREY) for count in counts}
    count = 200 if 200 in counts else max(counts)
    found[f"lime+{count}, fixed"] = SuperpixelLime(samples=count, baseline=GREY, fixed_segments=True)
    found[f"shap+{count}, fixed"] = SuperpixelShap(samples=count, baseline=GREY, fixed_segments=True)
    return found
