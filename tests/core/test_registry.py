from __future__ import annotations

import pickle

import pytest
import torch

from veracity.core.errors import SpecError
from veracity.core.measures import Direction, Measure
from veracity.core.registry import EXPLAINERS, GROUPS, MEASURES, SCORES, TARGETS, WALKS
from veracity.explain import IntegratedGradients
from veracity.perturb import CyclicShift


def test_a_name_a_table_and_an_object_all_build() -> None:
    assert EXPLAINERS.build("integrated_gradients") == IntegratedGradients()
    assert EXPLAINERS.build({"name": "integrated_gradients", "steps": 7}) == IntegratedGradients(steps=7)
    shift = CyclicShift(axes=(-1,))
    assert GROUPS.build(shift) is shift
    assert GROUPS.build({"name": "cyclic_shift", "axes": [-2, -1]}) == CyclicShift(axes=(-2, -1))


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(SpecError, match=r"Unknown explainer 'salency'. Did you mean 'saliency'\? See: veracity ls explainers"):
        EXPLAINERS.build("salency")


def test_an_unknown_setting_gets_the_nearest_one() -> None:
    with pytest.raises(SpecError, match=r"Unknown setting of explainer 'integrated_gradients' 'stepz'. Did you mean 'steps'\?"):
        EXPLAINERS.build({"name": "integrated_gradients", "stepz": 7})


def test_a_table_without_a_name_is_refused() -> None:
    with pytest.raises(SpecError, match="needs a name"):
        WALKS.build({"draws": 3})


@pytest.mark.parametrize("registry", [EXPLAINERS, GROUPS, MEASURES, SCORES, TARGETS, WALKS])
def test_everything_listed_has_a_sentence(registry: object) -> None:
    names = list(registry)  # type: ignore[call-overload]
    assert names
    for name in names:
        assert len(registry[name].summary()) > 10, name  # type: ignore[index]


def test_measures_travel_to_other_processes() -> None:
    cosine = MEASURES["cosine"]
    assert pickle.loads(pickle.dumps(cosine)) is cosine
    own = Measure(name="own", function=torch.subtract, direction=Direction.LOWER, range=(0.0, 1.0))
    assert pickle.loads(pickle.dumps(own)) == own
