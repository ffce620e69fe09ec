"""FullGrad: the input's share of the score and that of every bias, laid over each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Size, Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Cost
from veracity.core.models import evaluating
from veracity.core.registry import EXPLAINERS
from veracity.explain.grad_cam import interpolated
from veracity.explain.gradients import GradientBased
from veracity.explain.passes import by_rows, pick

OVER_POSITIONS = (_ConvNd, _BatchNorm, _InstanceNorm, nn.GroupNorm)  # layers with channels on the second axis
GAP = 0.01  # the share of all terms that may be missing before it is said


def bias_of(layer: nn.Module) -> Tensor | None:
    """What a layer adds to its linear part, (K,); for batch normalisation β - γ mean / √(var + eps). None if it adds nothing.

    >>> norm = nn.BatchNorm1d(2, eps=0.0).eval()
    >>> norm.running_mean[:], norm.running_var[:] = 3.0, 4.0
    >>> bias_of(norm)
    tensor([-1.5000, -1.5000])
    """
    if isinstance(layer, _BatchNorm) and layer.running_mean is not None and layer.running_var is not None:
        shift = -layer.running_mean / (layer.running_var + layer.eps).sqrt()
        return (shift if layer.weight is None else shift * layer.weight + layer.bias).detach()
    found = getattr(layer, "bias", None)
    return found.detach() if isinstance(found, Tensor) else None


@dataclass(frozen=True)
class FullGradient:
    """A score (N,) taken apart: `inputs` = x ⊙ ∇f (N, ...), and b ⊙ ∂f/∂b position by position, one tensor a bias.

    over_positions  the biases' terms of layers over positions, (N, K, ...)
    dense           those of dense layers, (N, ..., K)
    """

    score: Tensor
    inputs: Tensor
    over_positions: tuple[Tensor, ...]
    dense: tuple[Tensor, ...]

    @property
    def sums(self) -> Tensor:
        """The sum of each term, (terms, N): for a network of linear layers, ReLU and pooling they add up to the score."""
        return torch.stack([term.flatten(1).sum(1) for term in (self.inputs, *self.over_positions, *self.dense)])


def full_gradient(model: nn.Module, inputs: Tensor, targets: Tensor) -> FullGradient:
    """f(x) = x·∇f(x) + Σ_l b_l·∂f/∂b_l (proposition 1), by one forward and one backward pass.

    >>> layer = nn.Linear(2, 1)
    >>> layer.weight.data[:], layer.bias.data[:] = torch.tensor([[2.0, 3.0]]), 5.0
    >>> found = full_gradient(layer, torch.tensor([[1.0, 10.0]]), torch.tensor([0]))
    >>> found.score.item(), found.inputs.tolist(), found.sums.flatten().tolist()
    (37.0, [[2.0, 30.0]], [32.0, 5.0])
    """
    seen: list[tuple[Tensor, Tensor, bool]] = []

    def keep(layer: nn.Module, _args: Any, output: Tensor, bias: Tensor) -> Tensor:
        spatial = isinstance(layer, OVER_POSITIONS)
        shaped = bias.reshape(-1, *[1] * (output.ndim - 2)) if spatial else bias
        seen.append((output if output.requires_grad else output.requires_grad_(), shaped, spatial))
        return output.clone()

    biases = {layer: bias_of(layer) for layer in model.modules() if isinstance(layer, (*OVER_POSITIONS, nn.Linear))}
    handles = [layer.register_forward_hook(partial(keep, bias=bias)) for layer, bias in biases.items() if bias is not None]
    leaf = inputs.detach().clone().requires_grad_()
    try:
        with torch.enable_grad():
            score = pick(model(leaf.clone()), targets)
            total = score.sum()
    finally:
        for handle in handles:
            handle.remove()
    gradient, *others = torch.autograd.grad(total, [leaf, *(output for output, _, _ in seen)], allow_unused=True)
    used = [(found * bias, spatial) for found, (_, bias, spatial) in zip(others, seen, strict=True) if found is not None]
    first = torch.zeros_like(leaf) if gradient is None else gradient * leaf.detach()
    return FullGradient(
        score.detach(), first, tuple(term for term, spatial in used if spatial), tuple(term for term, spatial in used if not spatial)
    )


def rescaled(term: Tensor) -> Tensor:
    """The absolute value, brought to [0, 1] over all channels and positions of a row; zero where it is the same everywhere.

    >>> rescaled(torch.tensor([[[-1.0, 3.0, 5.0]]]))
    tensor([[[0.0000, 0.5000, 1.0000]]])
    """
    size, axes = term.abs(), tuple(range(1, term.ndim))
    low, high = size.amin(axes, keepdim=True), size.amax(axes, keepdim=True)
    return (size - low) / torch.where(high > low, high - low, 1.0)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class FullGrad(GradientBased):
    """The terms of f(x) = x·∇f(x) + Σ_l b_l·∂f/∂b_l as maps: e(x) = Σ_c ψ(x ⊙ ∇f) + Σ_l Σ_c ψ(b_l ⊙ ∂f/∂b_l).

    ψ is the absolute value brought to [0, 1] over a row's channels and positions, then interpolated linearly to the input's
    size (corners not aligned). l runs over the biases of convolutions and normalisations, that of batch normalisation being
    β - γ mean / √(var + eps); dense layers have no positions and are left out of the map. It is the same in every channel.
    """

    name = "full_grad"
    reference = "Srinivas and Fleuret 2019, arXiv:1905.00780"

    @property
    def signed(self) -> bool:
        """Absolute values."""
        return False

    def cost(self, shape: Size) -> Cost:
        """One pass each way."""
        return Cost(forward=1, backward=1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless inputs have positions and a gradient; say if the terms do not add up to the score."""
        if inputs.ndim < 3:
            raise InputError(f"full_grad needs images (C, H, W) or series (C, T), but an input has shape {tuple(inputs.shape[1:])}.")
        super().check(model, inputs, targets, context)
        with evaluating(model):
            found = full_gradient(model, inputs[:1], targets[:1])
        missing = float((found.score - found.sums.sum(0)).abs() / found.sums.abs().sum(0).clamp(min=1e-30))
        if missing <= GAP:
            return ()
        return (
            f"The terms of full_grad miss the first input's score by {missing:.0%} of their size: this model has biases outside of "
            "layers, or steps other than linear ones, ReLU and pooling.",
        )

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Maps of the inputs' shape, at least zero."""
        return by_rows(lambda x, t, _: self.maps(model, x, t), inputs, targets, context.batch)

    def maps(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The map of these rows."""
        found, space = full_gradient(model, inputs, targets), inputs.shape[2:]
        result = rescaled(found.inputs).sum(1, keepdim=True)
        for term in found.over_positions:
            if term.ndim == inputs.ndim:
                result = result + interpolated(rescaled(term).sum(1, keepdim=True), space)
        return result.expand_as(inputs).contiguous()
