"""Linear classifiers of concepts: a hyperplane in the layer's space, whose normal is the concept's activation vector."""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, as_tensor

from veracity.core.explainers import Context
from veracity.core.settings import Count, Positive
from veracity.explain.concept.base import SEEDS, ConceptExplainer

CONSTANT = 1e-6
"""A standard deviation of at most this share of the mean, or of the largest one, is rounding."""


@dataclass(frozen=True, kw_only=True)
class LinearConcepts(ConceptExplainer, ABC):
    """c(h) = [w · h + b > 0], with w and b from stochastic gradient descent on the hinge loss (appendix F).

    Features are standardised (by the fitted examples' mean and standard deviation) before they are fitted, since one
    learning `rate` does not suit units of different scale; w and b are those of the layer's own units. A unit that hardly
    varies (by at most 1e-6 of its mean or of the largest standard deviation) is taken for constant, with weight 0.
    """

    rate: Positive = 1e-2
    tolerance: Positive = 1e-3
    epochs: Count = 1000

    def fit(self, features: Tensor, labels: Tensor, seed: int) -> dict[str, Tensor]:
        """The hyperplane of one concept: weights (d,), intercept (), and the epochs it took."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import SGDClassifier

        mean, scale = features.mean(0), features.std(0, correction=0)
        varies = scale > CONSTANT * mean.abs().maximum(scale.max())
        inverse = varies / scale.where(varies, 1.0)
        model = SGDClassifier(learning_rate="constant", eta0=self.rate, tol=self.tolerance, max_iter=self.epochs, random_state=seed % SEEDS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(((features - mean) * inverse).numpy(), labels.numpy())
        weights = as_tensor(model.coef_[0]) * inverse
        return {"weights": weights, "intercept": as_tensor(model.intercept_[0]) - mean @ weights, "epochs": as_tensor(model.n_iter_)}

    def decisions(self, learnt: Mapping[str, Tensor], features: Tensor) -> Tensor:
        """w · h + b, (N, C)."""
        return features @ learnt["weights"].T + learnt["intercept"]

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        """One row a concept, with the epochs it took; a classifier that was still improving at the last one is warned about."""
        rows = [row | {"epochs": int(took)} for row, took in zip(super().facts(learnt, context), learnt["epochs"], strict=True)]
        late = "The classifier of the concept '{concept}' had not converged after {epochs} epochs."
        return [{"warning": late.format(**row), **row} if row["epochs"] >= self.epochs else row for row in rows]
