"""Audits of tables beside a training set: one coding of categories, and the training rows say what usual values are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import veracity
from veracity.core.errors import InputError, Note
from veracity.core.training import Training
from veracity.inputs import TableInputs

TRAINING = pd.DataFrame({"age": [20.0, 30.0, 70.0, 60.0], "job": ["pilot", "cook", "cook", "clerk"]})
LABELS = [0, 0, 1, 1]
AUDITED = pd.DataFrame({"job": ["clerk", "pilot"], "age": [33.0, 35.0]})


def score(rows: pd.DataFrame) -> Any:
    return np.stack((rows["age"], -rows["age"] * (rows["job"] == "cook")), axis=1)


def setup(inputs: Any = AUDITED, **settings: Any) -> Any:
    usual: dict[str, Any] = {"explainers": ["kernel_shap"], "scores": ["faithfulness_correlation"], "outputs": "raw"}
    return veracity.Audit(models=score, inputs=inputs, **{**usual, **settings}).resolve()


@pytest.mark.parametrize("beside", [{"training": (TRAINING, LABELS)}, {"reference": TRAINING}])
def test_levels_that_only_the_training_set_has_are_known(beside: dict[str, Any]) -> None:
    found = setup(**beside)
    assert found.inputs.categories == {"job": ["clerk", "cook", "pilot"]}
    assert not found.features.own
    assert found.features.centre().tolist() == [1.0, 45.0], "the most frequent job is cook, and the mean age is 45"


@pytest.mark.parametrize("given", [(TRAINING, LABELS), Training(TableInputs(TRAINING[1:]), torch.tensor(LABELS[1:]))])
def test_training_rows_are_coded_like_the_audited_ones(given: Any) -> None:
    training = setup(training=given).training
    assert training.inputs.take(torch.tensor([training.inputs.size() - 1])).values.tolist() == [[0.0, 60.0]]
    assert training.inputs.categories["job"][0] == "clerk"


def test_levels_that_were_given_stay() -> None:
    with pytest.raises(InputError, match="Column 'job' has the value 'cook', which is not among its levels clerk, pilot"):
        setup(TableInputs(AUDITED, levels={"job": ["clerk", "pilot"]}), training=(TRAINING, LABELS))


def test_a_training_set_without_a_column() -> None:
    with pytest.raises(InputError, match="The training set lacks the column 'job' of the table: give it the same columns"):
        setup(training=(TRAINING[["age"]], LABELS))


def test_ordered_categories_keep_their_order() -> None:
    sizes = pd.CategoricalDtype(["small", "large"], ordered=True)
    table = TableInputs(pd.DataFrame({"size": pd.Series(["large", "small"], dtype=sizes)}))
    more = table.with_levels(pd.DataFrame({"size": ["huge", "small"]}), "training set")
    assert more.categories == {"size": ["small", "large", "huge"]}


def test_few_training_rows_say_what_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veracity.engine.resolve.inputs.USUAL", 2)
    assert len(setup(training=(TRAINING, LABELS)).features.background) == 2


def test_a_reference_beside_rows_that_were_chosen_at_random() -> None:
    many = pd.concat([AUDITED] * 50, ignore_index=True)
    with pytest.warns(Note, match="64 samples of 100"):
        found = veracity.Audit(models=score, inputs=many, outputs="raw", reference=TRAINING).resolve()
    assert found.features.centre().tolist() == [1.0, 45.0]


@pytest.mark.parametrize("reference", [torch.ones(6, 2), torch.ones(4), torch.ones(0, 4)])
def test_a_reference_of_another_shape(reference: torch.Tensor) -> None:
    given: dict[str, Any] = {"models": torch.nn.Linear(4, 2).eval(), "inputs": torch.ones(3, 4), "scores": ["insertion"]}
    with pytest.raises(
        InputError, match=r"The reference has the shape .*, but the inputs need \(samples, 4\): pass samples like the inputs"
    ):
        veracity.Audit(**given, explainers=["lime"], reference=reference).resolve()
