"""Explanations that were made elsewhere, and perhaps the explainer that made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import BARE, Context, Cost, Explainer, Frame, GivenMaps, InputObserver
from veracity.core.registry import EXPLAINERS
from veracity.core.spaces import InputSpace
from veracity.explain.wrapper import Wrapper, computed


@dataclass(frozen=True, kw_only=True)
class NoExplainer(Explainer):
    """The inner explainer of `Precomputed` if there are only maps: it can explain nothing else."""

    name = "no_explainer"
    structured = True
    signed = False

    def cost(self, shape: Size) -> Cost:
        return Cost()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        raise InputError(
            "precomputed holds explanations of the unperturbed inputs only. Scores that explain anything else need the explainer, "
            "Precomputed(maps=..., explainer=...); pixel_flipping, faithfulness_correlation and complexity do not."
        )


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Precomputed(GivenMaps, InputObserver, Wrapper):
    """Explanations of the audit's inputs that were made elsewhere: `maps` (samples, ...), in the order of the inputs.

    They are the explanations of the unperturbed inputs. The `explainer` explains everything else: perturbed inputs, other
    weights, other targets. Without one, only scores that need no further explanation can be measured.
    """

    name = "precomputed"
    maps: Tensor | None = None
    explainer: Explainer | None = None

    signed: ClassVar[bool] = computed(lambda self: bool((self.given < 0).any()) or self.inner.signed)

    @property
    def inner(self) -> Explainer:
        return NoExplainer() if self.explainer is None else self.explainer

    @property
    def given(self) -> Tensor:
        if not isinstance(self.maps, Tensor) or self.maps.ndim < 2 or self.maps.is_complex():
            what = f"shape {tuple(self.maps.shape)}" if isinstance(self.maps, Tensor) else type(self.maps).__name__
            raise SpecError(f"precomputed needs maps, a real tensor (samples, ...) with one explanation per input, not {what}.")
        return self.maps.detach()

    @property
    def fixed(self) -> bool:
        return self.explainer is None

    def bind(self, reference: Tensor | None = None, space: InputSpace | None = None) -> Precomputed:
        return self if self.explainer is None else replace(self, explainer=self.explainer.bind(reference, space))

    def prepare(self, inputs: Tensor) -> Precomputed:
        inner = self.explainer
        return replace(self, explainer=inner.prepare(inputs)) if isinstance(inner, InputObserver) else self

    def specialise(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Precomputed:
        return self if self.explainer is None else replace(self, explainer=self.explainer.specialise(model, inputs, targets, context))

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless the maps fit the inputs; note NaN or infinity in them, and what the inner explainer notes."""
        maps = self.given
        if len(maps) < len(inputs):
            raise InputError(f"precomputed has maps for {len(maps)} inputs, but there are more: give one map per input, in their order.")
        if self.frame is Frame.INPUT and maps.shape[1:] != inputs.shape[1:]:
            raise InputError(
                f"The maps of precomputed have shape {tuple(maps.shape[1:])} each, but an input has shape {tuple(inputs.shape[1:])}: "
                "give maps of the inputs' shape, with a channel axis if the inputs have one."
            )
        notes = () if bool(torch.isfinite(maps).all()) else ("The maps of precomputed contain NaN or infinity.",)
        return (*notes, *self.inner.check(model, inputs, targets, context))
