"""Concept activation vectors (CAV, TCAV) and regions (CAR): linear and kernel classifiers of concepts on a layer."""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor, as_tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Cost
from veracity.core.models import evaluating, layer_of
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count, Positive
from veracity.explain.concepts.base import ConceptExplainer
from veracity.explain.passes import Structure, pick

SEEDS = 2**32
"""The number of seeds that scikit-learn accepts."""

CONSTANT = 1e-6
"""A standard deviation of at most this share of the mean, or of the largest one, is rounding."""

ROUNDING = 1e-10
"""A principal component with a smaller share of the first one's length is rounding, and its direction arbitrary."""


@dataclass(frozen=True, kw_only=True)
class LinearConcepts(ConceptExplainer, ABC):
    """c(h) = [w · h + b > 0], with w and b from stochastic gradient descent on the hinge loss (appendix F).

    Features are standardised by the fitted examples' mean and standard deviation, since one learning `rate` does not suit
    units of different scale; w and b apply to the layer's own units. A unit that hardly varies (by at most 1e-6 of its mean
    or of the largest standard deviation) counts as constant, with weight 0.
    """

    rate: Positive = 1e-2
    tolerance: Positive = 1e-3
    epochs: Count = 1000

    def fit(self, features: Tensor, labels: Tensor, seed: int) -> dict[str, Tensor]:
        """The hyperplane of one concept: weights (d,), intercept (), and the number of epochs."""
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
        """One row per concept, with the number of epochs, and a warning if the classifier did not converge."""
        rows = [row | {"epochs": epochs} for row, epochs in zip(super().facts(learnt, context), learnt["epochs"].tolist(), strict=True)]
        late = "The classifier of the concept '{concept}' had not converged after {epochs} epochs."
        return [{"warning": late.format(**row), **row} if row["epochs"] >= self.epochs else row for row in rows]


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class CAV(LinearConcepts):
    """Which concepts a linear classifier sees in a layer: e_c(x) = [w_c · h(x) + b_c > 0], bits (N, C).

    Invariant if the layer is (Proposition D.14). See `ConceptExplainer` for what is learnt and what is left out.
    """

    name = "cav"
    reference = "Kim et al. 2018, arXiv:1711.11279"
    categorical = True
    signed = False


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class CAR(ConceptExplainer):
    """Which concepts a kernel classifier sees in a layer: e_c(x) = [Σ_i a_i exp(-γ |P h(x) - s_i|²) + b > 0], bits (N, C).

    P projects on the first `components` principal components of the fitted examples, or on those that vary if they are
    fewer. s_i are the support vectors of a support vector classifier with the Gaussian kernel and scikit-learn's default
    settings, γ = 1 / (k var) (appendix F). Invariant if the layer is (Proposition D.14).
    """

    name = "car"
    reference = "Crabbé and van der Schaar 2022, arXiv:2209.11222"
    categorical = True
    signed = False
    components: Count = 10

    def fit(self, features: Tensor, labels: Tensor, seed: int) -> dict[str, Tensor]:
        """The region of one concept: axes (k, d), centre (k,), support (S, k), dual (S,), gamma () and intercept ()."""
        from sklearn.decomposition import PCA
        from sklearn.svm import SVC

        mean = features.mean(0)
        rows = features - mean
        if rows.shape[1] > len(rows):  # work in the rows' span, which has fewer coordinates
            basis, rows = (part.T for part in torch.linalg.qr(rows.T))
        else:
            basis = torch.eye(rows.shape[1], dtype=rows.dtype)
        with np.errstate(invalid="ignore"):
            projection = PCA(min(self.components, max(1, len(rows) - 1), rows.shape[1]), svd_solver="full").fit(rows.numpy())
        varies = projection.singular_values_ > ROUNDING * projection.singular_values_[0]
        varies[0] = True
        directions = projection.components_[varies]
        projected = rows.numpy() @ directions.T
        spread = projected.shape[1] * float(projected.var())
        gamma = 1.0 / spread if spread > 0 else 1.0
        region = SVC(gamma=gamma, random_state=seed % SEEDS).fit(projected, labels.numpy())
        axes = as_tensor(directions) @ basis
        return {
            "axes": axes,
            "centre": axes @ mean,
            "support": as_tensor(region.support_vectors_),
            "dual": as_tensor(region.dual_coef_[0]),
            "gamma": torch.tensor(gamma, dtype=torch.float64),
            "intercept": as_tensor(region.intercept_[0]),
        }

    def decisions(self, learnt: Mapping[str, Tensor], features: Tensor) -> Tensor:
        """The kernel expansion, (N, C)."""
        projected = torch.einsum("nd,ckd->cnk", features, learnt["axes"]) - learnt["centre"][:, None, :]
        distance = torch.cdist(projected, learnt["support"], compute_mode="donot_use_mm_for_euclid_dist")
        kernel = torch.exp(-learnt["gamma"][:, None, None] * distance.square())
        return torch.einsum("cns,cs->nc", kernel, learnt["dual"]) + learnt["intercept"]


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class ConceptSensitivity(LinearConcepts):
    """The derivative of the score along each concept's activation vector: e_c(x) = ∇_h f(h(x)) · w_c / |w_c|, (N, C).

    One backward pass from the score to the layer serves all concepts. Invariant if the layer is.
    """

    name = "tcav"
    reference = "Kim et al. 2018, arXiv:1711.11279"

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1, backward=1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Also raise if the score has no gradient at the layer."""
        notes = super().check(model, inputs, targets, context)
        with evaluating(model):
            gradients_at_layer(model, self.layer, inputs, targets, context.structure)
        return notes

    def values(self, learnt: Mapping[str, Tensor], model: nn.Module, x: Tensor, targets: Tensor, structure: Structure) -> Tensor:
        directions = learnt["weights"] / learnt["weights"].norm(dim=1, keepdim=True)
        slopes: Tensor = gradients_at_layer(model, self.layer, x, targets, structure).double() @ directions.T
        return slopes


def gradients_at_layer(model: nn.Module, layer: str, inputs: Tensor, targets: Tensor, structure: Structure = ()) -> Tensor:
    """The gradient of each row's score in the layer's output, flattened: (N, units)."""
    outputs: list[Tensor] = []

    def record(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        outputs.append(output.detach().requires_grad_())
        return outputs[-1].clone()

    with layer_of(model, layer).register_forward_hook(record), torch.enable_grad():
        score = pick(model(inputs.detach(), *structure), targets).sum()
    gradient = torch.autograd.grad(score, outputs[-1], allow_unused=True)[0] if outputs and score.requires_grad else None
    if gradient is None:
        raise InputError(f"tcav needs a layer that leads to the score, but the score does not depend on the layer '{layer}'.")
    return gradient.flatten(1)


def tcav_scores(sensitivities: Tensor, labels: Tensor, classes: int) -> Tensor:
    """The TCAV score of each class and concept: the share of the class's samples with a positive sensitivity.

    From sensitivities (N, C) and labels (N,) to (classes, C). Undefined sensitivities are left out; a class without
    samples is NaN.

    >>> tcav_scores(torch.tensor([[1.0, -2.0], [3.0, 0.5], [-1.0, 4.0]]), torch.tensor([0, 0, 1]), classes=3)
    tensor([[1.0000, 0.5000],
            [0.0000, 1.0000],
            [   nan,    nan]], dtype=torch.float64)
    """
    member = torch.nn.functional.one_hot(labels.long(), classes).T.double()
    return (member @ (sensitivities > 0).double()) / (member @ sensitivities.isfinite().double())
