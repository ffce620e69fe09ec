"""The published protocols, each as a few lines of assembly that write a run folder and a report."""

from veracity.recipes.alignment_patterns import alignment_patterns
from veracity.recipes.assumptions import assumptions
from veracity.recipes.base import Recipe, Scale, recipe, run_recipe
from veracity.recipes.distance_check import distance_check
from veracity.recipes.faithfulness_ablation import faithfulness_ablation
from veracity.recipes.faithfulness_controls import faithfulness_controls
from veracity.recipes.faithfulness_images import faithfulness_fashion_mnist, faithfulness_mnist
from veracity.recipes.faithfulness_tabular import (
    faithfulness_adult,
    faithfulness_avila,
    faithfulness_compas,
    faithfulness_german,
    faithfulness_heloc,
    faithfulness_tabular,
)
from veracity.recipes.gef_agreement import gef_agreement
from veracity.recipes.meta_evaluation import meta_evaluation_mnist, meta_evaluation_mnist_saliency
from veracity.recipes.orbits_detection import orbits_detection, orbits_detection_cells
from veracity.recipes.orbits_digits import orbits_digits
from veracity.recipes.orbits_piv import orbits_piv
from veracity.recipes.orbits_points import orbits_points, orbits_points_xz, orbits_points_yz
from veracity.recipes.orbits_symmetry import orbits_symmetry
from veracity.recipes.robustness_cifar import robustness_architectures, robustness_cifar10
from veracity.recipes.robustness_convergence import robustness_convergence
from veracity.recipes.robustness_discrepancy import robustness_discrepancy
from veracity.recipes.robustness_images import robustness_fashion_mnist, robustness_mnist
from veracity.recipes.robustness_lime_shap import robustness_lime_shap
from veracity.recipes.robustness_spaces import robustness_spaces
from veracity.recipes.robustness_training import robustness_training
from veracity.recipes.several import Audits, JointResult
from veracity.recipes.stability_degradation import stability_degradation
from veracity.recipes.stability_digits import stability_digits
from veracity.recipes.stability_images import stability_eurosat, stability_fashion_mnist
from veracity.recipes.stability_lipschitz import stability_lipschitz
from veracity.recipes.symmetry_cifar import symmetry_cifar, symmetry_cifar_shifted, symmetry_training
from veracity.recipes.symmetry_digits import symmetry_digits
from veracity.recipes.symmetry_ecg import symmetry_ecg, symmetry_enforced, symmetry_sensitivity
from veracity.recipes.symmetry_fashion_mnist import symmetry_fashion_mnist
from veracity.recipes.symmetry_imdb import symmetry_imdb
from veracity.recipes.symmetry_modelnet import symmetry_modelnet
from veracity.recipes.symmetry_mutagenicity import symmetry_mutagenicity

__all__ = [
    "Audits",
    "JointResult",
    "Recipe",
    "Scale",
    "alignment_patterns",
    "assumptions",
    "distance_check",
    "faithfulness_ablation",
    "faithfulness_adult",
    "faithfulness_avila",
    "faithfulness_compas",
    "faithfulness_controls",
    "faithfulness_fashion_mnist",
    "faithfulness_german",
    "faithfulness_heloc",
    "faithfulness_mnist",
    "faithfulness_tabular",
    "gef_agreement",
    "meta_evaluation_mnist",
    "meta_evaluation_mnist_saliency",
    "orbits_detection",
    "orbits_detection_cells",
    "orbits_digits",
    "orbits_piv",
    "orbits_points",
    "orbits_points_xz",
    "orbits_points_yz",
    "orbits_symmetry",
    "recipe",
    "robustness_architectures",
    "robustness_cifar10",
    "robustness_convergence",
    "robustness_discrepancy",
    "robustness_fashion_mnist",
    "robustness_lime_shap",
    "robustness_mnist",
    "robustness_spaces",
    "robustness_training",
    "run_recipe",
    "stability_degradation",
    "stability_digits",
    "stability_eurosat",
    "stability_fashion_mnist",
    "stability_lipschitz",
    "symmetry_cifar",
    "symmetry_cifar_shifted",
    "symmetry_digits",
    "symmetry_ecg",
    "symmetry_enforced",
    "symmetry_fashion_mnist",
    "symmetry_imdb",
    "symmetry_modelnet",
    "symmetry_mutagenicity",
    "symmetry_sensitivity",
    "symmetry_training",
]
