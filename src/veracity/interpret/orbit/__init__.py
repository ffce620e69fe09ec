"""Tasks along an orbit: their metrics, consensus, equivariance gap, agreement with the truth, and a picture of all orbits at once."""

from veracity.interpret.orbit.agreement import Agreement, agreement
from veracity.interpret.orbit.base import Metric, Task
from veracity.interpret.orbit.classification import Classification
from veracity.interpret.orbit.detection import Detection
from veracity.interpret.orbit.flow import Flow, epe_map, reversal_floor
from veracity.interpret.orbit.gap import Gap, equivariance_gap, spread
from veracity.interpret.orbit.reduction import METHODS, embed
from veracity.interpret.orbit.regression import Regression

__all__ = [
    "METHODS",
    "Agreement",
    "Classification",
    "Detection",
    "Flow",
    "Gap",
    "Metric",
    "Regression",
    "Task",
    "agreement",
    "embed",
    "epe_map",
    "equivariance_gap",
    "reversal_floor",
    "spread",
]
