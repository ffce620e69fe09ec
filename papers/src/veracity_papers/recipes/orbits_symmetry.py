"""Does the explanation of a turned digit turn along? Attribution along the orbit, and with it the symmetry part's score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from veracity.audit import Audit
from veracity.explain import IntegratedGradients
from veracity.orbits import OrbitEvaluation
from veracity.orbits.layouts import RotationOrbit
from veracity.orbits.tasks import Classification
from veracity.perturb import Rotations
from veracity.recipe import Scale, recipe
from veracity.walk import Exhaustive
from veracity_papers.data.mnist import CLASSES
from veracity_papers.recipes.orbits_digits import PAPER, described, networks, sampled

SIZES = {Scale.SMOKE: (12, 90.0), Scale.SMALL: (100, 15.0), Scale.PAPER: (1000, 5.0)}
NOTE = (
    "A map's equivariance at an angle compares the map of the turned digit with the turned map of the upright one. Only quarter turns "
    "move whole pixels; at other angles a part of what is missing to 1 is interpolation."
)


@recipe("orbits-symmetry", reference=f"{PAPER}, section 2; Crabbé & van der Schaar 2023, eq. 2")
def orbits_symmetry(folder: Path, scale: Scale) -> OrbitEvaluation:
    """Do explanations of digit classifiers turn along with the digit? The equivariance of four explainers at every angle, three networks.

    Networks as in `orbits-digits`. The averaged one is exactly invariant to quarter turns, and its gradients exactly equivariant.
    Smoke: 12 digits, quarter turns, whose mean is the equivariance score of an audit of the same explainers
    (`quarter_turns`). Small: 100 digits every 15 degrees. Paper: 1,000 every 5 degrees.
    """
    count, step = SIZES[scale]
    models, (x, y) = networks(folder, scale), sampled(scale)
    return OrbitEvaluation(
        title="Do explanations of digit classifiers turn along with the digit?",
        models=models,
        inputs=x[:count],
        targets=y[:count],
        orbit=RotationOrbit(step=step),
        task=Classification(classes=CLASSES),
        explainers=explainers(),
        notes=[NOTE],
        about=described("orbits-symmetry", scale, models),
    )


def explainers() -> dict[str, Any]:
    """Four that differentiate the network in its input, whatever is inside it."""
    return {
        "gradient": "gradient",
        "saliency": "saliency",
        "input_x_gradient": "input_x_gradient",
        "integrated_gradients": IntegratedGradients(steps=20),
    }


def quarter_turns(evaluation: OrbitEvaluation) -> Audit:
    """The audit of an evaluation's explainers, models and inputs over the four quarter turns.

    Its equivariance score is the mean over the orbit of "equivariance: NAME" where the orbit is RotationOrbit(step=90).
    """
    return Audit(
        models=evaluation.models,
        inputs=evaluation.inputs,
        targets=evaluation.targets,
        explainers=evaluation.explainers,
        symmetry=Rotations(),
        walk=Exhaustive(),
        scores=["equivariance"],
        controls=False,
        seed=evaluation.seed,
    )
