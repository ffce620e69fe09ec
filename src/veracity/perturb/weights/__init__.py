"""Other weights for the same model: noise along a path or around the model, or layers that forget what they learnt."""

from veracity.perturb.weights.copies import ModelCopies, stack
from veracity.perturb.weights.damage import ConvolutionNoise
from veracity.perturb.weights.neighbourhood import RowWeightSpace, WeightNeighbourhood
from veracity.perturb.weights.noise import FreshScaling, ParameterNoise, ParameterScaling, WeightNoise
from veracity.perturb.weights.randomisation import FullRandomisation, LayerRandomisation, Randomisation

__all__ = [
    "ConvolutionNoise",
    "FreshScaling",
    "FullRandomisation",
    "LayerRandomisation",
    "ModelCopies",
    "ParameterNoise",
    "ParameterScaling",
    "Randomisation",
    "RowWeightSpace",
    "WeightNeighbourhood",
    "WeightNoise",
    "stack",
]
