"""Grad-CAM++: Grad-CAM with a weight for every position of a map, so that several small regions count as one large one does."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from veracity.core.registry import EXPLAINERS
from veracity.explain.grad_cam import LayerMap


def plus_plus_weights(gradient: Tensor, activation: Tensor) -> Tensor:
    """w_k = Σ_ij α_kij (g_kij)⁺ with α_kij = g² / (2 g² + g³ Σ_ab A_kab): (N, K, ...) twice -> (N, K, 1, ...).

    g are the gradients of the score S. For the score exp(S) and a network that is piecewise linear, its derivatives of
    first, second and third order are exp(S) times g, g² and g³, so that exp(S) cancels in α.

    >>> g, a = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[1.0, 1.0]]])
    >>> plus_plus_weights(g, a)
    tensor([[[0.5833]]])
    """
    axes = tuple(range(2, activation.ndim))
    square, total = gradient.square(), activation.sum(axes, keepdim=True)
    below = 2 * square + gradient * square * total
    alpha = torch.where(below != 0, square / below, 0.0)
    return (alpha * functional.relu(gradient)).sum(axes, keepdim=True)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class GradCamPlusPlus(LayerMap):
    """Activations A of a layer, weighted by positive gradients at each position: e(x) = relu(Σ_k w_k A_k), w_k = Σ_ij α_kij (g_kij)⁺.

    α_kij is the closed form for the score exp(S). The common factor exp(S) of all weights is left out: it
    scales a map as a whole, and is infinite from a score of 89 on. Activations below zero count as zero, as after a ReLU,
    so that no α divides by zero. Layer and size are chosen as for grad_cam.

    The stability paper (Fel et al. 2022, appendix B) prints w_k = Σ_ij α_kij, without (g_kij)⁺, and α in derivatives of the
    logit itself, whose second and third are zero in a piecewise linear network. Here it is the original method.
    """

    name = "grad_cam_plus_plus"
    reference = "Chattopadhay et al. 2018, arXiv:1710.11063"

    def combined(self, gradient: Tensor, activation: Tensor) -> Tensor:
        """Positions weighted by α."""
        positive = functional.relu(activation)
        return (plus_plus_weights(gradient, positive) * positive).sum(1, keepdim=True)
