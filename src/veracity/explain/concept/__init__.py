"""Concept explanations: what a layer of the model says about concepts that people name."""

from veracity.explain.concept.base import ConceptExplainer
from veracity.explain.concept.car import CAR
from veracity.explain.concept.cav import CAV
from veracity.explain.concept.control import RandomConcepts, RandomSensitivities
from veracity.explain.concept.tcav import ConceptSensitivity, tcav_scores

__all__ = ["CAR", "CAV", "ConceptExplainer", "ConceptSensitivity", "RandomConcepts", "RandomSensitivities", "tcav_scores"]
