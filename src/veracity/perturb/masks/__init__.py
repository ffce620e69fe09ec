"""Masks: a part of the sample gives way to a baseline, at random, in an explanation's order, or as a whole."""

from veracity.perturb.masks.base import Masks, filling
from veracity.perturb.masks.cumulative import CumulativeMasks, OrderedMasks, RandomOrderMasks
from veracity.perturb.masks.subsets import FullMask, RandomMasks

__all__ = ["CumulativeMasks", "FullMask", "Masks", "OrderedMasks", "RandomMasks", "RandomOrderMasks", "filling"]
