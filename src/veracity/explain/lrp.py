"""Layer-wise relevance propagation, as a gradient in which linear maps and activations have other backward passes.

At every tensor a, the gradient c stands for the relevance R = a ⊙ c. Then sums, means, reshapes, paddings, maxima and
ReLU distribute relevance in proportion by their ordinary gradients; only linear maps and curved activations need rules.
The rules are inserted while the model runs, where torch's functions are called. Nothing is set on the model, and
functional steps are treated like modules.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context
from veracity.core.models import evaluating
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Positive
from veracity.core.snapshot import preserve_state
from veracity.explain.gradients import GradientBased
from veracity.explain.nonlinear import NonlinearSteps
from veracity.explain.passes import Structure, in_batches, pick, select

Op = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""A linear map of an input x with weights and biases."""

Rule = Callable[[Op, Tensor, Tensor, Tensor | None], Tensor]
"""The value of a linear map, with the gradient of the rule."""

CONVOLUTIONS = {functional.conv1d, functional.conv2d, functional.conv3d}
TRANSPOSED = {functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d}
LINEAR: set[Any] = {functional.linear, *CONVOLUTIONS, *TRANSPOSED}
POINTWISE = re.compile(
    r"(hard|log_?|soft)?(sigmoid|tanh|swish)_?|(c|s)?elu_?|gelu|silu_?|mish_?|softplus|softsign|relu6|(tanh|soft|hard)shrink|"
    r"(clamp|clip)(_min|_max)?_?"
)
PROPORTIONAL = re.compile(r"(leaky_|p|r)?relu|(adaptive_)?max_pool\dd|a?max|a?min|maximum|minimum|abs|threshold")
PRODUCTS = re.compile(r"_*(r?mul|r?(true_?)?div(ide)?)_*")
MATRIX_PRODUCTS = re.compile(r"_*(r?matmul|b?mm|mv|(a|ba)ddb?mm|einsum|bilinear|multi_head_attention_forward)_*")
LEAST_POSITIVE = 1e-20  # the z+ rule divides by a positive part above this
LEAST_INPUT = 1e-12  # an activation's input is moved away from zero by this before it divides


