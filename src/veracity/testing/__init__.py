"""Conformance classes for components of one's own: subclass one in a test file, and pytest runs the battery."""

from veracity.testing.explainers import ExplainerConformance
from veracity.testing.measures import MeasureConformance
from veracity.testing.spaces import GroupConformance, SpaceConformance
