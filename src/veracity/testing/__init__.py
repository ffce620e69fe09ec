"""Conformance classes for your own components: subclass one in a test file, and pytest runs its tests."""

from veracity.testing.explainers import ExplainerConformance
from veracity.testing.inputs import InputsConformance
from veracity.testing.measures import MeasureConformance
from veracity.testing.models import ModelConformance
from veracity.testing.scores import ScoreConformance
from veracity.testing.spaces import GroupConformance, SpaceConformance
