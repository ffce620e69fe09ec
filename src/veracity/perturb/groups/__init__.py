"""Groups, and sets of transforms, that act on inputs: their algebra and one batched action each."""

from __future__ import annotations

from veracity.perturb.groups.base import FiniteGroup, Group, PermutationAction, floor
from veracity.perturb.groups.dihedral import Dihedral, Flips, Mirror, Rotations
from veracity.perturb.groups.permutations import NodePermutations, Permutations, TokenPermutations
from veracity.perturb.groups.product import Product
from veracity.perturb.groups.rotations import CubeRotations, Rotation, Rotations3D
from veracity.perturb.groups.scaling import Scaling
from veracity.perturb.groups.shifts import Crop, CyclicShift, WindowShift
from veracity.perturb.groups.sign import SignFlip
