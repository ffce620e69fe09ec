"""What can be perturbed: the input by a group element or by noise in a ball, or nothing but the explainer's own random numbers."""

from veracity.perturb.ball import Ball
from veracity.perturb.group import (
    CubeRotations,
    CyclicShift,
    Dihedral,
    FiniteGroup,
    Flips,
    Group,
    Mirror,
    NodePermutations,
    PermutationAction,
    Permutations,
    Product,
    Rotation,
    Rotations,
    Rotations3D,
    SignFlip,
    WindowShift,
    floor,
)
from veracity.perturb.redraw import Redraw

__all__ = [
    "Ball",
    "CubeRotations",
    "CyclicShift",
    "Dihedral",
    "FiniteGroup",
    "Flips",
    "Group",
    "Mirror",
    "NodePermutations",
    "PermutationAction",
    "Permutations",
    "Product",
    "Redraw",
    "Rotation",
    "Rotations",
    "Rotations3D",
    "SignFlip",
    "WindowShift",
    "floor",
]
