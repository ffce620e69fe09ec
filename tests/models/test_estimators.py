from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import veracity
from veracity.core.errors import InputError, Note
from veracity.core.targets import Outputs
from veracity.models import EstimatorModel, as_model

X, Y = load_iris(return_X_y=True)


@pytest.mark.parametrize(
    ("estimator", "method", "outputs"),
    [
        (LogisticRegression(max_iter=500), "predict_proba", Outputs.PROBABILITIES),
        (LinearSVC(random_state=0), "decision_function", Outputs.LOGITS),
        (Ridge(), "predict", Outputs.RAW),
    ],
)
def test_the_best_method_answers(estimator: Any, method: str, outputs: Outputs) -> None:
    model = as_model("m", estimator.fit(X, Y))
    assert isinstance(model, EstimatorModel)
    assert model.outputs is outputs
    assert np.array_equal(model(torch.tensor(X)).numpy(), getattr(estimator, method)(X))


def test_an_estimator_that_is_not_fitted() -> None:
    with pytest.raises(InputError, match=r"RandomForestClassifier is not fitted: call its fit\(x, y\) first."):
        as_model("m", RandomForestClassifier())


def test_predict_of_a_classifier_with_names() -> None:
    names = np.array(["setosa", "versicolor", "virginica"])[Y]
    with pytest.raises(InputError, match="returns names of classes and not scores"):
        as_model("m", LogisticRegression(max_iter=500).fit(X, names).predict)(torch.tensor(X))


def test_a_multi_label_forest_gives_the_probability_of_each_label(tmp_path: Path) -> None:
    labels = np.stack([Y == 0, Y == 1, np.zeros_like(Y), np.ones_like(Y)], axis=1).astype(int)
    forest = RandomForestClassifier(5, max_depth=2, random_state=0).fit(X, labels)
    found = as_model("m", forest)(torch.tensor(X[:3])).numpy()
    each = forest.predict_proba(X[:3])
    assert np.array_equal(found, np.stack([each[0][:, 1], each[1][:, 1], np.zeros(3), np.ones(3)], axis=1))
    settings: dict[str, Any] = {"explainers": ["kernel_shap"], "scores": ["faithfulness_correlation"], "controls": False}
    result = veracity.Audit(models=forest, inputs=X[::30], targets=labels[::30], **settings).run(tmp_path / "run", progress=False)
    assert result.table()["value"].notna().all()
    assert result.manifest["models"]["model"]["accuracy"] == pytest.approx((forest.predict(X[::30]) == labels[::30]).mean())


def test_several_outputs_of_several_classes_are_refused() -> None:
    forest = RandomForestClassifier(2, random_state=0).fit(X, np.stack([Y, Y], axis=1))
    with pytest.raises(InputError, match=r"Output 0 of RandomForestClassifier has 3 classes, and there are 2 outputs: pass a function"):
        as_model("m", forest)(torch.tensor(X[:3]))


def test_labels_are_those_of_the_fit(tmp_path: Path) -> None:
    names = np.array(["c", "a", "b"])[Y]
    forest = RandomForestClassifier(10, random_state=0).fit(X, names)
    settings: dict[str, Any] = {"models": forest, "inputs": X[::10], "explainers": ["feature_ablation"], "scores": ["complexity"]}
    settings |= {"controls": False, "companions": False}
    result = veracity.Audit(**settings, targets=names[::10]).run(tmp_path / "run", progress=False)
    assert result.manifest["models"]["model"]["accuracy"] == pytest.approx(np.mean(forest.predict(X[::10]) == names[::10]))
    with pytest.raises(InputError, match=r"The target 'd' is not one of the classes that the model was fitted on: a, b, c."):
        veracity.Audit(**settings, targets=["d"] * 15).resolve()


