"""Orbits: models evaluated along the orbit of every input, against the truth and against their own consensus (NERO evaluation)."""

from veracity.orbits.detectors import TorchvisionDetector, TransformersDetector
from veracity.orbits.evaluation import OrbitEvaluation
from veracity.orbits.grids import Axis, GroupOrbit, Layout, Orbit
from veracity.orbits.layouts import CropOrbit, DiskOrbit, FlowOrbit, RigidOrbit, RotationOrbit, ScaleOrbit
from veracity.orbits.live import Live, LiveAnswer
from veracity.orbits.result import OrbitResult
from veracity.orbits.tasks import Classification, Detection, Flow, Metric, Regression, Task
from veracity.perturb.output_actions import AsInput, Fixed, OutputAction, ShiftedBoxes, TurnedField