@dataclass(frozen=True, kw_only=True)
class LRP(GradientBased, ABC):
    """Relevance that starts as the score and is propagated back layer by layer, with one rule for all linear maps.

    Rules exist for linear layers and convolutions, for batch normalisation (as one map with the layer right before it) and
    for curved activations, which pass relevance unchanged, whether they are modules or not. Sums, pooling, maxima and ReLU
    distribute relevance in proportion by their gradients. Steps without a rule (a softmax, a product of activations) use
    the gradient too, and `check` reports them.
    """

    structured = True

    @abstractmethod
    def rule(self, op: Op, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The value of a linear map, with the gradient of the rule."""

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise if the model has no linear map; count the steps without a rule."""
        super().check(model, inputs, targets, context)
        relevance = Relevance(self.rule)
        with preserve_state(model), evaluating(model), torch.enable_grad(), relevance, relevance.counter:
            model.requires_grad_(False)
            model(inputs[:1].detach().requires_grad_().clone(), *select(context.structure, slice(1)))
        if not relevance.linear:
            raise InputError(
                f"{self.name} has no rule for any layer of this model: it needs linear layers or convolutions, such as nn.Linear and "
                "nn.Conv2d, in a model that is not scripted or compiled."
            )
        missing = {name: count for name, count in relevance.counter.outside.items() if not PROPORTIONAL.fullmatch(name)}
        missing = Counter(missing) + relevance.products
        if not missing:
            return ()
        steps = ", ".join(f"{name} x{count}" for name, count in sorted(missing.items()))
        return (f"{self.name} has no rule for some steps of this model ({steps}): relevance follows the plain gradient there.",)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return in_batches(lambda x, t, s: propagate(model, x, t, s, self.rule), inputs, targets, context.batch, context.structure)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class LRPEpsilon(LRP):
    """Relevance in proportion to contributions, damped if they cancel: R_i = Σ_j x_i w_ij / (z_j + ε sign z_j) R_j.

    z_j = Σ_i x_i w_ij + b_j. For ReLU networks and ε → 0 it is the input times the gradient. Without biases it sums to the score.
    """

    name = "lrp_epsilon"
    reference = "Bach et al. 2015, PLOS ONE 10(7), eq. 58"
    epsilon: Positive = 1e-6

    def rule(self, op: Op, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        z = op(x, weight, bias)
        return with_scaled_gradient(z, z, z / away_from_zero(z, self.epsilon))


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class LRPZPlus(LRP):
    """Relevance in proportion to positive contributions only: R_i = Σ_j (x_i w_ij)⁺ / (Σ_i' (x_i' w_i'j)⁺ + b_j⁺) R_j.

    Negative inputs contribute through negative weights. Positive biases absorb a share of the relevance. Without biases
    relevance sums to the score, if anything contributes.
    """

    name = "lrp_z_plus"
    reference = "Montavon et al. 2017, Pattern Recognition 65; Bach et al. 2015 (alpha 1, beta 0)"

    def rule(self, op: Op, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        z = op(x.detach(), weight, bias)
        positive = op(functional.relu(x), weight.clamp(min=0), None if bias is None else bias.clamp(min=0))
        if bool((x < 0).any()):
            positive = positive + op(-functional.relu(-x), weight.clamp(max=0), None)
        return with_scaled_gradient(positive, z, torch.where(positive > LEAST_POSITIVE, z / positive, 0.0))


class ScaledGradient(torch.autograd.Function):
    """The value of one tensor with the gradient of another, times a factor."""

    @staticmethod
    def forward(ctx: Any, carrier: Tensor, value: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(factor)
        return value.clone()  # the next step may work in place

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None, None]:
        (factor,) = ctx.saved_tensors
        return gradients[0] * factor, None, None


def with_scaled_gradient(carrier: Tensor, value: Tensor, factor: Tensor) -> Tensor:
    """`value`, whose gradient c reaches the carrier as c ⊙ factor."""
    result: Tensor = ScaledGradient.apply(carrier, value.detach(), factor.detach())  # type: ignore[no-untyped-call]
    return result


def away_from_zero(values: Tensor, distance: float) -> Tensor:
    """Each value moved away from zero: v + distance · sign(v), with sign(0) = 1.

    >>> away_from_zero(torch.tensor([-2.0, 0.0]), 0.5)
    tensor([-2.5000,  0.5000])
    """
    return torch.where(values < 0, values - distance, values + distance)


def has_no_rule(name: str, args: tuple[Any, ...]) -> bool:
    """Whether this is a product of two activations, or a matrix product with weights."""
    matrices = MATRIX_PRODUCTS.fullmatch(name) is not None
    if not matrices and not PRODUCTS.fullmatch(name):
        return False
    active = [isinstance(arg, Tensor) and arg.grad_fn is not None for arg in args]
    return sum(active) > 1 or (matrices and any(active) and any(isinstance(arg, nn.Parameter) for arg in args))


class Relevance(TorchFunctionMode):
    """While active, linear maps, batch normalisation and curved activations have the gradients of LRP.

    linear    counts the linear maps
    products  counts the products without a rule, by name
    counter   counts the nonlinear steps outside of the rules, if it is active too
    """

    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self.rule, self.counter = rule, NonlinearSteps()
        self.linear, self.products = 0, Counter[str]()
        self.maps: dict[int, tuple[Tensor, int, Op, Tensor, Tensor, Tensor | None]] = {}  # an output, its version, and the map that made it

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        x, name = args[0] if args else kwargs.get("input"), getattr(func, "__name__", "")
        if has_no_rule(name, (*args, *kwargs.values())):
            self.products[name.strip("_")] += 1
        if not isinstance(x, Tensor) or not x.requires_grad:
            return func(*args, **kwargs)
        if func in LINEAR:
            return self.linear_map(func, args, kwargs)
        if func is functional.batch_norm:
            return self.batch_norm(args, kwargs)
        if POINTWISE.fullmatch(name):
            return self.activation(func, x, args, kwargs)
        return func(*args, **kwargs)

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Operations inside are not counted as steps without a rule."""
        self.counter.depth += 1
        try:
            yield
        finally:
            self.counter.depth -= 1

    def linear_map(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """A linear layer or a convolution."""
        names = ("input", "weight", "bias")
        options: dict[str, Any] = {"bias": None, **kwargs, **dict(zip(names, args, strict=False))}
        x, weight, bias = (options.pop(name) for name in names)

        def op(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
            result: Tensor = func(x, weight, bias, *args[3:], **options)
            return result

        self.linear += 1
        with self.uncounted():
            weight, bias = weight.detach(), None if bias is None else bias.detach()
            output = self.rule(op, x, weight, bias)
        if func in CONVOLUTIONS or (func is functional.linear and output.ndim == 2):
            self.maps[id(output)] = (output, output._version, op, x, weight, bias)
        return output

    def batch_norm(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Normalisation by running statistics: one linear map with the layer right before it, or a linear map of its own."""
        names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
        given = {"weight": None, "bias": None, "training": False, "eps": 1e-5, **kwargs, **dict(zip(names, args, strict=False))}
        x, mean, variance = given["input"], given["running_mean"], given["running_var"]
        if given["training"] or mean is None or variance is None:
            return functional.batch_norm(*args, **kwargs)
        with self.uncounted():
            scale = (variance + given["eps"]).rsqrt() * (1.0 if given["weight"] is None else given["weight"].detach())
            shift = (0.0 if given["bias"] is None else given["bias"].detach()) - mean * scale
            if id(x) in self.maps and self.maps[id(x)][1] == x._version:
                _, _, op, before, weight, bias = self.maps[id(x)]
                weight = weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
                return self.rule(op, before, weight, shift if bias is None else bias * scale + shift)
            shape = (-1, *[1] * (x.ndim - 2))
            return self.rule(lambda x, w, b: x * w if b is None else x * w + b, x, scale.reshape(shape), shift.reshape(shape))

    def activation(self, func: Any, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """A curved activation a(z), which passes relevance unchanged: c ⊙ a / z."""
        with self.uncounted():
            z = x.detach()
            value = func(z.clone(), *args[1:], **kwargs) if args else func(**{**kwargs, "input": z.clone()})
            result = with_scaled_gradient(x, value, value / away_from_zero(z, LEAST_INPUT))
        in_place = kwargs.get("inplace", False) or func.__name__.endswith("_")
        return x.copy_(result) if in_place else result


def propagate(model: nn.Module, points: Tensor, targets: Tensor, structure: Structure, rule: Rule) -> Tensor:
    """The relevance of each number of a point for the point's score, (R, ...): the point times the rules' gradient.

    >>> net = nn.Linear(2, 1, bias=False)
    >>> net.weight.data = torch.tensor([[2.0, -1.0]])
    >>> x, target = torch.tensor([[1.0, 1.0]]), torch.tensor([0])
    >>> propagate(net, x, target, (), LRPEpsilon(epsilon=1.0).rule), propagate(net, x, target, (), LRPZPlus().rule)
    (tensor([[ 1.0000, -0.5000]]), tensor([[1., 0.]]))
    """
    leaf = points.detach().requires_grad_()
    with torch.enable_grad(), Relevance(rule):
        score = pick(model(leaf.clone(), *structure), targets).sum()
    (gradient,) = torch.autograd.grad(score, leaf)
    return leaf.detach() * gradient
