from __future__ import annotations

import math
from dataclasses import replace

import pytest

from veracity.core.explainers import Frame
from veracity.core.spaces import Representation
from veracity.studies.flowchart import Assumption, Symptoms, diagnose

LOW = Symptoms(frame=Frame.INPUT, score=0.4, low=0.3, high=0.5, self_agreement=1.0, model_invariance=1.0)


@pytest.mark.parametrize(
    ("found", "assumption", "guideline"),
    [
        (replace(LOW, score=1.0, low=0.995, high=1.0), Assumption.NONE, 1),
        (replace(LOW, frame=Frame.TRAINING, score=1.0, low=0.995, high=1.0), Assumption.NONE, 2),
        (replace(LOW, frame=Frame.CONCEPTS, score=1.0, low=1.0, high=1.0), Assumption.NONE, 3),
        (replace(LOW, model_invariance=0.97), Assumption.MODEL, 5),
        (replace(LOW, stochastic=True, self_agreement=0.505), Assumption.NOISE, 1),
        (replace(LOW, stochastic=True, self_agreement=0.505, baseline_motion=1.4), Assumption.BASELINE, 1),
        (replace(LOW, stochastic=True, self_agreement=0.52), Assumption.UNKNOWN, 4),
        (replace(LOW, stochastic=False, self_agreement=0.5), Assumption.UNKNOWN, 4),
        (replace(LOW, baseline_motion=0.0), Assumption.UNKNOWN, 4),
        (replace(LOW, frame=Frame.TRAINING, layer="conv", layer_invariance=0.6), Assumption.LAYER, 2),
        (replace(LOW, frame=Frame.CONCEPTS, layer="conv", layer_invariance=0.6), Assumption.LAYER, 3),
        (replace(LOW, frame=Frame.CONCEPTS, layer="pool", layer_invariance=1.0), Assumption.UNKNOWN, 4),
        (replace(LOW, representation=Representation.ORTHOGONAL), Assumption.REPRESENTATION, 1),
        (replace(LOW, representation=Representation.ORTHOGONAL, needs_permutation=False), Assumption.UNKNOWN, 4),
        (replace(LOW, score=math.nan, low=math.nan, high=math.nan), Assumption.UNKNOWN, 4),
    ],
)
def test_each_branch_of_the_flowchart(found: Symptoms, assumption: Assumption, guideline: int) -> None:
    step = diagnose(found)
    assert (step.assumption, step.guideline) == (assumption, guideline)
    assert step.reason.endswith(".")


def test_what_was_measured_is_said_with_its_numbers() -> None:
    assert diagnose(replace(LOW, baseline_motion=1.25)).measured == "equivariance 0.400, baselines move by 1.25 of their size"
    concept = replace(LOW, frame=Frame.CONCEPTS, layer="conv3", layer_invariance=0.612)
    assert diagnose(concept).measured == "invariance 0.400, invariance of layer 'conv3' 0.6120"


def test_a_robust_explanation_needs_no_invariant_model() -> None:
    assert diagnose(replace(LOW, score=1.0, low=1.0, high=1.0, model_invariance=0.5)).assumption is Assumption.NONE
