"""A label may not take the place of a control, of a companion or of another score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from small import series_inputs, small_net
from veracity import Audit
from veracity.core.errors import SpecError
from veracity.core.registry import SCORES
from veracity.engine.resolve import all_scores, as_models, labelled
from veracity.explain import CONTROLS, KernelShap, Precomputed, RandomUniform, TopK
from veracity.perturb import CyclicShift


@pytest.mark.parametrize("control", [kind.name for kind in CONTROLS])
def test_no_explainer_has_the_name_of_a_control(control: str) -> None:
    with pytest.raises(SpecError, match=f"The label '{control}' of the explainer 'saliency' is the name of a control: choose another"):
        labelled({control: "saliency"}, controls=True)
    with pytest.raises(SpecError, match="is the name of a control"):
        labelled({control: "saliency"}, controls=False)


def test_nor_have_maps_that_were_made_elsewhere(tmp_path: Path) -> None:
    maps = torch.rand(4, 1, 12)
    for given in (maps, Precomputed(maps=maps)):
        audit = Audit(models=small_net(), inputs=series_inputs(4), explainers={"random_uniform": given}, scores=["sparseness"])
        with pytest.raises(SpecError, match="The label 'random_uniform' of the explainer 'precomputed' is the name of a control"):
            audit.prepare()


def test_a_control_may_be_asked_for_by_its_own_name_and_have_another() -> None:
    assert set(labelled(["saliency", "random_uniform"], controls=True)) >= {"saliency", "random_uniform", "random_gaussian"}
    assert isinstance(labelled({"random_uniform": "random_uniform"}, controls=False)["random_uniform"], RandomUniform)
    assert isinstance(labelled({"mine": "random_uniform"}, controls=False)["mine"], RandomUniform)


def test_the_random_control_stays_random(tmp_path: Path) -> None:
    """What stands beside a score is the control's value, whatever explainers are called."""
    given: dict[str, Any] = {"models": small_net(), "inputs": series_inputs(4), "symmetry": CyclicShift(axes=(-1,))}
    result = Audit(**given, explainers={"mine": "saliency", "yours": "random_uniform"}, scores=["equivariance"]).run(
        tmp_path, progress=False
    )
    table = result.table().set_index(["explainer", "score"])
    assert table.loc[("mine", "equivariance"), "random_control"] == table.loc[("random_uniform", "equivariance"), "value"]


@pytest.mark.parametrize(
    ("label", "score"), [("self_agreement", "equivariance"), ("action_floor", "equivariance"), ("equivariance", "gef")]
)
def test_no_score_has_the_name_of_another(label: str, score: str) -> None:
    for companions in (True, False):
        with pytest.raises(SpecError, match=f"The label '{label}' of the score '{score}' is the name of another score: choose another"):
            all_scores({label: score}, companions)
    assert label in SCORES


def test_scores_keep_their_own_names_and_may_have_new_ones() -> None:
    named = all_scores({"equivariance": "equivariance", "mine": "invariance", "self_agreement": "self_agreement"}).named
    assert {label: score.name for label, score in named.items()} == {
        "equivariance": "equivariance", "mine": "invariance", "self_agreement": "self_agreement", "action_floor": "action_floor",
    }  # fmt: skip


@pytest.mark.parametrize("label", ["", "  ", 3, None])
def test_labels_are_words(label: Any) -> None:
    """An empty explainer stands for the model itself."""
    with pytest.raises(SpecError, match=r"A label in models=.* must be a word"):
        as_models({label: small_net()})
    with pytest.raises(SpecError, match=r"A label in explainers=.* must be a word"):
        labelled({label: "saliency"}, controls=True)
    if label != 3 and label is not None:
        with pytest.raises(SpecError, match=r"A label in scores=.* must be a word"):
            all_scores({label: "sparseness"})


def test_lists_of_cut_explainers_have_short_labels() -> None:
    cut = [TopK(explainer="integrated_gradients"), TopK(explainer=KernelShap(samples=100)), TopK(explainer="integrated_gradients", k=9)]
    assert list(labelled(cut, controls=False)) == [
        "top_k(integrated_gradients, k=5)",
        "top_k(kernel_shap(samples=100), k=5)",
        "top_k(integrated_gradients, k=9)",
    ]
    assert list(labelled(cut[:1], controls=False)) == ["top_k"]
