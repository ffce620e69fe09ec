"""Explanations by training examples: how much each of them matters to what the model makes of an input."""

from veracity.explain.example.control import RandomExamples, RandomMixture
from veracity.explain.example.influence import InfluenceFunctions
from veracity.explain.example.representation import RepresentationSimilarity, SimplEx
from veracity.explain.example.tracin import TracIn

__all__ = ["InfluenceFunctions", "RandomExamples", "RandomMixture", "RepresentationSimilarity", "SimplEx", "TracIn"]
