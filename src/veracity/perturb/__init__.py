"""What can be perturbed: the input by a group element, by noise or by masks, the model's weights, the target, or nothing at all."""

from veracity.perturb.ball import Ball
from veracity.perturb.damage import ConvolutionNoise, WrongLabels, wrong_labels
from veracity.perturb.embeddings import EmbeddingNoise
from veracity.perturb.folds import Folds
from veracity.perturb.groups import (
    Crop,
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
    TokenPermutations,
    WindowShift,
    floor,
)
from veracity.perturb.masks import FullMask, OrderedMasks, RandomMasks, RandomOrderMasks, RandomSubsets
from veracity.perturb.noise import GaussianNoise, UniformNoise
from veracity.perturb.output_actions import AsInput, Fixed, OutputAction, ShiftedBoxes, TurnedField
from veracity.perturb.refits import Refits
from veracity.perturb.swaps import OtherClass, OtherSample, Redraw
from veracity.perturb.weights import FullRandomisation, LayerRandomisation, ParameterNoise, ParameterScaling, WeightNeighbourhood, stack
