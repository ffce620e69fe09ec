"""Attention as an explanation, for models of `transformers`: the last layer's weights, and their rollout through all layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.models import evaluating, real_positions
from veracity.core.registry import EXPLAINERS
from veracity.explain.passes import Structure, hooks, in_batches

EAGER = "eager"


@dataclass(frozen=True, kw_only=True)
class AttentionMap(Explainer, ABC):
    """How much the token that the classifier reads attends to every part of the input.

    That token is number `row`: 0 for a [CLS] token at the start, -1 for the last token of models that read from left to right. Special
    tokens count, padding does not. A text gets one number per token or word, the sum over its pieces. An image gets the number of each
    patch at all its pixels, in every channel. Attention does not depend on the explained class.
    """

    structured = True
    signed = False
    row: int = 0

    @abstractmethod
    def combine(self, layers: Sequence[Tensor]) -> Tensor:
        """One matrix of attention (N, T, T) from those of all layers, (N, heads, T, T) each."""

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless the model is a transformer whose tokens are those of the input."""
        with evaluating(model):
            self.maps(model, inputs[:1], tuple(part[:1] for part in context.structure))
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return in_batches(lambda x, _, s: self.maps(model, x, s), inputs, targets, context.batch, context.structure)

    @torch.no_grad()
    def maps(self, model: nn.Module, inputs: Tensor, structure: Structure) -> Tensor:
        """The maps of one batch, by one forward pass."""
        inner = transformer_of(self.name, model)
        with eager_attention(self.name, inner), attention_of(inner) as layers:
            model(inputs.detach(), *structure)
        if not layers or len({layer.shape for layer in layers}) > 1:
            raise InputError(f"{self.name} needs one matrix of attention over all tokens per layer, and {type(inner).__name__} gives none.")
        matrix = self.combine(layers)
        if inputs.ndim == 2 and len(structure) > 1:
            read = token_row(matrix, self.row, real_positions(model, inputs, *structure))
            return over_units(read, structure[1], inputs.shape[1]).to(inputs)
        return over_pixels(self.name, matrix[:, self.row], inputs.shape[1:], inner).to(inputs)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Attention(AttentionMap):
    """Attention of the classifier's token in the last layer, the mean over heads.

    It says where the last layer looks, after all layers before it have mixed the tokens; not what the prediction depends on.
    """

    name = "attention"
    reference = "Jain and Wallace 2019, arXiv:1902.10186; Wiegreffe and Pinter 2019, arXiv:1908.04626"

    def combine(self, layers: Sequence[Tensor]) -> Tensor:
        return layers[-1].mean(1)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class AttentionRollout(AttentionMap):
    """Attention followed through all layers: the product of A_l = (mean over heads + I) / 2, from the last layer to the first.

    The identity stands for the connection around each layer. What a layer does to the values of its tokens is ignored.
    """

    name = "attention_rollout"
    reference = "Abnar and Zuidema 2020, arXiv:2005.00928"

    def combine(self, layers: Sequence[Tensor]) -> Tensor:
        same = torch.eye(layers[0].shape[-1], dtype=layers[0].dtype, device=layers[0].device)
        found = same.expand(len(layers[0]), -1, -1)
        for layer in layers:
            mixed = (layer.mean(1) + same) / 2
            found = (mixed / mixed.sum(-1, keepdim=True)) @ found
        return found


def transformer_of(name: str, model: nn.Module) -> Any:
    """The outermost model of `transformers` inside a model and its views; raises if there is none."""
    for part in model.modules():
        if hasattr(part, "set_attn_implementation") and hasattr(part, "config"):
            return part
    raise InputError(f"{name} reads the attention of transformers' models, and there is none in {type(model).__name__}: leave it out.")


@contextmanager
def eager_attention(name: str, inner: Any) -> Iterator[None]:
    """The model with attention that can be read within this block; its own implementation is set again at the end."""
    before = inner.config._attn_implementation
    if before == EAGER:
        yield
        return
    try:
        inner.set_attn_implementation(EAGER)
    except (ValueError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{name} cannot read this model's attention: load it with attn_implementation='eager'.") from error
    try:
        yield
    finally:
        inner.set_attn_implementation(before)


@contextmanager
def attention_of(inner: nn.Module) -> Iterator[list[Tensor]]:
    """The attention (N, heads, T, T) of every layer, in the order of the layers, in one pass of a model within this block.

    The recorders of `transformers` are not used: they stay on the model, and are missing in a process that got the model by pickle.
    """
    seen: list[Tensor] = []

    def keep(_module: nn.Module, _args: Any, output: Any) -> None:
        for part in output if isinstance(output, tuple) else ():
            square = isinstance(part, Tensor) and part.ndim == 4 and part.shape[-1] == part.shape[-2]
            if square and not any(part is one for one in seen):  # a module may hand on what one inside it returned
                seen.append(part)

    with hooks(part.register_forward_hook(keep) for part in inner.modules() if "Attention" in type(part).__name__):
        yield seen


def token_row(matrix: Tensor, row: int, real: Tensor | None) -> Tensor:
    """Row number `row` (N, T) of each matrix (N, T, T), counted over the positions (N, T) that hold a token.

    >>> token_row(torch.eye(3)[None], -1, torch.tensor([[True, True, False]]))
    tensor([[0., 1., 0.]])
    """
    if real is None:
        return matrix[:, row]
    count = real.sum(1, keepdim=True)
    wanted = (count + row if row < 0 else torch.full_like(count, row)).clamp(min=0).minimum(count - 1)
    at = (real & (real.cumsum(1) - 1 == wanted)).long().argmax(1)
    return matrix[torch.arange(len(matrix), device=matrix.device), at]


def over_units(attention: Tensor, units: Tensor, count: int) -> Tensor:
    """The attention (N, T) to the tokens of each unit, summed: (N, count). Tokens of unit -1 are left out.

    >>> over_units(torch.tensor([[0.1, 0.2, 0.3, 0.4]]), torch.tensor([[-1, 0, 1, 1]]), 3)
    tensor([[0.2000, 0.7000, 0.0000]])
    """
    kept = torch.where(units >= 0, attention, 0.0)
    return attention.new_zeros(len(attention), count).scatter_add(1, units.clamp(min=0), kept)


def over_pixels(name: str, attention: Tensor, shape: Size, inner: Any) -> Tensor:
    """The attention (N, T) to each patch of an image, at all its pixels: (N, C, H, W). Tokens before the patches are left out."""
    patch = getattr(inner.config, "patch_size", None)
    if len(shape) != 3 or not isinstance(patch, int):
        raise InputError(f"{name} explains texts (TextInputs) and images in square patches, not inputs of shape {tuple(shape)}.")
    high, wide = shape[1] // patch, shape[2] // patch
    if high * patch != shape[1] or wide * patch != shape[2] or attention.shape[1] < high * wide:
        raise InputError(
            f"{name} found {attention.shape[1]} tokens for images of shape {tuple(shape)} in patches of {patch}: they do not fit."
        )
    grid = attention[:, -high * wide :].reshape(-1, 1, high, wide)
    return grid.repeat_interleave(patch, 2).repeat_interleave(patch, 3).expand(-1, *shape).contiguous()
