"""Concept explanations: what a layer of the model says about concepts that people name."""

from __future__ import annotations

from veracity.explain.concepts.activations import CAR, CAV, ConceptSensitivity, tcav_scores
from veracity.explain.concepts.base import ConceptExplainer
from veracity.explain.concepts.controls import RandomConcepts, RandomSensitivities
