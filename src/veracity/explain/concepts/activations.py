"""Linear classifiers of concepts: a hyperplane in the layer's space, whose normal is the concept's activation vector.

Concept activation vectors: is the concept on this side of a hyperplane?

Concept activation regions: is the concept in this part of the layer's space?

How much a score grows along each concept's activation vector.
"""

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
from veracity.explain.concepts.base import SEEDS, ConceptExplainer
from veracity.explain.passes import Structure, by_rows, pick

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


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class CAV(LinearConcepts):
    """Which concepts a linear classifier sees in a layer: e_c(x) = [w_c · h(x) + b_c > 0], bits (N, C).

    Invariant if the layer is (Proposition D.14); what is learnt and what is left out: see `ConceptExplainer`.
    """

    name = "cav"
    reference = "Kim et al. 2018, arXiv:1711.11279"
    categorical = True

    @property
    def signed(self) -> bool:
        """Zero or one."""
        return False


NOISE = 1e-10
"""A principal component with a smaller share of the first one's length is rounding, and its direction arbitrary."""


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class CAR(ConceptExplainer):
    """Which concepts a kernel classifier sees in a layer: e_c(x) = [Σ_i a_i exp(-γ |P h(x) - s_i|²) + b > 0], bits (N, C).

    P is the projection on the first `components` principal components of the fitted examples (where fewer vary, on
    those), s_i the support vectors of a support vector classifier with the Gaussian kernel and
    scikit-learn's default settings, γ = 1 / (k var) (appendix F). Invariant if the layer is (Proposition D.14).
    """

    name = "car"
    reference = "Crabbé and van der Schaar 2022, arXiv:2209.11222"
    categorical = True
    components: Count = 10

    @property
    def signed(self) -> bool:
        """Zero or one."""
        return False

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on settings that do not fit."""
        return super().check(model, inputs, targets, context)

    def fit(self, features: Tensor, labels: Tensor, seed: int) -> dict[str, Tensor]:
        """The region of one concept: axes (k, d), centre (k,), support (S, k), dual (S,), gamma () and intercept ()."""
        from sklearn.decomposition import PCA
        from sklearn.svm import SVC

        mean = features.mean(0)
        rows, basis = in_their_span(features - mean)
        with np.errstate(invalid="ignore"):
            projection = PCA(min(self.components, max(1, len(rows) - 1), rows.shape[1]), svd_solver="full").fit(rows.numpy())
        solid = projection.singular_values_ > NOISE * projection.singular_values_[0]
        solid[0] = True
        directions = projection.components_[solid]
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


def in_their_span(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (n, d) as coordinates (n, m) in an orthonormal basis (m, d) of their span, m = min(n, d): the same geometry in less room."""
    count, width = rows.shape
    if width <= count:
        return rows, torch.eye(width, dtype=rows.dtype)
    basis, coordinates = torch.linalg.qr(rows.T)
    return coordinates.T, basis.T


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class ConceptSensitivity(LinearConcepts):
    """The derivative of the score along each concept's activation vector: e_c(x) = ∇_h f(h(x)) · w_c / |w_c|, (N, C).

    One backward pass from the score to the layer serves all concepts. Real-valued; invariant if the layer is.
    """

    name = "tcav"
    reference = "Kim et al. 2018, arXiv:1711.11279"

    def cost(self, shape: Size) -> Cost:
        """One pass each way, back to the layer."""
        return Cost(forward=1, backward=1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise also if the score has no gradient at the layer."""
        notes = super().check(model, inputs, targets, context)
        with evaluating(model):
            layer_gradients(model, self.layer, inputs, targets, context.structure)
        return notes

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Sensitivities (N, T), one for each concept that can be told from the layer, in the order of the concepts."""
        learnt = self.trusted(context, inputs.device)
        if not learnt["trusted"].any():
            return inputs.new_full((len(inputs), 1), float("nan"))
        directions = learnt["weights"] / learnt["weights"].norm(dim=1, keepdim=True)

        def along(x: Tensor, target: Tensor, structure: Structure) -> Tensor:
            slopes: Tensor = layer_gradients(model, self.layer, x, target, structure).double() @ directions.T
            return slopes

        return by_rows(along, inputs, targets, context.batch, context.structure).to(inputs.dtype)


def layer_gradients(model: nn.Module, layer: str, inputs: Tensor, targets: Tensor, structure: Structure = ()) -> Tensor:
    """The gradient of each row's score in what the layer gave, flattened: (N, units)."""
    seen: list[Tensor] = []

    def cut(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        seen.append(output.detach().requires_grad_())
        return seen[-1].clone()

    handle = layer_of(model, layer).register_forward_hook(cut)
    try:
        with torch.enable_grad():
            score = pick(model(inputs.detach(), *structure), targets).sum()
    finally:
        handle.remove()
    gradient = torch.autograd.grad(score, seen[-1], allow_unused=True)[0] if seen and score.requires_grad else None
    if gradient is None:
        raise InputError(f"tcav needs a layer on the way to the score, but the score does not depend on the layer '{layer}'.")
    return gradient.flatten(1)


def tcav_scores(sensitivities: Tensor, labels: Tensor, classes: int) -> Tensor:
    """The TCAV score of each class and concept: the share of the class's samples whose sensitivity is positive.

    From sensitivities (N, C) and labels (N,) to (classes, C). Undefined sensitivities are left out; a class without
    any is NaN.

    >>> tcav_scores(torch.tensor([[1.0, -2.0], [3.0, 0.5], [-1.0, 4.0]]), torch.tensor([0, 0, 1]), classes=3)
    tensor([[1.0000, 0.5000],
            [0.0000, 1.0000],
            [   nan,    nan]], dtype=torch.float64)
    """
    member = torch.nn.functional.one_hot(labels.long(), classes).T.double()
    return (member @ (sensitivities > 0).double()) / (member @ sensitivities.isfinite().double())
