"""Ways through a space: all of it, at random, until it is known well enough, or in search of what hurts most."""

from veracity.walk.adaptive import Adaptive
from veracity.walk.exhaustive import Exhaustive
from veracity.walk.genetic import Genetic
from veracity.walk.gradient import GradientSearch
from veracity.walk.kernels import CrankNicolson, Window
from veracity.walk.montecarlo import MonteCarlo
from veracity.walk.simple import SimpleMonteCarlo
from veracity.walk.strongest import Strongest
from veracity.walk.subset import SubsetSimulation

__all__ = [
    "Adaptive",
    "CrankNicolson",
    "Exhaustive",
    "Genetic",
    "GradientSearch",
    "MonteCarlo",
    "SimpleMonteCarlo",
    "Strongest",
    "SubsetSimulation",
    "Window",
]
