"""Explanations by training examples: how much each of them matters to the model's output for an input."""

from __future__ import annotations

from veracity.explain.examples.influence import InfluenceFunctions
from veracity.explain.examples.representation import RepresentationSimilarity, SimplEx
from veracity.explain.examples.tracin import TracIn
