"""Fitted estimators of scikit-learn and of libraries with its interface, and the boosters of XGBoost and LightGBM."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError
from veracity.core.registry import MODELS
from veracity.core.targets import Outputs
from veracity.models.base import NumpyModel

METHODS = {"predict_proba": Outputs.PROBABILITIES, "decision_function": Outputs.LOGITS, "predict": Outputs.RAW}
"""The methods of an estimator that return scores, the best first, and what they return."""

ROWS = 8192
"""A call of an estimator takes milliseconds before the first row, and rows of a table need little memory."""


@MODELS.add
class EstimatorModel(NumpyModel):
    """A fitted scikit-learn estimator or Pipeline, or one of its methods: `forest`, `forest.predict_proba`.

    Regressors and clusterers answer with `predict`. A classifier answers with `predict_proba` or, if it has none,
    with `decision_function`. A multi-label classifier answers with the probability of each label, (N, labels).
    """

    name = "estimator"
    most_rows = ROWS

    def __init__(self, value: Any) -> None:
        super().__init__()
        bound = getattr(value, "__name__", "") in METHODS and hasattr(value, "__self__")
        self.estimator = value.__self__ if bound else value
        self.method = value.__name__ if bound else best_method(self.estimator)
        self.outputs = METHODS[self.method]
        check_fitted(self.estimator)

    @classmethod
    def accepts(cls, value: Any) -> bool:
        """An object with scikit-learn's methods, or one of these methods."""
        owner = getattr(value, "__self__", value) if getattr(value, "__name__", "") in METHODS else value
        return not isinstance(owner, type) and hasattr(owner, "fit") and any(hasattr(owner, method) for method in METHODS)

    @property
    def final(self) -> Any:
        """The estimator; of a pipeline, its last step."""
        return self.estimator.steps[-1][1] if hasattr(self.estimator, "steps") else self.estimator

    @property
    def title(self) -> str:
        """The estimator's class; of a pipeline, its last step's."""
        return type(self.final).__name__

    @property
    def caveat(self) -> str | None:  # type: ignore[override]
        """What is explained in the place of probabilities, if that is not a regressor's value."""
        if self.method == "decision_function" and not hasattr(self.estimator, "predict_proba"):
            return f"{self.title} has no predict_proba: its decision_function is explained, and read as logits."
        if self.method != "predict" or (self.classes is None and not hasattr(self.final, "labels_")):
            return None
        what, scored = "class" if self.classes else "cluster", best_method(self.estimator) != "predict"
        fix = "the estimator itself, whose scores are explained" if scored else f"a function that returns a score for each {what}"
        return f"predict of {self.title} gives the number of a {what}, which is explained as if it were a value: pass {fix}."

    @property
    def classes(self) -> list[Any] | None:
        """The labels that a classifier was fitted on, in the order of its outputs."""
        found = getattr(self.estimator, "classes_", None)
        return None if found is None or isinstance(found, list) else np.asarray(found).tolist()

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The columns that the estimator was fitted on, if it saw a table."""
        return column_names(getattr(self.estimator, "feature_names_in_", None))

    def predict(self, values: Any, *structure: Any) -> NDArray[Any]:
        """The method's answer to rows of features, or to a DataFrame."""
        found = getattr(self.estimator, self.method)(values)
        answer: NDArray[Any] = self.label_probabilities(found) if isinstance(found, list) else np.asarray(found)
        if answer.dtype.kind in "OUS":
            raise InputError(
                f"{self.title}.predict returns names of classes and not scores: pass a classifier with predict_proba or decision_function."
            )
        return answer

    def label_probabilities(self, found: list[NDArray[Any]]) -> NDArray[Any]:
        """The probability of each label, (N, labels), of a multi-label classifier that returns an array (N, 2) for each."""
        columns = []
        for number, (scores, known) in enumerate(zip(found, self.estimator.classes_, strict=True)):
            if len(known) > 2:
                raise InputError(
                    f"Output {number} of {self.title} has {len(known)} classes, and there are {len(found)} outputs: pass a function that "
                    f"returns the scores of one of them, such as lambda x: model.predict_proba(x)[{number}]."
                )
            columns.append(scores[:, -1] if len(known) == 2 or bool(known[0]) else 1.0 - scores[:, -1])  # one class: always or never
        return np.stack(columns, axis=1)


def column_names(names: Any) -> tuple[str, ...] | None:
    """The names of columns; None if there are none, or only the names Column_0, Column_1, ... that LightGBM gives to arrays."""
    known = () if names is None else tuple(str(name) for name in names)
    return None if known == tuple(f"Column_{number}" for number in range(len(known))) else known


def best_method(estimator: Any) -> str:
    """The first of METHODS that an estimator has: probabilities before decisions before predictions."""
    for method in METHODS:
        if hasattr(estimator, method):
            return method
    raise InputError(f"{type(estimator).__name__} has none of {', '.join(METHODS)}: it cannot be audited.")


def check_fitted(estimator: Any) -> None:
    """Raise if an estimator of scikit-learn was not fitted."""
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(estimator, BaseEstimator):
        return
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        raise InputError(f"The estimator {type(estimator).__name__} is not fitted: call its fit(x, y) first.") from None


PROBABILITIES = {"binary:logistic", "reg:logistic", "multi:softprob", "binary", "multiclass", "multiclassova", "cross_entropy"}
"""The objectives of XGBoost and LightGBM whose boosters give probabilities."""
NO_SCORES = {"multi:softmax": "multi:softprob", "binary:hinge": "binary:logistic"}
"""Objectives whose boosters give classes, and those to use instead."""


def objective(booster: Any) -> str:
    """What a booster was trained for, such as "binary:logistic"."""
    if hasattr(booster, "save_config"):
        return str(json.loads(booster.save_config())["learner"]["objective"]["name"])
    return str(booster.dump_model(num_iteration=1).get("objective", ""))


@MODELS.add
class BoosterModel(NumpyModel):
    """A trained booster of XGBoost (`xgboost.Booster`) or LightGBM (`lightgbm.Booster`), whose answer is its `predict`."""

    name = "booster"
    most_rows = ROWS

    def __init__(self, booster: Any) -> None:
        super().__init__()
        self.booster = booster
        goal = objective(booster).split(" ")[0]
        if goal in NO_SCORES:
            raise InputError(f"The objective '{goal}' of {self.title} gives classes and not scores: train it with '{NO_SCORES[goal]}'.")
        self.outputs = Outputs.PROBABILITIES if goal in PROBABILITIES else Outputs.LOGITS if goal == "binary:logitraw" else Outputs.RAW

    @classmethod
    def accepts(cls, value: Any) -> bool:
        """A Booster of either library."""
        return type(value).__name__ == "Booster" and type(value).__module__.split(".")[0] in ("xgboost", "lightgbm")

    @property
    def title(self) -> str:
        """The library's Booster."""
        return f"{type(self.booster).__module__.split('.')[0]}.Booster"

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The columns that the booster was trained on, if it saw a table."""
        known = self.booster.feature_name() if callable(getattr(self.booster, "feature_name", None)) else self.booster.feature_names
        return column_names(known)

    def predict(self, values: Any, *structure: Any) -> NDArray[Any]:
        """Probabilities or values (N,) or (N, K), as the booster's objective says."""
        if hasattr(self.booster, "inplace_predict"):
            answer: NDArray[Any] = self.booster.inplace_predict(values, validate_features=False)
            return answer
        return np.asarray(self.booster.predict(values))
