"""Other weights for the same model: noise along a path or around the model, or layers that forget what they learnt."""

from veracity.perturb.weights.copies import ModelCopies, stack
from veracity.perturb.weights.noise import FreshScaling, ParameterNoise, ParameterScaling, RowWeightSpace, WeightNeighbourhood, WeightNoise
from veracity.perturb.weights.randomisation import FullRandomisation, LayerRandomisation, Randomisation
