"""Other weights for the same model: noise of growing strength, noise around the model, or layers with random weights."""

from veracity.perturb.weights.copies import ModelCopies, stack
from veracity.perturb.weights.noise import FreshScaling, ParameterNoise, ParameterScaling, RowWeightSpace, WeightNeighbourhood, WeightNoise
from veracity.perturb.weights.randomisation import FullRandomisation, LayerRandomisation, Randomisation
