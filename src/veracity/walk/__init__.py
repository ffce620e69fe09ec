"""Ways through a space: all of it, at random, or at random until it is known well enough."""

from veracity.walk.adaptive import Adaptive
from veracity.walk.exhaustive import Exhaustive
from veracity.walk.montecarlo import MonteCarlo

__all__ = ["Adaptive", "Exhaustive", "MonteCarlo"]
