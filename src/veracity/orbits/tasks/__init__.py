"""Tasks along an orbit: how outputs are read, moved, averaged and compared."""

from veracity.orbits.tasks.base import Metric, Task
from veracity.orbits.tasks.classification import Classification
from veracity.orbits.tasks.detection import Detection
from veracity.orbits.tasks.flow import Flow
from veracity.orbits.tasks.regression import Regression
