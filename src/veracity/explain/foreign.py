"""Explainers that somebody else wrote: Captum classes, factories of Captum methods, plain functions.

They may draw from the global random state, so it is forked and seeded around every call. They may do anything to
the model and the inputs, so both are protected.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import captum.attr
import numpy as np
import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, VeracityError
from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.models import evaluating, out_of_memory
from veracity.core.randomness import Draws, gpus_in_use, seeded
from veracity.core.settings import Whole
from veracity.core.snapshot import preserve_state
from veracity.explain.deep_lift import DeepLift
from veracity.explain.gradients import silent_captum
from veracity.explain.passes import in_batches
from veracity.explain.wrapper import computed

TRIAL_ROWS = 2


@dataclass(frozen=True, kw_only=True)
class Foreign(Explainer, ABC):
    """Unknown code. It counts as random and as dependent on the batch, unless `random` is off.

    `forward` and `backward` are the model rows that one explanation needs, as declared by its author. They only affect
    estimates and the batch size.
    """

    stochastic: ClassVar[bool] = computed(lambda self: self.random)
    hint: ClassVar[str] = ""  # ends the sentence when a trial fails
    random: bool = True
    forward: Whole = 1
    backward: Whole = 1
    label: str = field(default="", metadata={"spec": False})

    @property
    def batch_dependent(self) -> bool:
        return self.random

    def cost(self, shape: Size) -> Cost:
        return Cost(self.forward, self.backward)

    @abstractmethod
    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Any:
        """What the foreign code returns for these rows."""

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape; axes of size one are repeated."""
        high, low = context.draws[:1].words(2, stream="foreign")[0].tolist()
        rows = max(1, context.batch // max(1, self.forward))

        def explain_rows(x: Tensor, t: Tensor, _: Any) -> Tensor:
            with preserve_state(model):
                return self.as_attributions(self.call(model, x.detach().clone(), t.clone()), x)

        with seeded(high ^ low, gpus_in_use()), silent_captum(), torch.enable_grad():
            return in_batches(explain_rows, inputs, targets, rows)

    def as_attributions(self, result: Any, inputs: Tensor) -> Tensor:
        """A result in the inputs' shape and type; raises if it does not fit."""
        expected = f"a real tensor of shape {tuple(inputs.shape)}"
        if not isinstance(result, (Tensor, np.ndarray)):
            raise InputError(f"{self.name} returned {type(result).__name__}, expected {expected}.")
        maps = torch.as_tensor(result).detach()
        if maps.is_complex():
            raise InputError(f"{self.name} returned complex numbers, expected {expected}.")
        axes = zip(maps.shape[1:], inputs.shape[1:], strict=False)
        if maps.ndim != inputs.ndim or len(maps) != len(inputs) or any(size not in (1, full) for size, full in axes):
            raise InputError(
                f"{self.name} returned shape {tuple(maps.shape)}, expected {expected}; axes after the first may have size one."
            )
        return maps.to(inputs).expand_as(inputs).contiguous()

    def settled(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Explainer:
        """Not random, if two trials with different seeds agree."""
        if not self.random:
            return self
        first, second = self.trials(model, inputs, targets, context.batch)
        return replace(self, random=False) if torch.equal(first.nan_to_num(), second.nan_to_num()) else self

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Run it on a few inputs. Raise if it fails or returns something else; note if it is random."""
        first, second = self.trials(model, inputs, targets, context.batch)
        notes = [f"{self.name} returned NaN or infinity for some inputs."] if not first.isfinite().all() else []
        differs = not torch.allclose(first, second, equal_nan=True)
        if differs and not self.random:
            raise InputError(f"{self.name} is declared random=False, but two runs with different seeds differ: leave random=True.")
        if differs:
            notes.append(
                f"{self.name} draws from the global random state, so its numbers depend on the batch size; "
                "the same batches give the same numbers."
            )
        return notes

    def trials(self, model: nn.Module, inputs: Tensor, targets: Tensor, batch: int) -> tuple[Tensor, Tensor]:
        """Two runs on a few inputs with different seeds; raises if one fails or returns something else."""
        first, second = (self.trial(model, inputs[:TRIAL_ROWS], targets[:TRIAL_ROWS], seed, batch) for seed in (0, 1))
        return first, second

    def trial(self, model: nn.Module, inputs: Tensor, targets: Tensor, seed: int, batch: int) -> Tensor:
        """One of the two runs."""
        try:
            with evaluating(model):
                return self.explain(model, inputs, targets, Context(Draws.of(seed, torch.arange(len(inputs))), batch))
        except VeracityError:
            raise
        except Exception as error:
            if out_of_memory(error):
                raise
            reason = " ".join(str(error).split())
            raise InputError(f"{self.name} failed on {len(inputs)} inputs with {type(error).__name__}: {reason}{self.hint}") from error


@dataclass(frozen=True, kw_only=True)
class CaptumMethod(Foreign):
    """A Captum `Attribution` class, or a factory model -> Attribution, with settings for its `attribute` method."""

    name: ClassVar[str] = computed(lambda self: self.label or display_name(self.attribution))
    hint = "; pass settings as CaptumMethod(attribution=..., settings={...})"
    attribution: Callable[..., Any]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """As for all foreign code; for Captum's DeepLift also the steps without a rule."""
        notes = DeepLift().check(model, inputs, targets, context) if self.attribution is captum.attr.DeepLift else ()
        return (*notes, *super().check(model, inputs, targets, context))

    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Any:
        method = self.attribution(model)
        if isinstance(method, (captum.attr.LayerAttribution, captum.attr.NeuronAttribution)):
            raise InputError(f"{self.name} explains a layer or a neuron, not the input: use an attribution of the input.")
        if not hasattr(method, "attribute"):
            raise InputError(f"{self.name} must make a Captum Attribution from a model, but returned {type(method).__name__}.")
        settings = {key: value.to(inputs.device) if isinstance(value, Tensor) else value for key, value in self.settings.items()}
        return method.attribute(inputs.requires_grad_(), target=targets, **settings)


@dataclass(frozen=True, kw_only=True)
class Function(Foreign):
    """Any function (model, inputs, targets) -> attributions."""

    name: ClassVar[str] = computed(lambda self: self.label or display_name(self.function))
    function: Callable[[nn.Module, Tensor, Tensor], Any]

    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Any:
        return self.function(model, inputs, targets)


def display_name(value: Any) -> str:
    """The name of a class, a function, a partial function or a callable object in results.

    >>> display_name(captum.attr.InputXGradient), display_name(captum.attr.LRP), display_name(lambda model: model)
    ('input_x_gradient', 'lrp', 'lambda')
    """
    value = getattr(value, "func", value)
    if isinstance(value, type):
        return snake_case(value.__name__)
    return str(getattr(value, "__name__", snake_case(type(value).__name__))).strip("<>")


def snake_case(name: str) -> str:
    """A class name in lower case with underscores.

    >>> snake_case("InputXGradient"), snake_case("LRP"), snake_case("DeepLiftShap")
    ('input_x_gradient', 'lrp', 'deep_lift_shap')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
