"""Orbits: grids of transforms of one input, with the coordinates by which people know them."""

from veracity.perturb.orbit.base import Axis, Layout, Orbit
from veracity.perturb.orbit.crop import CropOrbit
from veracity.perturb.orbit.disk import DiskOrbit
from veracity.perturb.orbit.flow import FlowOrbit
from veracity.perturb.orbit.group import GroupOrbit
from veracity.perturb.orbit.rotation import RotationOrbit

__all__ = ["Axis", "CropOrbit", "DiskOrbit", "FlowOrbit", "GroupOrbit", "Layout", "Orbit", "RotationOrbit"]
