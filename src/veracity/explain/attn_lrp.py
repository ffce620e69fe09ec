"""AttnLRP: layer-wise relevance propagation with rules for attention and normalisation, for transformers on texts and images.

As in `lrp`, the gradient c at a tensor a stands for the relevance R = a ⊙ c, and rules are inserted while the model runs. The softmax
needs no rule: R_i = x_i (R_i - s_i Σ R_j) is its ordinary gradient. Products share relevance equally (uniform rule), which halves the
gradient. The deviation in a normalisation is a constant (identity rule).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context
from veracity.core.models import evaluating, unwrap, word_embedding
from veracity.core.registry import EXPLAINERS
from veracity.explain.attention import over_units
from veracity.explain.gradients import GradientBased
from veracity.explain.lrp import LEAST_INPUT, PROPORTIONAL, LRPEpsilon, Relevance, away_from_zero, has_no_rule, with_scaled_gradient
from veracity.explain.nonlinear import NONLINEAR, SUFFIXES
from veracity.explain.passes import Structure, hooks, in_batches, pick, select
from veracity.inputs.text import GatedText

ACTIVATIONS = "transformers.activations"
"""The module of transformers whose classes are activations, some of them written as products."""
BILINEAR = re.compile(r"_*(r?mul|multiply|r?matmul|b?mm|einsum)_*")
LINEAR_IN_ONE = re.compile(r"_*(r?matmul|b?mm|mv|(a|ba)ddb?mm)_*")
ROOTS = re.compile(r"r?sqrt")
GRADIENTS = ("softmax", "scaled_dot_product_attention")
"""Steps whose rule is their gradient; attention shares relevance before."""


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class AttnLrp(LRPEpsilon):
    """Relevance of every token, propagated back through attention: the sum of E ⊙ c over the dimensions of its embedding E.

    Linear layers follow the ε rule, curved activations pass relevance unchanged, and products of two activations (queries and keys,
    attention and values, gated layers) share it equally. The softmax follows its Taylor expansion, which is its gradient. LayerNorm
    and RMSNorm pass relevance as linear maps, in which the deviation is a constant. Relevance of biases and special tokens is not
    shown. On images every number of the input gets relevance. A model with another step is refused.
    """

    name = "attn_lrp"
    reference = "Achtibat et al. 2024, arXiv:2402.05602"

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise if a step between the input and the score has no rule."""
        GradientBased.check(self, model, inputs, targets, context)
        with evaluating(model):
            score, _, relevance = self.forward(model, inputs[:1], targets[:1], select(context.structure, slice(1)))
        missing = relevance.products + steps_without_rule(score)
        what = type(unwrap(model)).__name__
        if missing:
            steps = ", ".join(f"{name} x{count}" for name, count in sorted(missing.items()))
            raise InputError(
                f"{self.name} has no rule for some steps of {what} ({steps}): use integrated_gradients, or load a model of transformers "
                "with attn_implementation='eager'."
            )
        if not relevance.linear:
            raise InputError(f"{self.name} has no rule for any layer of {what}: it needs linear layers, such as those of a transformer.")
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        def maps(x: Tensor, t: Tensor, structure: Structure) -> Tensor:
            score, point, _ = self.forward(model, x, t, structure)
            (gradient,) = torch.autograd.grad(score, point)
            relevance = point.detach() * gradient
            return relevance if point.shape == x.shape else over_units(relevance.sum(-1), structure[1], x.shape[1]).to(x)

        return in_batches(maps, inputs, targets, context.batch, context.structure)

    def forward(self, model: nn.Module, inputs: Tensor, targets: Tensor, structure: Structure) -> tuple[Tensor, Tensor, AttentionRelevance]:
        """The summed score in the graph of the rules, the tensor whose relevance is asked for, and the rules that were used.

        That tensor is the input, or for texts (N, T, width), the word embeddings behind their gates.
        """
        relevance, text = AttentionRelevance(self.rule), any(isinstance(part, GatedText) for part in model.modules())
        leaf = inputs.detach().requires_grad_(not text)
        with ExitStack() as stack:
            stack.enter_context(frozen(model))
            embedded = stack.enter_context(embeddings(word_embedding(model))) if text else [leaf]
            stack.enter_context(whole_activations(model))
            stack.enter_context(torch.enable_grad())
            stack.enter_context(relevance)
            score = pick(model(leaf.clone(), *structure), targets).sum()
        if len(embedded) != 1:
            raise InputError(f"{self.name} needs a model that looks up its word embeddings once, not {len(embedded)} times.")
        return score, embedded[0], relevance


