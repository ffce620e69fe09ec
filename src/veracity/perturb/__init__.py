"""What can be perturbed: the input by a group element, by noise or by masks, the model's weights, the target, or nothing at all."""

from veracity.perturb.ball import Ball
from veracity.perturb.folds import Folds
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
from veracity.perturb.labels import WrongLabels, wrong_labels
from veracity.perturb.masks import FullMask, OrderedMasks, RandomMasks, RandomOrderMasks
from veracity.perturb.noise import GaussianNoise, UniformNoise
from veracity.perturb.others import Others
from veracity.perturb.redraw import Redraw
from veracity.perturb.retarget import OtherClass
from veracity.perturb.weights import (
    ConvolutionNoise,
    FullRandomisation,
    LayerRandomisation,
    ParameterNoise,
    ParameterScaling,
    WeightNeighbourhood,
    stack,
)

__all__ = [
    "Ball",
    "ConvolutionNoise",
    "CubeRotations",
    "CyclicShift",
    "Dihedral",
    "FiniteGroup",
    "Flips",
    "Folds",
    "FullMask",
    "FullRandomisation",
    "GaussianNoise",
    "Group",
    "LayerRandomisation",
    "Mirror",
    "NodePermutations",
    "OrderedMasks",
    "OtherClass",
    "Others",
    "ParameterNoise",
    "ParameterScaling",
    "PermutationAction",
    "Permutations",
    "Product",
    "RandomMasks",
    "RandomOrderMasks",
    "Redraw",
    "Rotation",
    "Rotations",
    "Rotations3D",
    "SignFlip",
    "UniformNoise",
    "WeightNeighbourhood",
    "WindowShift",
    "WrongLabels",
    "floor",
    "stack",
    "wrong_labels",
]
