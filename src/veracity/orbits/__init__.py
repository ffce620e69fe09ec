"""Orbits: models evaluated along the orbit of every input, against the truth and against their own consensus (NERO evaluation).

A run folder holds every metric of every model at every element of every sample's orbit, and what is looked at of outputs and inputs.
"""

from veracity.orbits.detectors import TorchvisionDetector, TransformersDetector
from veracity.orbits.evaluation import OrbitEvaluation
from veracity.orbits.live import Live, Moved
from veracity.orbits.result import OrbitResult

__all__ = ["Live", "Moved", "OrbitEvaluation", "OrbitResult", "TorchvisionDetector", "TransformersDetector"]
