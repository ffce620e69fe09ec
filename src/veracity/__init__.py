"""Does this explanation tell the truth about this model? Measured, with uncertainty and controls.

The parts are found by their names in the theory: `veracity.scores.Equivariance`, `veracity.explain.IntegratedGradients`,
`veracity.groups.Dihedral`, `veracity.walk.MonteCarlo`, `veracity.measure.cosine`. They are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veracity.core.lazy import lazy

__version__ = "0.1.0"

if TYPE_CHECKING:
    from veracity import explain, measure, orbits, perturb, quantus, scores, walk
    from veracity.app import serve
    from veracity.audit import Audit
    from veracity.cards.card import CardStudy, card
    from veracity.cards.result import Card
    from veracity.core.dense_targets import Continuation, Segmentation, Token
    from veracity.core.errors import VeracityError
    from veracity.core.explainers import Explainer
    from veracity.core.graphs import EdgeInputs, GraphInputs, NodeInputs
    from veracity.core.inputs import TokenInputs
    from veracity.core.measures import Measure
    from veracity.core.scores import Score
    from veracity.core.spaces import Space
    from veracity.core.targets import Channel, Class, Custom, Label, Neuron, Predicted
    from veracity.core.training import Checkpoint, CrossTrained, Training
    from veracity.core.walks import Walk
    from veracity.engine.executors import Ray
    from veracity.orbits import OrbitEvaluation, OrbitResult
    from veracity.perturb import groups
    from veracity.planted.suite import examine
    from veracity.report.leaderboard import leaderboard
    from veracity.results import Result
    from veracity.scoring import score
    from veracity.studies import Audits, DegradationCheck, DistanceCheck, ExampleCheck, MetaEvaluation, advise, scan
    from veracity.trainers import Trainer

__getattr__, __dir__ = lazy(__name__)
MODULES = {"explain", "groups", "measure", "orbits", "perturb", "quantus", "scores", "walk"}
__all__ = sorted({*__dir__()} - MODULES)
