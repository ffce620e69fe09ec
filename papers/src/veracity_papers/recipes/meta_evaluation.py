"""Meta-evaluation as in the faithfulness paper: which scores tell a minor perturbation from a disruptive one?"""

from __future__ import annotations

from pathlib import Path

from veracity import scores
from veracity.core.scores import Score
from veracity.recipe import Scale, recipe
from veracity.studies.meta import MetaEvaluation
from veracity_papers.data.mnist import mnist
from veracity_papers.recipes.faithfulness_methods import PAPER, local_methods
from veracity_papers.zoo.lenet import LAYER, pretrained

REFERENCE = f"{PAPER}, Tables A.1 and A.2"
SIZES = {Scale.SMOKE: (6, 1, 1), Scale.SMALL: (32, 2, 3), Scale.PAPER: (250, 3, 5)}
SCORES: dict[str, Score] = {
    "pixel_flipping": scores.PixelFlipping(features_in_step=28),
    "faithfulness_correlation": scores.FaithfulnessCorrelation(nr_runs=5, subset_size=28),
    "region_perturbation": scores.RegionPerturbation(patch_size=7),
    "mprt": scores.MPRT(),
    "efficient_mprt": scores.EfficientMPRT(),
    "relative_input_stability": scores.RelativeInputStability(),
    "relative_output_stability": scores.RelativeOutputStability(),
    "relative_representation_stability": scores.RelativeRepresentationStability(),
    "fast_gef": scores.FastGEF(),
    "smooth_mprt": scores.SmoothMPRT(),
    "gef": scores.GEF(),
}
"""With the settings of appendix A.8.1: 28 pixels a step, patches of 7, five subsets and five noisy samples."""

COUNTS = {Scale.SMOKE: 3, Scale.SMALL: 9, Scale.PAPER: 11}
PUBLISHED = {
    "gef": 0.75,
    "fast_gef": 0.74,
    "pixel_flipping": 0.61,
    "faithfulness_correlation": 0.63,
    "region_perturbation": 0.59,
    "mprt": 0.63,
    "smooth_mprt": 0.66,
    "efficient_mprt": 0.76,
    "relative_input_stability": 0.73,
    "relative_output_stability": 0.70,
    "relative_representation_stability": 0.74,
}


def meta_evaluation(pair: tuple[str, str], scale: Scale) -> MetaEvaluation:
    """The scores on one pair of explainers of the MNIST LeNet."""
    samples, iterations, perturbations = SIZES[scale]
    methods = local_methods(LAYER)
    names = list(SCORES)[: COUNTS[scale]]
    return MetaEvaluation(
        title="Which scores can be trusted on handwritten digits?",
        model=pretrained("mnist"),
        inputs=mnist("test")[0][:samples],
        explainers={name: methods[name] for name in pair},
        scores={name: SCORES[name] for name in names},
        iterations=iterations,
        perturbations=perturbations,
        published=[{"score": name, "test": "both", "value": PUBLISHED[name]} for name in names],
    )


@recipe("meta-evaluation-mnist", reference=REFERENCE)
def meta_evaluation_mnist(folder: Path, scale: Scale) -> MetaEvaluation:
    """Meta-consistency of faithfulness, sensitivity and robustness scores of Gradient and Grad-CAM on the MNIST LeNet.

    The paper averages over two pairs of methods; this is the first, and `meta-evaluation-mnist-saliency` the second. They
    are separate because two methods keep their ranks more easily than four: the published numbers are of pairs. Paper: 250
    digits, 3 iterations of 5 perturbations. Small: 32 digits, 2 of 3, without the two most expensive scores.
    """
    return meta_evaluation(("gradient", "grad_cam"), scale)


@recipe("meta-evaluation-mnist-saliency", reference=REFERENCE)
def meta_evaluation_mnist_saliency(folder: Path, scale: Scale) -> MetaEvaluation:
    """Meta-consistency of faithfulness, sensitivity and robustness scores of Saliency and GradientSHAP on the MNIST LeNet.

    The second pair of the paper, as `meta-evaluation-mnist` is the first; the published numbers are means of both.
    """
    return meta_evaluation(("saliency", "gradient_shap"), scale)
