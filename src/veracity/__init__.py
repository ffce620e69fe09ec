"""Does this explanation tell the truth about this model? Measured, with uncertainty and controls.

The parts are found by their names in the theory: `veracity.scores.Equivariance`, `veracity.explain.IntegratedGradients`,
`veracity.groups.Dihedral`, `veracity.walk.MonteCarlo`, `veracity.measure.cosine`. They are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from veracity import explain, measure, orbits, perturb, scores, walk
    from veracity.app import serve
    from veracity.audit import Audit
    from veracity.core.errors import VeracityError
    from veracity.core.explainers import Explainer
    from veracity.core.graphs import GraphInputs
    from veracity.core.inputs import TokenInputs
    from veracity.core.measures import Measure
    from veracity.core.scores import Score
    from veracity.core.spaces import Space
    from veracity.core.targets import Class, Custom, Label, Neuron, Predicted
    from veracity.core.training import Checkpoint, CrossTrained, Training
    from veracity.core.walks import Walk
    from veracity.orbits import OrbitEvaluation, OrbitResult
    from veracity.perturb import groups
    from veracity.results import Result
    from veracity.studies import Audits, DegradationCheck, DistanceCheck, MetaEvaluation, advise, scan
    from veracity.trainers import Trainer

WHERE = {
    "serve": "veracity.app",
    "Audit": "veracity.audit",
    "VeracityError": "veracity.core.errors",
    "Explainer": "veracity.core.explainers",
    "GraphInputs": "veracity.core.graphs",
    "TokenInputs": "veracity.core.inputs",
    "Measure": "veracity.core.measures",
    "Score": "veracity.core.scores",
    "Space": "veracity.core.spaces",
    "Class": "veracity.core.targets",
    "Custom": "veracity.core.targets",
    "Label": "veracity.core.targets",
    "Neuron": "veracity.core.targets",
    "Predicted": "veracity.core.targets",
    "Checkpoint": "veracity.core.training",
    "CrossTrained": "veracity.core.training",
    "Training": "veracity.core.training",
    "Walk": "veracity.core.walks",
    "OrbitEvaluation": "veracity.orbits",
    "OrbitResult": "veracity.orbits",
    "Result": "veracity.results",
    "Audits": "veracity.studies",
    "DegradationCheck": "veracity.studies",
    "DistanceCheck": "veracity.studies",
    "MetaEvaluation": "veracity.studies",
    "advise": "veracity.studies",
    "scan": "veracity.studies",
    "Trainer": "veracity.trainers",
}
"""Public names, and where they are defined."""
MODULES = {name: f"veracity.{name}" for name in ("explain", "measure", "orbits", "perturb", "scores", "walk")} | {
    "groups": "veracity.perturb.groups"
}

__all__ = [*sorted(WHERE)]


def __getattr__(name: str) -> Any:
    """Load public names and modules on first use, so that `import veracity` stays light."""
    if name in WHERE:
        return getattr(import_module(WHERE[name]), name)
    if name in MODULES:
        return import_module(MODULES[name])
    raise AttributeError(f"module 'veracity' has no attribute '{name}'")


def __dir__() -> list[str]:
    """The public names and modules, whether loaded or not."""
    return sorted([*WHERE, *MODULES])
