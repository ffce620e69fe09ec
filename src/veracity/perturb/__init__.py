"""What can be perturbed: the input by a group element, or nothing but the explainer's own random numbers."""

from veracity.perturb.group import (
    CyclicShift,
    Dihedral,
    FiniteGroup,
    Flips,
    Group,
    Mirror,
    PermutationAction,
    Permutations,
    Product,
    Rotation,
    Rotations,
    WindowShift,
    floor,
)
from veracity.perturb.redraw import Redraw

__all__ = [
    "CyclicShift",
    "Dihedral",
    "FiniteGroup",
    "Flips",
    "Group",
    "Mirror",
    "PermutationAction",
    "Permutations",
    "Product",
    "Redraw",
    "Rotation",
    "Rotations",
    "WindowShift",
    "floor",
]
