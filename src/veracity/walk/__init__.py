"""Walks through a space: all elements, random draws, draws until a mean is precise enough, and searches for the worst case."""

from veracity.walk.genetic import Genetic
from veracity.walk.gradient import GradientSearch
from veracity.walk.probability import CrankNicolson, SimpleMonteCarlo, SubsetSimulation, Window
from veracity.walk.sampling import Adaptive, Exhaustive, MonteCarlo
from veracity.walk.strongest import Strongest
