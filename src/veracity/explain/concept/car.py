"""Concept activation regions: is the concept in this part of the layer's space?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, as_tensor, nn

from veracity.core.explainers import BARE, Context
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.explain.concept.base import SEEDS, ConceptExplainer

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