class AttentionRelevance(Relevance):
    """While active, products of activations, normalisations and attention have the gradients of AttnLRP too."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        active = sum(isinstance(one, Tensor) and one.requires_grad for one in flat((*args, *kwargs.values())))
        if func is functional.scaled_dot_product_attention:
            return attention(*args, **kwargs)
        if not active:
            return func(*args, **kwargs)
        if func is functional.layer_norm:
            return layer_norm(*args, **kwargs)
        if func is getattr(functional, "rms_norm", None):
            return rms_norm(*args, **kwargs)
        if ROOTS.fullmatch(name):
            return func(*map(constant, args), **{key: constant(one) for key, one in kwargs.items()})
        if active == 2 and BILINEAR.fullmatch(name) and not in_place(name):
            return shared(func(*args, **kwargs))
        if active == 1 and LINEAR_IN_ONE.fullmatch(name):
            self.linear += 1
            value = func(*args, **kwargs)
            return self.rule(lambda x, *_: x, value, value, None)
        if has_no_rule(name, (*args, *kwargs.values())):
            self.products[name.strip("_")] += 1
            return func(*args, **kwargs)
        return super().__torch_function__(func, types, args, kwargs)


def attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Attention in one step: queries and keys take part in two products, values in one."""
    query, key, value = shared(query, 0.25), shared(key, 0.25), shared(value)
    return functional.scaled_dot_product_attention(query, key, value, *args, **kwargs)


def constant(value: Any) -> Any:
    """A tensor without its graph; anything else stays."""
    return value.detach() if isinstance(value, Tensor) else value


def flat(args: Sequence[Any]) -> Iterator[Any]:
    """The arguments of a function, and those in its lists."""
    for one in args:
        yield from one if isinstance(one, (list, tuple)) else (one,)


def in_place(name: str) -> bool:
    """Whether a function works on its first argument.

    >>> in_place("mul_"), in_place("__imul__"), in_place("__mul__")
    (True, True, False)
    """
    return name.startswith("__i") or (name.endswith("_") and not name.endswith("__"))


def shared(value: Tensor, part: float = 0.5) -> Tensor:
    """A product of two activations, or one of them, which gets its part of the relevance: of two, half of the gradient."""
    return with_scaled_gradient(value, value, torch.tensor(part, dtype=value.dtype, device=value.device)) if value.requires_grad else value


class LinearNorm(torch.autograd.Function):
    """LayerNorm with the gradient of a linear map, in which the deviation is a constant."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
        value, _, inverse = torch.native_layer_norm(x, shape, weight, bias, eps)
        ctx.save_for_backward(inverse.to(x.dtype) if weight is None else inverse.to(x.dtype) * weight)
        ctx.axes = tuple(range(-len(shape), 0))
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None, None, None, None]:
        (factor,) = ctx.saved_tensors
        found = gradients[0] * factor
        return found - found.mean(ctx.axes, keepdim=True), None, None, None, None


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """LayerNorm with a deviation that is a constant."""
    found: Tensor = LinearNorm.apply(input, list(normalized_shape), weight, bias, eps)  # type: ignore[no-untyped-call]
    return found


def rms_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """RMSNorm with a deviation that is a constant."""
    axes = tuple(range(-len(normalized_shape), 0))
    floor = torch.finfo(input.dtype).eps if eps is None else eps
    found = input * (input.detach().square().mean(axes, keepdim=True) + floor).rsqrt()
    return found if weight is None else found * weight


def steps_without_rule(score: Tensor) -> Counter[str]:
    """The nonlinear steps that relevance would cross by their plain gradients without a rule that says so, by name."""
    found, seen, ahead = Counter[str](), set[Any](), [score.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        name = SUFFIXES.sub("", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", re.sub(r"Backward\d*$", "", node.name())).lower())
        if NONLINEAR.fullmatch(name) and not PROPORTIONAL.fullmatch(name) and name not in GRADIENTS:
            found[name] += 1
        ahead += [one for one, _ in node.next_functions]
    return found


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """The model without gradients in its weights, within this block."""
    weights = [one for one in model.parameters() if one.requires_grad]
    try:
        for one in weights:
            one.requires_grad_(False)
        yield
    finally:
        for one in weights:
            one.requires_grad_()


def passes_unchanged(given: Tensor, output: Tensor) -> bool:
    """Whether an activation is a single step that has its rule already."""
    node = output.grad_fn
    return node is not None and node.name().startswith("ScaledGradient") and node.next_functions[0][0] is given.grad_fn


@contextmanager
def whole_activations(model: nn.Module) -> Iterator[None]:
    """Activations of transformers pass relevance unchanged as a whole, however they are computed."""

    def passes(_module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        if not args or not args[0].requires_grad or passes_unchanged(args[0], output):
            return output
        return with_scaled_gradient(args[0], output, output.detach() / away_from_zero(args[0].detach(), LEAST_INPUT))

    with hooks(part.register_forward_hook(passes) for part in model.modules() if type(part).__module__ == ACTIVATIONS):
        yield


@contextmanager
def embeddings(table: nn.Module) -> Iterator[list[Tensor]]:
    """What the word embedding returns behind all other hooks, such as that of the gates, as leaves of the graph."""
    seen: list[Tensor] = []
    with ExitStack() as stack:

        def keep(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
            seen.append(output.detach().requires_grad_())
            return seen[-1].clone()

        def last(_module: nn.Module, _args: Any) -> None:
            stack.callback(table.register_forward_hook(keep).remove)  # registered now, it comes after the hooks that are there

        stack.callback(table.register_forward_pre_hook(last).remove)
        yield seen
