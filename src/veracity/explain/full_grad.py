"""FullGrad: the contributions of the input and of every bias to the score, added up as maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm

from veracity.core.explainers import BARE, Context
from veracity.core.models import evaluating
from veracity.core.registry import EXPLAINERS
from veracity.explain.grad_cam import resize
from veracity.explain.gradients import GradientBased
from veracity.explain.masking import require_positions
from veracity.explain.passes import hooks, in_batches, pick

SPATIAL_LAYERS = (_ConvNd, _BatchNorm, _InstanceNorm, nn.GroupNorm)  # channels on the second axis
TOLERATED_GAP = 0.01  # the share of all terms that may be missing before `check` reports it


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class FullGrad(GradientBased):
    """The terms of f(x) = x·∇f(x) + Σ_l b_l·∂f/∂b_l as maps: e(x) = Σ_c ψ(x ⊙ ∇f) + Σ_l Σ_c ψ(b_l ⊙ ∂f/∂b_l).

    ψ is the absolute value scaled to [0, 1] over a row's channels and positions, then interpolated linearly to the input's
    size (corners not aligned). l runs over the biases of convolutions and normalisations; the bias of batch normalisation is
    β - γ mean / √(var + eps). Dense layers have no positions and are left out of the map. All channels have the same map.
    """

    name = "full_grad"
    reference = "Srinivas and Fleuret 2019, arXiv:1905.00780"
    signed = False

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless inputs have positions and a gradient; report terms that do not add up to the score."""
        require_positions(self.name, inputs)
        super().check(model, inputs, targets, context)
        with evaluating(model):
            terms = full_gradient(model, inputs[:1], targets[:1])
        missing = float((terms.score - terms.sums.sum(0)).abs() / terms.sums.abs().sum(0).clamp(min=1e-30))
        if missing <= TOLERATED_GAP:
            return ()
        return (
            f"The terms of full_grad miss the first input's score by {missing:.0%} of their size: this model has biases outside of "
            "layers, or steps other than linear layers, ReLU and pooling.",
        )

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        def explain_rows(x: Tensor, t: Tensor, _: Any) -> Tensor:
            terms = full_gradient(model, x, t)
            maps = [scale_to_unit(term).sum(1, keepdim=True) for term in (terms.inputs, *terms.spatial) if term.ndim == x.ndim]
            return sum((resize(one, x.shape[2:]) for one in maps[1:]), maps[0]).expand_as(x).contiguous()

        return in_batches(explain_rows, inputs, targets, context.batch)


@dataclass(frozen=True)
class FullGradient:
    """The decomposition of a score (N,): x ⊙ ∇f in `inputs` (N, ...), and one tensor b ⊙ ∂f/∂b per bias.

    spatial   the terms of convolutions and normalisations, (N, K, ...)
    dense     the terms of dense layers, (N, ..., K)
    """

    score: Tensor
    inputs: Tensor
    spatial: tuple[Tensor, ...]
    dense: tuple[Tensor, ...]

    @property
    def sums(self) -> Tensor:
        """The sum of each term, (terms, N). For linear layers, ReLU and pooling they add up to the score."""
        return torch.stack([term.flatten(1).sum(1) for term in (self.inputs, *self.spatial, *self.dense)])


def full_gradient(model: nn.Module, inputs: Tensor, targets: Tensor) -> FullGradient:
    """f(x) = x·∇f(x) + Σ_l b_l·∂f/∂b_l (proposition 1), by one forward and one backward pass.

    >>> layer = nn.Linear(2, 1)
    >>> layer.weight.data[:], layer.bias.data[:] = torch.tensor([[2.0, 3.0]]), 5.0
    >>> terms = full_gradient(layer, torch.tensor([[1.0, 10.0]]), torch.tensor([0]))
    >>> terms.score.item(), terms.inputs.tolist(), terms.sums.flatten().tolist()
    (37.0, [[2.0, 30.0]], [32.0, 5.0])
    """
    outputs: list[tuple[Tensor, Tensor, bool]] = []

    def record(layer: nn.Module, _args: Any, output: Tensor, bias: Tensor) -> Tensor:
        spatial = isinstance(layer, SPATIAL_LAYERS)
        shaped = bias.reshape(-1, *[1] * (output.ndim - 2)) if spatial else bias
        outputs.append((output if output.requires_grad else output.requires_grad_(), shaped, spatial))
        return output.clone()

    biases = {layer: layer_bias(layer) for layer in model.modules() if isinstance(layer, (*SPATIAL_LAYERS, nn.Linear))}
    leaf = inputs.detach().clone().requires_grad_()
    with (
        hooks(layer.register_forward_hook(partial(record, bias=bias)) for layer, bias in biases.items() if bias is not None),
        torch.enable_grad(),
    ):
        score = pick(model(leaf.clone()), targets)
        total = score.sum()
    gradient, *others = torch.autograd.grad(total, [leaf, *(output for output, _, _ in outputs)], allow_unused=True)
    terms = [(slope * bias, spatial) for slope, (_, bias, spatial) in zip(others, outputs, strict=True) if slope is not None]
    first = torch.zeros_like(leaf) if gradient is None else gradient * leaf.detach()
    groups = (tuple(term for term, spatial in terms if spatial is kind) for kind in (True, False))
    return FullGradient(score.detach(), first, *groups)


def layer_bias(layer: nn.Module) -> Tensor | None:
    """What a layer adds to its linear part, (K,); None if nothing. For batch normalisation β - γ mean / √(var + eps).

    >>> norm = nn.BatchNorm1d(2, eps=0.0).eval()
    >>> norm.running_mean[:], norm.running_var[:] = 3.0, 4.0
    >>> layer_bias(norm)
    tensor([-1.5000, -1.5000])
    """
    if isinstance(layer, _BatchNorm) and layer.running_mean is not None and layer.running_var is not None:
        shift = -layer.running_mean / (layer.running_var + layer.eps).sqrt()
        return (shift if layer.weight is None else shift * layer.weight + layer.bias).detach()
    bias = getattr(layer, "bias", None)
    return bias.detach() if isinstance(bias, Tensor) else None


def scale_to_unit(term: Tensor) -> Tensor:
    """The absolute value, scaled to [0, 1] over all channels and positions of a row; zero if it is constant.

    >>> scale_to_unit(torch.tensor([[[-1.0, 3.0, 5.0]]]))
    tensor([[[0.0000, 0.5000, 1.0000]]])
    """
    size, axes = term.abs(), tuple(range(1, term.ndim))
    low, high = size.amin(axes, keepdim=True), size.amax(axes, keepdim=True)
    return (size - low) / torch.where(high > low, high - low, 1.0)
