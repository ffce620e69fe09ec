"""Ways through a space: all of it, at random, until it is known well enough, or in search of what hurts most."""

from veracity.walk.genetic import Genetic
from veracity.walk.gradient import GradientSearch
from veracity.walk.probability import CrankNicolson, SimpleMonteCarlo, SubsetSimulation, Window
from veracity.walk.sampling import Adaptive, Exhaustive, MonteCarlo
from veracity.walk.strongest import Strongest
