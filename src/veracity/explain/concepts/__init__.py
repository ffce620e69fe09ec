"""Concept explanations: which concepts, named by people, a layer of the model represents."""

from __future__ import annotations

from veracity.explain.concepts.activations import CAR, CAV, ConceptSensitivity, tcav_scores
from veracity.explain.concepts.base import ConceptExplainer
