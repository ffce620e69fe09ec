"""The published protocols, each as a few lines of assembly that write a run folder and a report."""

from veracity.recipes.base import Recipe, Scale, recipe, run_recipe
from veracity.recipes.symmetry_cifar import symmetry_cifar, symmetry_cifar_shifted, symmetry_training
from veracity.recipes.symmetry_digits import symmetry_digits
from veracity.recipes.symmetry_ecg import symmetry_ecg, symmetry_enforced, symmetry_sensitivity
from veracity.recipes.symmetry_fashion_mnist import symmetry_fashion_mnist
from veracity.recipes.symmetry_imdb import symmetry_imdb
from veracity.recipes.symmetry_modelnet import symmetry_modelnet
from veracity.recipes.symmetry_mutagenicity import symmetry_mutagenicity

__all__ = [
    "Recipe",
    "Scale",
    "recipe",
    "run_recipe",
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