def test_a_binary_booster_gives_probabilities() -> None:
    xgboost = pytest.importorskip("xgboost")
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, xgboost.DMatrix(X, Y == 1), 3)
    model: Any = as_model("m", booster)
    assert model.outputs is Outputs.PROBABILITIES
    assert np.allclose(model(torch.tensor(X)).numpy(), booster.predict(xgboost.DMatrix(X)))
    regression = xgboost.train({"objective": "reg:squarederror", "nthread": 1}, xgboost.DMatrix(X, Y), 3)
    assert as_model("m", regression).outputs is Outputs.RAW


@pytest.mark.parametrize(
    ("goal", "outputs"),
    [("binary:logitraw", Outputs.LOGITS), ("reg:logistic", Outputs.PROBABILITIES), ("reg:squarederror", Outputs.RAW)],
)
def test_the_objective_of_a_booster_says_what_its_outputs_are(goal: str, outputs: Outputs) -> None:
    xgboost = pytest.importorskip("xgboost")
    assert as_model("m", xgboost.train({"objective": goal, "nthread": 1}, xgboost.DMatrix(X, Y == 1), 2)).outputs is outputs


def test_a_booster_that_gives_classes() -> None:
    xgboost = pytest.importorskip("xgboost")
    booster = xgboost.train({"objective": "multi:softmax", "num_class": 3, "nthread": 1}, xgboost.DMatrix(X, Y), 2)
    with pytest.raises(
        InputError, match=r"'multi:softmax' of xgboost.Booster gives classes and not scores: train it with 'multi:softprob'"
    ):
        as_model("m", booster)


def test_training_labels_are_those_of_the_fit() -> None:
    found = {}
    for name, labels in {"numbers": Y, "names": np.array(["p", "q", "r"])[Y], "from one": Y + 1}.items():
        forest = RandomForestClassifier(5, random_state=0).fit(X, labels)
        audit = veracity.Audit(
            models=forest, inputs=X[:4], training=(X, labels), explainers=["permutation_importance"], scores=["complexity"]
        )
        training = audit.resolve().training
        assert training is not None
        found[name] = training.labels.tolist()
    assert found["numbers"] == found["names"] == found["from one"] == Y.tolist()


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (LinearSVC(random_state=0).fit(X, Y), "LinearSVC has no predict_proba: its decision_function is explained, and read as logits."),
        (KMeans(3, n_init=1, random_state=0).fit(X), "gives the number of a cluster, .*: pass a function that returns a score for each"),
        (make_pipeline(StandardScaler(), KMeans(3, n_init=1, random_state=0)).fit(X), "predict of KMeans gives the number of a cluster"),
        (RandomForestClassifier(2, random_state=0).fit(X, Y).predict, "number of a class, .*: pass the estimator itself"),
    ],
    ids=["svc", "kmeans", "pipeline", "predict"],
)
def test_what_is_explained_without_probabilities_is_noted(model: Any, sentence: str) -> None:
    settings: dict[str, Any] = {"explainers": ["feature_ablation"], "scores": ["sparseness"], "controls": False, "companions": False}
    with pytest.warns(Note, match=sentence):
        plan = veracity.Audit(models=model, inputs=X[::30], **settings).prepare()
    assert any(re.search(sentence, note["text"]) for note in plan.notes)


@pytest.mark.parametrize("estimator", [Ridge(), LogisticRegression(max_iter=500), RandomForestClassifier(2)])
def test_regressors_and_probabilities_need_no_note(estimator: Any) -> None:
    model = as_model("m", estimator.fit(X, Y))
    assert isinstance(model, EstimatorModel)
    assert model.caveat is None


def test_the_forecast_of_a_model_without_gradients_counts_forward_passes() -> None:
    forest = RandomForestClassifier(2, max_depth=2, random_state=0).fit(X, Y)
    settings: dict[str, Any] = {"explainers": ["feature_ablation"], "scores": ["sparseness"], "controls": False, "companions": False}
    cost = veracity.Audit(models=forest, inputs=X[::30], **settings).forecast(progress=False)
    assert (cost.forward, cost.backward) == (5 * 5, 0)
