"""The published protocols, each as a few lines of assembly that write a run folder and a report."""

from veracity.recipes.base import Recipe, Scale, recipe, run_recipe
from veracity.recipes.symmetry_digits import symmetry_digits
from veracity.recipes.symmetry_fashion_mnist import symmetry_fashion_mnist

__all__ = ["Recipe", "Scale", "recipe", "run_recipe", "symmetry_digits", "symmetry_fashion_mnist"]
