"""Groups, and sets of transforms, that act on inputs: their algebra and one batched action each."""

from veracity.perturb.group.action import PermutationAction
from veracity.perturb.group.base import FiniteGroup, Group, floor
from veracity.perturb.group.crop import Crop
from veracity.perturb.group.cyclic import CyclicShift
from veracity.perturb.group.dihedral import Dihedral, Flips, Mirror, Rotations
from veracity.perturb.group.nodes import NodePermutations
from veracity.perturb.group.outputs import AsInput, Fixed, OutputAction, ShiftedBoxes, TurnedField
from veracity.perturb.group.permutation import Permutations
from veracity.perturb.group.product import Product
from veracity.perturb.group.rotation import Rotation
from veracity.perturb.group.rotation3 import CubeRotations, Rotations3D
from veracity.perturb.group.sign import SignFlip
from veracity.perturb.group.window import WindowShift

__all__ = [
    "AsInput",
    "Crop",
    "CubeRotations",
    "CyclicShift",
    "Dihedral",
    "FiniteGroup",
    "Fixed",
    "Flips",
    "Group",
    "Mirror",
    "NodePermutations",
    "OutputAction",
    "PermutationAction",
    "Permutations",
    "Product",
    "Rotation",
    "Rotations",
    "Rotations3D",
    "ShiftedBoxes",
    "SignFlip",
    "TurnedField",
    "WindowShift",
    "floor",
]
